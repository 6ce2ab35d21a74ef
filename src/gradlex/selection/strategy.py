"""The base of this package's strategies: options are fields, `str()` is the text that `make_selection` reads."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from gradlex._checks import check_fields
from gradlex._text import write
from gradlex.selection.protocol import CaseErrors, Choice, ErrorTable, Floats, Indices, Rng

Share = Annotated[float, Field(gt=0, le=1), "a number above 0 and at most 1"]


@dataclass(frozen=True)
class Strategy:
    """A selection strategy of this package: a frozen dataclass whose fields are its options.

    A subclass sets `name` and `paper`, and implements `_choose`. `parents` and `probabilities` are optional.
    """

    name: ClassVar[str]
    paper: ClassVar[str]

    def __post_init__(self) -> None:
        check_fields(self)

    def __str__(self) -> str:
        changed = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
        return write(self.name, {option: getattr(self, option) for option in changed})

    def __call__(self, cases: Indices, errors: CaseErrors, rng: Rng) -> Choice:
        """Choose one of `errors.candidates`, looking at `cases` in their order."""
        pool = errors.candidates
        if len(pool) == 1:
            return Choice(index=int(pool[0]), reason="only_candidate", memory=errors.memory)
        return self._choose(cases, errors, rng)

    def _choose(self, cases: Indices, errors: CaseErrors, rng: Rng) -> Choice:
        """Choose one of several candidates."""
        raise NotImplementedError

    def settled(self, *, graded: bool) -> Strategy:
        """This strategy with its defaults resolved for errors that are `graded`, or only 0 and 1."""
        return self

    def over_samples(self, cases: int) -> Strategy:
        """A strategy with the same chances on a table of `cases` cases; each parent draws its own sample of them."""
        return self

    def parents(self, table: ErrorTable, k: int, rng: Rng) -> Indices | None:
        """`k` parents from one table at once, as in one generation. None: this strategy chooses one at a time."""
        chances = self.probabilities(table)
        return None if chances is None else rng.choice(len(table), size=k, p=chances)

    def probabilities(self, table: ErrorTable) -> Floats | None:
        """The exact chance of each candidate. None: there is no exact or closed form."""
        return None

    @property
    def has_exact_chances(self) -> bool:
        """Whether `probabilities` returns chances with these options."""
        return self.probabilities(np.zeros((1, 1))) is not None
