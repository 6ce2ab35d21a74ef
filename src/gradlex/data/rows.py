"""Tables: CSV and parquet files and data frames, one row per sample.

Numbers are standardized by the training part, categories are one-hot, and both say where a value is missing. What was
learned of the columns is an encoding of plain values, kept with the run, so that other rows are read the same way:
{"target", "class_names", "columns": [{"name", "missing", "mean", "std"} or {"name", "missing", "categories"}]}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from gradlex._files import check_file
from gradlex.data.inputs import printable
from gradlex.data.samples import ArraySamples, Indices
from gradlex.errors import InputError, did_you_mean

Encoding: TypeAlias = Mapping[str, Any]

_CATEGORIES = 32
"""Of a column: the commonest; all others, and values that training has not seen, are one more."""
_CLASSES = 20
"""Whole numbers of at most so many different values are taken for classes if no task is named."""


@dataclass(frozen=True)
class Rows:
    """Rows with their targets, whose columns are not encoded yet: that is learned from the training part alone."""

    frame: pd.DataFrame
    targets: Tensor

    def __len__(self) -> int:
        return len(self.frame)

    def take(self, indices: Indices) -> Rows:
        """The rows of these numbers."""
        return Rows(self.frame.iloc[indices], self.targets[torch.from_numpy(indices)])

    def encoding(self, target: str, class_names: tuple[str, ...] | None) -> Encoding:
        """What these rows teach about the columns."""
        columns = [_learned(name, self.frame[name]) for name in self.frame if name != target]
        return {"target": target, "class_names": class_names, "columns": columns}

    def encoded(self, encoding: Encoding) -> ArraySamples:
        """The rows as samples."""
        return ArraySamples(encode_inputs(self.frame, encoding), self.targets)


def load_table(given: Any, target: str | None, task: str | None) -> tuple[Rows, None, tuple[str, ...] | None]:
    """A table's rows and class names. Text or few whole numbers are classes, unless a task is named."""
    frame = read_table(given)
    values = _column(frame, target)
    numbers, names = _numbers(values), None
    few = numbers is None or (values.nunique() <= _CLASSES and bool((numbers == numbers.round()).all()))
    if task == "classification" or (task != "regression" and few):
        texts = _texts(values)
        names = tuple(dict.fromkeys(texts.iloc[np.argsort(texts if numbers is None else numbers, kind="stable")]))
        if len(names) < 2:
            raise InputError(f"every row has the {target} {names[0]!r:.40}; give at least two classes.")
    return read_rows(frame, {"target": target, "class_names": names}), None, names


def read_rows(given: Any, encoding: Encoding) -> Rows:
    """All rows of a table with their targets: class numbers if the encoding has names, else numbers."""
    frame, names = read_table(given, encoding), encoding["class_names"]
    values = _column(frame, encoding["target"])
    if names is None:
        return Rows(frame, torch.from_numpy(_known_numbers(values).astype(np.float32)))
    texts = _texts(values)
    codes = pd.Index(list(names), dtype=object).get_indexer(texts)
    if (codes < 0).any():
        raise InputError(
            f"the column {values.name!r} has the class {texts[codes < 0].iloc[0]!r:.40}, which the training part "
            f"doesn't have: it has {printable(', '.join(names[:8]))}."
        )
    return Rows(frame, torch.from_numpy(codes.astype(np.int64)))


def encode_inputs(frame: pd.DataFrame, encoding: Encoding) -> Tensor:
    """(rows, features) of a table, which needs no target: a missing number is the mean, a missing category none."""
    lacks = [column["name"] for column in encoding["columns"] if column["name"] not in frame]
    if lacks:
        raise InputError(
            f"the table lacks the columns {printable(', '.join(lacks[:8]))}, which the run was trained on."
        )
    blocks = [_encoded(frame[column["name"]], column) for column in encoding["columns"]]
    return torch.from_numpy(np.concatenate(blocks, axis=1))


def read_table(given: Any, encoding: Encoding | None = None) -> pd.DataFrame:
    """The rows of a CSV or parquet file; columns that are categories in the encoding are read as text."""
    if isinstance(given, pd.DataFrame):
        return given
    path = Path(given).expanduser()
    check_file(path)
    columns = () if encoding is None else encoding.get("columns", ())
    try:
        if path.suffix.lower() == ".csv":
            texts = {column["name"]: str for column in columns if "categories" in column}
            frame = pd.read_csv(path, dtype=texts, low_memory=False, encoding="utf-8-sig")
        else:
            frame = pd.read_parquet(path)
    except Exception as error:  # a damaged file makes pandas and pyarrow raise many kinds
        cure = " Parquet needs pyarrow: pip install 'gradlex[tables]'." if isinstance(error, ImportError) else ""
        raise InputError(f"{printable(path)} cannot be read as a table: {printable(error):.200}.{cure}") from error
    if len(frame) == 0:
        raise InputError(f"{printable(path)} has no rows.")
    return frame


def _learned(name: Any, values: pd.Series[Any]) -> dict[str, Any]:
    numbers = _numbers(values)
    if numbers is None:
        texts = _texts(values)
        counts = sorted(texts.value_counts().items(), key=lambda item: (-item[1], item[0]))
        categories = [text for text, _ in counts[:_CATEGORIES]]
        return {"name": name, "missing": bool(texts.isna().any()), "categories": categories}
    known = numbers[~np.isnan(numbers)]
    mean, std = (float(known.mean()), float(known.std())) if len(known) else (0.0, 0.0)
    varies = std > np.finfo(np.float32).eps * abs(mean)
    return {"name": name, "missing": len(known) < len(numbers), "mean": mean, "std": std if varies else 1.0}


def _encoded(values: pd.Series[Any], column: Mapping[str, Any]) -> npt.NDArray[np.float32]:
    """(rows, 1) numbers or (rows, categories + 1), and one more feature if training rows lack a value."""
    if "categories" in column:
        texts, known = _texts(values), column["categories"]
        codes, gone = pd.Index(known, dtype=object).get_indexer(texts), texts.isna().to_numpy()
        features = np.eye(len(known) + 1)[codes] * ~gone[:, None]  # -1, which is unknown, is the last
    else:
        numbers = _known_numbers(values)
        gone = np.isnan(numbers)
        features = np.where(gone, 0.0, (numbers - column["mean"]) / column["std"])[:, None]
    parts = [features, gone[:, None]] if column["missing"] else [features]
    return np.concatenate(parts, axis=1).astype(np.float32)


def _column(frame: pd.DataFrame, target: str | None) -> pd.Series[Any]:
    """The column to predict, which has a value in every row."""
    if target not in frame or len(frame.columns) < 2:
        hint = "" if target in frame else did_you_mean(str(target), map(str, frame.columns))
        raise InputError(
            f"name the column of the table to predict from the others (--target COLUMN), got {target!r}.{hint} The "
            f"table has {printable(', '.join(map(str, frame.columns[:20])))}."
        )
    gone = _texts(frame[target]).isna().to_numpy()
    if gone.any():
        raise InputError(
            f"{int(gone.sum())} of {len(gone)} rows have no {target}, the first of them row {int(gone.argmax()) + 1}: "
            "fill it in, or remove those rows."
        )
    return frame[target]


def _numbers(values: pd.Series[Any]) -> npt.NDArray[np.float64] | None:
    """A column's numbers, NaN for none; None for text. Times are seconds."""
    if pd.api.types.is_datetime64_any_dtype(values):
        values = (pd.to_datetime(values, utc=True) - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
    if not (values.isna().all() or pd.api.types.is_numeric_dtype(values)):
        return None
    numbers = pd.to_numeric(values).to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _known_numbers(values: pd.Series[Any]) -> npt.NDArray[np.float64]:
    numbers = _numbers(values)
    if numbers is None:
        raise InputError(f"the column {values.name!r} holds text, and this run needs numbers there: give numbers.")
    return numbers


def _texts(values: pd.Series[Any]) -> pd.Series[Any]:
    """A column's values as text, 1 and 1.0 alike, None for none; an empty text is none."""
    numbers = None if values.dtype == bool else _numbers(values)
    own = values.astype(object).where(values.notna(), "") if numbers is None else pd.Series(numbers, values.index)
    texts = [str(each) if numbers is None else f"{each:.15g}" for each in own]
    return pd.Series([text if text.strip() not in ("", "nan") else None for text in texts], values.index, dtype=object)
