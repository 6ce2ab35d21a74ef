"""Every figure, as SVG by matplotlib: the same records give the same bytes, readable on a light and a dark page."""

from __future__ import annotations

import io
import re
import warnings
import zlib
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import matplotlib.style
import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from gradlex.report.decisions import MARGIN, Decision
from gradlex.report.frames import Study
from gradlex.report.tables import ENDINGS
from gradlex.report.words import title_of, unit_of

GRAY = "#7d8590"  # text that can be read on white and on black
COLORS = {
    "sgd": "#e69f00",
    "swa": "#8c6d5a",
    "random": "#9b6cd6",
    "tournament": "#17a2b8",
    "average": "#e0559f",
    "expected": "#9a9a2f",
    "lexicase": "#3b82d6",
}
"""One color for each kind of method everywhere; variants of a kind have other lines. None is a verdict's."""
VERDICTS = {"better": "#2e9e4f", "worse": "#d64545"}
"""The colors of answers; the others are gray."""

_SHADES = ("#59636e", "#9aa4ae", "#d0d7de")
_WIDTH = 5.2  # inches; a phone shows it at two thirds of its size
_TEXTS = ("text.", "axes.label", "axes.edge", "axes.title", "xtick.", "ytick.", "grid.")
_STYLE = {
    **{f"{name}color": GRAY for name in _TEXTS},
    **{f"{name}.facecolor": "none" for name in ("axes", "figure", "savefig")},
    "font.size": 9.5,
    "font.sans-serif": ["DejaVu Sans"],
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "figure.constrained_layout.use": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",
    "text.parse_math": False,  # names are data: a dollar sign is a dollar sign
}

P = ParamSpec("P")


def as_svg(draw: Callable[P, Figure]) -> Callable[P, Markup]:
    """Make a function that draws a figure return its SVG, without what varies: dates, versions, numbers of parts."""

    def drawn(*args: P.args, **kwargs: P.kwargs) -> Markup:
        content = io.StringIO()
        own = {"svg.hashsalt": draw.__name__}  # ids stay different where several figures are on one page
        with matplotlib.style.context(["default", _STYLE, own]), warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph \d+ .* missing", UserWarning)  # the browser has other fonts
            draw(*args, **kwargs).savefig(content, format="svg", metadata={"Date": None, "Creator": None})
        found = content.getvalue()[content.getvalue().index("<svg") :]
        found = re.sub(r'<metadata>.*?</metadata>| id="[A-Za-z0-9.]+_\d+"', "", found, flags=re.DOTALL)
        return Markup(re.sub(r"[ \t]+$", "", found, flags=re.MULTILINE))

    return drawn


def color_of(method: str) -> str:
    """The color of a method; one without a kind of its own has the same color in every figure too, but never SGD's."""
    kind = next((kind for kind in COLORS if kind in method), None)
    return COLORS[kind or list(COLORS)[1 + zlib.crc32(method.encode()) % (len(COLORS) - 1)]]


def line_of(method: str) -> str:
    """The line of a method: plain for each kind, broken for a variant."""
    plain = method.removeprefix("branched-") in COLORS
    return "-" if plain else ("--", ":", "-.")[zlib.crc32(method.encode()) % 3]


def drawings(study: Study, found: Sequence[Decision]) -> dict[str, Markup]:
    """The figures of an experiment that its records allow: comparisons, curves, selection."""
    drawn = {"comparisons": forest([("Differences", found)])} if found else {}
    if study.history.get(f"test_{study.metric}", pd.Series(dtype=float)).notna().any():
        drawn["curves"] = curves(study)
    if (study.history.cases_used > 0).any():
        drawn["selection"] = selection(study.history)
    return drawn


@as_svg
def forest(groups: Sequence[tuple[str, Sequence[Decision]]]) -> Figure:
    """Comparisons, each with its seeds as circles and the mean's interval as a bar, in one panel for each group."""
    sizes = [len(found) for _, found in groups]
    figure = Figure(figsize=(_WIDTH, 0.55 * sum(sizes) + 0.45 * len(sizes) + 0.45))
    same = len({found[0].unit for _, found in groups}) == 1
    heights = [size + 0.2 for size in sizes]
    panels = figure.subplots(len(groups), 1, squeeze=False, sharex=same, height_ratios=heights)[:, 0]
    for ax, (title, found) in zip(panels, groups, strict=True):
        for row, decision in enumerate(found):
            _draw_comparison(ax, row, decision)
        last = not same or ax is panels[-1]
        ax.grid(visible=False)
        ax.set_title(title, fontweight="bold")
        ax.set(ylim=(len(found) - 0.25, -0.6), yticks=[])
        ax.spines.left.set_visible(False)
        ax.spines.bottom.set_visible(last)
        ax.tick_params(bottom=last)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
        points = ", points" if found[0].unit.percent else ""
        ax.set_xlabel(f"difference{points}: seeds, mean and 95% interval" if last else "")
    return figure


def _draw_comparison(ax: Axes, row: int, decision: Decision) -> None:
    found, scale, middle = decision.difference, decision.unit.scale, row + 0.12
    color = VERDICTS.get(decision.answer, GRAY)
    mean = f"{decision.unit.bare(found.mean, '+')}  " if found.n else ""
    for text, x, align in ((decision.title, 0, "left"), (f"{mean}{decision.answer}", 1, "right")):
        ax.annotate(text, (x, row - 0.32), xycoords=("axes fraction", "data"), va="center", ha=align)
    ax.vlines(0, middle - 0.24, middle + 0.24, color=GRAY, linewidth=0.9)
    if decision.unit.percent:
        equivalent = [-scale * MARGIN, scale * MARGIN]
        ax.fill_between(equivalent, middle - 0.24, middle + 0.24, color=GRAY, alpha=0.2, linewidth=0)
    if found.interval is not None:
        ends = [scale * end for end in found.interval]
        ax.plot(ends, [middle] * 2, color=color, linewidth=7, alpha=0.35, solid_capstyle="butt")
    if found.n:
        ax.plot(scale * found.mean, middle, "|", color=color, markersize=13, markeredgewidth=2.5)
        values = [scale * value for value in found.by_seed.values()]
        ax.plot(values, [middle] * len(values), "o", color=color, markersize=4.5, markerfacecolor="none")


@as_svg
def curves(study: Study) -> Figure:
    """The test metric against samples trained: the mean of the seeds, in a band from the lowest to the highest."""
    figure = Figure(figsize=(_WIDTH, 3.9))
    ax, unit, column = figure.subplots(), unit_of(study.metric, study.fraction), f"test_{study.metric}"
    samples_of, late = study.runs.groupby("method").samples_trained.max(), list[float]()
    for method, records in study.history.groupby("method", sort=False):
        values = unit.scale * records.groupby("generation")[column].agg(["mean", "min", "max"]).dropna()
        values.index = values.index / records.generation.max() * samples_of[method] / 1000
        _draw_band(ax, values, method, title_of(method))
        late += [*values[values.index >= values.index.max() / 5].to_numpy().ravel()]
    margin = 0.04 * (max(late) - min(late)) or 0.5
    ax.set_ylim(min(late) - margin, max(late) + margin)  # the first steps are steep and say little
    ax.set(xlabel="samples trained, thousands", xlim=(0, None), ylabel=f"test {study.metric}{unit.sign}")
    ax.xaxis.set_major_formatter("{x:,.10g}")
    figure.legend(loc="outside upper left", ncols=2)
    return figure


@as_svg
def selection(history: pd.DataFrame) -> Figure:
    """How selections ended, the cases they used and how often candidates disagreed, over training."""
    compared = dict(list(history[history.cases_used > 0].groupby("method", sort=False)))
    ended = [name for name, found in compared.items() if len({*found.reason} & {*ENDINGS}) > 1]
    apart = {name: found for name, found in compared.items() if found.disagreement.any()}
    figure, axes = _stacked(len(ended) + 1 + bool(apart))
    for method in ended:
        ax, bins = axes.pop(0), _bins(compared[method].generation, 20)
        shares = [100 * (compared[method].reason == reason).groupby(bins).mean() for reason in ENDINGS]
        ax.stackplot(shares[0].index, shares, labels=list(ENDINGS.values()), colors=_SHADES, step="mid")
        ax.set(title=f"{title_of(method)} ended with, %", ylim=(0, 100))
        if method == ended[0]:
            ax.legend(
                loc="lower right", bbox_to_anchor=(1, 0.98), ncols=3, columnspacing=1, handlelength=0.8, borderpad=0
            )
    for method, found in compared.items():
        _draw_band(axes[0], _binned(found, found.cases_used, "median"), method, title_of(method))
    axes[0].set_title("cases used")
    _make_log(axes[0])
    for method, found in apart.items():
        _draw_band(axes[1], _binned(found, 100 * found.disagreement), method, title_of(method))
        axes[1].set(title="cases on which two candidates disagree, %", ylim=(0, None))
    if len(compared) > 1:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=3)
    return figure


@as_svg
def learning(history: pd.DataFrame, metric: str | None) -> Figure:
    """The metric and the training loss of one run; a band goes from the candidates' lowest loss to the highest."""
    method, unit = history.method.iloc[0], unit_of(str(metric))
    parts = [part for part in ("test", "validation") if f"{part}_{metric}" in history]
    figure, axes = _stacked(bool(parts) + 1, height=2.4)
    for part in parts:
        values = unit.scale * history.set_index("generation")[f"{part}_{metric}"].dropna()
        axes[0].plot(values.index, values, "-" if part == "test" else ":", marker=".", color=color_of(method))
        axes[0].set_title(f"{' and '.join(parts)} {metric}{unit.sign}")
    losses = pd.DataFrame(history.losses.tolist(), dtype=float).agg(["mean", "min", "max"], axis=1)
    _draw_band(axes[-1], losses.groupby(_bins(history.generation)).mean(), method, "")
    axes[-1].set_title("training loss: mean and range of the candidates")
    _make_log(axes[-1])
    return figure


def _stacked(panels: int, height: float = 1.75) -> tuple[Figure, list[Axes]]:
    """Panels one below the other, over the generations."""
    figure = Figure(figsize=(_WIDTH, height * panels + 0.4))
    axes = list(figure.subplots(panels, 1, squeeze=False, sharex=True)[:, 0])
    axes[-1].set_xlabel("generation")
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure, axes


def _make_log(ax: Axes) -> None:
    """A logarithmic axis with plain numbers, if all values are positive."""
    if not 0 < ax.dataLim.ymin < np.inf:
        return
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 3) if ax.dataLim.ymax < 1e4 * ax.dataLim.ymin else (1,)))
    ax.yaxis.set_major_formatter("{x:,.10g}")
    ax.yaxis.set_minor_formatter(NullFormatter())


def _binned(found: pd.DataFrame, values: pd.Series[Any], middle: str = "mean") -> pd.DataFrame:
    """Values over generations: the seeds' means (or medians) in each bin, as mean, lowest and highest."""
    by_seed = values.groupby([found.seed, _bins(found.generation)]).agg(middle)
    return by_seed.groupby(level=1).agg(["mean", "min", "max"])


def _bins(generations: pd.Series[Any], most: int = 60) -> pd.Series[Any]:
    """The middle of the bin that each generation is in."""
    first, last = generations.min(), generations.max()
    width = max(1, int(np.ceil((last - first + 1) / most)))
    return (generations - first) // width * width + first + (width - 1) / 2


def _draw_band(ax: Axes, values: pd.DataFrame, method: str, label: str) -> None:
    """A line of means in a band, over the index."""
    color, marker = color_of(method), "." if len(values) < 3 else ""
    ax.fill_between(values.index, values["min"], values["max"], color=color, alpha=0.18, linewidth=0)
    ax.plot(values.index, values["mean"], line_of(method), marker=marker, color=color, label=label)
