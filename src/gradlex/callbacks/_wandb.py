"""Weights & Biases, and trackio, which speaks the same API and runs locally."""

from __future__ import annotations

import importlib
import uuid
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from gradlex.callbacks._callback import LiveRun
from gradlex.callbacks._logger import Logger, require


class _Init(Logger):
    """What they share: `init`, `log` and `finish`, in a module of the logger's name."""

    def __init__(self, project: str = "gradlex", **options: Any) -> None:
        require(self.name, extra=self.name)
        self._project, self._options = project, options
        self._run: Any = None

    def open(self, run: LiveRun) -> int:
        """A resumed run continues the one it logged to before, after its last step."""
        library = importlib.import_module(self.name)
        folder = "run" if run.path is None else run.path.name
        name = self.notes.setdefault("run", f"{folder}-{uuid.uuid4().hex[:8]}")
        self._run = library.init(
            project=self._project,
            name=name,
            config=run.recipe.to_dict(),
            resume="allow",
            **{**self._how(run, name), **self._options},
        )
        return self._next_step()

    def write(self, generation: int, numbers: Mapping[str, float]) -> None:
        """One step per generation."""
        self._run.log(dict(numbers), step=generation)

    @abstractmethod
    def _how(self, run: LiveRun, name: str) -> dict[str, Any]:
        """What `init` is told besides."""

    @abstractmethod
    def _next_step(self) -> int:
        """The step after the last one that was logged."""


class WandB(_Init):
    """Weights & Biases; further options are those of `wandb.init`, `mode="offline"` for example.

    Examples:
        >>> from gradlex.callbacks import WandB
        >>> logger = WandB("my-project", mode="offline")  # then gradlex.train(..., callbacks=[logger])
        >>> logger.name
        'wandb'
    """

    name = "wandb"

    def close(self, run: LiveRun) -> None:
        """Send what is left."""
        if self._run is not None:
            self._run.finish(exit_code=0 if run.ended == "finished" else 1)

    def _how(self, run: LiveRun, name: str) -> dict[str, Any]:
        return {"id": name, **({} if run.path is None else {"dir": str(run.path)})}

    def _next_step(self) -> int:
        return int(self._run.step)


class Trackio(_Init):
    """trackio: a local database, and a dashboard with `trackio show`; further options are those of `trackio.init`.

    Examples:
        >>> from gradlex.callbacks import Trackio
        >>> logger = Trackio("my-project")  # then gradlex.train(..., callbacks=[logger])
        >>> logger.name
        'trackio'
    """

    name = "trackio"

    def close(self, run: LiveRun) -> None:
        """Write what is left. By trackio's own function, after which it does not finish the run again at exit."""
        if self._run is not None:
            importlib.import_module("trackio").finish()

    def _how(self, run: LiveRun, name: str) -> dict[str, Any]:
        return {"embed": False}  # a run is found by its name alone; no dashboard in a notebook's cell

    def _next_step(self) -> int:
        return int(self._run._next_step)  # there is no public name for it
