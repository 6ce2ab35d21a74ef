"""Groups as cases, such as all images of one patient: the error of a case is the mean over its group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gradlex.errors import InputError
from gradlex.selection.protocol import Floats, Indices, as_array, as_numbers, worst_for_nan


def group_means(errors: npt.ArrayLike, groups: npt.ArrayLike) -> Floats:
    """The mean error of each group: (candidates, groups), in the order of `numpy.unique(groups)`.

    Args:
        errors: (candidates, columns) Lower is better; NaN counts as worst.
        groups: (columns,) The group of each column, as a number or a name.

    Examples:
        >>> from gradlex.selection import group_means, selection_probabilities
        >>> errors = [[0, 0, 0, 1], [1, 1, 1, 0]]
        >>> patients = ["ann", "ann", "ann", "bob"]  # whose column each is
        >>> selection_probabilities(errors).tolist(), selection_probabilities(group_means(errors, patients)).tolist()
        ([0.75, 0.25], [0.5, 0.5])
    """
    table = worst_for_nan(as_array(errors))
    return np.stack([table[:, own].mean(axis=1) for own in _members(groups, table.shape[1])], axis=1)


def by_group(errors: Callable[[Indices], Any], groups: npt.ArrayLike) -> tuple[Callable[[Indices], Floats], int]:
    """What `Population.select` takes, where each group of samples is one case: a function of groups, and their number.

    Args:
        errors: From sample numbers to the error on each of them.
        groups: (samples,) The group of each sample, as a number or a name.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import by_group
        >>> errors, num_cases = by_group(lambda samples: samples > 2, ["ann", "ann", "ann", "bob"])
        >>> num_cases, errors(np.array([1, 0])).tolist()
        (2, [1.0, 0.0])
    """
    members = _members(groups, np.asarray(groups).size)

    def means(cases: Indices) -> Floats:
        own = [members[case] for case in cases.tolist()]
        found = as_numbers(errors(np.concatenate(own)))
        return np.array([part.mean(dtype=np.float64) for part in np.split(found, np.cumsum([*map(len, own)])[:-1])])

    return means, len(members)


def _members(groups: npt.ArrayLike, columns: int) -> list[Indices]:
    """The columns of each group."""
    labels = np.asarray(groups)
    labels = labels.astype(str) if labels.dtype == object else labels  # a pandas column of names
    if labels.shape != (columns,) or not columns or labels.dtype.kind not in "biuUS":
        raise InputError(
            f"groups must be a number or a name for each of the {columns} columns, got {labels.dtype} of shape "
            f"{labels.shape}."
        )
    _, group, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    return np.split(np.argsort(group, kind="stable"), np.cumsum(sizes)[:-1])
