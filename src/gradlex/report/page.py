"""The page of a run and the page of an experiment: one HTML file each that loads nothing."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from gradlex._files import write_atomically
from gradlex.errors import InputError, RunError
from gradlex.recipe import GIVEN, Recipe
from gradlex.report import figures
from gradlex.report.decisions import decisions
from gradlex.report.frames import EXPERIMENT, studies
from gradlex.report.summary import RunFacts, decisive
from gradlex.report.tables import Table, tables
from gradlex.report.words import title_of, unit_of

_GALLERY = 12
_SIDE = 96


def write_run_page(run: Path | str, page: Path | str | None = None) -> Path:
    """Write the page of a run: what it reached, how selection went, and which cases decided.

    Args:
        run: The run's folder.
        page: The file (default: report.html in the folder).

    Examples:
        >>> import gradlex
        >>> gradlex.report.write_run_page("runs/mine")  # doctest: +SKIP
        PosixPath('runs/mine/report.html')
    """
    facts, drawn = RunFacts(Path(run)), []
    history = facts.history
    if history.empty:
        raise InputError(f"{run} has no generation yet: train it first.")
    if history.losses.str.len().max():
        drawn.append(figures.learning(history, facts.metric))
    if (history.cases_used > 0).any():
        drawn.append(figures.selection(history))
    settings = {**facts.stored.recipe, **facts.stored.environment}.items()
    return _write(
        Path(page) if page else Path(run) / "report.html",
        title=facts.title,
        note=facts.state,
        tiles=facts.tiles,
        figures=drawn,
        sentences=facts.sentences,
        galleries=_galleries(facts),
        folded=[("Settings", "\n".join(f"{name}: {value}" for name, value in settings if value is not None))],
    )


def write_experiment_page(folder: Path | str, page: Path | str | None = None) -> Path:
    """Write the page of an experiment: its comparisons in a plot and in sentences; everything else is folded.

    Args:
        folder: The experiment's folder.
        page: The file (default: report.html in the folder).
    """
    if not (Path(folder) / EXPERIMENT).exists():
        raise InputError(f"{folder} is not an experiment: it has no {EXPERIMENT}.")
    study = studies(folder)[0]
    found, unit = decisions(study), unit_of(study.metric, study.fraction)
    drawn = figures.drawings(study, found)
    runs = study.runs.reindex(columns=["method", "seed", f"test_{study.metric}"]).itertuples(index=False)
    rows = tuple((title_of(method), str(seed), unit.value(value)) for method, seed, value in runs)
    every = Table(title="Runs", columns=("method", "seed", f"test {study.metric}"), rows=rows)
    folded = [
        *((table.title, table) for table in tables(study, found)),
        ("Learning curves", drawn.get("curves")),
        ("How selection went, over training", drawn.get("selection")),
        (every.title, every),
        ("How it was made", f"{study.command}\n\n{study.note}".strip()),
    ]
    return _write(
        Path(page) if page else Path(folder) / "report.html",
        title=study.title,
        note=study.setting,
        figures=[drawn["comparisons"]] if found else [],
        sentences=[decision.sentence for decision in found],
        folded=[(name, part) for name, part in folded if part],
    )


def _write(page: Path, **values: Any) -> Path:
    """Fill the template: text is escaped, a figure is not."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gradlex.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    content = environment.get_template("page.html").render(values)
    page.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(page, content.encode("utf-8", "replace"))
    return page


def _galleries(facts: RunFacts) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The cases that decided most, early and late in the run, with their pictures if the data is there."""
    late = facts.history.generation > facts.history.generation.max() / 2
    found = {"first": decisive(facts.history[~late])[:_GALLERY], "second": decisive(facts.history[late])[:_GALLERY]}
    shown = _pictures(facts, sorted({case for most in found.values() for case, *_ in most}))
    for half, most in found.items():
        cards = []
        for case, out, ended in most:
            words = [f"{out} eliminated"] * bool(out) + [f"all failed it {ended}x"] * bool(ended)
            cards.append({"case": case, "what": ", ".join(words), **shown.get(case, {})})
        if cards:
            yield f"Cases that decided most in the {half} half", cards


def _pictures(facts: RunFacts, cases: list[int]) -> dict[int, dict[str, str]]:
    """The class and, for images, the picture of training samples; nothing if the run's data isn't found again."""
    from gradlex.runs.problem import stored_parts  # imports torch

    given = facts.stored.recipe
    if not cases or given.get("dataset") in (None, GIVEN):
        return {}
    try:
        parts = stored_parts(Recipe(**given), facts.stored.data, facts.stored.environment)
    except (InputError, RunError, OSError):
        return {}
    inputs, targets = parts.train.clean(np.asarray(cases))
    names, found = parts.class_names, {}
    for case, sample, target in zip(cases, np.asarray(inputs), targets.tolist(), strict=True):
        found[case] = {"label": str(names[target]) if names else str(target)}
        if sample.ndim == 3:
            found[case]["picture"] = _thumbnail(sample)
    return found


def _thumbnail(sample: np.ndarray) -> str:
    """An image (channels, height, width) as a data address."""
    from PIL import Image

    values = sample.astype(np.float64)
    if sample.dtype != np.uint8:
        values = 255 * (values - values.min()) / (np.ptp(values) or 1)
    pixels = values.round().astype(np.uint8).transpose(1, 2, 0)
    image = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels.mean(axis=2).astype(np.uint8))
    image.thumbnail((_SIDE, _SIDE))
    content = io.BytesIO()
    image.save(content, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
