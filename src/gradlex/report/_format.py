"""Numbers and words as they are printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradlex.report._statistics import Difference, Summary
from gradlex.tasks import Measure

NONE = "-"
_HOUR, _MINUTE = 3600, 60
_MEBIBYTE, _GIBIBYTE = 2**20, 2**30


@dataclass(frozen=True)
class Unit:
    """How values of one kind are printed: their format, and the word after a difference of two."""

    word: str
    form: str = ".2f"

    def signed(self, value: float) -> str:
        """+0.53"""
        return f"{value:+{self.form}}"


def unit_of(measure: Measure) -> Unit:
    """Points of a per cent with two digits, or the measure's own unit, whatever its size is."""
    return Unit("points") if measure.fraction else Unit("", ".4g")


def label(part: str, measure: Measure) -> str:
    """test accuracy, %"""
    return f"{part} {measure.name}{', %' if measure.fraction else ''}"


def plain(text: object) -> str:
    """Text on one line that every file can hold: control characters and undecodable bytes become escapes."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in str(text)
    )


def spread(summary: Summary | None, unit: Unit) -> str:
    """94.82 ± 0.10; without a deviation for one seed."""
    if summary is None:
        return NONE
    deviation = "" if summary.std is None else f" ± {summary.std:{unit.form}}"
    return f"{summary.mean:{unit.form}}{deviation}"


def p_value(p: float) -> str:
    """p = 0.031"""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def p_cell(p: float | None) -> str:
    """0.031, or <0.001: p under a heading of its own."""
    if p is None:
        return NONE
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def difference_cell(difference: Difference | None, seeds: int, unit: Unit) -> str:
    """+0.53 [+0.11, +0.95] p=0.031; the difference alone where it has no interval.

    `seeds` is how many seeds either method has: where fewer are shared, the cell says how many, since the difference
    is then not the difference of the two means.
    """
    if difference is None:
        return NONE
    mean = unit.signed(difference.mean)
    shared = "" if difference.n == seeds else f" ({number_of(difference.n, 'seed')})"
    if difference.low is None or difference.high is None or difference.p is None:
        return f"{mean}{shared}"
    interval = f"[{unit.signed(difference.low)}, {unit.signed(difference.high)}]"
    return f"{mean} {interval} {p_value(difference.p).replace(' ', '')}{shared}"


def interval_cell(difference: Difference | None, unit: Unit) -> str:
    """+0.11 to +0.95"""
    if difference is None or difference.low is None or difference.high is None:
        return NONE
    return f"{unit.signed(difference.low)} to {unit.signed(difference.high)}"


def difference_words(difference: Difference, unit: Unit, p: str | None = None) -> str:
    """A difference in a sentence, with its interval, p (or what is told instead) and number of seeds."""
    mean = f"{unit.signed(difference.mean)} {unit.word}".rstrip()
    if difference.n == 1:
        return f"{mean}, 1 seed"
    if difference.p is None:
        return f"{mean} in each of {difference.n} seeds, no interval"
    told = p_value(difference.p) if p is None else p
    return f"{mean}, 95 % interval {interval_cell(difference, unit)}, {told}, {difference.n} seeds"


def count(number: float) -> str:
    """1,000,000"""
    return f"{number:,.0f}"


def number_of(number: int, word: str) -> str:
    """1 run, 3 runs"""
    return f"{number} {word}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """2 h 03 min, 12 min 05 s, or 8.3 s"""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    minutes = round(seconds / _MINUTE)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def memory(size: float | None) -> str:
    """512 MiB or 1.5 GiB"""
    if size is None:
        return NONE
    return f"{size / _GIBIBYTE:.1f} GiB" if size >= _GIBIBYTE else f"{size / _MEBIBYTE:.0f} MiB"


def listed(names: Sequence[object]) -> str:
    """One, two and three"""
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last
