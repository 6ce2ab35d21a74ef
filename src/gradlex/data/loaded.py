"""What every source of data gives: a training part, perhaps a test part, and what is known of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from gradlex.data.registry import OWN, DatasetInfo
from gradlex.data.samples import Samples
from gradlex.errors import InputError

if TYPE_CHECKING:
    from gradlex.data.tables import Rows

Part: TypeAlias = "Samples | Rows"


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """Data as its source holds it, before it is cut and split."""

    train: Part
    test: Part | None = None
    labeled: bool = False
    """Whether the targets are class numbers from 0 without gaps."""
    class_names: tuple[str, ...] | None = None
    info: DatasetInfo = OWN
    passed_in: bool = False
    """Files are normalized, and get a test part; arrays that are passed in are taken as they are."""
    image_size: int | None = None
    notes: tuple[str, ...] = ()


def check_memory(size: int, what: str) -> None:
    """Raise an error for data that is larger than this machine's memory."""
    if size > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise InputError(f"{what}: {size:,} bytes don't fit into memory: use a part of the data, or smaller images.")
