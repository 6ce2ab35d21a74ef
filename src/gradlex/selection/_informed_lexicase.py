"""Informed down-sampled lexicase selection (Boldi, Briesch, Sobania, Lalejini, Helmuth et al. 2023).

The sample holds cases that differ. A case's solve vector says which candidates solve it (error 0); the
distance of two cases is the Hamming distance of theirs. Farthest-first traversal: the first case is random,
each next one is the farthest from those already taken, that is, with the greatest least distance; ties are
broken at random. Lexicase then selects on the sample in a random order.

Distances need every candidate on every case, so they are refreshed only every `refresh` generations. What is
remembered are the solve vectors, a bit for each candidate: the distances of 50,000 cases would not fit. With
graded errors no case may be solved at all; all distances are then 0, and the sample is a random one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from gradlex.selection._downsampled_lexicase import Share, sample_size
from gradlex.selection._lexicase import Depth, OnAllFail, lexicase
from gradlex.selection._lexicase_parents import lexicase_parents
from gradlex.selection._protocol import CaseErrors, Choice, ErrorTable, Indices, pick

Memory = Mapping[str, npt.NDArray[np.generic]]
Bits = npt.NDArray[np.uint8]


def informed_lexicase(
    cases: Indices,
    errors: CaseErrors,
    rng: np.random.Generator,
    *,
    share: Share = 0.1,
    refresh: Annotated[int, Ge(1)] = 10,
    on_all_fail: OnAllFail = "random",
    depth: Depth = None,
) -> Choice:
    """Lexicase on a farthest-first sample of a `share` of the cases.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import TableErrors, informed_lexicase
        >>> errors = TableErrors([[0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])  # only the last case tells them apart
        >>> choice = informed_lexicase(np.arange(5), errors, np.random.default_rng(0), share=0.4)
        >>> choice.index, choice.deciding  # the sample has two cases that differ, so it never misses the last
        (1, (4,))
    """
    memory = errors.memory
    if len(errors.candidates) == 1:
        older = _older(memory) if memory else {}
        return Choice(index=int(errors.candidates[0]), reason="only_candidate", memory=older)
    if not memory or int(memory["age"][0]) >= refresh:
        memory = {"solved": solve_vectors(errors.matrix()), "age": np.array([0])}
    solved = memory["solved"].astype(np.uint8, copy=False)
    sample = farthest_first(solved, sample_size(share, len(cases)), rng)
    # The order of the cases had no part in the sample, so what it says of the sample's order is random.
    choice = lexicase(cases[np.isin(cases, sample)], errors, rng, on_all_fail=on_all_fail, depth=depth)
    return replace(choice, memory=_older(memory))


def _older(memory: Memory) -> Memory:
    """The memory as the next generation finds it: one generation older."""
    return {"solved": memory["solved"], "age": memory["age"].astype(np.int64) + 1}


def solve_vectors(table: ErrorTable) -> Bits:
    """Which candidates solve each case: (cases, bytes), a bit a candidate."""
    return np.packbits((table == 0).T, axis=1)


def farthest_first(solved: Bits, size: int, rng: np.random.Generator) -> Indices:
    """`size` cases by farthest-first traversal of their solve vectors, (cases, bytes).

    Cases with the same vector are at distance 0 of each other, so each vector is taken once before any is
    taken again; after that all are at distance 0 of the sample, and the rest of it is random.
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
    return np.concatenate(
        [np.array(sample, dtype=np.intp), rng.choice(rest, size - len(sample), replace=False)]
    )


def informed_lexicase_parents(
    table: ErrorTable,
    k: int,
    rng: np.random.Generator,
    *,
    share: float,
    refresh: int,
    on_all_fail: OnAllFail,
    depth: int | None,
) -> Indices:
    """`k` parents on one informed sample, as in a generation that has just refreshed its distances."""
    sample = farthest_first(solve_vectors(table), sample_size(share, table.shape[1]), rng)
    return lexicase_parents(table[:, sample], k, rng, on_all_fail=on_all_fail, depth=depth)
