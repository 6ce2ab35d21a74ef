"""gradlex paper, gradlex compare, gradlex report"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from gradlex.cli._dimensions import Carried, Dimensions
from gradlex.errors import InputError
from gradlex.experiments import Scale, comparison, paper_grid

Name = Literal["table1", "table2", "table3", "table4", "figure2"]


def paper(
    experiment: Annotated[Name, tyro.conf.Positional],
    dimensions: Dimensions,
    carried: Carried,
    *,
    scale: Scale = "smoke",
    datasets: tuple[str, ...] = (),
    models: tuple[str, ...] = (),
    layers: tuple[str, ...] = (),
    first: tuple[Path, ...] = (),
    second: tuple[Path, ...] = (),
) -> None:
    """Run one of the paper's experiments, and print it beside the published numbers.

    What is done is not done again, what was interrupted goes on: start the same command again.

    Args:
        experiment: table1: architectures and datasets; table2: selection methods; table3: population sizes; table4:
            momentum; figure2: representations.
        dimensions: What differs from the experiment's own grid.
        carried: How it is carried out.
        scale: smoke: a minute, offline; small: about three hours on two cores; paper: the paper's setting.
        datasets: Names, .npz archives or folders.
        models: Names, or package.module:factory.
        layers: figure2: layers whose activations are compared. By default the last two stages.
        first: figure2: finished runs to compare, instead of running any.
        second: figure2: finished runs to compare them with.
    """
    from gradlex.cli._compare_runs import compare_runs
    from gradlex.cli._experiment import Experiment

    if experiment != "figure2" and (layers or first or second):
        raise InputError(f"layers, first and second belong to figure2, not to {experiment}: leave them out.")
    if first or second:
        runs = dataclasses.replace(carried, out=None, device="auto", data_dir=None)
        if (datasets, models, scale, dimensions, runs) != ((), (), "smoke", Dimensions(), Carried()):
            raise InputError("--first and --second compare finished runs: leave out what tells which to run.")
        compare_runs(first, second, layers, carried)
        return
    grid = dimensions.applied(paper_grid(experiment, scale))
    grid = dataclasses.replace(grid, datasets=datasets or grid.datasets, models=models or grid.models)
    if experiment == "figure2" and len(grid.datasets) * len(grid.models) > 1:
        raise InputError("figure2 compares methods on one dataset and one model: name one of each.")
    root = carried.out or Path("runs") / f"paper-{scale}"
    Experiment(experiment, scale, grid, root, carried, layers).carry_out()


def compare(
    dimensions: Dimensions,
    carried: Carried,
    *,
    dataset: str = "digits",
    model: str = "small-cnn",
) -> None:
    """Does it help on mine? Train your model on your data by SGD, by SGD of equal cost, and by selection.

    What is done is not done again, what was interrupted goes on: start the same command again.

    Args:
        dimensions: What differs from the usual comparison.
        carried: How it is carried out.
        dataset: A name, a .npz archive, or a folder of pictures with train/ and test/.
        model: A name, package.module:factory, or timm:NAME.
    """
    from gradlex.cli._experiment import Experiment

    words = (Path(dataset).stem, model.replace(":", "-").replace("/", "-"))
    root = carried.out or Path("runs") / "-".join(("compare", *words))
    Experiment("compare", "own", dimensions.applied(comparison(dataset, model)), root, carried).carry_out()


def report(root: Annotated[Path, tyro.conf.Positional], *, page: Path | None = None) -> None:
    """Make all tables and plots of a folder of experiments again from the records of its runs.

    Args:
        root: The folder: --out of gradlex paper or gradlex compare.
        page: Also write one page about all of them, RESULTS.md for example, beside the folder.
    """
    from gradlex.cli._console import console
    from gradlex.experiments import stored_plans
    from gradlex.report import results_page, text_report, write_report

    out = console()
    if page is not None and (page.is_dir() or not page.resolve().parent.is_dir()):
        raise InputError(f"the page {page} cannot be written: its folder must be there, and it a file.")
    for plan in stored_plans(root):
        written = write_report(plan)
        out.print(text_report(plan, out.width), soft_wrap=True)
        out.print(f"{len(written)} files written: {', '.join(path.name for path in written)}", soft_wrap=True)
    if page is not None:
        page.write_text(results_page(root, page), encoding="utf-8", newline="\n")
        out.print(f"page: {page}", soft_wrap=True)
