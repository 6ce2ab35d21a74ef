"""Tables as files that people open: .csv, .parquet, or the arrays themselves as .npz; there whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradlex._files import write_whole
from gradlex.errors import InputError

KINDS = (".csv", ".parquet", ".npz")


def check_table_file(path: Path, kinds: Sequence[str] = KINDS) -> None:
    """Refuse a file that no table can be written to, before it is computed."""
    if path.suffix.lower() not in kinds:
        raise InputError(f"a table is written as {', '.join(kinds[:-1])} or {kinds[-1]}, got {path.name!r}.")
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file.")
    if not path.absolute().parent.is_dir():
        raise InputError(
            f"there is no folder {path.absolute().parent} to write {path.name} to: make it first."
        )
    if path.suffix.lower() == ".parquet":
        _pyarrow()


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns of the same length under their names."""
    kind = path.suffix.lower()
    if kind == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        write_whole(path, text.getvalue().encode())
    elif kind == ".parquet":
        arrow, parquet = _pyarrow()
        whole = io.BytesIO()
        parquet.write_table(arrow.table({name: list(values) for name, values in columns.items()}), whole)
        write_whole(path, whole.getvalue())
    else:
        whole = io.BytesIO()
        arrays: dict[str, Any] = {name: np.asarray(values) for name, values in columns.items()}
        np.savez(whole, **arrays)
        write_whole(path, whole.getvalue())


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415  # an extra
        import pyarrow.parquet  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415
    except ImportError as error:
        raise InputError(".parquet needs pyarrow: pip install 'gradlex[tables]', or write .csv.") from error
    return pyarrow, pyarrow.parquet
