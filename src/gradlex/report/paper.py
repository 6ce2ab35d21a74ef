"""paper: the tables of Ding and Spector (ICLR 2022) and their figure 2, ours beside the published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gradlex.experiments import features, published, save_features
from gradlex.experiments.activations import DIVERSITY, common_edges, load_features
from gradlex.experiments.grids import paper_grid
from gradlex.report.compare import Comparison, compare
from gradlex.report.figures import as_svg, color_of, line_of
from gradlex.report.frames import Study
from gradlex.report.statistics import paired
from gradlex.report.tables import Table
from gradlex.report.words import NONE, title_of
from gradlex.runs import load
from gradlex.runs.problem import stored_parts

IMAGES = 100  # the paper's number


@dataclass(frozen=True, kw_only=True)
class PaperResults:
    """A table of the paper, as far as it was run. Printed, it is the table beside the published one.

    Attributes:
        name: table1, table2, table3, table4 or figure2.
        comparisons: One for each dataset and model.
    """

    name: str
    comparisons: Mapping[tuple[str, str], Comparison]

    @property
    def commands(self) -> tuple[str, ...]:
        """One shell command for each run that isn't finished, if they were asked for."""
        return tuple(command for each in self.comparisons.values() for command in each.commands)

    @property
    def failures(self) -> tuple[Any, ...]:
        """The runs that failed in this call."""
        return tuple(failure for each in self.comparisons.values() for failure in each.failures)

    def table(self) -> Table:
        """Final test accuracy in percent: our rows, then the paper's."""
        methods = next(iter(self.comparisons.values())).study.methods
        rows = []
        for setting, comparison in self.comparisons.items():
            ours = comparison.table().rows
            rows.append((*setting, "gradlex", min(row[1] for row in ours), *(row[2] for row in ours)))
        for setting, theirs in published(self.name).groupby(["dataset", "model"], sort=False):
            spread = theirs["std"].map(lambda std: "" if pd.isna(std) else f" ± {std:.2f}")
            cells = dict(zip(theirs.method, theirs.accuracy.map("{:.2f}".format) + spread, strict=True))
            rows.append((*setting, "published", "3", *(cells.get(method, NONE) for method in methods)))
        return Table(
            title=f"{self.name}: final test accuracy, %",
            columns=("dataset", "model", "source", "seeds", *map(title_of, methods)),
            rows=tuple(rows),
            note="Published: Ding and Spector (ICLR 2022), 200 epochs of SGD, 200 (p + 1) of a population of p. For "
            "tables 3 and 4 the number of seeds is inferred from the others.",
            words=3,
        )

    def __str__(self) -> str:
        if self.commands:
            return "\n".join(self.commands)
        verdicts = [f"{' '.join(setting)}: {each.verdict}" for setting, each in self.comparisons.items()]
        shown = [figure2(each.path) for each in self.comparisons.values()] if self.name == "figure2" else [self.table()]
        return "\n\n".join([*verdicts, *(table.text(120) for table in shown)])


def paper(
    table: str = "table1", *, scale: str = "smoke", out: Path | str | None = None, **options: Any
) -> PaperResults:
    """Run table1, table2, table3, table4 or figure2 of the paper. Call it again to continue.

    Args:
        table: Networks and datasets (table1), selection methods (table2), population sizes (table3), momentum between
            generations (table4), or representation diversity (figure2).
        scale: smoke (a minute, to see that it works), small (three hours on two cores), or paper (its setting).
        out: A folder for the runs (default: one in runs/).
        **options: Options of `gradlex.compare`, such as `jobs`, `backend`, `commands_only` and `progress`; recipe
            fields; or options of `gradlex.train`, for all runs.

    Examples:
        >>> import gradlex
        >>> print(gradlex.paper("table2", scale="small", jobs=2))  # doctest: +SKIP
    """
    grid = paper_grid(table, scale)
    folder = Path("runs") / f"{table}-{scale}" if out is None else Path(out)
    found = {}
    for dataset in grid.datasets:
        for model in grid.models:
            comparison = compare(
                model,
                dataset,
                grid.recipe,
                methods=grid.methods,
                seeds=range(grid.num_seeds),
                epochs=grid.epochs,
                out=folder / f"{dataset}-{model}",
                pairs=[("lexicase", method) for method in grid.methods if method != "lexicase"],
                title=f"{table}: {model} on {dataset}",
                **options,
            )
            if table == "figure2" and not options.get("commands_only"):
                _record_features(comparison.study)
            found[dataset, model] = comparison
    return PaperResults(name=table, comparisons=found)


def figure2(folder: Path | str) -> Table:
    """Draw FOLDER/figure2.svg, SGD against lexicase, from the features that runs keep, and return all numbers.

    A run of your own loop keeps them by `save_features(method.folder, features(model, images))`, both of
    `gradlex.experiments`.

    Examples:
        >>> import gradlex
        >>> print(gradlex.report.figure2("runs/cifar10").markdown())  # doctest: +SKIP
    """
    kept = {
        (path.parent.name, int(path.name.removeprefix("seed"))): found
        for path in sorted(Path(folder).glob("*/seed*"))
        if (found := load_features(path))
    }
    layers, rows = list(next(iter(kept.values()), {})), []
    for layer in layers:
        edges = common_edges(found[layer] for found in kept.values())
        numbers = pd.DataFrame(
            {name: number(found[layer], edges) for name, number in DIVERSITY.items()} for found in kept.values()
        )
        numbers.index = pd.MultiIndex.from_tuples(kept)
        for method, own in numbers.groupby(level=0):
            rows.append((layer, title_of(str(method)), *own.mean().map("{:.3f}".format)))
        if {"lexicase", "sgd"} <= {method for method, _ in kept}:
            cells = []
            for name in DIVERSITY:
                gap = paired(numbers[name].loc["lexicase"], numbers[name].loc["sgd"])
                interval = " [{:+.3f}, {:+.3f}]".format(*gap.interval) if gap.interval else ""
                cells.append(f"{gap.mean:+.3f}{interval}" if gap.n else NONE)
            rows.append((layer, "lexicase minus SGD", *cells))
    if layers:
        (Path(folder) / "figure2.svg").write_text(_panels(kept, layers), encoding="utf-8")
    return Table(
        title="Figure 2: representation diversity",
        columns=("layer", "method", *DIVERSITY),
        rows=tuple(rows),
        note=f"The largest activation of each channel for the first {IMAGES} test images: the share of zeros, the "
        "entropy of their histogram in nats, and the effective rank of the (images, channels) matrix (Roy and Vetterli "
        "2007). Means over seeds, and 95% intervals of differences paired by seed.",
        words=2,
    )


def _record_features(study: Study) -> None:
    for run in study.runs[study.runs.finished].itertuples():
        if not load_features(run.path):
            trained = load(run.path)
            test = stored_parts(trained.recipe, trained.data, trained.environment).test
            assert test is not None
            images, _ = test.clean(np.arange(min(IMAGES, len(test))))
            save_features(run.path, features(trained.model, images))


@as_svg
def _panels(kept: Mapping[tuple[str, int], Mapping[str, Any]], layers: list[str]) -> Figure:
    figure = Figure(figsize=(3.2 * len(layers), 2.9))
    methods = [name for name in ("sgd", "lexicase") if name in {method for method, _ in kept}]
    axes = figure.subplots(1, len(layers), squeeze=False)[0]
    for ax, layer in zip(axes, layers, strict=True):
        edges = common_edges(found[layer] for found in kept.values())
        for method in methods:
            values = np.concatenate([found[layer].ravel() for (own, _), found in kept.items() if own == method])
            style = {"color": color_of(method), "linestyle": line_of(method), "label": title_of(method)}
            ax.hist(values, bins=list(edges), density=True, histtype="step", **style)
        ax.set(title=f"layer {layer}", xlabel="largest activation of a channel", ylabel="density")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure
