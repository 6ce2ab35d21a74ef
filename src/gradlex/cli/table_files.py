"""Columns into a .csv, .parquet or .npz file."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gradlex._files import write_atomically
from gradlex.callbacks.progress import counted
from gradlex.errors import InputError


def check_table_file(path: Path | None) -> None:
    """Raise an error for a file that can't be written, before anything is computed for it."""
    if path is None:
        return
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"{path} must end in .csv or .parquet.")
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: name a file in a folder that exists.")


def write_table(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write the columns, whole or not at all, and print where they are."""
    import pandas as pd

    frame, buffer = pd.DataFrame(columns), io.BytesIO()
    if path.suffix.lower() == ".csv":
        frame.to_csv(buffer, index=False)
    else:
        try:
            frame.to_parquet(buffer, index=False)
        except ImportError as error:
            raise InputError(
                "a .parquet file needs pyarrow: pip install 'gradlex[tables]', or write a .csv."
            ) from error
    write_atomically(path, buffer.getvalue())
    print(f"\n{counted(len(frame), 'row')} in {path}")
