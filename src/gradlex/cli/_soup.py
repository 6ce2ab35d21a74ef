"""gradlex soup"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from gradlex.errors import InputError

if TYPE_CHECKING:
    from gradlex.soups import Soup


@dataclass(frozen=True, kw_only=True)
class MakeSoup:
    """Mix several checkpoints of one network by validation cases."""

    checkpoints: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Safetensors files, PyTorch state dicts, run folders of gradlex, folders of a Trainer or of timm."""
    model: str | None = None
    """The network, as for gradlex train (default: that of the first checkpoint, if it is a run folder)."""
    width: float = 1.0
    """Scale of the network's hidden layers."""
    dataset: str | None = None
    """The data, as for gradlex train (default: that of the first checkpoint, if it is a run folder)."""
    validation: str | None = None
    """Other data, whose test part chooses (default: a share of the test part of --dataset)."""
    validation_fraction: float | None = None
    """Share of the test part that chooses; the rest reports (default: 0.2)."""
    by_class: bool = False
    """Classes are the cases: the error of a case is the mean over a class."""
    method: tuple[str, ...] = ()
    """Of best, uniform, greedy, lexicase, expected, cases (default: all, and the best on validation is kept)."""
    recalibrate: int = 50
    """Batches of training samples that a mixture's batch norm is recalibrated on."""
    augment: str | None = None
    """Augmentation of those batches: that of training (default: that of the first checkpoint, if it is a run folder,
    else none)."""
    out: Path | None = None
    """A .safetensors file for the chosen mixture (default: nothing is written)."""
    plot: Path | None = None
    """A .png or .svg file that shows which checkpoint solves which cases."""
    data_dir: Path | None = None
    """Where downloaded datasets are kept (default: the user's cache folder)."""
    seed: int = 0
    """Random seed of the recalibration."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ... (default: auto, the accelerator if there is one)."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    examples: ClassVar[str] = """
        gradlex soup runs/a runs/b runs/c --out soup.safetensors --plot cases.png
        gradlex soup *.safetensors --model resnet18 --dataset cifar10 --method greedy
    """

    def __call__(self) -> None:
        """Mix, print the table, write what was asked for."""
        from gradlex._console import console
        from gradlex.soups import METHODS, plot_cases, soup_files

        for path in (self.out, self.plot):
            if path is not None and path.exists() and path.is_dir():
                raise InputError(f"{path} is a folder: name a file.")
        if self.plot is not None and self.plot.suffix.lower() not in (".png", ".svg"):
            raise InputError(f"the plot must be a .png or .svg file, got {self.plot.name!r}.")
        found = soup_files(
            self.checkpoints,
            model=self.model,
            width=self.width,
            dataset=self.dataset,
            validation=self.validation,
            validation_fraction=self.validation_fraction,
            by_class=self.by_class,
            methods=self.method or tuple(METHODS),
            recalibrate=self.recalibrate,
            augment=self.augment,
            device=self.device,
            data_dir=self.data_dir,
            seed=self.seed,
            out=self.out,
        )
        out = console()
        out.print(f"{found.parts}; what chose never reports", soft_wrap=True)
        _print_table(found.soup)
        if self.out is not None:
            out.print(
                f"{self.out}: the mixture of {found.soup.chosen!r}, chosen on the validation part",
                soft_wrap=True,
            )
        if self.plot is not None:
            plot_cases(found.soup.errors, found.soup.labels, self.plot)
            out.print(f"{self.plot}: which checkpoint solves which cases", soft_wrap=True)


def _print_table(soup: Soup) -> None:
    from rich import box
    from rich.table import Table

    from gradlex._console import console

    metrics = list(next(iter(soup.mixtures.values())).test or {})
    table = Table(box=box.SIMPLE)
    table.add_column("method", no_wrap=True)
    table.add_column("validation", justify="right")
    for name in metrics:
        table.add_column(name.replace("_", " ") if name != metrics[0] else f"test {name}", justify="right")
    table.add_column("mixture")
    for name, mixture in soup.mixtures.items():
        mark = " *" if name == soup.chosen else ""
        parts = ", ".join(f"{label} {share:.0%}" for label, share in mixture.weights.items())
        table.add_row(
            f"{name}{mark}",
            f"{mixture.validation[metrics[0]]:.4f}",
            *(f"{(mixture.test or {})[metric]:.4f}" for metric in metrics),
            f"the outputs of all {len(mixture.weights)}" if name == "ensemble" else parts,
        )
    console().print(table)
    console().print("* chosen on the validation part")
