"""Down-sampled lexicase selection (Hernandez, Lalejini, Dolson & Ofria 2019).

Each generation draws a random share of the cases, and lexicase selects on these alone. The sample belongs to the
generation: all of its parents are selected on the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradlex.selection.lexicase import Lexicase
from gradlex.selection.order import CaseOrder
from gradlex.selection.protocol import CaseErrors, Choice, ErrorTable, Floats, Indices
from gradlex.selection.strategy import Share


@dataclass(frozen=True, kw_only=True)
class DownsampledLexicase(Lexicase):
    """Lexicase on the first `share` of the order, which is a random sample in a random order.

    Args:
        on_all_fail: As for `Lexicase`.
        depth: As for `Lexicase`.
        share: How much of the cases is in the sample.

    Examples:
        >>> import numpy as np
        >>> from gradlex.selection import DownsampledLexicase, TableErrors
        >>> errors = TableErrors([[0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])  # only the last case splits them
        >>> order = np.array([3, 0, 4, 1, 2])
        >>> choice = DownsampledLexicase(share=0.4)(order, errors, np.random.default_rng(0))
        >>> choice.reason, choice.cases_used  # the sample is cases 3 and 0
        ('exhausted', 2)
    """

    name: ClassVar[str] = "downsampled-lexicase"

    share: Share = 0.1

    def __call__(self, cases: Indices, errors: CaseErrors, rng: np.random.Generator) -> Choice:
        """Choose one candidate by the beginning of the order."""
        return super().__call__(cases[: sample_size(self.share, len(cases))], errors, rng)

    def parents(
        self, table: ErrorTable, k: int, rng: np.random.Generator, order: CaseOrder | None = None
    ) -> Indices | None:
        """`k` parents on one sample of the cases, as in one generation; each by its own order of the sample."""
        if order is not None:
            return None
        cases = table.shape[1]
        sample = rng.choice(cases, size=sample_size(self.share, cases), replace=False)
        return super().parents(table[:, sample], k, rng)

    def draws(
        self, table: ErrorTable, k: int, rng: np.random.Generator, order: CaseOrder | None = None
    ) -> Indices | None:
        """`k` independent parents, each on a sample of its own: lexicase that ends at the sample's size."""
        return None if order is not None else self._to_the_sample(table).parents(table, k, rng)

    def probabilities(self, table: ErrorTable, order: CaseOrder | None = None) -> Floats | None:
        """The chance of each candidate over all samples and orders: lexicase that ends at the sample's size."""
        return None if order is not None else self._to_the_sample(table).probabilities(table)

    def _to_the_sample(self, table: ErrorTable) -> Lexicase:
        size = sample_size(self.share, table.shape[1])
        depth = size if self.depth is None else min(size, self.depth)
        return Lexicase(on_all_fail=self.on_all_fail, depth=depth)


def sample_size(share: float, cases: int) -> int:
    """How many cases a share is: the nearest whole number, at least one."""
    return max(1, round(share * cases))
