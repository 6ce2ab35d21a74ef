from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import gradlex
from gradlex import InputError, Record
from gradlex.callbacks import LOGGERS, Logger, TensorBoard, WandB
from gradlex.callbacks.callback import LiveRun

Make = Callable[..., Record]
Live = Callable[..., LiveRun]


class Kept(Logger):
    def __init__(self, held: int = 0) -> None:
        super().__init__()
        self.held, self.written = held, dict[int, dict[str, float]]()

    def open(self, run: LiveRun) -> int:
        return self.held

    def write(self, generation: int, numbers: Mapping[str, float]) -> None:
        self.written[generation] = dict(numbers)


def test_a_logger_gets_the_numbers_of_each_generation(live: Live, record: Make) -> None:
    logger = Kept()
    logger.on_start(live())
    metrics = {"test": {"accuracy": 0.5, "loss": math.nan}}
    logger.on_generation(record(1, losses=(None, 0.25), disagreement=0.5, metrics=metrics), live())
    assert logger.written[1] == {
        "lr": 0.1,
        "loss/chosen": 0.25,
        "loss/candidate1": 0.25,
        "selection/chosen": 1,
        "selection/cases_used": 13,
        "selection/cases_evaluated": 128,
        "selection/disagreement": 0.5,
        "seconds/train": 1.5,
        "seconds/select": 0.25,
        "test/accuracy": 0.5,
    }


def test_a_resumed_run_writes_only_what_the_log_misses(live: Live, record: Make) -> None:
    run, logger = live(), Kept(held=2)
    run.history.extend(record(n) for n in (1, 2, 3, 4))
    logger.on_start(run)
    assert list(logger.written) == [3, 4]


def test_a_missing_library_is_an_error_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name, kind in LOGGERS.items():
        with pytest.raises(InputError, match=rf"pip install 'gradlex\[{name}\]'"):
            kind()


class Library(ModuleType):
    """Stands for wandb."""

    def __init__(self, name: str, step: int = 0) -> None:
        super().__init__(name)
        self.__spec__ = object()  # type: ignore[assignment]  # find_spec asks for one
        self.step = step
        self.given: dict[str, Any] = {}
        self.logged: list[int] = []
        self.finished = 0

    def init(self, **given: Any) -> Library:
        self.given = given
        return self

    def log(self, numbers: dict[str, float], step: int) -> None:
        assert numbers["lr"] == 0.1
        self.logged.append(step)

    def finish(self) -> None:
        self.finished += 1


def test_a_resumed_run_continues_its_log_under_the_same_name(
    live: Live, record: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library("wandb")
    monkeypatch.setitem(sys.modules, "wandb", library)
    first, run = WandB("mine", tags="a"), live(path=tmp_path)
    first.on_start(run)
    first.on_generation(record(1), run)
    first.on_end(run)
    assert library.given["project"] == "mine"
    assert library.given["tags"] == "a"
    assert library.given["config"]["epochs"] == 5
    assert (library.logged, library.finished) == ([1], 1)
    begun = library.given["name"]

    library.step = 2  # the next one
    run.history.extend(record(n) for n in (1, 2))
    WandB().on_start(run)
    assert library.given["name"] == begun
    assert library.given["resume"] == "allow"
    assert library.logged == [1, 2]


def test_a_new_run_in_the_same_place_gets_a_log_of_its_own(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library("wandb")
    monkeypatch.setitem(sys.modules, "wandb", library)
    names = set()
    for _ in range(2):
        WandB().on_start(live(path=tmp_path))
        names.add(library.given["name"])
    assert len(names) == 2


@pytest.mark.slow
def test_tensorboard_has_every_generation_once_also_after_a_resume(live: Live, record: Make, tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = live(path=tmp_path)
    for begin, end in ((1, 4), (3, 6)):  # interrupted after 4, with the last checkpoint at 2
        run.history[:] = [record(n) for n in range(1, begin)]
        logger = TensorBoard()
        logger.on_start(run)
        for number in range(begin, end):
            logger.on_generation(record(number), run)
        logger.on_end(run)
    found = events.EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    assert [event.step for event in found.Scalars("loss/chosen")] == [1, 2, 3, 4, 5]


def test_a_callback_watches_a_run_and_may_end_it() -> None:
    seen: list[Any] = []

    class Watch(gradlex.Callback):
        def on_start(self, run: LiveRun) -> None:
            seen.append(("start", len(run.history), run.recipe.population, run.environment["device"], run.path))

        def on_generation(self, record: Record, run: LiveRun) -> str | None:
            assert run.history[-1] == record
            seen.append(record.generation)
            return "twice is enough" if record.generation == 2 else None

        def on_end(self, run: LiveRun) -> None:
            seen.append("end")

    data = torch.randn(60, 4), torch.arange(60) % 3
    run = gradlex.train(torch.nn.Linear(4, 3), data, epochs=9, batch_size=8, callbacks=[Watch()], device="cpu")
    assert seen == [("start", 0, 4, "cpu", None), 1, 2, "end"]
    assert run.result["stopped"] == "twice is enough"
