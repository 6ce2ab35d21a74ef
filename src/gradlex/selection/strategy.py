"""The base of this package's strategies: options are fields, `str()` is the text that `make_selection` reads."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import Field

from gradlex._checks import Count, check_fields
from gradlex._text import write
from gradlex.errors import InputError
from gradlex.selection.protocol import CaseErrors, Choice, ErrorTable, Floats, Indices

if TYPE_CHECKING:
    from gradlex.selection.cases import CaseOrder

OnAllFail: TypeAlias = Literal["random", "survive"] | None
Depth: TypeAlias = Count | None
Share: TypeAlias = Annotated[float, Field(gt=0, le=1), "a number above 0 and at most 1"]


@dataclass(frozen=True)
class Strategy:
    """A selection strategy of this package. A subclass says how one parent is chosen, and, if it can, of many."""

    name: ClassVar[str]
    follows_order: ClassVar[bool] = False
    """Whether it looks at the cases in the order it is given, so that weights and priorities mean something."""

    def __post_init__(self) -> None:
        check_fields(self)

    def __str__(self) -> str:
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return write(
            self.name, {n: own[n] for n in own if own[n] != type(self).__dataclass_fields__[n].default}
        )

    def __call__(self, cases: Indices, errors: CaseErrors, rng: np.random.Generator) -> Choice:
        """Choose one of `errors.candidates`, looking at `cases` in their order."""
        raise NotImplementedError

    def settled(self, *, graded: bool) -> Strategy:
        """This strategy with what depends on the errors settled: whether they are `graded`, or only 0 and 1."""
        return self

    def following(self, order: CaseOrder | None) -> Strategy:
        """This strategy, if it can follow an order of the cases."""
        if order is not None and not self.follows_order:
            raise InputError(
                f"weights and priorities say in which order cases come, which selection {self.name!r} doesn't follow: "
                "use lexicase, epsilon-lexicase or batch-lexicase, or tournament with weights alone on a table."
            )
        return self

    @property
    def has_exact_chances(self) -> bool:
        """Whether `probabilities` knows the chances with these options."""
        return self.probabilities(np.zeros((1, 1))) is not None

    def parents(
        self, table: ErrorTable, k: int, rng: np.random.Generator, order: CaseOrder | None = None
    ) -> Indices | None:
        """`k` parents from one table at once, as in one generation. None: choose one after another."""
        return None

    def draws(
        self, table: ErrorTable, k: int, rng: np.random.Generator, order: CaseOrder | None = None
    ) -> Indices | None:
        """As `parents`, but independent of each other, where the parents of one generation are not."""
        return self.parents(table, k, rng, order)

    def probabilities(self, table: ErrorTable, order: CaseOrder | None = None) -> Floats | None:
        """The exact chance of each candidate. None: there is no exact or closed form."""
        return None
