"""The command under torchrun: the bits of one process; rank 0 alone writes and prints."""

from __future__ import annotations

import json

import pytest
import safetensors.torch

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "gradlex")
HOW = {
    "population": 3,
    "generations": 2,
    "batch-size": 8,
    "threads": 1,
    "momentum": "inherit",
    "augment": "flip",
}


@pytest.fixture
def train(start, archive):
    def run(launcher, network, out, *more):
        flags = {"dataset": archive, "model": f"networks:{network}", "out": out, **HOW}
        words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        return start(*launcher, "train", *words, *more)

    return run


def lines(path):
    """The records of a run, seconds aside."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if not key.endswith("_seconds")} for line in found]


def test_torchrun_gives_the_bits_of_one_process_and_rank_0_alone_writes(train, tmp_path, same):
    alone, two = tmp_path / "alone", tmp_path / "two"
    serial = train(["-m", "gradlex"], "Sound", alone, "--workers", "1")
    launched = train(TORCHRUN, "Sound", two)
    assert serial.wait() == 0, serial.err
    assert launched.wait() == 0, launched.err
    for name in ("generations.jsonl", "evaluations.jsonl"):
        assert lines(two / name) == lines(alone / name)
    weights = [safetensors.torch.load_file(run / "model.safetensors") for run in (alone, two)]
    assert same(*weights)
    for name in ("recipe", "result"):
        first, other = (json.loads((run / f"{name}.json").read_text()) for run in (alone, two))
        measured = {"seconds": 0, "peak_memory": 0}
        assert other | measured == first | measured
    assert json.loads((two / "environment.json").read_text())["workers"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "two"]
    for group in (serial, launched):
        assert group.out.count("run folder: ") == group.out.count("test: accuracy") == 1
    assert len(launched.out.splitlines()) == len(serial.out.splitlines())


def test_a_rank_that_fails_under_torchrun_ends_all_of_them(train, tmp_path):
    group = train(TORCHRUN, "Asked", tmp_path / "run")
    assert group.wait() == 1
    assert (
        "gradlex: the evaluation of candidates [1] of generation 0 on cases failed: KeyError: 'no such case'"
        in group.err
    )
    assert not (tmp_path / "run" / "result.json").exists()


@pytest.fixture(scope="module")
def noted(start, tmp_path_factory):
    """What memory_maps.py leaves behind under torchrun with two ranks."""
    folder = tmp_path_factory.mktemp("noted")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    group = start(*launcher, "memory_maps.py", folder)
    assert group.wait() == 0, group.err
    return folder


def test_a_callback_is_called_on_rank_0_only(noted):
    called = (noted / "called").read_text().splitlines()
    assert called == ["rank 0: start", "rank 0: generation 0", "rank 0: end finished"]


def test_ranks_of_one_machine_map_one_copy_of_the_data(noted):
    first, other = ((noted / f"rank{rank}").read_text().splitlines() for rank in (0, 1))
    assert len(first) == 2  # the training and the test samples
    assert first == other
    assert all(line.endswith("(deleted)") for line in first)
    for rank in (0, 1):
        assert json.loads((noted / f"copies{rank}").read_text()) == [True, True]  # none is a rank's own


THREADS = """
import os
from pathlib import Path

from gradlex.cli import main

os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
main(["train", "--model", "mlp", "--width", "0.1", "--train-size", "60", "--generations", "1", "--out", "run"])
print([path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")])
"""


def test_no_thread_of_the_process_group_outlives_the_run(start, tmp_path):
    run = start("-c", THREADS, cwd=tmp_path)
    assert run.wait() == 0, run.err
    assert "python" in run.out
    assert "gloo" not in run.out  # such a thread aborts the interpreter at its end, sometimes
