"""Numbers and names as they are printed everywhere: tables, sentences, figures, pages."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradlex.experiments import METHODS

NONE = "-"
_FRACTIONS = ("accuracy", "f1", "map", "exact")
_NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


@dataclass(frozen=True)
class Unit:
    """How the values of a metric are printed: percent for fractions such as accuracies, else as they are."""

    percent: bool = False

    @property
    def scale(self) -> float:
        """What values are multiplied by."""
        return 100.0 if self.percent else 1.0

    @property
    def sign(self) -> str:
        """What follows a name in a heading."""
        return ", %" if self.percent else ""

    def value(self, number: float | None, digits: int = 2) -> str:
        """97.50%, or 0.1234"""
        text = self.bare(number, digits=digits)
        return f"{text}%" if self.percent and text != NONE else text

    def bare(self, number: float | None, sign: str = "", digits: int = 2) -> str:
        """A number without its unit: 97.50, or +1.25 with the sign "+"."""
        if number is None or not math.isfinite(number):
            return NONE
        return f"{100 * number:{sign}.{digits}f}" if self.percent else f"{number:{sign}.4g}"

    def signed(self, number: float) -> str:
        """+1.25 points"""
        return f"{self.bare(number, '+')}{' points' if self.percent else ''}"


def unit_of(metric: str, fraction: bool | None = None) -> Unit:
    """The unit of a metric: whether it is a fraction, as its task says, or by its name."""
    return Unit(metric in _FRACTIONS or metric.endswith("accuracy") if fraction is None else fraction)


def title_of(method: str) -> str:
    """What a method is called in tables and sentences."""
    return METHODS[method].title if method in METHODS else method.replace("_", " ")


def p_text(p: float | None) -> str:
    """0.031, or <0.001"""
    return NONE if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def count(number: float | None) -> str:
    """1,000,000"""
    return NONE if number is None or math.isnan(number) else f"{number:,.0f}"


def number_of(number: int, word: str) -> str:
    """One seed, five seeds, 20 seeds."""
    text = _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"
    return f"{text} {word}{'' if number == 1 else 's'}"


def duration(seconds: float | None) -> str:
    """2 h 03 min, 12 min 05 s, or 8.3 s"""
    if seconds is None or math.isnan(seconds):
        return NONE
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def capital(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]
