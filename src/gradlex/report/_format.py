"""Numbers as they are printed."""

from __future__ import annotations

from gradlex.report._statistics import Difference, Summary

NONE = "-"
_HOUR, _MINUTE = 3600, 60
_MEBIBYTE, _GIBIBYTE = 2**20, 2**30


def spread(summary: Summary | None) -> str:
    """94.82 ± 0.10; without a deviation for one seed."""
    if summary is None:
        return NONE
    return f"{summary.mean:.2f}" + ("" if summary.std is None else f" ± {summary.std:.2f}")


def chance(p: float) -> str:
    """The p of a test."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def difference_cell(difference: Difference | None, seeds: int) -> str:
    """+0.53 [+0.11, +0.95] p=0.031; the difference alone where it has no interval.

    How many seeds it is of is told where there are more that only one of the two has, `seeds` in all: it is then
    not the difference of the two means.
    """
    if difference is None:
        return NONE
    fewer = "" if difference.n == seeds else f" ({difference.n} seed{'s' if difference.n > 1 else ''})"
    if difference.low is None or difference.high is None or difference.p is None:
        return f"{difference.mean:+.2f}{fewer}"
    interval = f"[{difference.low:+.2f}, {difference.high:+.2f}]"
    return f"{difference.mean:+.2f} {interval} {chance(difference.p).replace(' ', '')}{fewer}"


def difference_words(difference: Difference, unit: str = "points") -> str:
    """A difference in a sentence, with all that says how sure it is."""
    points = f"{difference.mean:+.2f} {unit}"
    if difference.n == 1:
        return f"{points}, 1 seed"
    if difference.low is None or difference.high is None or difference.p is None:
        return f"{points} in each of {difference.n} seeds, so without an interval"
    interval = f"95 % interval {difference.low:+.2f} to {difference.high:+.2f}"
    return f"{points}, {interval}, {chance(difference.p)}, {difference.n} seeds"


def count(number: float) -> str:
    """1,000,000."""
    return f"{number:,.0f}"


def duration(seconds: float) -> str:
    """2 h 03 min, 12 min 05 s, or 8.3 s."""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    minutes = round(seconds / _MINUTE)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def memory(size: float | None) -> str:
    """512 MiB or 1.5 GiB."""
    if size is None:
        return NONE
    return f"{size / _GIBIBYTE:.1f} GiB" if size >= _GIBIBYTE else f"{size / _MEBIBYTE:.0f} MiB"


def listed(names: list[str]) -> str:
    """One, two and three."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
