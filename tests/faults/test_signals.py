"""Ctrl-C and SIGTERM: the first ends after the generation with a checkpoint, the second at once."""

from __future__ import annotations

import os
import signal
import time

import pytest

BOTH = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.parametrize(("number", "code"), BOTH)
def test_the_first_signal_ends_after_the_generation_and_says_how_to_resume(
    number, code, forks, train, undisturbed, outcome, kept, fault, tmp_path
):
    folder = tmp_path / "run"
    often = ("--checkpoint-every", 4)  # the checkpoint is due to the signal
    signalled = [fault(folder, "train", 5, action=number)]
    done = forks.run(*train, *often, "--out", folder, faults=signalled, expect=code)
    first, second = done.err.splitlines()
    assert first == "gradlex: stopping after this generation; press Ctrl-C again to stop now"
    assert second == f"gradlex: interrupted after generation 2 of 5; resume with: gradlex resume {folder}"
    assert kept(folder) == [2]
    assert len((folder / "generations.jsonl").read_text().splitlines()) == 2
    forks.run("resume", folder, "--workers", 1)
    assert outcome(folder) == outcome(undisturbed)


@pytest.mark.parametrize(("number", "code"), BOTH)
def test_the_second_signal_ends_at_once_and_loses_only_that_generation(
    number, code, forks, train, undisturbed, outcome, kept, fault, tmp_path
):
    folder = tmp_path / "run"
    done = forks.run(
        *train, "--out", folder, faults=[fault(folder, "train", 7, 8, action=number)], expect=code
    )
    assert done.err == "gradlex: stopping after this generation; press Ctrl-C again to stop now\n"
    assert kept(folder) == [1, 2]
    forks.run("resume", folder, "--workers", 1)
    assert outcome(folder) == outcome(undisturbed)


@pytest.mark.parametrize(
    "what",
    ["write generations.jsonl", "open .00000003.safetensors.new", "replace .00000003.safetensors.new"],
)
def test_a_signal_between_generations_or_in_a_checkpoint(
    what, operations, forks, train, undisturbed, outcome, fault, tmp_path
):
    folder, at = tmp_path / "run", operations.index(what) + 1
    signalled = [fault(folder, "file", at, action=signal.SIGINT)]
    done = forks.run(*train, "--out", folder, faults=signalled, expect=130)
    assert f"resume with: gradlex resume {folder}" in done.err
    forks.run("resume", folder, "--workers", 1)
    assert outcome(folder) == outcome(undisturbed)


@pytest.mark.parametrize("what", ["open .00000003.safetensors.new", "fsync .00000003.safetensors.new"])
def test_a_second_signal_in_the_middle_of_a_checkpoint(
    what, operations, forks, train, undisturbed, outcome, fault, tmp_path
):
    folder, at = tmp_path / "run", operations.index(what) + 1
    twice = [fault(folder, "file", at, at + 1, action=signal.SIGTERM)]
    forks.run(*train, "--out", folder, faults=twice, expect=143)
    assert not list(folder.rglob("*.new"))
    forks.run("resume", folder, "--workers", 1)
    assert outcome(folder) == outcome(undisturbed)


def test_a_signal_in_the_last_generation_lets_the_run_finish(
    forks, train, undisturbed, outcome, fault, tmp_path
):
    folder = tmp_path / "run"
    forks.run(*train, "--out", folder, faults=[fault(folder, "train", 14, action=signal.SIGINT)])
    assert outcome(folder) == outcome(undisturbed)


@pytest.mark.parametrize(("number", "code"), BOTH)
def test_a_signal_while_python_starts_is_no_traceback(number, code, start, train, tmp_path):
    long = ("--generations", 1_000_000)  # a fast machine would have finished five
    for delay in (0.3, 1.0):
        process = start("-m", "gradlex", *train, *long, "--out", tmp_path / f"run-{delay}", cwd=tmp_path)
        time.sleep(delay)
        process.send_signal(number)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        if process.returncode == -number or "site.py" in err:  # before the first line of gradlex
            continue
        assert process.returncode == code
        assert "Traceback" not in err


@pytest.mark.parametrize("moment", ["spawn", "send", "join"])
def test_a_signal_while_the_workers_start_ends_at_once_and_leaves_nothing(
    moment, forks, train, fault, group, until, tmp_path
):
    run, temporary = tmp_path / "run", tmp_path / "temporary"
    temporary.mkdir()
    signalled = [fault(run, moment, 1, action=signal.SIGINT)]
    together = ("--workers", 3, "--out", run)
    child = forks.start(*train, *together, faults=signalled, temporary=str(temporary))
    assert child.wait() == 130, child.err
    assert child.err == ""
    until(lambda: group(child.pid) == [], 20)
    assert not run.exists()
    assert list(temporary.iterdir()) == []


SLOW = """
import time
import torch
from torch import distributed, nn

class Net(nn.Module):
    def __init__(self, num_classes, in_channels):
        super().__init__()
        self.head = nn.Linear(64, num_classes)

    def forward(self, x):
        if self.training and distributed.is_initialized() and distributed.get_rank() == 1:
            open("waiting", "w").close()
            time.sleep(600)
        return self.head(x.flatten(1))

"""


def test_two_signals_to_the_whole_group_end_it_though_a_worker_does_not_answer(start, group, until, tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    process = start(
        "-m", "gradlex", "train", "--model", "slow:Net", "--train-size", 80, "--population", 2,
        "--workers", 2, "--threads", 1, "--out", "run", cwd=tmp_path,
    )  # fmt: skip
    until(lambda: (tmp_path / "waiting").exists() or process.poll() is not None, 120)
    time.sleep(0.5)  # rank 0 has nothing to do but to wait for its worker, inside torch
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    time.sleep(0.5)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert time.monotonic() - began < 15
    until(lambda: group(process.pid) == [])


def test_a_signal_while_exact_chances_are_computed_ends_within_seconds(forks, fault, until, tmp_path):
    """Twenty candidates on 1,438 cases: without a bound of work their chances would take for ever."""
    folder = tmp_path / "run"
    expected = ("--promotion", "expected", "--population", 20, "--generations", 50)
    how = ("--model", "mlp", "--width", 0.05, "--threads", 1, "--workers", 1, "--out", folder)
    child = forks.start(
        "train",
        *expected,
        *how,
        faults=[fault(folder, "select", 1, action=signal.SIGINT, log=tmp_path / "log")],
    )
    until((tmp_path / "log").exists)
    began = time.monotonic()
    assert child.wait() == 130, child.err
    assert time.monotonic() - began < 15  # a few on a machine with nothing else to do
    assert "interrupted after generation 1 of 50" in child.err


def test_an_ignored_signal_stays_ignored(forks, train, undisturbed, outcome, fault, tmp_path):
    """A shell starts what runs in the background so."""
    folder = tmp_path / "run"
    signalled = [fault(folder, "train", 5, 6, action=signal.SIGINT)]
    assert forks.run(*train, "--out", folder, faults=signalled, ignored=[signal.SIGINT]).err == ""
    assert outcome(folder) == outcome(undisturbed)
