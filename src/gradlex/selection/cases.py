"""Cases: what selection filters by, where that is more than the columns of a table alike.

Groups of columns may be the cases, some cases may matter more than others or come first, only some may take part, and
higher may be better. One description serves tables and training:

    Cases(groups=patients, weights={"rare": 5}, maximize=True)

Weights and priorities change the order that cases come in, and nothing else, so that they mean the same to every method
that looks at cases one after another: the next case is drawn in proportion to the weights of the remaining ones, and
cases of a lower priority number come before all of a higher one. Equal weights are the uniform order of lexicase.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from gradlex._checks import bad_value
from gradlex.errors import InputError
from gradlex.selection.order import CaseOrder
from gradlex.selection.protocol import (
    CaseErrors,
    Choice,
    ErrorTable,
    Floats,
    Indices,
    Selection,
    only_zero_and_one,
    worst_for_nan,
)
from gradlex.selection.strategy import Strategy

Numbers: TypeAlias = "npt.ArrayLike | Mapping[Any, float]"
Rule: TypeAlias = Callable[[ErrorTable], npt.ArrayLike]
Nan: TypeAlias = Literal["worst", "missing", "error"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Cases:
    """What the cases are. A column is one column of a table, or one sample in training.

    Args:
        groups: (columns,) The group of each, as numbers or names. Each group is one case: its error is the mean over
            its columns. Cases are then in the order of `numpy.unique(groups)`.
        weights: (cases,) Numbers of at least 0, or by name of the group (others: 1). A case of weight 0 takes no part.
        priority: (cases,) Cases of a lower number come first, equals at random; or by name of the group (others: 0).
        subset: The columns that take part: a mask, their numbers, or a rule that is given the (candidates, columns)
            errors and returns one of these. In training a rule has every case evaluated in each generation.
        maximize: Whether higher is better in the table. A task's errors, in training, are always lower-is-better.
        nan: What NaN stands for: the "worst" error; a "missing" one, which is left out of its group's mean (with
            `groups`; a group without any other error is the worst); or an "error" in the data, which is raised.

    Examples:
        >>> from gradlex.selection import Cases, selection_probabilities
        >>> errors = [[0, 0, 0, 1], [1, 1, 1, 0]]
        >>> selection_probabilities(errors).tolist()
        [0.75, 0.25]
        >>> patients = ["ann", "ann", "ann", "bob"]  # whose column each is
        >>> selection_probabilities(errors, cases=Cases(groups=patients)).tolist()
        [0.5, 0.5]
        >>> selection_probabilities(errors, cases=Cases(groups=patients, weights={"bob": 4})).tolist()
        [0.2, 0.8]
    """

    groups: npt.ArrayLike | None = None
    weights: Numbers | None = None
    priority: Numbers | None = None
    subset: npt.ArrayLike | Rule | None = None
    maximize: bool = False
    nan: Nan = "worst"

    def __post_init__(self) -> None:
        if not isinstance(self.maximize, bool):
            raise bad_value("maximize", bool, self.maximize)
        if self.nan not in get_args(Nan):
            raise bad_value("nan", Nan, self.nan)
        if self.groups is None:
            if self.nan == "missing":
                raise InputError(
                    "nan='missing' leaves errors out of a group's mean, and there are no groups: give groups, or 'worst'."
                )
            for name in ("weights", "priority"):
                if isinstance(getattr(self, name), Mapping):
                    raise InputError(
                        f"{name} by name need groups that have the names: give groups, or an array."
                    )

    def strategy(self, selection: Selection, num_samples: int) -> Selection:
        """A strategy that selects by these cases, for `Population(selection=...)`.

        Examples:
            >>> import numpy as np
            >>> from gradlex.selection import Cases, Lexicase, TableErrors
            >>> select = Cases(groups=[0, 0, 0, 1]).strategy(Lexicase(), num_samples=4)
            >>> errors = TableErrors([[0, 0, 0, 1], [1, 1, 1, 0]])
            >>> choice = select(np.arange(4), errors, np.random.default_rng(0))
            >>> choice.cases_used, choice.columns_used  # one group of one or three samples
            (1, 3)
        """
        if self.maximize or self.nan != "worst":
            raise InputError(
                "maximize and nan are for tables: a task's errors are lower-is-better, and NaN is the worst of them. "
                "Leave them out."
            )
        order = self.members(num_samples)[1]
        if isinstance(selection, Strategy):
            selection = selection.settled(graded=self.groups is not None).following(order)
        return OnCases(selection, self, num_samples)

    def table(self, errors: npt.ArrayLike) -> tuple[ErrorTable, CaseOrder | None]:
        """A table of errors as selection uses it, (candidates, cases), lower is better; and the order of its cases."""
        array = as_array(errors)
        if self.nan == "error" and array.dtype.kind == "f" and np.isnan(array.min()):
            row, column = np.argwhere(np.isnan(array))[0]
            raise InputError(
                f"the error of candidate {row} on column {column} is NaN: replace it, or use nan='worst'."
            )
        if self.maximize:
            array = _negated(array)
        if self.nan != "missing":
            array = worst_for_nan(array)
        members, order = self.members(array.shape[1], lambda: worst_for_nan(array))
        return worst_for_nan(
            _means(array[:, np.concatenate(members)], members, self.groups is not None)
        ), order

    def members(
        self, columns: int, errors: Callable[[], ErrorTable] | None = None
    ) -> tuple[Sequence[Indices], CaseOrder | None]:
        """The columns of each case, of so many columns in all, and the order that cases come in.

        `errors` gives the table to a rule for the subset; without it the rule isn't applied.
        """
        subset: Any = self.subset
        if callable(subset):
            subset = subset(errors()) if errors else None
        taken = np.arange(columns) if subset is None else _taken(subset, columns)
        if self.groups is None:
            names: npt.NDArray[Any] = np.arange(columns)
            every = list(names[:, None])
            kept = np.isin(names, taken)
        else:
            labels = np.asarray(self.groups)
            nan = labels.dtype.kind == "f" and bool(np.isnan(labels).any())
            if labels.shape != (columns,) or labels.dtype.kind not in "biufUS" or nan:
                raise InputError(
                    f"groups must be a number or name for each of the {columns} columns, got {labels.dtype} of shape "
                    f"{labels.shape}{' with NaN' if nan else ''}."
                )
            names, group = np.unique(labels, return_inverse=True)
            chosen = taken[np.argsort(group[taken], kind="stable")]
            sizes = np.bincount(group[taken], minlength=len(names))
            every = np.split(chosen, np.cumsum(sizes)[:-1])
            kept = sizes > 0
        weights = _per_case("weights", self.weights, names, 1.0)
        priority = _per_case("priority", self.priority, names, 0.0)
        if (weights < 0).any():
            raise InputError(f"weights must be of at least 0, got {weights.min():g}.")
        kept &= weights > 0
        if not kept.any():
            raise InputError("no case is left: every one has the weight 0 or is outside the subset.")
        weights, levels = (
            weights[kept] / weights.max(),
            np.unique(priority[kept], return_inverse=True)[1].ravel(),
        )
        weighted, leveled = weights.min() < weights.max(), levels.any()
        order = CaseOrder(weights=weights if weighted else None, levels=levels if leveled else None)
        return [every[case] for case in np.flatnonzero(kept)], order if weighted or leveled else None


@dataclass(frozen=True)
class OnCases:
    """A strategy on described cases: it sees groups for cases, in an order by weight and priority."""

    selection: Selection
    cases: Cases
    num_samples: int

    def __str__(self) -> str:
        return f"{self.selection} on cases of {self.num_samples} samples"

    def __call__(self, cases: Indices, errors: CaseErrors, rng: np.random.Generator) -> Choice:
        """Choose by an order of the described cases in the place of `cases`."""
        members, order = self.cases.members(self.num_samples, errors.matrix)
        grouped = self.cases.groups is not None
        own = (
            rng.permutation(len(members))
            if order is None
            else np.argsort(order.keys(1, len(members), rng)[0])
        )
        choice = self.selection(own, _CaseView(errors, members, order, grouped), rng)
        if not grouped:
            return replace(choice, deciding=tuple(int(members[case][0]) for case in choice.deciding))
        used = sum(len(members[case]) for case in own[: choice.cases_used].tolist())
        return replace(choice, columns_used=used, deciding=())  # no single sample decides


class _CaseView:
    """CaseErrors of described cases, over the CaseErrors of their columns."""

    def __init__(
        self, errors: CaseErrors, members: Sequence[Indices], order: CaseOrder | None, grouped: bool
    ) -> None:
        self.candidates, self.memory, self.order = errors.candidates, errors.memory, order
        self._errors, self._members, self._grouped = errors, members, grouped

    def __call__(self, cases: Indices, pool: Indices) -> ErrorTable:
        chosen = [self._members[case] for case in cases.tolist()]
        return _means(self._errors(np.concatenate(chosen), pool), chosen, self._grouped)

    def matrix(self) -> ErrorTable:
        return self(np.arange(len(self._members)), self.candidates)


def _means(table: ErrorTable, members: Sequence[Indices], grouped: bool) -> ErrorTable:
    """The mean error of each group of columns, which lie side by side; NaN is left out.

    Infinity in a group makes its mean infinite, and so does NaN alone.
    """
    if not grouped:
        return table
    values = np.asarray(table, dtype=np.float64)
    starts = np.cumsum([0, *(len(own) for own in members[:-1])])
    there = ~np.isnan(values)
    sums = np.add.reduceat(np.where(there, values, 0), starts, axis=1)
    counts = np.add.reduceat(there, starts, axis=1, dtype=np.intp)
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.inf), where=counts > 0))


def as_array(table: Any) -> npt.NDArray[Any]:
    """A table as a NumPy array of numbers, (candidates, columns) with at least one of each; not copied if it is one.

    A torch tensor may lie on any device, have gradients or half precision.
    """
    if type(table).__module__.partition(".")[0] == "torch":
        table = table.detach().cpu()
        table = table.float() if table.is_floating_point() and table.dtype.itemsize < 4 else table
    try:
        array = np.asarray(table)
    except (TypeError, ValueError, RuntimeError) as error:  # rows of several lengths
        raise InputError(f"an error table must become a NumPy array, and this does not: {error}") from error
    if array.ndim != 2 or array.size == 0:
        raise InputError(
            f"an error table has the shape (candidates, cases) with at least one of each, got {array.shape}."
        )
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"an error table holds real numbers, got {array.dtype}. Convert it with `.astype(float)`."
        )
    return array.view(np.uint8) if array.dtype == bool else array


def _negated(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Lower is better where higher was; 1 (solved) and 0 (failed) become 0 and 1."""
    if array.dtype.kind == "u" or (np.isfinite(array).all() and only_zero_and_one(array)):
        return np.asarray(array.max(initial=1) - array)
    if array.dtype.kind == "i":
        return np.asarray(-array.astype(np.int64))
    return np.asarray(-array)


def _taken(subset: Any, columns: int) -> Indices:
    """The numbers of the columns in a subset, in order."""
    given = np.asarray(subset)
    if given.dtype == bool and given.shape == (columns,):
        taken = np.flatnonzero(given)
    elif given.dtype.kind in "iu" and given.ndim == 1:
        taken = np.unique(given).astype(np.intp)
    else:
        raise InputError(
            f"subset must be a mask over the {columns} columns or their numbers, got {given.dtype} of shape {given.shape}."
        )
    if not len(taken):
        raise InputError("no case is left: the subset is empty.")
    if taken[0] < 0 or taken[-1] >= columns:
        wrong = taken[0] if taken[0] < 0 else taken[-1]
        raise InputError(f"subset must number columns from 0 to {columns - 1}, got {wrong}.")
    return taken


def _per_case(what: str, given: Any, names: npt.NDArray[Any], other: float) -> Floats:
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in names.tolist()]
        if unknown:
            raise InputError(f"{what} name the group {unknown[0]!r}, which no column belongs to.")
        given = [given.get(name, other) for name in names.tolist()]
    found = np.full(len(names), other) if given is None else np.asarray(given)
    if found.shape != names.shape or found.dtype.kind not in "biuf" or not np.isfinite(found).all():
        raise InputError(
            f"{what} must be a finite number for each of the {len(names)} cases, got {found.dtype} of shape {found.shape}."
        )
    return found.astype(np.float64)
