"""gradlex list"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Annotated, ClassVar, Literal

import tyro
from rich import box
from rich.table import Table

from gradlex.callbacks.progress import PlainConsole
from gradlex.cli.flags import Command


class List(Command):
    """List models, data, selections or methods by name."""

    examples: ClassVar[str] = """
        gradlex list models
        gradlex list selections
    """

    what: Annotated[Literal["models", "data", "selections", "methods"], tyro.conf.Positional]
    """What to list; methods are for compare."""

    def __call__(self) -> None:
        """Print a table."""
        {"models": _models, "data": _data, "selections": _selections, "methods": _methods}[self.what]()


def _models() -> None:
    from gradlex.models import MODELS

    rows = [
        (name, f"{info.parameters:,}", str(info.smallest_image or "-"), info.paper) for name, info in MODELS.items()
    ]
    note = "Parameters are for 32 x 32 x 3 images and 10 classes. "
    note += "Also: 'resnet20(width=0.5)', module:factory, timm:NAME."
    _print(("model", "parameters", "smallest image", "paper"), rows, note)


def _data() -> None:
    from gradlex.data.datasets import DATASETS, OWN

    rows = [
        (info.name, info.description, str(info.batch_size), info.augment, str(info.epochs))
        for info in (*DATASETS.values(), OWN)
    ]
    note = "Epochs are for plain SGD; a population of p trains for p + 1 times as many."
    _print(("dataset", "description", "batch size", "augment", "epochs"), rows, note)


def _selections() -> None:
    from gradlex.selection import SELECTIONS

    rows = [
        (name, ", ".join(each.name for each in fields(found)) or "-", found.paper) for name, found in SELECTIONS.items()
    ]
    note = "With options: 'epsilon-lexicase(epsilon=0.1)'. Also: module:function."
    _print(("selection", "options", "paper"), rows, note)


def _methods() -> None:
    from gradlex.experiments import METHODS

    rows = [
        (
            name,
            str(method.changes["selection"]),
            str(method.changes.get("promotion", "winner")),
            "last quarter" if "branch_at" in method.changes else "-",
        )
        for name, method in METHODS.items()
    ]
    note = "sgd trains for the epochs of the comparison, sgd-matched on as many samples as a population, "
    note += "swa and the branched methods on as many as sgd."
    _print(("method", "selection", "promotion", "averaged"), rows, note)


def _print(columns: Sequence[str], rows: Iterable[tuple[str, ...]], note: str) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    for place, name in enumerate(columns):
        numbers = name in ("parameters", "smallest image", "batch size", "epochs")
        # A name is typed, so it is never cut.
        table.add_column(name, justify="right" if numbers else "left", no_wrap=place == 0, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = PlainConsole(highlight=False, markup=False)
    console.print(table)
    if note:
        console.print(note)
