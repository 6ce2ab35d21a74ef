"""A run that was interrupted continues to the bits that it would have reached."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gradlex
from gradlex.errors import InterruptedRun
from gradlex.tasks import Custom

PROBLEM = """
import sys, time
import torch
from torch import nn
import gradlex

def points():
    x = torch.randn(120, 6, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] + x[:, 1] > 0).long()

def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))

def fields(epochs=5):
    return {"epochs": epochs, "batch_size": 10, "population": 3, "momentum_state": "inherit", "precision": "float32"}

class HangAt(gradlex.Callback):
    def __init__(self, generation):
        self.generation = generation
    def on_generation(self, record, run):
        print(record.generation, flush=True)
        time.sleep(20 * (record.generation == self.generation))

if __name__ == "__main__":
    out, generation = sys.argv[1], int(sys.argv[2])
    run = gradlex.train(net(), points(), test=points(), out=out, resume=True, threads=1, progress=False,
                        callbacks=[HangAt(generation)], **fields())
"""
SPACE: dict[str, Any] = {"__name__": "problem"}
exec(PROBLEM, SPACE)  # the same code here and in other processes
points, net = SPACE["points"], SPACE["net"]
FIELDS: dict[str, Any] = SPACE["fields"]()


class StopAfter(gradlex.Callback):
    """Fails, or sends a signal to this process, after a generation."""

    def __init__(self, generation: int, signum: int = 0) -> None:
        self.generation, self.signum = generation, signum

    def on_generation(self, record: Any, run: Any) -> None:
        if record.generation == self.generation:
            if not self.signum:
                raise RuntimeError("power cut")
            os.kill(os.getpid(), self.signum)


def same(first: gradlex.Run, second: gradlex.Run) -> bool:
    one, other = first.model.state_dict(), second.model.state_dict()
    timeless = {"train_seconds", "select_seconds"}
    records = [
        [{name: value for name, value in record.to_line().items() if name not in timeless} for record in run.history]
        for run in (first, second)
    ]
    return all(torch.equal(one[name], other[name]) for name in one) and records[0] == records[1]


def train(out: Path | None = None, **options: Any) -> gradlex.Run:
    return gradlex.train(net(), points(), test=points(), out=out, threads=1, **{**FIELDS, **options})


@pytest.fixture(scope="module")
def whole() -> gradlex.Run:
    """The run that nothing interrupts."""
    return train()


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The folder of the same run, which stopped in its third generation."""
    with pytest.raises(RuntimeError, match="power cut"):
        train(tmp_path / "run", callbacks=[StopAfter(3)])
    return tmp_path / "run"


def test_it_continues_to_the_same_bits_in_another_place(stopped: Path, tmp_path: Path, whole: gradlex.Run) -> None:
    def files(folder: Path) -> list[str]:
        return sorted(path.name for path in folder.iterdir() if path.name[0] != ".")

    assert files(stopped) == ["checkpoint.pt", "generations.jsonl", "run.json"]
    moved = stopped.rename(tmp_path / "elsewhere")
    run = gradlex.resume(moved, net(), points(), test=points())
    assert same(run, whole)
    assert run.metrics == whole.metrics
    assert files(moved) == ["generations.jsonl", "model.safetensors", "result.json", "run.json"]


@pytest.mark.parametrize(
    "fields",
    [
        {"branch_at": 0.4, "tail_mean": True, "promotion": "average", "recalibrate": 2},
        {"optimizer": "adamw", "lr": 0.01, "momentum": 0.9},
        {"selection": "informed-lexicase"},
        {"selection": "sgd", "population": None},
        {"momentum_state": "reset", "promotion": "expected"},
    ],
    ids=["tail mean", "adamw", "informed", "sgd", "expected"],
)
def test_every_kind_of_state_is_in_the_checkpoint(tmp_path: Path, fields: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match="power cut"):
        train(tmp_path / "run", callbacks=[StopAfter(4)], **fields)
    assert same(train(tmp_path / "run", resume=True, **fields), train(**fields))


def test_the_best_model_and_the_patience_are_in_the_checkpoint(tmp_path: Path) -> None:
    x, y = points()
    options = {"validation": (x[:30], y[:30]), "patience": 3, "epochs": 30, "lr": 0.4}
    plain = train(**options)
    last = len(plain.history)
    for stop in (last - 2, last):
        with pytest.raises(RuntimeError, match="power cut"):
            train(tmp_path / f"{stop}", callbacks=[StopAfter(stop)], **options)
        run = train(tmp_path / f"{stop}", resume=True, **options)
        assert same(run, plain)
        assert run.result["best_generation"] == plain.result["best_generation"]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_after_the_generation_with_a_checkpoint(
    tmp_path: Path, whole: gradlex.Run, signum: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        InterruptedRun, match=r"interrupted after generation 2 of 5; continue with gradlex.resume"
    ) as found:
        train(tmp_path / "run", callbacks=[StopAfter(2, signum)], checkpoint_every=100)
    assert found.value.exit_code == 128 + signum
    assert "stopping after this generation" in capfd.readouterr().err
    assert same(train(tmp_path / "run", resume=True), whole)


def test_the_same_signal_again_ends_the_run_at_once(tmp_path: Path) -> None:
    class Twice(gradlex.Callback):
        def on_generation(self, record: Any, run: Any) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
            pytest.fail("still there")

    with pytest.raises(InterruptedRun, match="stopped at once"):
        train(tmp_path / "run", callbacks=[Twice()])


def test_a_handler_of_the_callers_stays_in_charge(tmp_path: Path) -> None:
    received = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        run = train(tmp_path / "run", callbacks=[StopAfter(2, signal.SIGTERM)])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]
    assert len(run.history) == 5


def test_a_finished_run_is_loaded_and_not_trained_again(tmp_path: Path, whole: gradlex.Run) -> None:
    train(tmp_path / "run")
    before = (tmp_path / "run/result.json").read_bytes()
    again = train(tmp_path / "run", resume=True, callbacks=[StopAfter(1)])
    assert same(again, whole)
    assert (tmp_path / "run/result.json").read_bytes() == before


def test_a_finished_run_on_images_is_loaded_with_the_module_that_was_given(tmp_path: Path) -> None:
    images = torch.randint(256, (40, 1, 8, 8), dtype=torch.uint8), torch.arange(40) % 2
    given = nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), images
    runs = [gradlex.train(*given, out=tmp_path / "run", resume=True, **FIELDS) for _ in range(2)]
    assert torch.equal(runs[0].model(images[0]), runs[1].model(images[0]))


def test_a_run_that_a_callback_ended_and_that_was_killed_then_stays_ended(tmp_path: Path) -> None:
    class Ends(gradlex.Callback):
        def on_generation(self, record: Any, run: Any) -> str:
            return "enough"

    def power_cut(outputs: Tensor, targets: Tensor) -> Tensor:
        if len(targets) > 2:  # as the run evaluates its training part in the end
            raise RuntimeError("power cut")
        return (outputs.argmax(dim=1) != targets).float().mean()

    def task(metric: Any) -> Custom:
        return Custom(
            loss=nn.functional.cross_entropy, errors=lambda o, t: o.argmax(dim=1) != t, metrics={"error": metric}
        )

    given = {"out": tmp_path / "run", **FIELDS}
    with pytest.raises(RuntimeError, match="power cut"):
        gradlex.train(net(), points(), task=task(power_cut), callbacks=[Ends()], **given)
    run = gradlex.train(net(), points(), task=task(lambda o, t: 0.5), resume=True, **given)
    assert (len(run.history), run.result["stopped"]) == (1, "enough")


def test_a_folder_that_holds_a_run_is_not_overwritten(stopped: Path) -> None:
    before = {path.name: path.read_bytes() for path in stopped.iterdir()}
    with pytest.raises(gradlex.InputError, match="already holds a run: choose another folder, or continue it"):
        train(stopped)
    assert {path.name: path.read_bytes() for path in stopped.iterdir()} == before


def test_two_processes_cannot_train_in_one_folder(tmp_path: Path) -> None:
    class Intrudes(gradlex.Callback):
        def on_generation(self, record: Any, run: Any) -> None:
            train(run.path, resume=True)

    with pytest.raises(gradlex.InputError, match="another process is training in"):
        train(tmp_path / "run", callbacks=[Intrudes()])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lr": 0.2}, "a different recipe: lr is 0.2, the run has 0.1"),
        ({"epochs": 6}, "a different recipe: epochs is 6, the run has 5"),
    ],
)
def test_other_settings_are_an_error(stopped: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(gradlex.InputError, match=message):
        train(stopped, resume=True, **change)


def test_other_data_and_another_network_are_an_error(stopped: Path) -> None:
    x, y = points()
    with pytest.raises(gradlex.InputError, match="the data has changed"):
        gradlex.resume(stopped, net(), (x + 1, y), test=points())
    with pytest.raises(gradlex.InputError, match=r"a different model or optimizer: 0.bias has the shape"):
        other = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.2), nn.Linear(4, 2))
        gradlex.resume(stopped, other, points(), test=points())
    with pytest.raises(gradlex.InputError, match="started with model from Python, which isn't stored"):
        gradlex.resume(stopped)


def test_records_that_are_damaged_during_a_run_are_whole_in_the_end(tmp_path: Path, whole: gradlex.Run) -> None:
    class Damages(gradlex.Callback):
        def on_generation(self, record: Any, run: Any) -> None:
            (run.path / "generations.jsonl").write_text("not a record\n")

    train(tmp_path / "run", callbacks=[Damages()])
    assert same(gradlex.load(tmp_path / "run", net()), whole)


def test_a_run_whose_description_is_damaged_during_it_says_so_at_once(tmp_path: Path, whole: gradlex.Run) -> None:
    class Damages(gradlex.Callback):
        def on_generation(self, record: Any, run: Any) -> None:
            path = run.path / "run.json"
            path.rename(tmp_path / f"{record.generation}.json")
            path.write_text("{")

    with pytest.raises(gradlex.InputError, match=r"run\.json is damaged"):
        train(tmp_path / "run", callbacks=[Damages()])
    assert [path.name for path in tmp_path.glob("*.json")] == ["1.json"]
    (tmp_path / "1.json").rename(tmp_path / "run" / "run.json")
    assert same(train(tmp_path / "run", resume=True), whole)


def test_a_run_whose_recipe_is_changed_during_it_does_not_finish(tmp_path: Path) -> None:
    class Changes(gradlex.Callback):
        def on_generation(self, record: Any, run: Any) -> None:
            stored = json.loads((run.path / "run.json").read_text())
            stored["recipe"]["seed"] = 99
            (run.path / "run.json").write_text(json.dumps(stored))

    with pytest.raises(gradlex.InputError, match=r"run\.json was changed during the run"):
        train(tmp_path / "run", callbacks=[Changes()])


def test_a_damaged_view_of_the_records_does_not_stop_a_run_that_continues(stopped: Path, whole: gradlex.Run) -> None:
    (stopped / "generations.jsonl").write_text('{"generation": 7}\n')
    assert same(train(stopped, resume=True), whole)
    assert len((stopped / "generations.jsonl").read_text().splitlines()) == 5


@pytest.mark.parametrize("place", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_checkpoint_with_one_changed_byte_is_an_error_that_names_it(stopped: Path, place: float) -> None:
    path = stopped / "checkpoint.pt"
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(gradlex.InputError, match=r"checkpoint.pt is damaged"):
        train(stopped, resume=True)


@pytest.mark.parametrize("content", [b"", b"PK", b"\0" * 1000, None], ids=["empty", "cut", "zeros", "another archive"])
def test_what_is_no_checkpoint_is_an_error(stopped: Path, content: bytes | None) -> None:
    path = stopped / "checkpoint.pt"
    if content is None:
        torch.save({"weights": torch.zeros(3)}, path)
    else:
        path.write_bytes(content)
    with pytest.raises(gradlex.InputError, match=r"checkpoint.pt is damaged"):
        train(stopped, resume=True)


@pytest.mark.parametrize("name", ["run.json", "checkpoint.pt"])
def test_a_pipe_or_a_device_in_place_of_a_file_is_not_read(stopped: Path, name: str) -> None:
    (stopped / name).unlink()
    os.mkfifo(stopped / name)
    with pytest.raises(gradlex.InputError, match=f"{name} is not a regular file"):
        train(stopped, resume=True)
    (stopped / name).unlink()
    (stopped / name).symlink_to("/dev/zero")
    with pytest.raises(gradlex.InputError, match=f"{name} is not a regular file"):
        train(stopped, resume=True)


@pytest.mark.parametrize("pipe", [True, False])
def test_what_lies_in_the_place_of_a_new_runs_records_is_replaced(
    tmp_path: Path, whole: gradlex.Run, pipe: bool
) -> None:
    class Reads(gradlex.Callback):
        def on_generation(self, record: Any, run: Any) -> None:
            assert len((run.path / "generations.jsonl").read_text().splitlines()) == record.generation - 1

    (tmp_path / "run").mkdir()
    if pipe:
        os.mkfifo(tmp_path / "run" / "generations.jsonl")
    else:
        (tmp_path / "run" / "generations.jsonl").write_text("another run's\n")
    assert same(train(tmp_path / "run", callbacks=[Reads()]), whole)


def test_a_run_that_is_killed_before_its_first_checkpoint_begins_anew(tmp_path: Path, whole: gradlex.Run) -> None:
    with pytest.raises(RuntimeError, match="power cut"):
        train(tmp_path / "run", callbacks=[StopAfter(1)], checkpoint_every=100)
    assert not (tmp_path / "run/checkpoint.pt").exists()
    assert same(train(tmp_path / "run", resume=True), whole)


def test_a_buffer_that_is_none_until_the_first_pass_is_resumed(tmp_path: Path) -> None:
    class Remembers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 2)
            self.register_buffer("first", None)

        def forward(self, x: Tensor) -> Tensor:
            if self.first is None:
                self.first = x.mean(dim=0).detach()
            return self.layer(x - self.first)

    with pytest.raises(RuntimeError, match="power cut"):
        gradlex.train(Remembers(), points(), out=tmp_path / "run", callbacks=[StopAfter(2)], **FIELDS)
    model = Remembers()
    run = gradlex.resume(tmp_path / "run", model, points())
    assert run.model.first is not None
    assert len(run.history) == 5
    loaded = gradlex.load(tmp_path / "run", Remembers()).model
    assert torch.equal(loaded.first, run.model.first)


def test_extra_state_is_resumed_and_loaded_and_what_no_file_can_hold_is_an_error_at_once(tmp_path: Path) -> None:
    class Counts(nn.Linear):
        steps: Any = 0

        def forward(self, x: Tensor) -> Tensor:
            self.steps += self.training
            return super().forward(x) / (1 + 0.001 * int(self.steps))

        def get_extra_state(self) -> Any:
            return {"steps": self.steps}

        def set_extra_state(self, state: Any) -> None:
            self.steps = state["steps"]

    plain = gradlex.train(Counts(6, 2), points(), **FIELDS)
    assert plain.model.steps == 5 * 4
    with pytest.raises(RuntimeError, match="power cut"):
        gradlex.train(Counts(6, 2), points(), out=tmp_path / "run", callbacks=[StopAfter(2)], **FIELDS)
    run = gradlex.resume(tmp_path / "run", Counts(6, 2), points())
    assert run.model.steps == gradlex.load(tmp_path / "run", Counts(6, 2)).model.steps == 20

    class Odd(Counts):
        def get_extra_state(self) -> Any:
            return {"steps": self.steps, "what": StopAfter(1)}

    with pytest.raises(gradlex.InputError, match="get_extra_state returns something that can't be stored"):
        gradlex.train(Odd(6, 2), points(), out=tmp_path / "odd", **FIELDS)


# Real processes.


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "problem.py").write_text(PROBLEM)
    return tmp_path / "problem.py"


def start(script: Path, out: Path, hang_at: int, processes: int = 1) -> subprocess.Popen[str]:
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    command = [sys.executable, *torchrun, str(script), str(out), str(hang_at)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines(running: subprocess.Popen[str]) -> Iterator[str]:
    assert running.stdout is not None
    return (line.strip() for line in running.stdout)


def kill(running: subprocess.Popen[str]) -> None:
    """Kill a command and the processes that it started, by their ids."""
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    for pid in [*map(int, children), running.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    running.communicate()


def test_a_killed_process_is_continued_by_another_one_to_the_same_bits(
    script: Path, tmp_path: Path, whole: gradlex.Run
) -> None:
    running = start(script, tmp_path / "run", 3)
    assert "3" in lines(running)  # reads until then: the checkpoint is of generation 2
    kill(running)
    assert same(gradlex.resume(tmp_path / "run", net(), points(), test=points()), whole)


def test_two_processes_under_torchrun_continue_to_the_bits_of_one(
    script: Path, stopped: Path, tmp_path: Path, whole: gradlex.Run
) -> None:
    running = start(script, stopped, 0, processes=2)
    output, errors = running.communicate(timeout=120)
    assert running.returncode == 0, errors[-3000:]
    assert output.split() == ["3", "4", "5"]  # one process prints and writes
    assert same(gradlex.load(stopped, net()), whole)
    assert json.loads((stopped / "run.json").read_text())["environment"]["processes"] == 1  # which started it


@pytest.mark.slow
def test_sigterm_ends_a_process_after_its_generation_with_a_checkpoint(
    script: Path, tmp_path: Path, whole: gradlex.Run
) -> None:
    running = start(script, tmp_path / "run", 1)
    assert "1" in lines(running)
    running.send_signal(signal.SIGTERM)
    _, errors = running.communicate(timeout=90)
    assert running.returncode != 0
    assert "interrupted after generation 1 of 5" in errors
    assert same(gradlex.resume(tmp_path / "run", net(), points(), test=points()), whole)


@pytest.mark.slow
def test_killed_again_and_again_with_other_numbers_of_processes_it_ends_with_the_same_bits(
    script: Path, tmp_path: Path, whole: gradlex.Run
) -> None:
    for generation, processes in enumerate([1, 2, 3, 2, 1], start=1):
        running = start(script, tmp_path / "run", generation, processes)
        assert str(generation) in lines(running)
        kill(running)
    running = start(script, tmp_path / "run", 0, 2)
    assert running.wait(timeout=120) == 0
    running.communicate()
    assert same(gradlex.load(tmp_path / "run", net()), whole)
