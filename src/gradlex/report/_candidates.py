"""How the candidates of each method differed, how selection chose among them, and what a winner passed on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Annotated, Any

from annotated_types import Ge, Le

from gradlex._checks import check
from gradlex.callbacks import Record
from gradlex.errors import InputError

_Number = Annotated[float, Ge(-1e100), Le(1e100)]


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Of one run, over the generations that had several candidates; None where nothing was recorded."""

    movement: float | None
    spread: float | None
    disagreement: float | None
    heritability: float | None
    cases_used: float | None
    all_failed: float | None
    """The share of selections that ended because all candidates failed a case."""


def candidates_of(where: str, records: Iterable[Record]) -> Candidates:
    """What a run's records say; refused where a number is none."""
    several = [record for record in records if len(record.losses) > 1]
    selections = [record for record in several if record.cases_used > 0]
    return Candidates(
        movement=_mean(where, "movement", several),
        spread=_mean(where, "spread", several),
        disagreement=_mean(where, "disagreement", several),
        heritability=_heritability(where, several),
        cases_used=median(record.cases_used for record in selections) if selections else None,
        all_failed=fmean(record.reason == "all_failed" for record in selections) if selections else None,
    )


def _mean(where: str, name: str, records: Sequence[Record]) -> float | None:
    values = [value for record in records if (value := getattr(record, name)) is not None]
    return fmean(_number(where, name, value) for value in values) if values else None


def _heritability(where: str, records: Sequence[Record]) -> float | None:
    """The slope of the offspring's advantage on the winner's, over all cases of all generations."""
    covariance = variance = 0.0
    for record in records:
        if record.heritability is None:
            continue
        if not isinstance(record.heritability, Mapping):
            raise InputError(f"{where}: heritability must be a mapping, got {record.heritability!r:.80}.")
        cases, both, own = (
            _number(where, f"heritability {name}", record.heritability.get(name))
            for name in ("cases", "covariance", "variance")
        )
        covariance, variance = covariance + cases * both, variance + cases * own
    return covariance / variance if variance > 0 and math.isfinite(covariance / variance) else None


def _number(where: str, name: str, value: Any) -> float:
    check(f"{where}: {name}", _Number, value)
    return float(value)
