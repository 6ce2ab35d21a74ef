"""Down-sampled lexicase selection (Hernandez, Lalejini, Dolson & Ofria 2019).

Each generation draws a random share of the cases, and lexicase selects on these alone. The sample belongs to
the generation: all of its parents are selected on the same one.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import numpy as np
from annotated_types import Gt, Le

from gradlex.selection._lexicase import Depth, OnAllFail, lexicase
from gradlex.selection._lexicase_parents import lexicase_parents
from gradlex.selection._pools import Probabilities, lexicase_probabilities
from gradlex.selection._protocol import CaseErrors, Choice, ErrorTable, Indices

Share: TypeAlias = Annotated[float, Gt(0), Le(1)]


def downsampled_lexicase(
    cases: Indices,
    errors: CaseErrors,
    rng: np.random.Generator,
    *,
    share: Share = 0.1,
    on_all_fail: OnAllFail = "random",
    depth: Depth = None,
) -> Choice:
    """Lexicase on the first `share` of the order, which is a random sample in a random order.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import TableErrors, downsampled_lexicase
        >>> errors = TableErrors([[0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])  # only the last case tells them apart
        >>> order = np.array([3, 0, 4, 1, 2])
        >>> choice = downsampled_lexicase(order, errors, np.random.default_rng(0), share=0.4)
        >>> choice.reason, choice.cases_used  # the sample is cases 3 and 0
        ('exhausted', 2)
    """
    sample = cases[: sample_size(share, len(cases))]
    return lexicase(sample, errors, rng, on_all_fail=on_all_fail, depth=depth)


def sample_size(share: float, cases: int) -> int:
    """How many cases a share is: the nearest whole number, at least one."""
    return max(1, round(share * cases))


def downsampled_lexicase_parents(
    table: ErrorTable,
    k: int,
    rng: np.random.Generator,
    *,
    share: float,
    on_all_fail: OnAllFail,
    depth: int | None,
) -> Indices:
    """`k` parents on one sample of the cases, as in one generation; each by its own order of the sample."""
    cases = table.shape[1]
    sample = rng.choice(cases, size=sample_size(share, cases), replace=False)
    return lexicase_parents(table[:, sample], k, rng, on_all_fail=on_all_fail, depth=depth)


def downsampled_lexicase_draws(
    table: ErrorTable,
    k: int,
    rng: np.random.Generator,
    *,
    share: float,
    on_all_fail: OnAllFail,
    depth: int | None,
) -> Indices:
    """`k` independent parents, each on a sample of its own: lexicase that ends at the sample's size."""
    return lexicase_parents(table, k, rng, on_all_fail=on_all_fail, depth=_looked_at(table, share, depth))


def downsampled_lexicase_probabilities(
    table: ErrorTable, *, share: float, on_all_fail: OnAllFail, depth: int | None
) -> Probabilities:
    """The chance of each candidate over all samples and orders: lexicase that ends at the sample's size."""
    return lexicase_probabilities(table, on_all_fail=on_all_fail, depth=_looked_at(table, share, depth))


def _looked_at(table: ErrorTable, share: float, depth: int | None) -> int:
    """How many cases of an order are looked at, at most."""
    size = sample_size(share, table.shape[1])
    return size if depth is None else min(size, depth)
