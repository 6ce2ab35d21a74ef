"""How plots look, and how they are saved: the same records give the same bytes."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradlex.experiments import METHODS
from gradlex.report._columns import Setting
from gradlex.report._evidence import Evidence

# The colours of Okabe and Ito (2008), which the colour-blind can tell apart.
_BLACK, _GREY = "#000000", "#8a8a8a"
_ORANGE, _SKY, _GREEN, _BLUE = "#E69F00", "#56B4E9", "#009E73", "#0072B2"
_VERMILION, _PURPLE = "#D55E00", "#CC79A7"
_OTHERS = (_BLUE, _GREEN, _ORANGE, _SKY, _PURPLE)

_DRAWN = {
    # A user's own matplotlibrc must not change a figure: everything starts from matplotlib's defaults.
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "gradlex",
}
# Without these a file would carry the date and the version of matplotlib.
_METADATA: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


@dataclass(frozen=True)
class Look:
    """The colour and line of one method."""

    colour: str
    line: str = "-"


# Red for SGD and blue for lexicase, as figure 2 of the paper has them.
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
}

SETS = tuple(map(Look, (_VERMILION, *_OTHERS, _BLACK)))
"""For sets of runs that have no method in common: the baseline first, then as many others as need be."""


def looks(evidence: Evidence) -> dict[str, Look]:
    """By title, in the order of the tables: a method keeps its look in every plot; variants of one take turns."""
    titles = {title: arm for s in evidence.settings for title, arm in evidence.on(s).items()}
    variants = [title for title, arm in titles.items() if title != METHODS[arm.method].title]
    return {
        title: Look(_OTHERS[variants.index(title) % len(_OTHERS)])
        if title in variants
        else _LOOKS.get(arm.method, Look(_PURPLE, ":"))
        for title, arm in titles.items()
    }


def panels(evidence: Evidence, *, width: float, height: float) -> tuple[Figure, dict[Setting, Axes]]:
    """One panel a dataset and model, at most three beside each other; sizes in inches."""
    settings = evidence.settings
    across = min(3, len(settings))
    down = math.ceil(len(settings) / across)
    figure = Figure(figsize=(width * (0.4 + 0.6 * across), height * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False)
    places = list(grid.flat)
    for unused in places[len(settings) :]:
        unused.remove()
    axes: dict[Setting, Axes] = dict(zip(settings, places, strict=False))
    for setting, ax in axes.items():
        ax.set_title(str(setting), loc="left")
    return figure, axes


def save_figure(draw: Callable[[], Figure], stem: Path) -> list[Path]:
    """Draw a figure and write it as PNG and as SVG."""
    written = []
    with matplotlib.style.context(["default", _DRAWN]):
        figure = draw()
        for kind, metadata in _METADATA.items():
            content = io.BytesIO()
            figure.savefig(content, format=kind, dpi=150, metadata=metadata)
            path = stem.with_name(f"{stem.name}.{kind}")
            path.write_bytes(content.getvalue())
            written.append(path)
    return written
