"""The charts of a run's page: its curves, its selection, its lineage."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median

from gradlex.callbacks import Record
from gradlex.report._decisions import Decision, decisions
from gradlex.report._format import NONE, count, label, number_of
from gradlex.report.html._chart import Chart, Series, per_cent, short
from gradlex.runs import StoredRun
from gradlex.tasks import Measure

_COLOURS = range(12)
"""The colours of a page: more candidates or reasons than these are not told apart."""


def curve_charts(run: StoredRun, measures: Sequence[Measure]) -> list[Chart]:
    records = run.generations
    if not records:
        return []
    x = _generations(records)
    charts = []
    for measure in measures:
        scale = 100 if measure.fraction else 1
        parts = {"test": "test", "validation": "validation", "ema": "moving average of the parents, test"}
        series = tuple(
            Series(
                name=title,
                values=[_scaled(record.metrics.get(part, {}).get(measure.name), scale) for record in records],
                colour=colour,
                joined=True,
            )
            for colour, (part, title) in enumerate(parts.items())
            if any(part in record.metrics for record in records)
        )
        values = [value for value in (series[0].values if series else ()) if value is not None]
        if not values:
            continue
        show = per_cent if measure.fraction else short
        charts.append(
            Chart(
                title=f"{series[0].name.capitalize()} {measure.name}",
                summary=f"{series[0].name.capitalize()} {measure.name} from {show(values[0])} to {show(values[-1])} in "
                f"{number_of(len(values), 'evaluation')}.",
                x=x,
                x_name="generation",
                y_name=label(series[0].name if len(series) == 1 else "", measure).strip(),
                series=series,
                show=show,
                log=_falls_far(series),
            )
        )
    charts.append(_loss_chart(records, x))
    rates = [record.lr for record in records]
    charts.append(
        Chart(
            title="Learning rate",
            summary=f"From {rates[0]:.4g} to {rates[-1]:.4g}.",
            x=x,
            x_name="generation",
            y_name="learning rate",
            series=(Series(name="learning rate", values=rates, colour=3),),
        )
    )
    return [chart for chart in charts if chart.drawn]


def _loss_chart(records: Sequence[Record], x: list[int]) -> Chart:
    most = max(len(record.losses) for record in records)
    if most <= len(_COLOURS):
        series = [
            Series(
                name=f"candidate {number}" if most > 1 else "training loss",
                values=[record.losses[number] if number < len(record.losses) else None for record in records],
                colour=number if most > 1 else 1,
                kind="thin" if most > 1 else "line",
            )
            for number in range(most)
        ]
    else:
        found = [[loss for loss in record.losses if loss is not None] for record in records]
        picks: dict[str, Callable[[list[float]], float]] = {"highest": max, "median": median, "lowest": min}
        series = [
            Series(
                name=name, values=[pick(each) if each else None for each in found], colour=colour, kind="thin"
            )
            for colour, (name, pick) in enumerate(picks.items())
        ]
    last = [loss for loss in records[-1].losses if loss is not None]
    diverged = sum(loss is None for record in records for loss in record.losses)
    return Chart(
        title="Training loss of each candidate" if most > 1 else "Training loss",
        summary=(f"In the last generation from {min(last):.4g} to {max(last):.4g}. " if last else "")
        + (f"{number_of(diverged, 'candidate')} diverged." if diverged else "No candidate diverged."),
        x=x,
        x_name="generation",
        y_name="training loss",
        series=tuple(series),
        log=_falls_far(series),
    )


def _falls_far(series: Sequence[Series]) -> bool:
    """Whether values are all above 0 and differ so much that the small ones are seen on a logarithmic scale only."""
    found = [value for each in series for value in each.values if value is not None and math.isfinite(value)]
    return bool(found) and min(found) > 0 and max(found) > 20 * min(found)


def selection_charts(run: StoredRun) -> list[Chart]:
    """Cases used and why selection ended, who was left, the candidates' shares, and how much they differ."""
    found = decisions(run.generations)
    if not found:
        return []
    records = [run.generations[each.generation] for each in found]
    x, most = _generations(records), max(len(record.losses) for record in records)
    charts = []
    if any(record.cases_used for record in records):
        charts += [_cases_used(records, x), _left(found, x, most)]
    if any(record.entropy for record in records):
        charts.append(
            Chart(
                title="Entropy of the candidates' shares",
                summary=f"Their chances, exact or estimated; a plain average has ln p = {math.log(most):.3g} nats.",
                x=x,
                x_name="generation",
                y_name="entropy, nats",
                series=(Series(name="entropy", values=[record.entropy for record in records], colour=2),),
            )
        )
        charts += [_shares(records, x, most)] if most <= len(_COLOURS) else []
    apart = [record.disagreement for record in records]
    if any(value is not None for value in apart):
        charts.append(
            Chart(
                title="Disagreement of the candidates",
                summary="The mean share of cases on which two candidates differ.",
                x=x,
                x_name="generation",
                y_name="disagreement",
                series=(Series(name="disagreement", values=apart, colour=4),),
            )
        )
    return charts


def _cases_used(records: Sequence[Record], x: list[int]) -> Chart:
    used = [max(1, record.cases_used) for record in records]
    reasons = [
        reason for reason, _ in Counter(record.reason for record in records).most_common(len(_COLOURS))
    ]
    return Chart(
        title="Cases used, and why selection ended",
        summary=f"Between {min(used):,} and {max(used):,} cases; logarithmic scale.",
        x=x,
        x_name="generation",
        y_name="cases used",
        series=tuple(
            Series(
                name=reason.replace("_", " "),
                values=[
                    cases if each.reason == reason else None
                    for cases, each in zip(used, records, strict=True)
                ],
                colour=number,
                kind="dots",
            )
            for number, reason in enumerate(reasons)
        ),
        log=True,
        show=lambda value: f"{value:,.0f}",
    )


def _left(found: Sequence[Decision], x: list[int], most: int) -> Chart:
    left = [len(each.left) for each in found]
    return Chart(
        title="Candidates left when selection ended",
        summary=f"{left.count(1):,} of {number_of(len(left), 'selection')} ended with one candidate.",
        x=x,
        x_name="generation",
        y_name="candidates left",
        series=(Series(name="candidates left", values=left, colour=0, kind="dots"),),
        y_ticks=[(number, str(number)) for number in _some(range(1, most + 1))],
        show=lambda value: f"{value:.0f}",
    )


def _shares(records: Sequence[Record], x: list[int], most: int) -> Chart:
    return Chart(
        title="Each candidate's share of the parent",
        summary="Weights that sum to 1.",
        x=x,
        x_name="generation",
        y_name="share",
        series=tuple(
            Series(
                name=f"candidate {number}",
                values=[each.weights[number] if number < len(each.weights) else None for each in records],
                colour=number,
                kind="dots",
            )
            for number in range(most)
        ),
        show=lambda value: f"{value:.3f}",
    )


def lineage_chart(run: StoredRun) -> Chart | None:
    """Which candidate became the parent."""
    found = [record for record in run.generations if len(record.losses) > 1]
    if not found:
        return None
    most = max(len(record.losses) for record in found)
    return Chart(
        title="Which candidate became the parent",
        summary="One point per generation: the candidate with the largest share of the parent.",
        x=_generations(found),
        x_name="generation",
        y_name="candidate",
        series=(
            Series(name="candidate", values=[record.selected for record in found], colour=0, kind="dots"),
        ),
        y_ticks=[(n, str(n)) for n in _some(range(most))],
        show=lambda value: f"{value:.0f}",
    )


def candidate_rows(records: Sequence[Record]) -> list[tuple[str, str, str, str]]:
    """Candidate, how often it became the parent, its mean loss, how often it diverged."""
    most = max((len(record.losses) for record in records), default=0)
    if most < 2:
        return []
    parents = Counter(record.selected for record in records if len(record.losses) > 1)
    rows = []
    for number in range(most):
        losses = [
            record.losses[number]
            for record in records
            if len(record.losses) > 1 and number < len(record.losses)
        ]
        finite = [loss for loss in losses if loss is not None]
        share = f"{parents[number]:,} ({parents[number] / sum(parents.values()):.0%})"
        mean = f"{sum(finite) / len(finite):.4g}" if finite else NONE
        rows.append((str(number), share, mean, count(len(losses) - len(finite))))
    return rows


def _generations(records: Sequence[Record]) -> list[int]:
    return [record.generation + 1 for record in records]


def _some(numbers: range) -> list[int]:
    """All of a few numbers; of many, some with the first and the last."""
    step = math.ceil(len(numbers) / 8)
    return sorted({*numbers[::step], numbers[-1]})


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale
