"""gradlex models, gradlex datasets, gradlex selections: what there is, one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

_NO_GROUPS: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True, kw_only=True)
class Models:
    """List the networks: parameters, multiply-adds, smallest image, paper."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = _NO_GROUPS
    examples: ClassVar[str] = ""

    def __call__(self) -> None:
        """Print the table."""
        from gradlex.models import MODELS

        _print(
            ("model", "parameters", "multiply-adds", "smallest image", "paper"),
            [
                (
                    info.name,
                    f"{info.parameters:,}",
                    f"{info.multiply_adds / 1e6:,.1f} M",
                    f"{info.smallest_image} x {info.smallest_image}" if info.smallest_image else "-",
                    info.paper,
                )
                for info in MODELS.values()
            ],
            "Counted for 32 x 32 x 3 images and 10 classes. Also: module:factory, and timm:NAME with timm installed.",
        )


@dataclass(frozen=True, kw_only=True)
class Datasets:
    """List the datasets and the default settings for each."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = _NO_GROUPS
    examples: ClassVar[str] = ""

    def __call__(self) -> None:
        """Print the table."""
        from gradlex.data import DATASETS, OWN

        _print(
            ("dataset", "description", "batch size", "augment", "SGD epochs"),
            [
                (
                    info.name,
                    info.description,
                    str(info.batch_size),
                    info.augment,
                    str(info.baseline_generations),
                )
                for info in (*DATASETS.values(), OWN)
            ],
            "Your own: an archive of x_train, y_train, x_test, y_test, or a folder train/<class>/, test/<class>/.",
        )


@dataclass(frozen=True, kw_only=True)
class Selections:
    """List the selection methods: what each needs to see, its options, its paper."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = _NO_GROUPS
    examples: ClassVar[str] = ""

    def __call__(self) -> None:
        """Print the table."""
        from gradlex._checks import keyword_options
        from gradlex.selection import SELECTIONS

        rows = []
        for info in SELECTIONS.values():
            options = keyword_options(info.strategy)
            named = ", ".join(key if value is None else f"{key}={value}" for key, value in options.items())
            rows.append((info.name, info.sees, named or "-", "yes" if info.exact else "no", info.paper))
        _print(
            ("selection", "needs to see", "options", "exact chances", "paper"),
            rows,
            "Options: --selection-options KEY=VALUE. Also: module:function.",
        )


def _print(columns: Sequence[str], rows: Sequence[Sequence[str]], note: str) -> None:
    from rich import box
    from rich.table import Table

    from gradlex._console import console

    table = Table(box=box.SIMPLE)
    for place, name in enumerate(columns):  # what is typed is never cut
        table.add_column(name, no_wrap=place == 0, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table)
    console().print(note)
