"""Figure 2 of Ding and Spector 2022: how the activations of layers are distributed, method beside method.

One panel for each layer: the histogram of all channels' maxima over the first test images, and a smooth density over
it. The activations come from RUN/activations.npz alone, so the figure needs neither weights nor data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde

from gradlex.errors import InputError
from gradlex.experiments import ACTIVATIONS, Plan, stored_activations
from gradlex.report._diversity import (
    BINS,
    NUMBERS,
    Features,
    Values,
    common_edges,
)
from gradlex.report._evidence import Evidence, gather
from gradlex.report._format import listed, number_of, plain
from gradlex.report._outcome import read_run
from gradlex.report._plots import SETS, Look, add_caption, add_legend, looks, save_figure
from gradlex.report._provenance import revision_notes, setup_notes
from gradlex.report._statistics import Difference, Summary, paired, summarize, unpaired
from gradlex.report._table import Table

Layer: TypeAlias = dict[str, list[Features]]
"""The features of each set's runs, in the order of their seeds."""

SHOWN = 0.999
"""The part of a method's values that the axis shows."""

_POINTS = 500
_DIGITS = {"zeros": 1, "entropy": 3, "effective rank": 1}


def write_figure2(plan: Plan) -> list[Path]:
    """Draw ROOT/figure2 from the finished runs of a plan, on one dataset and model, that have activations."""
    evidence = gather(plan)
    groups, absent = planned_groups(evidence)
    if not groups:
        return []
    return draw_figure2(
        groups,
        plan.root / "figure2",
        layers=plan.layers or None,
        notes=(*setup_notes(evidence), *evidence.missing_notes, *absent),
        looks_by_title=looks(evidence),
        caption=" ".join(revision_notes(evidence.arms)),
    )


def draw_figure2(
    groups: Mapping[str, Sequence[Path]],
    target_stem: Path,
    *,
    layers: Sequence[str] | None = None,
    notes: Sequence[str] = (),
    looks_by_title: Mapping[str, Look] | None = None,
    caption: str = "",
) -> list[Path]:
    """Draw STEM.png and STEM.svg, with the numbers in STEM.txt, STEM.md and STEM.tex, for sets of runs by title.

    `layers` None: those that all runs have activations of. `notes` go below the numbers, `caption` below the figure.
    `looks_by_title` None: the first set in the paper's red, the second in its blue.
    """
    found = compared(groups, layers)
    table = _table(found, notes)
    written = [target_stem.with_name(f"{target_stem.name}.{ending}") for ending in ("txt", "md", "tex")]
    for path, content in zip(written, (table.text(), table.markdown(), table.latex()), strict=True):
        path.write_text(content, encoding="utf-8", newline="\n")
    look = looks_by_title or dict(zip(groups, cycle(SETS), strict=False))
    return written + save_figure(lambda: layer_panels(found, look, caption), target_stem)


# What is compared.


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Sets of runs, and the features of each layer in them."""

    groups: Mapping[str, Sequence[Path]]
    """Runs by the set's title, in the order of their seeds."""
    seeds: Mapping[str, Sequence[int]]
    layers: Mapping[str, Layer]
    edges: Mapping[str, Values]
    """Of the bins that all sets of a layer share."""

    def paired(self, title: str, other: str) -> bool:
        """Whether two sets have the same seeds, each once: runs of one seed start from the same weights."""
        seeds = self.seeds[title]
        return seeds == self.seeds[other] and len(set(seeds)) == len(seeds)


def planned_groups(evidence: Evidence) -> tuple[dict[str, list[Path]], list[str]]:
    """The finished runs by their columns' titles, and lines for those without activations."""
    settings = evidence.settings
    if len(settings) != 1:
        found = listed(settings) if settings else "no finished run"
        raise InputError(
            f"figure 2 compares methods on one dataset and model; {evidence.plan.file} has {found}: name one of each, "
            "or give the runs themselves."
        )
    groups, absent = dict[str, list[Path]](), list[str]()
    for title, arm in evidence.on(settings[0]).items():
        for seed, run in arm.runs.items():
            kept = stored_activations(run.path) if (run.path / ACTIVATIONS).exists() else {}
            if kept and set(evidence.plan.layers) <= set(kept):
                groups.setdefault(title, []).append(run.path)
            else:
                absent.append(
                    f"Not drawn: {title}, seed {seed}: run gradlex paper figure2 to record its activations."
                )
    return groups, absent


def compared(groups: Mapping[str, Sequence[Path]], layers: Sequence[str] | None) -> Compared:
    """Read the activations; refused unless all runs have the layers, on the same number of images."""
    if not groups or not all(groups.values()):
        raise InputError(f"figure 2 needs at least one run in every set, got {dict(groups)}.")
    seeds = {run: read_run(run).recipe.seed for runs in groups.values() for run in runs}
    groups = {title: sorted(runs, key=seeds.__getitem__) for title, runs in groups.items()}
    kept = {run: stored_activations(run) for runs in groups.values() for run in runs}
    first = next(iter(kept.values()))
    common = [layer for layer in first if all(layer in activations for activations in kept.values())]
    missing = [layer for layer in layers or () if layer not in common]
    if missing or not common:
        have = "; ".join(f"{run} has {', '.join(activations)}" for run, activations in kept.items())
        raise InputError(
            f"not all runs have activations of {', '.join(missing) or 'a common layer'}: {have}. Record the same "
            "layers for all of them with gradlex.experiments.record_activations."
        )
    _check_activations(kept)
    found = {
        layer: {title: [kept[run][layer] for run in runs] for title, runs in groups.items()}
        for layer in layers or common
    }
    edges = {
        layer: common_edges(each for runs in sets.values() for each in runs) for layer, sets in found.items()
    }
    return Compared(
        groups=groups,
        seeds={title: [seeds[run] for run in runs] for title, runs in groups.items()},
        layers=found,
        edges=edges,
    )


def _check_activations(kept: Mapping[Path, Mapping[str, Features]]) -> None:
    images = {run: len(next(iter(activations.values()))) for run, activations in kept.items()}
    if len(set(images.values())) > 1 or min(images.values()) < 2:
        numbers = "; ".join(f"{run} has {number}" for run, number in images.items())
        raise InputError(
            f"all runs must have activations on the same number of images, at least 2: {numbers}. Record them again."
        )
    for run, activations in kept.items():
        for layer, values in activations.items():
            if not values.size or not np.isfinite(values).all():
                raise InputError(
                    f"the activations of {layer} in {run} are empty or not finite: record them again."
                )


# The numbers.


def _table(found: Compared, notes: Sequence[str]) -> Table:
    images = len(next(iter(next(iter(found.layers.values())).values()))[0])
    return Table(
        title="Figure 2: representation diversity",
        columns=("layer", "method", "run", "zeros, %", "entropy, nats", "effective rank"),
        rows=tuple(row for layer in found.layers for row in _rows(found, layer)),
        notes=(
            f"Features: the maximum of each channel over its map, for the first {images} test images. Entropy: of "
            f"the features' histogram in {BINS} bins shared by the rows of a layer. Effective rank: of the (images, "
            "channels) matrix, not centred (Roy and Vetterli 2007).",
            "In brackets: 95 % intervals of t-tests over runs, paired by seed where two methods have the same seeds; "
            "none for a single run.",
            f"The figure's axes end where {100 * SHOWN:g} % of a method's values do.",
            *notes,
        ),
        words=3,
    )


def _rows(found: Compared, layer: str) -> Iterator[tuple[str, ...]]:
    """Each set's mean and runs, then the difference of each further set from the first."""
    edges = found.edges[layer]
    sets = {
        title: {name: [number(features, edges) for features in runs] for name, number in NUMBERS.items()}
        for title, runs in found.layers[layer].items()
    }
    for title, numbers in sets.items():
        seeds = found.seeds[title]
        if len(seeds) > 1:
            means = (_cell(summarize(values), _DIGITS[name]) for name, values in numbers.items())
            yield layer, title, f"mean of {len(seeds)}", *means
        for place, seed in enumerate(seeds):
            cells = (f"{values[place]:.{_DIGITS[name]}f}" for name, values in numbers.items())
            yield layer, title, f"seed {seed}", *cells
    (first, base), *others = sets.items()
    for title, numbers in others:
        differences = {
            name: _difference(found, (title, values), (first, base[name])) for name, values in numbers.items()
        }
        cells = (_cell(difference, _DIGITS[name], sign="+") for name, difference in differences.items())
        yield layer, f"{title} minus {first}", "difference", *cells


def _difference(
    found: Compared, these: tuple[str, Sequence[float]], those: tuple[str, Sequence[float]]
) -> Difference:
    """Of two sets of runs, by title and with their numbers in the order of their seeds."""
    (title, values), (first, base) = these, those
    by_seed = paired(
        dict(zip(found.seeds[title], values, strict=True)), dict(zip(found.seeds[first], base, strict=True))
    )
    return by_seed if by_seed is not None and found.paired(title, first) else unpaired(values, base)


def _cell(estimate: Summary | Difference, digits: int, sign: str = "") -> str:
    form = f"{sign}.{digits}f"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.mean:{form}}"
    return f"{estimate.mean:{form}} [{estimate.low:{form}}, {estimate.high:{form}}]"


# The panels.


def layer_panels(found: Compared, looks_by_title: Mapping[str, Look], caption: str = "") -> Figure:
    """One panel for each layer, with every set of runs."""
    figure = Figure(figsize=(0.4 + 3.4 * len(found.layers), 3.3), layout="constrained")
    panels = figure.subplots(1, len(found.layers), squeeze=False)[0]
    for panel, (layer, sets) in zip(panels, found.layers.items(), strict=True):
        _draw(panel, sets, found.edges[layer], looks_by_title)
        panel.set_title(plain(f"layer {layer}"))
        panel.set_xlabel("activation (maximum of a channel)")
    panels[0].set_ylabel("density")
    titles = [f"{title} (n = {number_of(len(seeds), 'seed')})" for title, seeds in found.seeds.items()]
    add_legend(figure, dict(zip(titles, panels[0].get_lines(), strict=True)), loc="outside upper center")
    add_caption(figure, caption)
    return figure


def _draw(panel: Axes, sets: Layer, edges: Values, looks_by_title: Mapping[str, Look]) -> None:
    margin = 0.03 * (edges[-1] - edges[0])
    ends = []
    for title, runs in sets.items():
        look = looks_by_title[title]
        values = np.concatenate([features.ravel() for features in runs]).astype(np.float64)
        ends.append(float(np.quantile(values, SHOWN)))
        panel.hist(
            values,
            bins=list(edges),
            density=True,
            histtype="stepfilled",
            color=look.colour,
            alpha=0.3,
            linewidth=0,
        )
        points, heights = density(values)
        panel.plot(points, heights, linestyle=look.line, color=look.colour, linewidth=1.5)
    # One strong activation would leave half the panel empty.
    panel.set_xlim(edges[0] - margin, max(ends) + margin)
    panel.set_ylim(bottom=0)


def density(values: Values) -> tuple[Values, Values]:
    """Points and a kernel density there, which has no mass below the least value where nothing is negative.

    Activations after a ReLU end sharply at their least value: the part of the kernels beyond it is reflected.
    """
    low, high = float(values.min()), float(values.max())
    if high == low:  # no density to estimate: the histogram says it all
        return np.array([low]), np.array([np.nan])
    kernels = gaussian_kde(values)
    width = 3 * float(np.sqrt(kernels.covariance[0, 0]))
    if low < 0:
        points: Values = np.linspace(low - width, high + width, _POINTS)
        return points, kernels(points)
    points = np.linspace(low, high + width, _POINTS)
    return points, kernels(points) + kernels(2 * low - points)
