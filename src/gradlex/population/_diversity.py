"""How different the candidates of a generation are, in weights and in the cases they solve, and what is inherited.

Weights are compared by sketches: a candidate's movement from its parent, with random signs, summed into 256 numbers
(AMS sketch, Alon, Matias & Szegedy 1996). Distances between sketches estimate those between weights within about a
tenth, and travel between processes where whole networks would not.

Selection can only help where a winner's advantage is inherited. On cases that were evaluated but did not decide, the
winner's advantage is how far its error lies below the mean of its generation; a generation later the same is computed
for the mean of its offspring. The slope of the second on the first is 0 where nothing is inherited and 1 where all of
it is: the realized heritability of the breeder's equation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:  # Algorithm 1 and its imports need no torch
    import torch
    from torch import Tensor

    from gradlex.population._parent import State

SKETCH = 256
_PIECE = 2**18
Errors: TypeAlias = npt.NDArray[np.floating | np.integer]


@dataclass(frozen=True, kw_only=True)
class Diversity:
    """Of one generation's candidates; None where it takes two of them, or there is nothing to tell it by."""

    movement: float | None = None
    """How far candidates moved from their parent, in mean: of their trained weights, relative to the parent's norm."""
    spread: float | None = None
    """The mean distance between two candidates, relative to their movement: 0 alike, 1.41 in unrelated directions."""
    disagreement: float | None = None
    """The share of cases seen by selection that one of two candidates solves and the other does not."""
    heritability: Heritability | None = None
    """What is left of the last winner's advantage in these candidates, its offspring."""


@dataclass(frozen=True, kw_only=True)
class Heritability:
    """Of one winner, a generation later: `covariance / variance`, each summed over generations, is the heritability."""

    cases: int
    """How many were evaluated a generation ago and not used to select."""
    advantage: float
    """The mean error of that generation's candidates less the winner's."""
    variance: float
    """Of the winner's advantage over the cases."""
    covariance: float
    """Of the winner's advantage and its offspring's."""


def sketch(state: State, parent: State, names: Sequence[str]) -> npt.NDArray[np.float32]:
    """The sketch of a candidate's movement, and before it the parent's norm: (1 + SKETCH,)."""
    import torch  # noqa: PLC0415

    found: Tensor | None = None
    norm: Tensor | None = None
    for place, name in enumerate(names):
        start = parent[name].to(state[name].device)
        delta = (state[name] - start).flatten()
        if delta.is_complex():
            delta = torch.view_as_real(delta).flatten()
        signed = delta.float().mul_(_signs(len(delta), place, delta.device))
        missing = -len(signed) % SKETCH
        padded = torch.nn.functional.pad(signed, (0, missing)) if missing else signed
        summed = padded.view(-1, SKETCH).sum(dim=0)
        squared = (start.abs() if start.is_complex() else start).float().square().sum()
        found = summed if found is None else found + summed
        norm = squared if norm is None else norm + squared
    if found is None or norm is None:
        return np.zeros(1 + SKETCH, dtype=np.float32)
    return np.asarray(torch.cat([norm.sqrt().view(1), found]).cpu().numpy(), dtype=np.float32)


def _signs(count: int, place: int, device: torch.device) -> Tensor:
    """+1 or -1 for each element of the tensor at this place, as good as random: (count,).

    Multiplication alone would repeat them, and neighbours of a structured movement would cancel out: the bits are mixed
    as by Wellons' lowbias32. Pieces that stay in a CPU's cache make it seven times faster than whole tensors.
    """
    import torch  # noqa: PLC0415

    numbers = torch.arange(min(count, _PIECE), dtype=torch.int32, device=device)
    signs = []
    for start in range(0, max(count, 1), _PIECE):
        bits = numbers[: count - start] + _int32(start + 0x9E3779B1 * (place + 1))
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            shifted = bits >> shift & (1 << 32 - shift) - 1  # as of an unsigned number
            bits = (bits ^ shifted) * _int32(factor)
        signs.append(~bits >> 31 | 1)  # by the highest bit
    return torch.cat(signs)


def _int32(number: int) -> int:
    """The signed number with the same last 32 bits."""
    return (number + 0x80000000) % 0x100000000 - 0x80000000


def weight_diversity(sketches: npt.NDArray[np.float32]) -> tuple[float | None, float | None]:
    """The movement and the spread that (candidates, 1 + SKETCH) sketches tell."""
    if not len(sketches) or not np.isfinite(sketches).all():
        return None, None
    moved = sketches[:, 1:].astype(np.float64)
    lengths = np.linalg.norm(moved, axis=1)
    movement = float(lengths.mean() / sketches[0, 0]) if sketches[0, 0] > 0 else None
    pairs = [float(np.linalg.norm(moved[i] - moved[j])) for i, j in combinations(range(len(moved)), 2)]
    return movement, float(np.mean(pairs) / lengths.mean()) if pairs and lengths.mean() > 0 else None


WINNER = "winner"
"""The slot of Parent in which a winner's advantage waits for its offspring."""


def winner_slot(cases: npt.NDArray[np.intp], errors: Errors, winner: int, used: int) -> State | None:
    """Of a winner, by (candidates, cases) errors, of which the first `used` decided; None: too few left."""
    import torch  # noqa: PLC0415

    if len(errors) < 2 or not np.isfinite(errors[:, used:]).all() or len(cases) - used < 2:
        return None
    mean = errors.mean(axis=0, dtype=np.float64)
    return {
        "cases": torch.from_numpy(np.array(cases, dtype=np.int64)),
        "used": torch.tensor(used),
        "mean": torch.from_numpy(mean),
        "advantage": torch.from_numpy(mean - errors[winner]),
    }


def heritability(slot: State, errors: Errors) -> Heritability | None:
    """What the offspring have kept, by their (candidates, cases) errors on the slot's cases."""
    used = int(slot["used"])
    before = slot["advantage"].numpy()[used:]
    after = (slot["mean"].numpy() - errors.mean(axis=0, dtype=np.float64))[used:]
    if not np.isfinite(after).all():
        return None
    return Heritability(
        cases=len(before),
        advantage=float(before.mean()),
        variance=float(np.mean((before - before.mean()) ** 2)),
        covariance=float(np.mean((before - before.mean()) * (after - after.mean()))),
    )
