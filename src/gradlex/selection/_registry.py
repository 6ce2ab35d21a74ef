"""What selection methods there are, by name, and the options each takes. Free of torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from gradlex.errors import unknown_name
from gradlex.selection._batch_lexicase import batch_lexicase, batch_lexicase_parents
from gradlex.selection._dalex import dalex, dalex_parents
from gradlex.selection._downsampled_lexicase import (
    downsampled_lexicase,
    downsampled_lexicase_parents,
    downsampled_lexicase_probabilities,
)
from gradlex.selection._epsilon_lexicase import (
    epsilon_lexicase,
    epsilon_lexicase_parents,
    epsilon_lexicase_probabilities,
)
from gradlex.selection._informed_lexicase import informed_lexicase, informed_lexicase_parents
from gradlex.selection._lexicase import lexicase
from gradlex.selection._options import check_options
from gradlex.selection._packed import lexicase_parents
from gradlex.selection._plexicase import plexicase, plexicase_probabilities
from gradlex.selection._pools import Probabilities, lexicase_probabilities
from gradlex.selection._protocol import Choice, Indices, Selection
from gradlex.selection._random import random, random_probabilities
from gradlex.selection._tournament import tournament, tournament_probabilities

_NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True)
class SelectionInfo:
    """One method: its function, its publication, what it looks at, and its options with their defaults."""

    name: str
    strategy: Callable[..., Choice]
    paper: str
    sees: str
    """What the method needs to see of the errors."""
    options: MappingProxyType[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Recipe fields that belong to this method, by the name of the strategy's keyword."""
    parents: Callable[..., Indices] | None = None
    """`parents(table, k, rng, **options)`: many from one table. None: they are drawn by the probabilities."""
    probabilities: Callable[..., Probabilities | None] | None = None
    """`probabilities(table, **options)`: the exact chances. None: there is no exact or closed form."""

    @property
    def asks(self) -> bool:
        """Whether the method looks at any error."""
        return self.sees != _NOTHING

    @property
    def exact(self) -> bool:
        """Whether `selection_probabilities` knows the method (with some of its options at least)."""
        return self.probabilities is not None


def _options(**defaults: Any) -> MappingProxyType[str, Any]:
    return MappingProxyType(defaults)


_INFOS = (
    SelectionInfo(
        name="lexicase",
        strategy=lexicase,
        paper="Spector 2012; Ding & Spector 2022",
        sees="a few cases, in slices, survivors only",
        options=_options(on_all_fail="random"),
        parents=lexicase_parents,
        probabilities=lexicase_probabilities,
    ),
    SelectionInfo(
        name="epsilon-lexicase",
        strategy=epsilon_lexicase,
        paper="La Cava et al. 2016, 2019",
        sees="a few cases, in slices; all candidates of a slice unless dynamic or with a fixed epsilon",
        options=_options(epsilon=None, epsilon_mode="semi-dynamic"),
        parents=epsilon_lexicase_parents,
        probabilities=epsilon_lexicase_probabilities,
    ),
    SelectionInfo(
        name="batch-lexicase",
        strategy=batch_lexicase,
        paper="Aenugu & Spector 2019",
        sees="a few batches of cases, in slices, survivors only",
        options=_options(case_batch=32),
        parents=batch_lexicase_parents,
    ),
    SelectionInfo(
        name="downsampled-lexicase",
        strategy=downsampled_lexicase,
        paper="Hernandez et al. 2019",
        sees="a few cases of a random share, in slices, survivors only",
        options=_options(share=0.1, on_all_fail="random"),
        parents=downsampled_lexicase_parents,
        probabilities=downsampled_lexicase_probabilities,
    ),
    SelectionInfo(
        name="informed-lexicase",
        strategy=informed_lexicase,
        paper="Boldi et al. 2023",
        sees="every case at each refresh; otherwise a few cases of a share, in slices, survivors only",
        options=_options(share=0.1, refresh=10, on_all_fail="random"),
        parents=informed_lexicase_parents,
    ),
    SelectionInfo(
        name="dalex",
        strategy=dalex,
        paper="Ni, Ding & Spector 2024",
        sees="every case",
        options=_options(sigma=200.0),
        parents=dalex_parents,
    ),
    SelectionInfo(
        name="plexicase",
        strategy=plexicase,
        paper="Ding, Pantridge & Spector 2023",
        sees="every case",
        options=_options(alpha=1.0),
        probabilities=plexicase_probabilities,
    ),
    SelectionInfo(
        name="tournament",
        strategy=tournament,
        paper="Miller & Goldberg 1995",
        sees="every case of the entrants",
        options=_options(tournament_size=None),
        probabilities=tournament_probabilities,
    ),
    SelectionInfo(
        name="random",
        strategy=random,
        paper="Ding & Spector 2022, Table 2",
        sees=_NOTHING,
        probabilities=random_probabilities,
    ),
    SelectionInfo(
        name="sgd",
        strategy=random,
        paper="the baseline: one candidate, inherited momentum",
        sees=_NOTHING,
    ),
)

SELECTIONS = {info.name: info for info in _INFOS}


def bind(name: str, **options: Any) -> Selection:
    """The method `name` with its options bound; unknown names, options and bad values are refused."""
    info = find(name, options)
    return partial(info.strategy, **{**info.options, **options})


def find(name: str, options: dict[str, Any]) -> SelectionInfo:
    """The method of that name, after checking that it takes these options."""
    if name not in SELECTIONS:
        raise unknown_name("selection", str(name), SELECTIONS)
    info = SELECTIONS[name]
    check_options(name, info.options, options)
    return info
