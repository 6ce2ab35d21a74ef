"""A run that is killed (SIGKILL) at any moment and resumed ends as if nothing had happened."""

from __future__ import annotations

import itertools
import os
import shutil
import signal

import pytest

ALONE = ("--workers", 1)


@pytest.fixture(scope="module")
def operations(forks, train, fault, tmp_path_factory):
    """The names of all operations by which the run changes its folder, in their order."""
    folder = tmp_path_factory.mktemp("operations")
    log = folder / "log"
    forks.run(*train, "--out", folder / "run", faults=[fault(folder / "run", "file", log=log)])
    return log.read_text().splitlines()


def killed_and_resumed(forks, train, undisturbed, outcome, folder, faults):
    child = forks.start(*train, "--out", folder, faults=faults)
    assert child.wait() == -signal.SIGKILL, child.err
    forks.run(*train, "--out", folder, "--resume")
    assert outcome(folder) == outcome(undisturbed)
    assert not [path for path in folder.rglob("*") if path.name.endswith(".new")]


# Batches and questions of the third generation, of five: its second candidate, its selection, its end.
DEFAULT = [("train", 8), ("select", 3)]
SPREAD = [("train", 1), *(("train", n) for n in range(2, 16)), *(("select", n) for n in range(1, 6))]


@pytest.mark.parametrize(("kind", "at"), DEFAULT)
def test_killed_while_it_computes(kind, at, forks, train, undisturbed, outcome, fault, tmp_path):
    faults = [fault(tmp_path / "run", kind, at)]
    killed_and_resumed(forks, train, undisturbed, outcome, tmp_path / "run", faults)


@pytest.mark.parametrize(
    "what",
    [
        "write generations.jsonl",
        "write tensors.safetensors",
        "rename .new",
        "rmdir 00000001",
        "replace .result.json.new",
    ],
)
def test_killed_while_it_writes(what, operations, forks, train, undisturbed, outcome, fault, tmp_path):
    places = [place for place, name in enumerate(operations, 1) if name == what]
    faults = [fault(tmp_path / "run", "file", places[len(places) // 2])]
    killed_and_resumed(forks, train, undisturbed, outcome, tmp_path / "run", faults)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "at"), SPREAD)
def test_killed_at_many_moments_of_training_and_selection(
    kind, at, forks, train, undisturbed, outcome, fault, tmp_path
):
    faults = [fault(tmp_path / "run", kind, at)]
    killed_and_resumed(forks, train, undisturbed, outcome, tmp_path / "run", faults)


@pytest.mark.slow
def test_killed_before_every_single_file_operation(
    operations, forks, train, undisturbed, outcome, fault, tmp_path
):
    for at in range(1, len(operations) + 1):
        folder = tmp_path / f"run{at}"
        child = forks.start(*train, "--out", folder, faults=[fault(folder, "file", at)])
        assert child.wait() == -signal.SIGKILL, (at, operations[at - 1])
        forks.run(*train, "--out", folder, "--resume")
        assert outcome(folder) == outcome(undisturbed), operations[at - 1]
        shutil.rmtree(folder)
    print(f"\nkilled before each of {len(operations)} file operations")


@pytest.mark.slow
def test_killed_again_and_again_while_it_resumes(forks, train, undisturbed, outcome, fault, tmp_path):
    folder = tmp_path / "run"
    forks.start(*train, "--out", folder, faults=[fault(folder, "file", 20)]).wait()
    kills = 0
    for at in itertools.count(1):
        shutil.copytree(folder, tmp_path / "copy", dirs_exist_ok=False)
        child = forks.start(
            *train, "--out", tmp_path / "copy", "--resume", faults=[fault(tmp_path / "copy", "file", at)]
        )
        ended = child.wait()
        assert ended in (0, -signal.SIGKILL), child.err
        if ended:
            kills += 1
            forks.run("resume", tmp_path / "copy", *ALONE)
        assert outcome(tmp_path / "copy") == outcome(undisturbed)
        shutil.rmtree(tmp_path / "copy")
        if not ended:
            break
    print(f"\nkilled before each of {kills} file operations of a resumed run")


def test_a_run_makes_progress_though_every_sitting_is_killed(
    forks, train, undisturbed, outcome, fault, tmp_path
):
    folder = tmp_path / "run"
    # Five generations of three candidates: each sitting completes one generation and dies in the next.
    dying = [fault(folder, "train", 5)]
    ends = [forks.start(*train, "--out", folder, "--resume", faults=dying).wait() for _ in range(5)]
    assert ends == [-signal.SIGKILL] * 4 + [0]
    assert outcome(folder) == outcome(undisturbed)


def test_a_real_process_killed_from_outside(start, train, undisturbed, outcome, forks, until, tmp_path):
    folder = tmp_path / "run"
    process = start(
        "-m", "gradlex", *train, "--out", folder, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    until(lambda: (folder / "checkpoint" / "00000002").exists() or process.poll() is not None)
    process.kill()
    assert process.wait(timeout=60) == -signal.SIGKILL
    assert not (folder / "result.json").exists()
    forks.run("resume", folder, *ALONE)
    assert outcome(folder) == outcome(undisturbed)
