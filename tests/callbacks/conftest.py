from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn

import gradlex
from gradlex.callbacks.callback import LiveRun
from gradlex.tasks import Classification


def record(generation: int = 1, **changes: Any) -> gradlex.Record:
    fields: dict[str, Any] = {
        "generation": generation,
        "lr": 0.1,
        "losses": (0.5, 0.25),
        "chosen": 1,
        "weights": (0, 1),
        "reason": "sole_survivor",
        "cases_used": 13,
        "cases_evaluated": 128,
        "train_seconds": 1.5,
        "select_seconds": 0.25,
    }
    return gradlex.Record(**{**fields, **changes})


@pytest.fixture(name="record")
def make_record() -> Callable[..., gradlex.Record]:
    """Makes the record of a generation, with some fields changed."""
    return record


@pytest.fixture
def live() -> Callable[..., LiveRun]:
    """Makes a run in progress, as callbacks see it."""

    def make(epochs: int = 5, path: Path | None = None, parts: tuple[str, ...] = (), **fields: Any) -> LiveRun:
        recipe = gradlex.Recipe(epochs=epochs, batch_size=10, precision="float32", **fields).with_method()
        return SimpleNamespace(  # type: ignore[return-value]
            recipe=recipe,
            data={"name": "digits", "samples": {"train": 100, **dict.fromkeys(parts, 50)}},
            environment={"device": "cpu", "threads": 1, "processes": 1},
            task=Classification(classes=3),
            model=nn.Linear(4, 3),
            history=[],
            path=path,
        )

    return make
