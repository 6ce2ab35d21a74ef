"""Cases: what selection filters by, where that is more than the columns of a table alike.

Groups of columns may be the cases, some cases may matter more than others or come first, only some may take part, and
higher may be better. One description serves tables and training:

    Cases(groups=patients, weights={"rare": 5}, maximize=True)

Weights and priorities change the order that cases come in, and nothing else: the next case is drawn in proportion to
the weights of the remaining ones, and cases of a lower priority number come before all of a higher one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from gradlex._checks import check
from gradlex.errors import InputError
from gradlex.selection.protocol import (
    CaseErrors,
    CaseOrder,
    Choice,
    ErrorTable,
    Floats,
    Indices,
    Rng,
    Selection,
    only_zero_and_one,
    worst_for_nan,
)
from gradlex.selection.strategy import Strategy

Numbers: TypeAlias = "npt.ArrayLike | Mapping[Any, float] | None"


@dataclass(frozen=True, kw_only=True, eq=False)
class Cases:
    """What the cases are. A column is one column of a table, or one sample in training.

    Args:
        groups: (columns,) The group of each, as numbers or names. Each group is one case: its error is the mean over
            its columns. Cases are then in the order of `numpy.unique(groups)`.
        weights: (cases,) Numbers of at least 0, or by name of the group (others: 1). A case of weight 0 takes no part.
        priority: (cases,) Cases of a lower number come first, equals at random; or by name of the group (others: 0).
        subset: The columns that take part: a mask, or their numbers.
        maximize: Whether higher is better in a table. A task's errors, in training, are always lower-is-better.
        nan: NaN in a table is the "worst" error, or "missing": left out of its group's mean.

    Examples:
        >>> from gradlex.selection import Cases, selection_probabilities
        >>> errors = [[0, 0, 0, 1], [1, 1, 1, 0]]
        >>> patients = ["ann", "ann", "ann", "bob"]  # whose column each is
        >>> selection_probabilities(errors, cases=Cases(groups=patients)).tolist()
        [0.5, 0.5]
        >>> selection_probabilities(errors, cases=Cases(groups=patients, weights={"bob": 4})).tolist()
        [0.2, 0.8]
    """

    groups: npt.ArrayLike | None = None
    weights: Numbers = None
    priority: Numbers = None
    subset: npt.ArrayLike | None = None
    maximize: bool = False
    nan: Literal["worst", "missing"] = "worst"

    def __post_init__(self) -> None:
        check("maximize", bool, self.maximize)
        check("nan", Literal["worst", "missing"], self.nan)
        named = any(isinstance(given, Mapping) for given in (self.weights, self.priority))
        if self.groups is None and (named or self.nan == "missing"):
            raise InputError("weights or priority by name, and nan='missing', are about groups: give groups too.")

    def strategy(self, selection: Selection, num_samples: int) -> Selection:
        """A strategy that selects by these cases of so many samples, for `Population(selection=...)`."""
        if self.maximize or self.nan != "worst":
            raise InputError(
                "maximize and nan are for tables: leave them out (in training lower is better, and NaN is worst)."
            )
        found = self.resolve(num_samples)
        if isinstance(selection, Strategy):
            selection = Strategy.following(selection.settled(graded=found.grouped), found.order)
        return OnCases(selection, found)

    def table(self, errors: npt.ArrayLike) -> tuple[ErrorTable, CaseOrder | None]:
        """A table of errors as selection uses it, (candidates, cases), lower is better; and the order of its cases."""
        array = as_array(errors)
        if self.maximize:
            array = _negated(array)
        if self.nan == "worst":
            array = worst_for_nan(array)
        found = self.resolve(array.shape[1])
        return worst_for_nan(found.means(array[:, np.concatenate(found.members)], found.members)), found.order

    def resolve(self, columns: int) -> ResolvedCases:
        """The cases of so many columns."""
        taken = np.arange(columns) if self.subset is None else _taken(self.subset, columns)
        labels = np.arange(columns) if self.groups is None else np.asarray(self.groups)
        nan = labels.dtype.kind == "f" and bool(np.isnan(labels).any())
        if labels.shape != (columns,) or labels.dtype.kind not in "biufUS" or nan:
            raise InputError(
                f"groups must be a number or name for each of the {columns} columns, got {labels.dtype} of shape "
                f"{labels.shape}{' with NaN' if nan else ''}."
            )
        names, group = np.unique(labels, return_inverse=True)
        sizes = np.bincount(group[taken], minlength=len(names))
        members = np.split(taken[np.argsort(group[taken], kind="stable")], np.cumsum(sizes)[:-1])
        weights = _per_case("weights", self.weights, names, 1.0)
        priority = _per_case("priority", self.priority, names, 0.0)
        if (weights < 0).any():
            raise InputError(f"weights must be of at least 0, got {weights.min():g}.")
        kept = np.flatnonzero((sizes > 0) & (weights > 0))
        if not len(kept):
            raise InputError("no case is left: every one has the weight 0 or is outside the subset.")
        weights, levels = weights[kept] / weights.max(), np.unique(priority[kept], return_inverse=True)[1].ravel()
        weighted, leveled = weights.min() < weights.max(), levels.any()
        order = CaseOrder(weights=weights if weighted else None, levels=levels if leveled else None)
        return ResolvedCases(
            [members[case] for case in kept], order if weighted or leveled else None, self.groups is not None
        )


@dataclass(frozen=True, eq=False)
class ResolvedCases:
    """The columns of each case, and the order that cases come in."""

    members: Sequence[Indices]
    order: CaseOrder | None
    grouped: bool

    def means(self, table: ErrorTable, members: Sequence[Indices]) -> ErrorTable:
        """The mean error of each group of columns, which lie side by side in (candidates, columns); NaN is left out.

        Infinity in a group makes its mean infinite, and so does NaN alone.
        """
        if not self.grouped:
            return table
        starts = np.cumsum([0, *(len(own) for own in members[:-1])])
        there = ~np.isnan(table)
        sums = np.add.reduceat(np.where(there, table, 0.0), starts, axis=1)
        counts = np.add.reduceat(there, starts, axis=1, dtype=np.intp)
        return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.inf), where=counts > 0))


@dataclass(frozen=True)
class OnCases:
    """A strategy on described cases: it sees groups for cases, in an order by weight and priority."""

    selection: Selection
    cases: ResolvedCases

    def __str__(self) -> str:
        return f"{self.selection} on {len(self.cases.members)} cases"

    def __call__(self, cases: Indices, errors: CaseErrors, rng: Rng) -> Choice:
        """Choose by an order of the described cases in the place of `cases`."""
        members, order = self.cases.members, self.cases.order
        own = rng.permutation(len(members)) if order is None else order.draw(1, len(members), rng)[0]
        choice = self.selection(own, _CaseView(errors, self.cases), rng)
        if not self.cases.grouped:
            return replace(choice, deciding=tuple(int(members[case][0]) for case in choice.deciding))
        used = sum(len(members[case]) for case in own[: choice.cases_used].tolist())
        return replace(choice, columns_used=used, deciding=())  # no single sample decides


class _CaseView:
    """CaseErrors of described cases, over the CaseErrors of their columns."""

    def __init__(self, errors: CaseErrors, cases: ResolvedCases) -> None:
        self.candidates, self.memory, self.order = errors.candidates, errors.memory, cases.order
        self._errors, self._cases = errors, cases

    def __call__(self, cases: Indices, pool: Indices) -> ErrorTable:
        members = [self._cases.members[case] for case in cases.tolist()]
        return self._cases.means(self._errors(np.concatenate(members), pool), members)

    def matrix(self) -> ErrorTable:
        return self(np.arange(len(self._cases.members)), self.candidates)


def as_array(table: Any) -> npt.NDArray[Any]:
    """A table as a NumPy array of numbers, (candidates, columns) with at least one of each; not copied if it is one."""
    if type(table).__module__.partition(".")[0] == "torch":  # on any device, with gradients or half precision
        table = table.detach().cpu()
        table = table.float() if table.is_floating_point() and table.dtype.itemsize < 4 else table
    try:
        array = np.asarray(table)
    except (TypeError, ValueError, RuntimeError) as error:  # rows of several lengths
        raise InputError(f"an error table must become a NumPy array, and this doesn't: {error}") from error
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "biuf":
        raise InputError(
            "an error table holds real numbers and has the shape (candidates, cases) with at least one of each, got "
            f"{array.dtype} of shape {array.shape}."
        )
    return array.view(np.uint8) if array.dtype == bool else array


def _negated(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Lower is better where higher was; 1 (solved) and 0 (failed) become 0 and 1."""
    if array.dtype.kind == "u" or (np.isfinite(array).all() and only_zero_and_one(array)):
        return np.asarray(array.max(initial=1) - array)
    return np.asarray(-array.astype(np.int64) if array.dtype.kind == "i" else -array)


def _taken(subset: npt.ArrayLike, columns: int) -> Indices:
    """The numbers of the columns in a subset, in order."""
    given = np.asarray(subset)
    if given.dtype == bool and given.shape == (columns,):
        given = np.flatnonzero(given)
    numbers = given.dtype.kind in "iu" and given.ndim == 1 and len(given) > 0
    if not (numbers and 0 <= given.min() <= given.max() < columns):
        raise InputError(
            f"subset must be a mask over the {columns} columns, or some of their numbers from 0 to {columns - 1}, got "
            f"{subset!r:.80}."
        )
    return np.unique(given).astype(np.intp)


def _per_case(what: str, given: Numbers, names: npt.NDArray[Any], other: float) -> Floats:
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in names.tolist()]
        if unknown:
            raise InputError(f"{what} name the group {unknown[0]!r}, which no column belongs to.")
        given = [given.get(name, other) for name in names.tolist()]
    found = np.full(len(names), other) if given is None else np.asarray(given)
    if found.shape != names.shape or found.dtype.kind not in "biuf" or not np.isfinite(found).all():
        raise InputError(
            f"{what} must be a finite number for each of the {len(names)} cases, got {found.dtype} of shape "
            f"{found.shape}."
        )
    return found.astype(np.float64)
