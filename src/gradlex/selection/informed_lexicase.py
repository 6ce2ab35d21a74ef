"""Informed down-sampled lexicase selection (Boldi, Briesch, Sobania, Lalejini, Helmuth et al. 2023).

The sample holds cases that differ. A case's solve vector says which candidates solve it (error 0); the distance of two
cases is the Hamming distance of their vectors. The first case is random, each next one has the greatest least distance
from the cases already taken, ties at random. Lexicase then selects on the sample in a random order.

Distances need every candidate on every case, so they are refreshed only every so many generations. What is remembered
are the solve vectors, a bit for each candidate: the distances of 50,000 cases would not fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from gradlex._checks import Count
from gradlex.selection.downsampled_lexicase import sample_size
from gradlex.selection.lexicase import Lexicase
from gradlex.selection.protocol import CaseErrors, Choice, ErrorTable, Floats, Indices, Rng, pick
from gradlex.selection.strategy import Share


@dataclass(frozen=True, kw_only=True)
class InformedLexicase(Lexicase):
    """Lexicase on a farthest-first sample of a `share` of the cases; all are evaluated each `refresh` generations.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import InformedLexicase, TableErrors
        >>> errors = TableErrors([[0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])  # only the last case splits them
        >>> choice = InformedLexicase(share=0.4)(np.arange(5), errors, np.random.default_rng(0))
        >>> choice.index, choice.deciding  # the sample has two cases that differ, so it never misses the last
        (1, (4,))
    """

    name: ClassVar[str] = "informed-lexicase"
    paper: ClassVar[str] = "Boldi et al. 2023"

    share: Share = 0.1
    refresh: Count = 10

    def _choose(self, cases: Indices, errors: CaseErrors, rng: Rng) -> Choice:
        memory = errors.memory
        if not memory or int(memory["age"][0]) >= self.refresh:
            memory = {"solved": _solve_vectors(errors.matrix()), "age": np.array([0])}
        solved = memory["solved"].astype(np.uint8, copy=False)
        sample = _farthest_first(solved, sample_size(self.share, len(cases)), rng)
        # The order of the cases had no part in the sample, so as the sample's order it is random.
        choice = super()._choose(cases[np.isin(cases, sample)], errors, rng)
        return replace(choice, memory={"solved": solved, "age": memory["age"].astype(np.int64) + 1})

    def parents(self, table: ErrorTable, k: int, rng: Rng) -> Indices | None:
        """`k` parents on one informed sample, as in a generation that has just refreshed its distances."""
        sample = _farthest_first(_solve_vectors(table), sample_size(self.share, table.shape[1]), rng)
        return super().parents(table[:, sample], k, rng)

    def probabilities(self, table: ErrorTable) -> Floats | None:
        """None: the sample's distribution has no closed form."""
        return None


def _solve_vectors(table: ErrorTable) -> npt.NDArray[np.uint8]:
    """Which candidates solve each case: (cases, bytes), a bit a candidate."""
    return np.packbits((table == 0).T, axis=1)


def _farthest_first(solved: npt.NDArray[np.uint8], size: int, rng: Rng) -> Indices:
    """`size` cases by farthest-first traversal of their solve vectors, (cases, bytes).

    Cases with the same vector are at distance 0 of each other, so each vector is taken once before any is taken again;
    after that all are at distance 0 of the sample, and the rest of it is random.
    """
    vectors, kind = np.unique(solved, axis=0, return_inverse=True)
    bits = np.unpackbits(vectors, axis=1).astype(bool)  # (kinds, candidates)
    kind = kind.ravel()
    sample: list[int] = []
    nearest = np.full(len(bits), bits.shape[1] + 1)
    while len(sample) < size and nearest.any():
        # A tie is between cases, not between vectors: a vector counts as often as it occurs.
        sample.append(pick(np.flatnonzero((nearest == nearest.max())[kind]), rng))
        nearest = np.minimum(nearest, (bits != bits[kind[sample[-1]]]).sum(axis=1))
    rest = np.setdiff1d(np.arange(len(solved)), sample)
    return np.concatenate([np.array(sample, dtype=np.intp), rng.choice(rest, size - len(sample), replace=False)])
