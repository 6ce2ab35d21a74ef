"""gradlex evaluate"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro


def evaluate(
    run: Annotated[Path, tyro.conf.Positional],
    *,
    dataset: str | None = None,
    ema: bool = False,
    device: str = "auto",
    data_dir: Path | None = None,
) -> None:
    """Evaluate a finished run on its test samples, or on other data, with the run's own normalisation.

    Args:
        run: The run folder.
        dataset: Other data: a name, a .npz archive, or a folder; of data without a test part a fifth is taken.
            None: the run's own.
        ema: Evaluate the moving average of the parents, where the run was trained with --ema.
        device: auto, cpu, cuda, ...
        data_dir: Where downloaded datasets are kept. None: the user's cache folder.
    """
    from gradlex.cli._console import console
    from gradlex.runs import evaluate as evaluate_run

    found = evaluate_run(run, dataset=dataset, device=device, data_dir=data_dir, ema=ema)
    console().print(f"test accuracy {found.accuracy:.2%}, loss {found.loss:.4f}")
