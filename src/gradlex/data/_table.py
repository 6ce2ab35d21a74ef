"""Tables: CSV and Parquet files, one row a sample, read by pyarrow.

Numbers are standardised by the training part, categories are one-hot, and both say where a value is missing. What was
learnt of the columns (`TableEncoding`) is kept with the run, so that other files are read the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gradlex.data._arrays import Arrays, escaped
from gradlex.data._normalization import Normalization
from gradlex.data._validation import learnt_from
from gradlex.errors import InputError, did_you_mean
from gradlex.recipe import Recipe

if TYPE_CHECKING:
    import pyarrow as pa

_CATEGORIES = 32
"""Of a column: the commonest; all others, and those that training has not seen, are one more."""
_CLASSES = 20
"""Whole numbers of at most so many different values are taken for classes where no task is named."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of inputs: how its values become features."""

    name: str
    mean: float = 0.0
    std: float = 1.0
    categories: tuple[str, ...] | None = None
    """None for numbers."""
    missing: bool = False
    """Whether training rows lack a value: then a feature says which rows do."""

    @classmethod
    def of(cls, name: str, values: pa.ChunkedArray, rows: npt.NDArray[np.intp]) -> Column:
        """What the training rows tell of a column."""
        numbers = _numbers(values)
        if numbers is None:
            texts = _texts(values)
            counts = Counter(texts[row] for row in rows if texts[row] is not None)
            common = sorted(counts, key=lambda text: (-counts[text], text))[:_CATEGORIES]
            return cls(name=name, categories=tuple(common), missing=any(texts[row] is None for row in rows))
        known = numbers[rows][~np.isnan(numbers[rows])]
        scale = Normalization.of(known[:, None]) if len(known) else Normalization(mean=(0.0,), std=(1.0,))
        return cls(name=name, mean=scale.mean[0], std=scale.std[0], missing=len(known) < len(rows))

    def features(self, values: pa.ChunkedArray, source: str) -> npt.NDArray[np.float32]:
        """(rows, features): a missing number is the mean, a missing category none."""
        if self.categories is None:
            numbers = _numbers(values)
            if numbers is None:
                first = next(text for text in _texts(values) if text is not None)
                raise InputError(
                    f"{source}: the column {self.name!r} holds text such as {first!r:.40}, where the run was trained "
                    "on numbers."
                )
            gone = np.isnan(numbers)
            parts = [np.where(gone, 0.0, (numbers - self.mean) / self.std)]
        else:
            texts = _texts(values)
            place = {category: number for number, category in enumerate(self.categories)}
            gone = np.array([text is None for text in texts])
            codes = np.array([-1 if text is None else place.get(text, len(place)) for text in texts])
            parts = [codes == number for number in range(len(place) + 1)]
        if self.missing:
            parts.append(gone)
        return np.stack(parts, axis=1).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class TableEncoding:
    """How rows become samples: the columns of inputs, and the target with the names of its classes."""

    target: str
    columns: tuple[Column, ...]
    class_names: tuple[str, ...] | None
    """None where the target is a number."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TableEncoding:
        """What `to_dict` wrote."""
        try:
            columns = tuple(
                Column(
                    **{
                        **each,
                        "categories": None if each["categories"] is None else tuple(each["categories"]),
                    }
                )
                for each in plain["columns"]
            )
            names = plain["class_names"]
            return cls(
                target=plain["target"], columns=columns, class_names=None if names is None else tuple(names)
            )
        except (KeyError, TypeError) as error:
            raise InputError(
                f"the run's recipe.json does not say how its table was read: {error!r:.80}."
            ) from error

    def features(self, path: Path | str) -> npt.NDArray[np.float32]:
        """The (rows, features) inputs of a file, which needs no target: a column of its name is not read."""
        return self._features(read_table(Path(path)), escaped(path))

    def samples(self, path: Path | str) -> tuple[npt.NDArray[np.float32], npt.NDArray[Any]]:
        """Inputs and targets of all rows of a file."""
        table, source = read_table(Path(path)), escaped(path)
        values = _target(table, self.target, source)
        if self.class_names is None:
            numbers = _numbers(values)
            if numbers is None:
                raise InputError(f"{source}: the column {self.target!r} must hold numbers, as in training.")
            return self._features(table, source), numbers
        place = {name: number for number, name in enumerate(self.class_names)}
        labels = _texts(values)
        for row, label in enumerate(labels):
            if label not in place:
                raise InputError(
                    f"{source}: row {row + 1} has the class {label!r:.40}, which the training part did not have: "
                    f"{', '.join(self.class_names[:8])}."
                )
        return self._features(table, source), np.array([place[str(label)] for label in labels])

    def _features(self, table: pa.Table, source: str) -> npt.NDArray[np.float32]:
        lacks = [column.name for column in self.columns if column.name not in table.column_names]
        if lacks:
            raise InputError(
                f"{source} lacks the column{'s' if len(lacks) > 1 else ''} {escaped(', '.join(lacks[:8]))}, which the "
                "run was trained on."
            )
        parts = [column.features(table.column(column.name), source) for column in self.columns]
        return np.concatenate(parts, axis=1)


def table_arrays(path: Path, recipe: Recipe) -> Arrays:
    """A table's rows as samples: encoded by the training part, without its validation part; a test part cut off."""
    table, source, target = read_table(path), escaped(path), recipe.target
    if target is None:
        raise InputError(
            f"{source} is a table: name the column to predict with target (--target COLUMN). It has "
            f"{escaped(', '.join(table.column_names[:20]))}."
        )
    values = _target(table, target, source)
    names = [name for name in table.column_names if name != target]
    if not names:
        raise InputError(f"{source} has no column but {target!r}: there is nothing to predict it from.")
    y, class_names, note = _targets(values, target, recipe.task)
    rows = Arrays(
        x_train=np.arange(table.num_rows)[:, None],
        y_train=y,
        x_test=None,
        y_test=None,
        class_names=class_names,
        labelled=class_names is not None,
        notes=(note,),
    )
    if rows.labelled and rows.num_classes < 2:
        raise InputError(
            f"{source}: every row has the {target} {class_names[0]!r:.40}; at least two classes are needed."  # type: ignore[index]
        )
    parts = rows.with_test(recipe.test_fraction).part(recipe.train_size)
    kept = parts.x_train[:, 0]
    known = kept[learnt_from(recipe, len(kept))]
    encoding = TableEncoding(
        target=target,
        columns=tuple(Column.of(name, table.column(name), known) for name in names),
        class_names=class_names,
    )
    x = encoding._features(table, source)
    return replace(
        parts,
        x_train=x[kept],
        x_test=None if parts.x_test is None else x[parts.x_test[:, 0]],
        encoding=encoding,
    )


def read_table(path: Path) -> pa.Table:
    """The file's columns; refused where it is no table, or an empty one."""
    try:
        import pyarrow as pa  # noqa: PLC0415  # an extra
        from pyarrow import csv, parquet  # noqa: PLC0415
    except ImportError as error:
        raise InputError(f"{escaped(path)} needs pyarrow: pip install 'gradlex[tables]'.") from error
    if not path.is_file():
        raise InputError(f"there is no file {escaped(path)}.")
    try:
        read = csv.read_csv if path.suffix.lower() == ".csv" else parquet.read_table
        table: pa.Table = read(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{escaped(path)} cannot be read as a table: {escaped(error)}") from error
    doubled = [name for name, count in Counter(table.column_names).items() if count > 1]
    if doubled:
        raise InputError(
            f"{escaped(path)} has several columns called {escaped(doubled[0])!r}: name each once."
        )
    if table.num_rows == 0:
        raise InputError(f"{escaped(path)} has no rows.")
    return table


def _target(table: pa.Table, target: str, source: str) -> pa.ChunkedArray:
    if target not in table.column_names:
        raise InputError(
            f"{source} has no column {target!r}.{did_you_mean(target, table.column_names)} It has "
            f"{escaped(', '.join(table.column_names[:20]))}."
        )
    values = table.column(target)
    numbers = _numbers(values)
    gone = np.array([text is None for text in _texts(values)]) if numbers is None else ~np.isfinite(numbers)
    if gone.any():
        raise InputError(
            f"{source}: {int(gone.sum())} of {len(gone)} rows have no {target}, the first of them row "
            f"{int(gone.argmax()) + 1}: fill it in, or remove those rows."
        )
    return values


def _targets(
    values: pa.ChunkedArray, target: str, task: str | None
) -> tuple[npt.NDArray[Any], tuple[str, ...] | None, str]:
    """The targets, the names of their classes where they are such, and what was made of them."""
    numbers = _numbers(values)
    if task is None:
        whole = numbers is None or bool((numbers == np.round(numbers)).all())
        few = numbers is None or len(np.unique(numbers)) <= _CLASSES
        task = "classification" if whole and few else "regression"
    if task != "classification":
        if numbers is None:
            raise InputError(
                f"the column {target!r} holds text, which {task} cannot predict: leave task out."
            )
        return numbers, None, f"{target} is predicted as a number; for classes give task classification."
    texts = _texts(values)
    names = tuple(sorted({str(text) for text in texts}, key=_in_order(numbers, texts)))
    place = {name: number for number, name in enumerate(names)}
    return (
        np.array([place[str(text)] for text in texts]),
        names,
        f"{target} is predicted as one of {len(names)} classes; for a number give task regression.",
    )


def _in_order(numbers: npt.NDArray[np.float64] | None, texts: Sequence[str | None]) -> Any:
    """A key that sorts classes by their numbers where they are numbers."""
    if numbers is None:
        return str
    return dict(zip(texts, numbers, strict=True)).__getitem__


def _numbers(values: pa.ChunkedArray) -> npt.NDArray[np.float64] | None:
    """A column's numbers, NaN where there is none; None for text. Times are seconds."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    kind = values.type
    if pa.types.is_null(kind):
        return np.full(len(values), np.nan)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        values = pc.divide(pc.cast(pc.cast(values, pa.timestamp("us")), pa.int64()), 1e6)
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        return None
    found = pc.cast(values, pa.float64(), safe=False).to_numpy()
    found = np.array(found, dtype=np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def _texts(values: pa.ChunkedArray) -> list[str | None]:
    """A column's values as text, None where there is none; an empty text is none."""
    found = (None if value is None else str(value) for value in values.to_pylist())
    return [None if text is None or text.strip() == "" else text for text in found]
