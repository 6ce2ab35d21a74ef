"""Two plots of an experiment: accuracy while training, and final accuracy seed by seed."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gradlex.report._drawing import Look, looks, panels
from gradlex.report._evidence import Arm, Evidence
from gradlex.report._statistics import summarize


def curves(evidence: Evidence) -> Figure:
    """Test accuracy against samples trained: a line a method for the mean over seeds, a thin one for each seed."""
    figure, axes = panels(evidence, width=8.0, height=4.2)
    look = looks(evidence)
    for setting, ax in axes.items():
        arms = evidence.on(setting)
        lowest = [_draw_curve(ax, arm, look[title]) for title, arm in arms.items()]
        top = max(max(arm.accuracies.values()) for arm in arms.values())
        # The first steps are steep and say little: the axis begins where the slowest method is after a fifth.
        bottom = min(lowest)
        margin = max(0.05 * (top - bottom), 0.1)
        ax.set_ylim(bottom - margin, top + margin)
        ax.set_xlim(left=0)
        unit, word = (1e6, ", millions") if ax.get_xlim()[1] > 1e6 else (1e3, ", thousands")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda number, _, unit=unit: f"{number / unit:g}"))
        ax.yaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
        ax.set_xlabel(f"samples trained{word}")
        ax.set_ylabel("test accuracy, %")
        ax.grid(alpha=0.25, linewidth=0.6)
    found = {
        text: handle
        for ax in axes.values()
        for handle, text in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    ordered = [title for title in look if title in found]
    figure.legend([found[title] for title in ordered], ordered, loc="outside right upper")
    return figure


def accuracies(evidence: Evidence) -> Figure:
    """Final test accuracy: a circle a seed, a stroke for the mean, a bar for its 95 % interval."""
    rows = max(len(evidence.on(setting)) for setting in evidence.settings)
    figure, axes = panels(evidence, width=7.0, height=1.1 + 0.29 * rows)
    look = looks(evidence)
    for setting, ax in axes.items():
        arms = evidence.on(setting)
        for row, (title, arm) in enumerate(arms.items()):
            _draw_accuracies(ax, row, arm, look[title])
        ax.set_yticks(range(len(arms)), list(arms))
        ax.set_ylim(len(arms) - 0.4, -0.6)  # the first method on top, as in the tables
        ax.tick_params(axis="y", length=0)
        left, right = ax.get_xlim()
        ax.set_xlim(max(left, 0.0), min(right, 100.5))  # an interval of two seeds may pass what is possible
        ax.xaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
        ax.set_xlabel("test accuracy, %  (circles: seeds; bar: mean and its 95 % interval)")
        ax.grid(axis="x", alpha=0.25, linewidth=0.6)
    return figure


def _draw_curve(ax: Axes, arm: Arm, look: Look) -> float:
    """Draw one method; its accuracy after a fifth of its training."""
    points = [_evaluated(arm, seed) for seed in arm.runs]
    for line in points:
        if len(points) > 1:
            ax.plot(list(line), list(line.values()), color=look.colour, linewidth=0.6, alpha=0.3)
    shared = sorted(set.intersection(*(set(line) for line in points)))
    means = [summarize([line[x] for line in points]).mean for x in shared]
    ax.plot(shared, means, color=look.colour, linestyle=look.line, linewidth=1.6, label=arm.title, zorder=3)
    return means[min(len(means) - 1, math.ceil(len(means) / 5))]


def _evaluated(arm: Arm, seed: int) -> Mapping[int, float]:
    """Test accuracy in per cent, by samples trained until then."""
    run = arm.runs[seed]
    return {
        (record.generation + 1) * run.data["train_samples"]: 100 * record.evaluation.accuracy
        for record in run.generations
        if record.evaluation is not None
    }


def _draw_accuracies(ax: Axes, row: int, arm: Arm, look: Look) -> None:
    summary = arm.summary
    if summary.low is not None and summary.high is not None:
        ax.plot([summary.low, summary.high], [row, row], color=look.colour, linewidth=5, alpha=0.25)
        ax.plot([summary.mean], [row], "|", color=look.colour, markersize=13, markeredgewidth=2)
    seeds = list(arm.accuracies.values())
    ax.plot(
        seeds, [row] * len(seeds), "o", color=look.colour, markersize=4.5, markerfacecolor="white", zorder=3
    )
