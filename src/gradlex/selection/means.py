"""Mean errors that can be compared, for the methods that select by them.

An infinite error outweighs every finite one but hides none: fewer infinities are better, and among as many the mean
of what is finite decides, so that a case which nobody answers says nothing. Means that differ by less than the rounding
of their sums are equal: the order of the cases must not break a tie.
"""

from __future__ import annotations

import numpy as np

from gradlex.selection.protocol import ErrorTable, Floats, Indices, Mask


def least(table: ErrorTable) -> Mask:
    """Which rows of a (candidates, cases) table have the best mean."""
    infinities, means, rounding = _parts(table)
    best = np.asarray(infinities == infinities.min())
    lowest = np.flatnonzero(best)[means[best].argmin()]
    best &= means - means[lowest] <= rounding + rounding[lowest]
    return best


def levels(table: ErrorTable) -> Indices:
    """The place of each row among the different means, from 0, the best."""
    infinities, means, rounding = _parts(table)
    order = np.lexsort((means, infinities))
    before, after = order[:-1], order[1:]
    differs = (infinities[after] != infinities[before]) | (
        means[after] - means[before] > rounding[after] + rounding[before]
    )
    places = np.empty(len(table), dtype=np.intp)
    places[order] = np.concatenate([[0], np.cumsum(differs)])
    return places


def _parts(table: ErrorTable) -> tuple[Indices, Floats, Floats]:
    """Of each row: its infinities, the mean of its other errors, and how far that may be off."""
    infinite = np.isinf(table)
    finite = np.where(infinite, 0, table) if infinite.any() else table
    means = finite.mean(axis=1, dtype=np.float64)
    sizes = means if finite.min() >= 0 else np.abs(finite).mean(axis=1, dtype=np.float64)
    return infinite.sum(axis=1), means, table.shape[1] * np.finfo(np.float64).eps * sizes
