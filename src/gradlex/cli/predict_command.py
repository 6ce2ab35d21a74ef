"""gradlex predict"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from gradlex.cli.evaluate_command import check_csv, write_csv
from gradlex.cli.flags import Command


class Predict(Command):
    """Predict new samples with the network of a finished run."""

    examples: ClassVar[str] = """
        gradlex predict runs/digits-lexicase-seed0 new.npz
        gradlex predict runs/photos new-photos/ --out predictions.csv
        gradlex predict runs/homes new.csv --out prices.csv
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    input: Annotated[Path, tyro.conf.Positional]
    """An image, a folder of images, an .npz archive with an array x, or, for a run on a table, a table with the same
    columns. Numbers on the scale of the training data, such as bytes from 0 to 255."""
    model: Annotated[str | None, tyro.conf.arg(metavar="MODULE:FUNCTION")] = None
    """For a run trained from Python: the function that makes its network."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="PREDICTIONS.csv")] = None
    """A file for the predictions (default: they are printed)."""
    device: Annotated[str, tyro.conf.arg(metavar="auto|cpu|cuda")] = "auto"
    """Where to compute, also cuda:1, mps, ... (default: the accelerator if there is one)."""

    def __call__(self) -> None:
        """Print a line for each sample, or write a file."""
        check_csv(self.out)
        from gradlex.data.load import read_inputs
        from gradlex.runs import load
        from gradlex.runs.evaluate import columns_of

        run = load(self.run, self.model, device=self.device)
        samples, x = read_inputs(self.input, run.data)
        answers = run.predict(x)
        columns = {"sample": samples, **columns_of(answers, "predicted")}
        if run.class_names is not None:
            columns["predicted_name"] = [run.class_names[number] for number in answers.tolist()]
        if hasattr(run.task, "probabilities"):
            columns["probability"] = run.probabilities(x).amax(dim=1).tolist()
        if self.out is not None:
            write_csv(self.out, columns)
            return
        for row in zip(*columns.values(), strict=True):
            line = dict(zip(columns, row, strict=True))
            sample, chance = line.pop("sample"), line.pop("probability", None)
            answer = line.get("predicted_name") or " ".join(f"{value:g}" for value in line.values())
            print(f"{sample}: {answer}" + ("" if chance is None else f" ({chance:.1%})"))
