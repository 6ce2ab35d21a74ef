"""Down-sampled lexicase selection (Hernandez, Lalejini, Dolson & Ofria 2019).

Each generation draws a random share of the cases, and lexicase selects on these alone. The sample belongs to the
generation: all of its parents are selected on the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gradlex.selection.lexicase import Lexicase
from gradlex.selection.protocol import CaseErrors, Choice, ErrorTable, Indices, Rng
from gradlex.selection.strategy import Share


@dataclass(frozen=True, kw_only=True)
class DownsampledLexicase(Lexicase):
    """Lexicase on the first `share` of the order, which is a random sample in a random order.

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
    paper: ClassVar[str] = "Hernandez et al. 2019"

    share: Share = 0.1

    def _choose(self, cases: Indices, errors: CaseErrors, rng: Rng) -> Choice:
        return super()._choose(cases[: sample_size(self.share, len(cases))], errors, rng)

    def over_samples(self, cases: int) -> Lexicase:
        """Lexicase that ends at the sample's size: a sample of its own for each parent."""
        size = sample_size(self.share, cases)
        return Lexicase(on_all_fail=self.on_all_fail, depth=size if self.depth is None else min(size, self.depth))

    def parents(self, table: ErrorTable, k: int, rng: Rng) -> Indices | None:
        """`k` parents on one sample of the cases, each by its own order of it."""
        cases = table.shape[1]
        sample = rng.choice(cases, size=sample_size(self.share, cases), replace=False)
        return super().parents(table[:, sample], k, rng)


def sample_size(share: float, cases: int) -> int:
    """How many cases a share is: the nearest whole number, at least one."""
    return max(1, round(share * cases))
