"""Down-sampled lexicase selection (Hernandez, Lalejini, Dolson & Ofria 2019).

Each generation draws a random share of the cases, and lexicase selects on these alone. The sample belongs to
the generation: all of its parents are selected on the same one.
"""

from __future__ import annotations

import numpy as np

from gradlex.selection._lexicase import OnAllFail, lexicase
from gradlex.selection._packed import lexicase_parents
from gradlex.selection._pools import Probabilities, lexicase_probabilities
from gradlex.selection._protocol import CaseErrors, Choice, ErrorTable, Indices


def downsampled_lexicase(
    cases: Indices,
    errors: CaseErrors,
    rng: np.random.Generator,
    *,
    share: float = 0.1,
    on_all_fail: OnAllFail = "random",
    depth: int | None = None,
) -> Choice:
    """Lexicase on the first `share` of the order, which is a random sample in a random order."""
    sample = cases[: sample_size(share, len(cases))]
    return lexicase(sample, errors, rng, on_all_fail=on_all_fail, depth=depth)


def sample_size(share: float, cases: int) -> int:
    """How many cases a share is: the nearest whole number, at least one."""
    return max(1, round(share * cases))


def downsampled_lexicase_parents(
    table: ErrorTable, k: int, rng: np.random.Generator, *, share: float, on_all_fail: OnAllFail
) -> Indices:
    """`k` parents on one sample of the cases, as in one generation; each by its own order of the sample."""
    cases = table.shape[1]
    sample = rng.choice(cases, size=sample_size(share, cases), replace=False)
    return lexicase_parents(table[:, sample], k, rng, on_all_fail=on_all_fail)


def downsampled_lexicase_probabilities(
    table: ErrorTable, *, share: float, on_all_fail: OnAllFail
) -> Probabilities:
    """The chance of each candidate over all samples and orders: lexicase that ends at the sample's size."""
    cases = table.shape[1]
    size = sample_size(share, cases)
    return lexicase_probabilities(table, on_all_fail=on_all_fail, depth=None if size == cases else size)
