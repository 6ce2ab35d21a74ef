"""gradlex evaluate"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import tyro


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Evaluate a finished run on its test samples, or on other data."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    dataset: str | None = None
    """Other data, with the run's own normalization: a name, a .npz archive, or a folder (default: the run's data)."""
    data_dir: Path | None = None
    """Where downloaded datasets are kept (default: the user's cache folder)."""
    ema: bool = False
    """Evaluate the moving average of the parents, which a run trained with --ema keeps."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ... (default: auto, the accelerator if there is one)."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    examples: ClassVar[str] = "gradlex evaluate runs/cifar10"

    def __call__(self) -> None:
        """Print the task's metrics."""
        from gradlex._console import console, metric_words
        from gradlex.runs import evaluate, stored_run

        metrics = evaluate(
            self.run, dataset=self.dataset, device=self.device, data_dir=self.data_dir, ema=self.ema
        )
        result = stored_run(self.run).result or {}
        console().print(f"test: {metric_words(metrics, result.get('measures', []))}", soft_wrap=True)
