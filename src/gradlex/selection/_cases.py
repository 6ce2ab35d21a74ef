"""Cases: what selection filters by, where that is more than the columns of a table alike.

Groups of columns may be the cases, some cases may matter more than others or come first, only some may take part, and
higher may be better. One description serves tables, training and soups:

    Cases(groups=patients, weights={"rare": 5}, maximize=True)

Weights and priorities change the order that cases come in, and nothing else, so that they mean the same to every method
that looks at cases one after another: the next case is drawn in proportion to the weights of those that are left, and
cases of a lower priority number come before all of a higher one. Equal weights are the uniform order of lexicase.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from gradlex._checks import check
from gradlex.errors import InputError
from gradlex.selection._protocol import CaseErrors, Choice, ErrorTable, Indices, Selection

Numbers: TypeAlias = "npt.ArrayLike | Mapping[Any, float]"
Rule: TypeAlias = Callable[[ErrorTable], npt.ArrayLike]
Nan: TypeAlias = Literal["worst", "missing", "refuse"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Cases:
    """What the cases are. A column is one column of a table, or one sample in training.

    Examples:
        >>> from gradlex.selection import Cases, selection_probabilities
        >>> errors = [[0, 0, 0, 1], [1, 1, 1, 0]]
        >>> selection_probabilities(errors).tolist()
        [0.75, 0.25]
        >>> patients = ["ann", "ann", "ann", "bob"]  # who each column belongs to
        >>> selection_probabilities(errors, cases=Cases(groups=patients)).tolist()
        [0.5, 0.5]
        >>> selection_probabilities(errors, cases=Cases(groups=patients, weights={"bob": 4})).tolist()
        [0.2, 0.8]
    """

    groups: npt.ArrayLike | None = None
    """(columns,): the group of each, as numbers or names. Each group is one case: its error is the mean over its
    columns. Cases are then in the order of `numpy.unique(groups)`."""
    weights: Numbers | None = None
    """(cases,): numbers of at least 0, or by name of the group (others: 1). A case of weight 0 takes no part."""
    priority: Numbers | None = None
    """(cases,): cases of a lower number come first, equals at random; or by name of the group (others: 0)."""
    subset: npt.ArrayLike | Rule | None = None
    """The columns that take part: a mask, their numbers, or a rule that is given the (candidates, columns) errors and
    returns one of these. In training a rule has every case evaluated in each generation."""
    maximize: bool = False
    """Whether higher is better in the table. A task's errors, in training, are always lower-is-better."""
    nan: Nan = "worst"
    """What NaN stands for: the worst error; a missing one, which is left out of its group's mean (with `groups`;
    a group without any other error is the worst); or "refuse"."""

    def __post_init__(self) -> None:
        """Refuse what is wrong for any number of columns."""
        check("maximize", bool, self.maximize)
        check("nan", Nan, self.nan)
        if self.nan == "missing" and self.groups is None:
            raise InputError(
                "nan='missing' leaves errors out of a group's mean, and there are no groups: give groups, or 'worst'."
            )
        for name in ("weights", "priority"):
            if isinstance(getattr(self, name), Mapping) and self.groups is None:
                raise InputError(f"{name} by name need groups that have the names: give groups, or an array.")

    def resolve(self, columns: int) -> ResolvedCases:
        """The cases of so many columns; refused where an array does not fit them.

        A rule's subset is not applied here: `subset_by` gives the description that its answer leaves.
        """
        whole = self.subset is None or callable(self.subset)
        taken = np.arange(columns) if whole else _taken(self.subset, columns)
        names: npt.NDArray[Any] | None = None
        members: list[Indices] | None = None
        if self.groups is not None:
            labels = np.asarray(self.groups)
            if labels.shape != (columns,) or labels.dtype.kind not in "biufUS" or _has_nan(labels):
                raise InputError(
                    f"groups must be a number or name for each of the {columns} columns, got {labels.dtype} of shape "
                    f"{labels.shape}{' with NaN' if _has_nan(labels) else ''}."
                )
            names, group = np.unique(labels, return_inverse=True)
            every = [taken[group[taken] == number] for number in range(len(names))]
            kept = np.flatnonzero([len(own) > 0 for own in every])
            weights, levels = self._numbers(names)
            members = [every[number] for number in kept]
        else:
            kept = taken
            weights, levels = self._numbers(np.arange(columns))
        positive = np.ones(len(kept), dtype=bool) if weights is None else weights[kept] > 0
        if not positive.any():
            raise InputError("no case is left: every one has the weight 0 or is outside the subset.")
        place = np.flatnonzero(positive)
        kept = kept[place]
        return ResolvedCases(
            columns=columns,
            single=kept if members is None else None,
            members=None if members is None else [members[number] for number in place],
            names=None if names is None else names[kept],
            weights=None if weights is None or len(set(weights[kept])) == 1 else weights[kept],
            levels=None if levels is None or len(set(levels[kept])) == 1 else levels[kept],
        )

    def subset_by(self, errors: Callable[[], ErrorTable]) -> Cases:
        """The description with a rule replaced by its answer for these errors."""
        return replace(self, subset=self.subset(errors())) if callable(self.subset) else self

    def take(self, columns: Indices) -> Cases:
        """The description of some of the columns, numbered from 0."""
        changes: dict[str, Any] = {}
        place: npt.NDArray[Any] = columns
        if self.groups is not None:
            names, changes["groups"] = np.unique(self.groups), np.asarray(self.groups)[columns]
            place = np.isin(names, changes["groups"])
        for name in ("weights", "priority"):
            given = getattr(self, name)
            if isinstance(given, Mapping):
                changes[name] = {key: value for key, value in given.items() if key in names[place].tolist()}
            elif given is not None:
                changes[name] = np.asarray(given)[place]
        if self.subset is not None and not callable(self.subset):
            given = np.asarray(self.subset)
            changes["subset"] = given[columns] if given.dtype == bool else np.isin(columns, given)
        return replace(self, **changes)

    def table(self, errors: npt.ArrayLike) -> tuple[ErrorTable, ResolvedCases]:
        """A table of errors as selection uses it, (candidates, cases), lower is better; and what its columns are."""
        array = as_array(errors)
        if self.nan == "refuse" and array.dtype.kind == "f" and np.isnan(array.min()):
            row, column = np.argwhere(np.isnan(array))[0]
            raise InputError(
                f"the error of candidate {row} on column {column} is NaN, which nan='refuse' does not allow."
            )
        if self.maximize:
            array = _negated(array)
        own = self.subset_by(lambda: worst_for_nan(array)).resolve(array.shape[1])
        if own.members is None:
            return worst_for_nan(array if own.everything else array[:, own.single]), own
        if self.nan == "worst":
            array = worst_for_nan(array)
        return worst_for_nan(own.means(lambda columns: array[:, columns])), own

    def _numbers(
        self, names: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[np.float64] | None, npt.NDArray[np.intp] | None]:
        """Weights, and priorities as levels from 0, of every case."""
        weights, levels = None, None
        if self.weights is not None:
            weights = _per_case("weights", self.weights, names, 1.0)
            if (weights < 0).any():
                raise InputError(f"weights must be of at least 0, got {weights.min():g}.")
            weights = weights / weights.max() if weights.max() > 0 else weights
        if self.priority is not None:
            given = _per_case("priority", self.priority, names, 0.0)
            levels = np.unique(given, return_inverse=True)[1].astype(np.intp).ravel()
        return weights, levels


def check_cases(given: Any) -> None:
    """Refuse what is no description of cases."""
    if not isinstance(given, Cases):
        raise InputError(
            f"cases must be a gradlex.selection.Cases, got {type(given).__name__}: give Cases(groups=...) for example."
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ResolvedCases:
    """The cases of a given number of columns: what each is made of, and how soon it comes."""

    columns: int
    single: Indices | None
    """(cases,): the column of each; None with groups."""
    members: Sequence[Indices] | None
    """The columns of each case; None without groups."""
    names: npt.NDArray[Any] | None
    weights: npt.NDArray[np.float64] | None
    """(cases,), above 0, at most 1; None where all are alike."""
    levels: npt.NDArray[np.intp] | None
    """(cases,): the lowest come first; None where all are alike."""

    def __len__(self) -> int:
        return len(self.single) if self.single is not None else len(self.members or ())

    @property
    def everything(self) -> bool:
        """Whether every column is a case of its own."""
        return self.single is not None and len(self.single) == self.columns

    @property
    def ordered(self) -> bool:
        """Whether some cases come sooner than others."""
        return self.weights is not None or self.levels is not None

    def races(self, count: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """(count, cases): keys whose order is that in which cases come.

        The first of several exponential times with the weights as rates is each in proportion to its weight, and so is
        the first of those that are left (Efraimidis & Spirakis 2006); mapped to [0, 1) they sort within their level.
        """
        times = rng.exponential(size=(count, len(self)))
        if self.weights is not None:
            times /= self.weights
        if self.levels is None:
            return times
        return np.asarray(self.levels - np.exp(-times))

    def taken(self, cases: Indices) -> ResolvedCases:
        """Some of the cases, numbered from 0."""
        return replace(
            self,
            single=None if self.single is None else self.single[cases],
            members=None if self.members is None else [self.members[case] for case in cases.tolist()],
            names=None if self.names is None else self.names[cases],
            weights=None if self.weights is None else self.weights[cases],
            levels=None if self.levels is None else self.levels[cases],
        )

    def order(self, rng: np.random.Generator) -> Indices:
        """One order of the cases."""
        return np.argsort(self.races(1, rng)[0]) if self.ordered else rng.permutation(len(self))

    def means(self, errors: Callable[[Indices], ErrorTable], cases: Indices | None = None) -> ErrorTable:
        """The mean error of each group, (candidates, cases), from `errors(columns)`; NaN is left out.

        Infinity in a group makes its mean infinite, and so does NaN alone.
        """
        assert self.members is not None
        chosen = [self.members[case] for case in (range(len(self)) if cases is None else cases.tolist())]
        table = np.asarray(errors(np.concatenate(chosen)), dtype=np.float64)
        starts = np.cumsum([0, *(len(own) for own in chosen[:-1])])
        there = ~np.isnan(table)
        sums = np.add.reduceat(np.where(there, table, 0), starts, axis=1)
        counts = np.add.reduceat(there, starts, axis=1, dtype=np.intp)
        return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.inf), where=counts > 0))


@dataclass(frozen=True)
class OnCases:
    """A strategy on described cases: it sees groups for cases, in an order by weight and priority.

    Made for samples of a known number, so that what does not fit them is refused at once.
    """

    select: Selection
    cases: Cases
    columns: int

    def __post_init__(self) -> None:
        """Refuse a description that does not fit the samples, or that only a table can have."""
        self.cases.resolve(self.columns)
        if self.cases.maximize or self.cases.nan != "worst":
            raise InputError(
                "maximize and nan are for tables: a task's errors are lower-is-better, and NaN is the worst of them. "
                "Leave them out."
            )

    def __call__(self, cases: Indices, errors: CaseErrors, rng: np.random.Generator) -> Choice:
        """Choose by an order of the described cases in the place of `cases`."""
        own = self.cases.subset_by(errors.matrix).resolve(self.columns)
        order = own.order(rng)
        choice = self.select(order, CaseView(errors, own), rng)
        if own.single is not None:
            seen = None if choice.deciding is None else tuple(own.single[list(choice.deciding)].tolist())
            return replace(choice, deciding=seen)
        assert own.members is not None
        used = sum(len(own.members[case]) for case in order[: choice.cases_used].tolist())
        return replace(choice, columns_used=used, deciding=())  # no single sample decides


class CaseView:
    """CaseErrors of described cases, over the CaseErrors of their columns."""

    def __init__(self, errors: CaseErrors, cases: ResolvedCases) -> None:
        self._errors, self.described = errors, cases

    @property
    def candidates(self) -> Indices:
        """Those of the columns' errors."""
        return self._errors.candidates

    @property
    def memory(self) -> Mapping[str, npt.NDArray[np.generic]]:
        """As the columns' errors have it."""
        return self._errors.memory

    def __call__(self, cases: Indices, pool: Indices) -> ErrorTable:
        """The (pool, cases) errors: of a group, the mean."""
        own = self.described
        if own.single is not None:
            return self._errors(own.single[cases], pool)
        return own.means(lambda columns: self._errors(columns, pool), cases)

    def matrix(self) -> ErrorTable:
        """Every case's errors."""
        return self(np.arange(len(self.described)), self.candidates)


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


def worst_for_nan(array: npt.NDArray[Any]) -> ErrorTable:
    """The table with NaN and negative infinity turned into infinity, copied only where that is needed."""
    if array.dtype.kind != "f":
        return array
    lowest = array.min()  # NaN wherever there is one, without a mask as large as the table
    if np.isnan(lowest) or lowest == -np.inf:
        return np.where(np.isfinite(array), array, np.inf).astype(array.dtype)
    return array


def only_zero_and_one(table: ErrorTable) -> bool:
    """Whether every error is 0 (solved) or 1 (failed); infinity, a network that broke, is a failure too."""
    parts = (table[start : start + 256] for start in range(0, len(table), 256))  # no mask as large as it
    return all(bool(((part == 0) | (part == 1) | (part == np.inf)).all()) for part in parts)


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
            f"subset must be a mask over the {columns} columns or their numbers, got {given.dtype} of shape "
            f"{given.shape}."
        )
    if not len(taken):
        raise InputError("no case is left: the subset is empty.")
    if taken[0] < 0 or taken[-1] >= columns:
        wrong = taken[0] if taken[0] < 0 else taken[-1]
        raise InputError(f"subset must number columns from 0 to {columns - 1}, got {wrong}.")
    return taken


def _per_case(what: str, given: Any, names: npt.NDArray[Any], other: float) -> npt.NDArray[np.float64]:
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in names.tolist()]
        if unknown:
            raise InputError(f"{what} name the group {unknown[0]!r}, which no column belongs to.")
        given = [given.get(name, other) for name in names.tolist()]
    found = np.asarray(given)
    if found.shape != names.shape or found.dtype.kind not in "biuf" or not np.isfinite(found).all():
        raise InputError(
            f"{what} must be a finite number for each of the {len(names)} cases, got {found.dtype} of shape "
            f"{found.shape}."
        )
    return found.astype(np.float64)


def _has_nan(labels: npt.NDArray[Any]) -> bool:
    return labels.dtype.kind == "f" and bool(np.isnan(labels).any())
