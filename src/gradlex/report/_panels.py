"""The panels of figure 2: a histogram and a smooth density for each set of runs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde

from gradlex.report._diversity import Values
from gradlex.report._drawing import Look
from gradlex.report._features import Compared, Layer

SHOWN = 0.999
"""The part of a method's values that the axis shows."""

_POINTS = 500


def layer_panels(compared: Compared, drawn_as: Mapping[str, Look]) -> Figure:
    """A panel a layer, with every set of runs."""
    figure = Figure(figsize=(0.4 + 3.4 * len(compared.layers), 3.1), layout="constrained")
    panels = figure.subplots(1, len(compared.layers), squeeze=False)[0]
    for panel, (layer, sets) in zip(panels, compared.layers.items(), strict=True):
        _draw(panel, sets, compared.edges[layer], drawn_as)
        panel.set_title(layer)
        panel.set_xlabel("activation (maximum of a channel)")
    panels[0].set_ylabel("density")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(3, len(labels)))
    return figure


def _draw(panel: Axes, sets: Layer, edges: Values, drawn_as: Mapping[str, Look]) -> None:
    margin = 0.03 * (edges[-1] - edges[0])
    points = np.linspace(edges[0] - margin, edges[-1] + margin, _POINTS)
    ends = []
    for title, runs in sets.items():
        look = drawn_as[title]
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
        # Where every value is the same there is no density to estimate: the histogram says it all.
        smooth = gaussian_kde(values)(points) if np.ptp(values) > 0 else np.full(_POINTS, np.nan)
        label = title if len(runs) == 1 else f"{title} ({len(runs)} runs)"
        panel.plot(points, smooth, look.line, color=look.colour, linewidth=1.5, label=label)
    panel.set_xlim(points[0], max(ends) + margin)  # a single strong answer would leave half the panel empty
    panel.set_ylim(bottom=0)
