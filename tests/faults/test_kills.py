"""A run that is killed (SIGKILL) at any moment and resumed ends as if nothing had happened."""

from __future__ import annotations

import itertools
import shutil
import signal

import pytest

ALONE = ("--workers", 1)


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
@pytest.mark.parametrize("train", ["command", "regression", "names"], indirect=True)
def test_killed_while_it_computes(kind, at, forks, train, undisturbed, outcome, fault, tmp_path):
    faults = [fault(tmp_path / "run", kind, at)]
    killed_and_resumed(forks, train, undisturbed, outcome, tmp_path / "run", faults)


@pytest.mark.parametrize(
    "what",
    [
        "write generations.jsonl",
        "write .00000003.safetensors.new",
        "replace .00000003.safetensors.new",
        "unlink 00000001.safetensors",
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


WAITS = """
import time
from pathlib import Path
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes, in_channels):
        super().__init__()
        self.head = nn.Linear(64, num_classes)
        self.batches = 0

    def forward(self, x):
        self.batches += self.training
        if self.batches == 12 and not Path("go").exists():
            Path("waiting").touch()
            time.sleep(600)
        return self.head(x.flatten(1))
"""


def test_a_real_process_killed_from_outside(start, train, outcome, forks, kept, until, tmp_path):
    (tmp_path / "waits.py").write_text(WAITS)
    command = ("train", "--model", "waits:Net", *train[5:], "--out")
    process = start("-m", "gradlex", *command, "run", cwd=tmp_path)
    until(lambda: (tmp_path / "waiting").exists() or process.poll() is not None, 120)
    process.kill()
    assert process.wait(timeout=60) == -signal.SIGKILL
    assert kept(tmp_path / "run") == [1]
    assert not (tmp_path / "run" / "result.json").exists()
    (tmp_path / "go").touch()
    forks.run("resume", "run", *ALONE, cwd=tmp_path)
    forks.run(*command, "whole", cwd=tmp_path)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")
