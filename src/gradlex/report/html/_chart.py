"""Charts of a page: what is drawn, where, and what a reader hears or sees of each point.

A chart is an SVG that stretches with the page, with its labels beside it as text, so that it is as readable on a phone
as on paper. The template `chart.html` draws it; `page.js` lets a pointer, a finger or the arrow keys walk along it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from matplotlib.ticker import MaxNLocator

Values: TypeAlias = Sequence[float | None]

WIDTH, HEIGHT = 1000, 300
"""The units a chart is drawn in; it stretches to any size."""

_ROWS = 60
"""Rows of a chart's table, at most: a longer one shows every so-manieth point."""


def per_cent(value: float) -> str:
    """97.22 %"""
    return f"{value:.2f} %"


def short(value: float) -> str:
    """A number of a few digits: 0.0123, 12.3 k, 4.56 M"""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == ' k' else size):.3g}{letter}"
    return f"{value:.4g}"


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line, or one cloud of points, over the chart's x."""

    name: str
    values: Values
    colour: int
    """Which of the page's colours, from 0."""
    kind: Literal["line", "dots", "thin"] = "line"
    joined: bool = False
    """Whether the line goes on over missing values; else it is broken there."""


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A label of an axis, at a share of its length from the left or from the bottom."""

    place: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Series over one x, with axes; `summary` says in a sentence what is to be seen."""

    title: str
    summary: str
    x: Sequence[float]
    x_name: str
    y_name: str
    series: tuple[Series, ...]
    show: Callable[[float], str] = short
    """How a value is printed."""
    log: bool = False
    """Whether the y axis is logarithmic; all values must then be above 0."""
    y_ticks: Sequence[tuple[float, str]] | None = None
    """Own labels of the y axis; it ends half a step beyond them."""

    @functools.cached_property
    def drawn(self) -> list[Series]:
        """The series that have a point."""
        return [each for each in self.series if any(_is_there(value) for value in each.values)]

    @functools.cached_property
    def y_limits(self) -> tuple[float, float]:
        """The ends of the y axis."""
        if self.y_ticks is not None:
            values = [value for value, _ in self.y_ticks]
            return min(values) - 0.5, max(values) + 0.5
        found = [
            float(value)
            for each in self.drawn
            for value in each.values
            if value is not None and _is_there(value)
        ]
        low, high = min(found), max(found)
        if self.log:
            low, high = math.log10(low), math.log10(high)
            margin = max(0.06 * (high - low), 0.05)
            return low - margin, high + margin
        margin = 0.06 * (high - low) or 0.06 * abs(high) or 0.5
        return low - (margin if low < 0 or low > margin else low), high + margin

    @functools.cached_property
    def x_limits(self) -> tuple[float, float]:
        """The ends of the x axis."""
        low, high = min(self.x), max(self.x)
        margin = 0.01 * (high - low) or 0.5
        return low - margin, high + margin

    def place_x(self, value: float) -> float:
        """From 0 at the left to 1."""
        low, high = self.x_limits
        return (value - low) / (high - low)

    def place_y(self, value: float) -> float:
        """From 0 at the bottom to 1."""
        low, high = self.y_limits
        return ((math.log10(value) if self.log else value) - low) / (high - low)

    @functools.cached_property
    def ticks_x(self) -> list[Tick]:
        """Labels below the chart."""
        whole = all(float(value).is_integer() for value in self.x)
        places = _ticks(*self.x_limits, 7, whole=whole)
        return [Tick(place=self.place_x(value), text=short(value)) for value in places]

    @functools.cached_property
    def ticks_y(self) -> list[Tick]:
        """Labels left of the chart."""
        if self.y_ticks is not None:
            return [Tick(place=self.place_y(value), text=text) for value, text in self.y_ticks]
        low, high = self.y_limits
        if self.log:
            digits = (1, 2, 5) if high - low < 2 else (1,)
            step = math.ceil((high - low) / 6)
            powers = range(math.floor(low), math.ceil(high) + 1)
            places = [digit * 10.0**power for power in powers for digit in digits if power % step == 0]
            kept = [value for value in places if low <= math.log10(value) <= high]
            return [Tick(place=self.place_y(value), text=short(value)) for value in kept]
        return [Tick(place=self.place_y(value), text=short(value)) for value in _ticks(low, high, 5)]

    def path(self, series: Series) -> str:
        """The SVG path of a series: lines are broken where a value is missing, points are lines without length."""
        parts: list[str] = []
        broken = True
        for x, value in zip(self.x, series.values, strict=True):
            if not _is_there(value):
                broken = broken or not series.joined
                continue
            assert value is not None
            place = f"{self.place_x(x) * WIDTH:.1f} {(1 - self.place_y(value)) * HEIGHT:.1f}"
            dot = series.kind == "dots"
            parts.append(f"M{place}h0" if dot else f"{'M' if broken else 'L'}{place}")
            broken = False
        return "".join(parts)

    def lone(self, series: Series) -> str:
        """Points that no line reaches: those without a neighbour, and all of a short line."""
        there = [_is_there(value) for value in series.values]
        around = [False, *there, False]
        few = sum(there) <= 30 and (series.kind == "line" or series.joined)
        alone = [
            few or not (series.joined or around[place] or around[place + 2]) for place in range(len(there))
        ]
        kept = [value if lonely else None for value, lonely in zip(series.values, alone, strict=True)]
        return "" if series.kind == "dots" else self.path(_dots(series, kept))

    @functools.cached_property
    def points(self) -> dict[str, Any]:
        """What `page.js` walks along: places from 0 to 1, and the words for each point."""
        kept = [
            number
            for number in range(len(self.x))
            if any(_is_there(each.values[number]) for each in self.drawn)
        ]
        return {
            "x": [round(self.place_x(self.x[number]), 4) for number in kept],
            "at": [f"{self.x_name} {_tick(self.x[number])}" for number in kept],
            "series": [
                {
                    "name": each.name,
                    "colour": each.colour,
                    "y": [self._place(each.values[number]) for number in kept],
                    "shown": [self._shown(each.values[number]) for number in kept],
                }
                for each in self.drawn
            ],
        }

    @functools.cached_property
    def rows(self) -> list[list[str]]:
        """The table of the same numbers: x and each series, at most so many rows, with the last point."""
        numbers = [n for n in range(len(self.x)) if any(_is_there(each.values[n]) for each in self.drawn)]
        step = math.ceil(len(numbers) / _ROWS)
        kept = sorted({*numbers[::step], *numbers[-1:]})
        return [
            [_tick(self.x[n]), *(self._shown(each.values[n]) or "-" for each in self.drawn)] for n in kept
        ]

    def _place(self, value: float | None) -> float | None:
        return round(self.place_y(float(value)), 4) if value is not None and _is_there(value) else None

    def _shown(self, value: float | None) -> str | None:
        return self.show(float(value)) if value is not None and _is_there(value) else None


@dataclass(frozen=True, kw_only=True)
class Point:
    """One value of a row, and the page that tells more of it."""

    value: float
    text: str
    link: str | None = None
    height: float = 50.0
    """Per cent from the top of its row, so that equal ones do not hide each other."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A row of an interval chart: points, and a bar with its middle."""

    name: str
    points: tuple[Point, ...]
    mean: float | None
    low: float | None
    high: float | None
    text: str
    """The row in words."""
    colour: int


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """Rows of points with intervals over one x axis: final values seed by seed, or differences."""

    title: str
    summary: str
    x_name: str
    marks: tuple[Mark, ...]
    show: Callable[[float], str] = short
    zero: bool = False
    """Whether a line at 0 is drawn, and always in sight."""
    bounds: tuple[float, float] | None = None
    """What is possible, beyond which no bar is drawn."""

    @functools.cached_property
    def limits(self) -> tuple[float, float]:
        """The ends of the x axis."""
        found = [0.0] if self.zero else []
        for mark in self.marks:
            found += [point.value for point in mark.points]
            found += [value for value in (mark.mean, mark.low, mark.high) if value is not None]
        low, high = min(found), max(found)
        if self.bounds is not None:
            low, high = max(low, self.bounds[0]), min(high, self.bounds[1])
        margin = 0.04 * (high - low) or 0.04 * abs(high) or 0.5
        return low - margin, high + margin

    def place(self, value: float) -> float:
        """From 0 at the left to 1; what lies beyond the axis is at its end."""
        low, high = self.limits
        return min(1.0, max(0.0, (value - low) / (high - low)))

    @functools.cached_property
    def ticks(self) -> list[Tick]:
        """Labels below the chart."""
        return [Tick(place=self.place(value), text=self.show(value)) for value in _ticks(*self.limits, 6)]


def _dots(series: Series, values: Values) -> Series:
    return Series(name=series.name, values=values, colour=series.colour, kind="dots")


def _ticks(low: float, high: float, number: int, *, whole: bool = False) -> list[float]:
    found = MaxNLocator(nbins=number, steps=[1, 2, 2.5, 5, 10], integer=whole).tick_values(low, high)
    edge = 1e-9 * (high - low)
    return [float(value) for value in np.asarray(found) if low - edge <= value <= high + edge]


def _tick(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


def _is_there(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
