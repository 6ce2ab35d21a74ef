"""The plots of an experiment: its curves and its final values, seed by seed. The same records give the same bytes."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gradlex.experiments import METHODS
from gradlex.report._evidence import CRITICAL_PATH, SAMPLES, Arm, Evidence, Setting, cost_names, full_title
from gradlex.report._format import label, plain
from gradlex.report._pairs import EQUIVALENT, Decision
from gradlex.report._provenance import revision_notes
from gradlex.report._statistics import summarize

Line: TypeAlias = str | tuple[int, tuple[float, ...]]
"""A line style, as matplotlib has them."""

# The colours of Okabe and Ito (2008), which colour-blind readers can tell apart.
_BLACK, _GREY = "#000000", "#8a8a8a"
_ORANGE, _SKY, _GREEN, _BLUE = "#E69F00", "#56B4E9", "#009E73", "#0072B2"
_VERMILION, _PURPLE = "#D55E00", "#CC79A7"

_STYLE = {
    # A user's own matplotlibrc must not change a figure: everything starts from matplotlib's defaults.
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "gradlex",
    "text.parse_math": False,  # names are data: a dollar sign is a dollar sign
}
# Without these a file would carry the date and matplotlib's version.
_METADATA: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


@dataclass(frozen=True)
class Look:
    """The colour and line style of one method."""

    colour: str
    line: Line = "-"


# Red for SGD and blue for lexicase, as in figure 2 of the paper.
_LOOKS = {
    "sgd": Look(_VERMILION),
    "sgd-matched": Look(_BLACK),
    "sgd-matched-5e-4": Look(_BLACK, "--"),
    "random": Look(_ORANGE),
    "tournament": Look(_GREY),
    "lexicase": Look(_BLUE),
    "average": Look(_GREEN),
    "average-outer-0.5": Look(_GREEN, "--"),
    "average-outer-0.9": Look(_GREEN, ":"),
    "expected": Look(_SKY),
    "expected-outer-0.5": Look(_SKY, "--"),
    "expected-outer-0.9": Look(_SKY, ":"),
    "survivors": Look(_PURPLE),
    "lexicase-survive": Look(_BLUE, "--"),
    "epsilon-lexicase": Look(_BLUE, ":"),
    "batch-lexicase": Look(_BLUE, "-."),
    "swa": Look(_PURPLE),
    "sgd-best": Look(_VERMILION, "--"),
    "branched-average": Look(_GREEN),
    "branched-expected": Look(_SKY),
    "branched-lexicase": Look(_BLUE),
    "branched-random": Look(_ORANGE),
    "varied-lexicase": Look(_BLUE),
    "varied-truncation": Look(_GREY),
    "varied-random": Look(_ORANGE),
}
_LINES: tuple[Line, ...] = (
    *("-", "--", ":", "-."),
    *((0, (6, 1, 1, 1, 1, 1)), (0, (9, 2)), (0, (1, 3)), (0, (4, 4))),
)

_CONCLUDED = {"better": _BLUE, "worse": _VERMILION, "equivalent": _GREEN, "open": _BLACK}

_COSTS = {SAMPLES: SAMPLES, CRITICAL_PATH: f"{CRITICAL_PATH}: samples of one device"}

_ROW = 0.32  # inches of a method in `finals`, and of a comparison in `answers`

SETS = tuple(map(Look, (_VERMILION, _BLUE, _GREEN, _ORANGE, _SKY, _PURPLE, _BLACK)))
"""For sets of runs without a method: the baseline first, then the others."""


def looks(evidence: Evidence) -> dict[str, Look]:
    """By title, in the order of the tables: a method has one colour everywhere, its variants differ by their lines."""
    titles = {title: arm for s in evidence.settings for title, arm in evidence.on(s).items()}
    found: dict[str, Look] = {}
    for title, arm in sorted(titles.items(), key=lambda item: not _is_usual(item[1])):
        look = _LOOKS[arm.method]
        taken = {other.line for other in found.values() if other.colour == look.colour}
        free = [line for line in (look.line, *_LINES) if line not in taken]
        found[title] = Look(look.colour, free[0] if free else look.line)
    return {title: found[title] for title in titles}


def _is_usual(arm: Arm) -> bool:
    """Whether it is the paper's variant of its method, which has the method's own line."""
    return METHODS[arm.method].is_sgd or (arm.recipe.population, arm.recipe.momentum) == (4, "reset")


def curves(evidence: Evidence) -> Figure:
    """The test measure against samples trained, and against the critical path where a population makes it shorter.

    A thick line for the mean over seeds, thin ones for single seeds.
    """
    costs = cost_names(evidence.arms)
    figure, panels = _panels(evidence, width=8.0 if len(costs) == 1 else 6.2, height=4.2, columns=len(costs))
    look = looks(evidence)
    handles: dict[str, Line2D] = {}
    names = {arm.title: full_title(arm) for arm in evidence.arms}
    for setting, axes in panels.items():
        arms = evidence.on(setting)
        limits = _limits(list(arms.values()))
        for cost, ax in zip(costs, axes, strict=True):
            for title, arm in arms.items():
                handles.setdefault(title, _draw_curve(ax, arm, cost, look[title]))
            ax.set_ylim(*limits)
            ax.set_xlim(left=0)
            unit, word = (1e6, ", millions") if ax.get_xlim()[1] > 1e6 else (1e3, ", thousands")
            ax.xaxis.set_major_formatter(FuncFormatter(lambda number, _, unit=unit: f"{number / unit:g}"))
            ax.yaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
            ax.set_xlabel(f"{_COSTS[cost]}{word}")
            ax.grid(alpha=0.25, linewidth=0.6)
        axes[0].set_ylabel(plain(label("test", next(iter(arms.values())).measure)))
    entries = {names[title]: handles[title] for title in look}
    if any(len(arm.runs) > 1 for arm in evidence.arms):
        entries["thin: single seeds"] = Line2D([], [], color=_GREY, linewidth=0.6)
    add_legend(figure, entries, loc="outside right upper")
    add_caption(figure, " ".join(revision_notes(evidence.arms)))
    return figure


def finals(evidence: Evidence) -> Figure:
    """The final test measure: a circle for each seed, a stroke for the mean, a bar for its 95 % interval."""
    rows = max(len(evidence.on(setting)) for setting in evidence.settings)
    figure, panels = _panels(evidence, width=7.0, height=1.3 + _ROW * rows)
    look = looks(evidence)
    for setting, (ax,) in panels.items():
        arms = evidence.on(setting)
        measure = next(iter(arms.values())).measure
        for row, (title, arm) in enumerate(arms.items()):
            _draw_row(ax, row, list(arm.values.values()), look[title])
        ax.set_yticks(range(len(arms)), [plain(full_title(arm)) for arm in arms.values()])
        ax.set_ylim(len(arms) - 0.4, -0.6)  # the first method on top, as in the tables
        ax.tick_params(axis="y", length=0)
        if measure.fraction:  # an interval of two seeds may pass what is possible
            left, right = ax.get_xlim()
            ax.set_xlim(max(left, -0.5), min(right, 100.5))
        ax.xaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
        ax.set_xlabel(f"{plain(label('test', measure))}  (circles: seeds; bar: mean and its 95 % interval)")
        ax.grid(axis="x", alpha=0.25, linewidth=0.6)
    add_caption(figure, " ".join(revision_notes(evidence.arms)))
    return figure


def answers(groups: Sequence[tuple[str, Sequence[Decision]]]) -> Figure:
    """Declared comparisons, those made on the same in one panel: a circle for each seed's difference, a bar for the
    mean's interval, and the conclusion beside it. A comparison without a finished seed has an empty row.
    """
    rows = [len(found) for _, found in groups]
    figure = Figure(figsize=(8.0, 0.5 + _ROW * sum(rows) + 0.75 * len(rows)), layout="constrained")
    units = {decision.unit for _, found in groups for decision in found}
    panels = figure.subplots(
        len(groups), 1, squeeze=False, sharex=len(units) == 1, height_ratios=[0.6 + row for row in rows]
    )[:, 0]
    for ax, (title, found) in zip(panels, groups, strict=True):
        fraction, unit = found[0].measure.fraction, found[0].unit
        if fraction:
            ax.axvspan(-EQUIVALENT, EQUIVALENT, color=_GREY, alpha=0.15, linewidth=0)
        ax.axvline(0, color=_BLACK, linewidth=0.8)
        for row, decision in enumerate(found):
            look = Look(_CONCLUDED.get(decision.conclusion, _GREY))
            _draw_row(ax, row, list(decision.differences.values()), look)
            gap = "" if decision.difference is None else f"{unit.signed(decision.difference.mean)}  "
            words = f"{gap}{decision.conclusion}"
            ax.annotate(words, (1.01, row), xycoords=("axes fraction", "data"), va="center")
        ax.set_yticks(range(len(found)), [plain(f"{each.first} minus {each.second}") for each in found])
        ax.set_ylim(len(found) - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)
        ax.set_title(plain(title), loc="left")
        ax.xaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 5, 10]))
        ax.grid(axis="x", alpha=0.25, linewidth=0.6)
        if len(units) > 1 or ax is panels[-1]:
            what, band = ("points", f"; grey: ±{EQUIVALENT:g}") if fraction else (found[0].measure.name, "")
            ax.set_xlabel(
                f"difference, {plain(what)}  (circles: seeds; bar: mean and its 95 % interval{band})"
            )
    return figure


def add_legend(
    figure: Figure,
    entries: Mapping[str, Line2D],
    loc: Literal["outside right upper", "outside upper center"],
) -> None:
    """A legend of the whole figure; set afterwards, for a title that begins with _ would be left out of it."""
    columns = min(3, len(entries)) if loc == "outside upper center" else 1
    numbers = [str(number) for number in range(len(entries))]
    legend = figure.legend(list(entries.values()), numbers, loc=loc, ncols=columns)
    for text, title in zip(legend.get_texts(), entries, strict=True):
        text.set_text(plain(title))


def add_caption(figure: Figure, text: str) -> None:
    """A small line below the panels."""
    if text:
        figure.supxlabel(plain(text), fontsize=7, color="#555555")


def save_figure(draw: Callable[[], Figure], stem: Path) -> list[Path]:
    """Draw a figure and write it as PNG and as SVG."""
    written = []
    with matplotlib.style.context(["default", _STYLE]), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; the tables beside the plot have it as text.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font", category=UserWarning)
        figure = draw()
        for kind, metadata in _METADATA.items():
            content = io.BytesIO()
            figure.savefig(content, format=kind, dpi=150, metadata=metadata)
            path = stem.with_name(f"{stem.name}.{kind}")
            path.write_bytes(content.getvalue())
            written.append(path)
    return written


def _panels(
    evidence: Evidence, *, width: float, height: float, columns: int = 1
) -> tuple[Figure, dict[Setting, Sequence[Axes]]]:
    """`columns` panels for each dataset and model, at most three or four side by side; sizes in inches."""
    settings = evidence.settings
    across = min(3 if columns == 1 else 2, len(settings))
    down = math.ceil(len(settings) / across)
    figure = Figure(figsize=(width * (0.4 + 0.6 * across * columns), height * down), layout="constrained")
    places = list(figure.subplots(down, across * columns, squeeze=False).flat)
    for unused in places[len(settings) * columns :]:
        unused.remove()
    found: dict[Setting, Sequence[Axes]] = {
        setting: places[columns * place : columns * (place + 1)] for place, setting in enumerate(settings)
    }
    for setting, (ax, *_) in found.items():
        numbers = sorted({len(arm.runs) for arm in evidence.on(setting).values()})
        seeds = " to ".join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))
        told = f"{setting}, n = {seeds} seed{'' if numbers[-1] == 1 else 's'}"
        ax.set_title("\n".join(filter(None, (plain(evidence.plan.title), told))), loc="left")
    return figure, found


def _draw_curve(ax: Axes, arm: Arm, cost: str, look: Look) -> Line2D:
    """Draw one method against one of its costs; the line of its mean."""

    def against_cost(curve: Mapping[int, float]) -> tuple[list[int], list[float]]:
        return [arm.costs[cost][generations] for generations in curve], list(curve.values())

    if len(arm.runs) > 1:
        for run in arm.runs.values():
            ax.plot(*against_cost(run.curve), color=look.colour, linewidth=0.6, alpha=0.3)
    (line,) = ax.plot(
        *against_cost(arm.curve), color=look.colour, linestyle=look.line, linewidth=1.6, zorder=3
    )
    return line


def _limits(arms: list[Arm]) -> tuple[float, float]:
    """The measure's axis: all that is good is shown; the first steps, which are steep and say little, are cut.

    The axis begins where the slowest method is after a fifth of its training.
    """
    early = []
    for arm in arms:
        values = list(arm.curve.values()) or list(arm.values.values())
        early.append(values[min(len(values) - 1, math.ceil(len(values) / 5))])
    drawn = [value for arm in arms for run in arm.runs.values() for value in run.curve.values()]
    higher = arms[0].measure.higher_is_better
    low, high = (min(early), max(drawn)) if higher else (min(drawn), max(early))
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.1
    return low - margin, high + margin


def _draw_row(ax: Axes, row: int, values: Sequence[float], look: Look) -> None:
    """A circle for each value, a stroke for the mean and a bar for its interval."""
    if not values:
        return
    summary = summarize(values)
    if summary.low is not None and summary.high is not None:
        ends = [summary.low, summary.high]
        ax.plot(ends, [row, row], color=look.colour, linewidth=5, alpha=0.25, solid_capstyle="butt")
        ax.plot([summary.mean], [row], "|", color=look.colour, markersize=13, markeredgewidth=2)
    # Seeds one below the other, small enough that equal ones do not hide each other.
    half = min(0.3, 0.11 * (len(values) - 1))
    heights = row + np.linspace(-half, half, len(values)) if len(values) > 1 else [row]
    size = max(1.0, min(4.5, 0.6 * _ROW * 72 / len(values)))
    ax.plot(
        list(values),
        list(heights),
        "o",
        color=look.colour,
        markersize=size,
        markerfacecolor="white",
        zorder=3,
    )
