"""gradlex models, datasets, selections: what there is, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def models() -> None:
    """List the networks: name, parameters, multiply-adds for one picture, paper (10 classes, width 1)."""
    import torch

    from gradlex.cli._console import console
    from gradlex.models import MODELS, build, count

    table = _table("model", "parameters", "multiply-adds", "smallest picture", "paper")
    for info in MODELS.values():
        shape = (3, 32, 32) if info.smallest_picture else (3 * 32 * 32,)
        with torch.device("meta"):  # counting needs shapes, not numbers
            model = build(info.name, num_classes=10, in_channels=shape[0])
        parameters, multiply_adds = count(model, shape)
        smallest = f"{info.smallest_picture} x {info.smallest_picture}" if info.smallest_picture else "-"
        table.add_row(info.name, f"{parameters:,}", f"{multiply_adds / 1e6:,.1f} M", smallest, info.paper)
    console().print(table)
    console().print(
        "Counted for 32 x 32 x 3 pictures. Also: package.module:factory, and timm:NAME with timm installed."
    )


def datasets() -> None:
    """List the datasets and the settings a recipe takes for each where it leaves them open."""
    from gradlex.cli._console import console
    from gradlex.data import DATASETS, OWN

    table = _table("dataset", "what it is", "batch size", "augment", "epochs of SGD")
    for info in (*DATASETS.values(), OWN):
        table.add_row(
            info.name, info.description, str(info.batch_size), info.augment, str(info.baseline_generations)
        )
    console().print(table)
    console().print(
        "Your own: an archive of x_train, y_train, x_test, y_test, or a folder train/<class>/, test/<class>/."
    )


def selections() -> None:
    """List the selection methods: what each needs to see, its options, its paper."""
    from gradlex.cli._console import console
    from gradlex.selection import SELECTIONS

    table = _table("selection", "needs to see", "options", "exact chances", "paper")
    for info in SELECTIONS.values():
        options = (
            ", ".join(key if value is None else f"{key}={value}" for key, value in info.options.items())
            or "-"
        )
        table.add_row(info.name, info.sees, options, "yes" if info.exact else "no", info.paper)
    console().print(table)


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    for place, name in enumerate(columns):  # what is typed is never cut
        table.add_column(name, no_wrap=place == 0, overflow="fold")
    return table
