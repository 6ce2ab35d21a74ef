"""gradlex predict and export"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro


@dataclass(frozen=True, kw_only=True)
class Predict:
    """Predict new samples with the network of a finished run."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    input: Annotated[Path, tyro.conf.Positional]
    """An image, a folder of images, a .npz archive with an array x, or, for a run on a table, a .csv or .parquet file
    with the same columns; normalized as the training samples were."""
    out: Path | None = None
    """A .csv, .parquet or .npz file for the predictions (default: they are printed)."""
    ema: bool = False
    """Use the moving average of the parents, which a run trained with --ema keeps."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ... (default: auto, the accelerator if there is one)."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    examples: ClassVar[str] = """
        gradlex predict runs/photos new/ --out predictions.csv
        gradlex predict runs/digits inputs.npz
        gradlex predict runs/homes new.csv --out prices.csv
    """

    def __call__(self) -> None:
        """Print a line per sample, or write a file."""
        from gradlex._console import console, plural
        from gradlex._tables import check_table_file, write_table
        from gradlex.data import read_inputs
        from gradlex.runs import answer_columns, load_predictor

        if self.out is not None:
            check_table_file(self.out)
        predictor = load_predictor(self.run, ema=self.ema, device=self.device)
        samples, x = read_inputs(self.input, predictor.input_shape or (), predictor.table)
        answers, chances = predictor(x), predictor.probabilities(x)
        names = predictor.names(answers)
        said = f"{self.out}: {plural(len(samples), 'prediction')}"
        if self.out is not None and self.out.suffix.lower() == ".npz":
            arrays: dict[str, Any] = {"sample": samples, "predicted": answers}
            write_table(self.out, arrays if chances is None else {**arrays, "probabilities": chances})
            console().print(said, soft_wrap=True)
            return
        columns = {"sample": samples, **answer_columns(answers, "predicted")}
        if names is not None:
            columns["predicted_name"] = names
        if chances is not None:
            columns["probability"] = chances.amax(dim=1).tolist()
        if self.out is not None:
            write_table(self.out, columns)
            console().print(said, soft_wrap=True)
            return
        for row in zip(*columns.values(), strict=True):
            shown = dict(zip(columns, row, strict=True))
            sample, chance = shown.pop("sample"), shown.pop("probability", None)
            words = [shown.get("predicted_name") or " ".join(f"{value:g}" for value in shown.values())]
            words += [] if chance is None else [f"({chance:.1%})"]
            console().print(f"{sample}: {' '.join(words)}", soft_wrap=True)


@dataclass(frozen=True, kw_only=True)
class Export:
    """Export a finished run's network with its normalization, for use elsewhere."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    format: Literal["torch-export", "onnx"] = "torch-export"
    """A program of torch.export (.pt2), or ONNX (.onnx; pip install 'gradlex[onnx]')."""
    out: Path | None = None
    """The file (default: model.pt2 or model.onnx in the run folder). It normalizes its inputs itself: give it float32
    as the data has them, images (samples, channels, height, width) from 0 to 1, or features. It is written only if
    its outputs are the network's."""
    ema: bool = False
    """Export the moving average of the parents, which a run trained with --ema keeps."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    examples: ClassVar[str] = """
        gradlex export runs/digits
        gradlex export runs/digits --format onnx --out digits.onnx
    """

    def __call__(self) -> None:
        """Write the file, and say how it is used."""
        from gradlex._console import console
        from gradlex.runs import export

        file = export(self.run, self.out, format=self.format, ema=self.ema)
        use = {
            "torch-export": "torch.export.load(FILE).module()(inputs)",
            "onnx": 'onnxruntime.InferenceSession(FILE).run(None, {"inputs": inputs})',
        }
        out = console()
        out.print(
            f"{file}: the same outputs as the network; inputs are float32, not normalized", soft_wrap=True
        )
        out.print(f"use: {use[self.format]}", soft_wrap=True)
