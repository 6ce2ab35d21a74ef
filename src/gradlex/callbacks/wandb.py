"""Weights & Biases, and trackio, which has the same interface and runs locally."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Mapping
from typing import Any

from gradlex.callbacks.callback import LiveRun
from gradlex.callbacks.logger import Logger


class WandB(Logger):
    """Weights & Biases; further options go to `wandb.init`, such as `mode="offline"`."""

    library = "wandb"

    def __init__(self, project: str = "gradlex", **options: Any) -> None:
        super().__init__()
        self._project, self._options = project, options
        self._run: Any = None

    def open(self, run: LiveRun) -> int:
        """Begin a run there, or continue the one that this run logged to before it was interrupted."""
        name = _name(run, self.library)
        options = {**self._how(run, name), **self._options}
        self._run = importlib.import_module(self.library).init(
            project=self._project, name=name, config=run.recipe.to_dict(), resume="allow", **options
        )
        return self._last_step()

    def write(self, generation: int, numbers: Mapping[str, float]) -> None:
        """One step a generation."""
        self._run.log(dict(numbers), step=generation)

    def on_end(self, run: LiveRun) -> None:
        """Send what is left."""
        self._run.finish()

    def _how(self, run: LiveRun, name: str) -> dict[str, Any]:
        return {"id": name, **({} if run.path is None else {"dir": str(run.path)})}

    def _last_step(self) -> int:
        return int(self._run.step) - 1  # wandb's is the next one


class Trackio(WandB):
    """trackio: a local database, and a dashboard by `trackio show`; further options go to `trackio.init`."""

    library = "trackio"

    def on_end(self, run: LiveRun) -> None:
        """Write what is left; after trackio's own function it doesn't finish the run again at exit."""
        importlib.import_module("trackio").finish()

    def _how(self, run: LiveRun, name: str) -> dict[str, Any]:
        return {"embed": False}  # no dashboard in a notebook's cell

    def _last_step(self) -> int:
        return int(self._run._next_step) - 1  # it has no public name


def _name(run: LiveRun, library: str) -> str:
    """What a run is called there; its folder keeps the name, so that a resumed run finds it again."""
    new = f"{run.path.name if run.path else 'run'}-{uuid.uuid4().hex[:8]}"
    if run.path is None:
        return new
    kept = run.path / f"{library}.txt"
    if not run.history or not kept.exists():
        kept.write_text(new, encoding="utf-8")
    return kept.read_text(encoding="utf-8")
