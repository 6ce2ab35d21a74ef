"""Selection on its own: many parents from one error table, without a network or torch in sight."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from gradlex.errors import InputError
from gradlex.selection._probabilities import check_all_fail
from gradlex.selection._protocol import Indices
from gradlex.selection._registry import find
from gradlex.selection._table import checked


def select_parents(
    errors: npt.ArrayLike,
    k: int,
    method: str = "lexicase",
    rng: np.random.Generator | int | None = None,
    **options: Any,
) -> Indices:
    """Choose `k` parents from an (individuals, cases) table of errors: their indices, of shape (k,).

    Lower is better; NaN and infinity count as worst. Each parent is selected independently, by its own
    random order of cases; a down-sample is drawn once a call, as once a generation. `on_all_fail` is
    "survive" here, the classic rule; the other options have the defaults of training. `rng` is a NumPy
    generator, a seed, or None for fresh randomness.
    """
    table = checked(errors)
    if not isinstance(k, Integral) or isinstance(k, bool) or int(k) < 1:
        raise InputError(f"k is a whole number of parents, 1 or more; got {k!r}.")
    info = find(method, options)
    bound = {**info.options, **options}
    if "on_all_fail" in bound:
        bound["on_all_fail"] = options.get("on_all_fail", "survive")
        check_all_fail(table, bound["on_all_fail"])
    stream = _generator(rng)
    if info.parents is not None:
        return info.parents(table, int(k), stream, **bound)
    chances = info.probabilities(table, **bound) if info.probabilities else None
    if chances is None:
        raise InputError(
            f"{method!r} trains one candidate and selects nobody. Use 'lexicase', or 'random' for a control."
        )
    return stream.choice(len(table), size=int(k), p=chances)


def _generator(rng: Any) -> np.random.Generator:
    whole = isinstance(rng, Integral) and not isinstance(rng, bool) and int(rng) >= 0
    if rng is None or whole or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    raise InputError(
        f"rng is a numpy.random.Generator, a seed (a whole number, 0 or more) or None; got {rng!r}."
    )
