"""Populations spread over processes by torchrun: the same bits as one process, also after a kill."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import sys, os
import numpy as np, torch
from torch import nn
from gradlex import Population

class Counts(nn.Module):
    passes = 0
    def forward(self, x):
        self.passes += self.training
        return x / (1 + self.passes / 100)
    def get_extra_state(self):
        return self.passes
    def set_extra_state(self, state):
        self.passes = state

out, promotion, momentum_state = sys.argv[1:4]
epochs, slow = int(sys.argv[4]), float(sys.argv[5])
torch.set_num_threads(1)
hook = sys.excepthook
torch.manual_seed(int(os.environ.get("RANK", "0")))  # rank 0's network is everybody's
x = torch.randn(80, 3, 6, 6, generator=torch.Generator().manual_seed(0))
y = torch.randint(4, (80,), generator=torch.Generator().manual_seed(1))
model = nn.Sequential(
    nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(), nn.Linear(80, 4), Counts()
)
if os.environ.get("RANK") == "0":
    torch.set_default_dtype(torch.float64)  # which must not reach what processes send each other
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
population = Population(model, optimizer, size=4, promotion=promotion, momentum_state=momentum_state)
checkpoint = out + ".checkpoint"
if os.path.exists(checkpoint):
    population.load_state_dict(torch.load(checkpoint, weights_only=True))
while population.generation < epochs:
    for candidate in population.candidates(80):
        model.train()
        for batch in torch.from_numpy(candidate.indices).split(5):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    population.select(lambda cases: model(x[cases]).argmax(dim=1) != y[cases], 80)
    if population.leads:
        torch.save(population.state_dict(), checkpoint + ".new")
        os.replace(checkpoint + ".new", checkpoint)
        print(population.generation, flush=True)
    if slow:
        import time; time.sleep(slow)
assert sys.excepthook is hook
if population.leads:
    torch.save(population.parent_state(), out)
"""


DDP = """
import gc
import torch, torch.distributed as dist
from torch import nn
from gradlex import Population

dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(0)
x = torch.randn(80, 6, generator=torch.Generator().manual_seed(0))
y = torch.randint(3, (80,), generator=torch.Generator().manual_seed(1))
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
wrapped = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
population = Population({given}, optimizer, size=4)
for _ in range(4):
    for candidate in population.candidates(80):
        for batch in torch.from_numpy(candidate.indices).split(10):
            own = batch[dist.get_rank()::2]  # as a DistributedSampler deals them
            optimizer.zero_grad()
            nn.functional.cross_entropy(wrapped(x[own]), y[own]).backward()
            optimizer.step()
    population.select(lambda cases: {evaluated}(x[cases]).argmax(dim=1) != y[cases], 80)
{then}
del wrapped, population  # otherwise torch aborts the exit now and then, also without gradlex
gc.collect()
dist.destroy_process_group()
"""


def command(tmp_path: Path, processes: int, *arguments: object) -> list[str]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return [sys.executable, *(launcher if processes > 1 else []), str(script), *map(str, arguments)]


def run(tmp_path: Path, processes: int, *arguments: object) -> None:
    done = subprocess.run(
        command(tmp_path, processes, *arguments), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


def same(first: Path, second: Path) -> bool:
    import torch

    a, b = torch.load(first), torch.load(second)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_two_processes_end_with_the_bits_of_one(tmp_path: Path) -> None:
    for processes in (1, 2):
        run(tmp_path, processes, tmp_path / f"{processes}", "winner", "inherit", 3, 0)
    assert same(tmp_path / "1", tmp_path / "2")


@pytest.mark.slow
@pytest.mark.parametrize("promotion", ["average", "expected"])
@pytest.mark.parametrize("momentum_state", ["reset", "inherit"])
def test_means_have_the_same_bits_with_one_two_and_four_processes(
    tmp_path: Path, promotion: str, momentum_state: str
) -> None:
    for processes in (1, 2, 4):
        run(tmp_path, processes, tmp_path / f"{processes}", promotion, momentum_state, 3, 0)
    assert same(tmp_path / "1", tmp_path / "2")
    assert same(tmp_path / "1", tmp_path / "4")


@pytest.mark.slow
def test_killed_after_each_epoch_it_continues_with_other_numbers_of_processes_to_the_same_bits(
    tmp_path: Path,
) -> None:
    run(tmp_path, 1, tmp_path / "whole", "winner", "inherit", 5, 0)
    for epoch, processes in enumerate([1, 2, 4, 1, 2], start=1):
        arguments = tmp_path / "killed", "winner", "inherit", 5, 30
        with subprocess.Popen(command(tmp_path, processes, *arguments), stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            while running.stdout.readline().strip() != str(epoch):
                pass
            end(running)
    run(tmp_path, 2, tmp_path / "killed", "winner", "inherit", 5, 0)
    assert same(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["wrapped", "wrapped.module"])
def test_a_model_in_ddp_is_trained_by_all_processes_and_all_end_with_the_same(tmp_path: Path, model: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        DDP.format(
            given="wrapped",
            evaluated=model,
            then="states = [None, None]; dist.all_gather_object(states, population.parent_state())\n"
            "assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])",
        )
    )
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    done = subprocess.run(launch, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
def test_a_loop_that_averages_gradients_over_candidates_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(DDP.format(given="model", evaluated="model", then=""))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    done = subprocess.run(launch, capture_output=True, text=True, timeout=300, check=False)
    assert "average gradients over processes" in done.stderr


@pytest.mark.slow
def test_a_process_that_dies_ends_the_others_within_a_minute(tmp_path: Path) -> None:
    arguments = tmp_path / "out", "winner", "reset", 100, 1
    with subprocess.Popen(command(tmp_path, 2, *arguments), stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        running.stdout.readline()
        workers = children(running.pid)
        os.kill(workers[-1], signal.SIGKILL)
        started = time.monotonic()
        assert running.wait(timeout=60) != 0
        assert time.monotonic() - started < 60
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


OWN_GROUP = """
import atexit, os, torch, torch.distributed as dist
def threads():
    names = [open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]
    print(sum(name.startswith("pt_gloo") for name in names))
atexit.register(threads)  # runs last
os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
import gradlex
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
gradlex.Population(model, optimizer)
threads()
"""


def test_no_thread_of_a_group_that_the_caller_made_outlives_it() -> None:
    done = subprocess.run([sys.executable, "-c", OWN_GROUP], capture_output=True, text=True, timeout=120, check=False)
    before, after = done.stdout.split()
    assert int(before) > 0, done.stderr
    assert after == "0"


@pytest.mark.slow
def test_processes_exit_cleanly_where_the_caller_made_the_group(tmp_path: Path) -> None:
    own_group = SCRIPT.replace(
        "torch.set_num_threads(1)",
        'import torch.distributed as dist; dist.init_process_group("gloo"); os.nice(19)',
    )
    for attempt in range(20):
        script = tmp_path / "script.py"
        script.write_text(own_group)
        launch = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=2",
            str(script),
        ]
        arguments = [str(tmp_path / f"{attempt}"), "winner", "reset", "1", "0"]
        done = subprocess.run([*launch, *arguments], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        assert "terminate called" not in done.stderr


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def end(running: subprocess.Popen[str]) -> None:
    """Kill a command and its processes by their ids."""
    for pid in [*children(running.pid), running.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    running.wait()
