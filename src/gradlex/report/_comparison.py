"""The methods of a plan against SGD and against SGD at equal cost: what they reach, what they cost, how they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean

from gradlex.experiments import METHODS
from gradlex.report._evidence import CRITICAL_PATH, SAMPLES, Arm, Evidence, Setting
from gradlex.report._format import NONE, count, difference_cell, duration, label, memory, spread
from gradlex.report._statistics import paired
from gradlex.report._table import Table

MATCHED = tuple(name for name, method in METHODS.items() if method.matched)
"""SGD on as many samples as the populations train on, at each weight decay. All are shown, none is picked."""

BASELINES = ("sgd", *MATCHED)

_MEASURED: Mapping[str, Callable[[float], str]] = {
    "movement": "{:.3f}".format,
    "spread": "{:.2f}".format,
    "disagreement": "{:.1%}".format,
    "heritability": "{:.2f}".format,
}
_CHOSEN: Mapping[str, Callable[[float], str]] = {"cases_used": "{:.0f}".format, "all_failed": "{:.0%}".format}
_COLUMNS = tuple(name.replace("_", " ") for name in (*_MEASURED, *_CHOSEN))

_COSTS = (SAMPLES, CRITICAL_PATH, "cases evaluated", "wall time", "peak memory")


def comparison_tables(evidence: Evidence, setting: Setting, notes: tuple[str, ...] = ()) -> list[Table]:
    """What the methods reach and cost on one dataset and model, and how they differ from the baselines."""
    arms = evidence.on(setting)
    measure = next(iter(arms.values())).measure
    baselines = [arm for arm in arms.values() if arm.method in BASELINES]
    failed = {column.title: number for column, number in evidence.failed.items() if column.setting == setting}
    columns = ("method", "seeds", label("test", measure), label("training", measure), *_COSTS)
    return [
        Table(
            title=f"Results and cost: {setting}",
            columns=columns,
            rows=(
                *(_row(arm, failed.get(title, 0)) for title, arm in arms.items()),
                *(
                    (title, f"0 ({number} failed)", *(NONE for _ in columns[2:]))
                    for title, number in failed.items()
                    if title not in arms
                ),
            ),
            notes=(
                f"Test and training {measure.name}: mean ± standard deviation over seeds, after the last generation; "
                f"{'higher' if measure.higher_is_better else 'lower'} is better. Training samples are evaluated "
                "without augmentation.",
                "Critical path: the samples that one device trains on when every candidate has its own device. Cases "
                "evaluated: training samples that selection looked at, times candidates. Cases and wall time are "
                "means over seeds; memory is the largest seed's, for the whole process. Wall time depends on the "
                "machine's load: compare cost by samples and cases.",
                *notes,
            ),
        ),
        *([_differences(arms, baselines, setting)] if baselines else []),
        *_candidates(evidence, setting),
    ]


def critical_path(arm: Arm) -> float:
    """Samples that one device trains on when every candidate has its own; the mean over seeds."""
    return fmean(run.critical_path_after[-1] for run in arm.runs.values())


def samples_trained(arm: Arm) -> float:
    """The mean over seeds."""
    return fmean(run.samples_trained for run in arm.runs.values())


def equal_samples(arm: Arm, base: Arm) -> bool:
    """Whether both train on as many samples."""
    return samples_trained(arm) == samples_trained(base)


def comparable(arm: Arm, base: Arm) -> bool:
    """Whether the second is a baseline for the first: plain SGD always, matched SGD where it cost as much."""
    return base.method == "sgd" or equal_samples(arm, base)


def _row(arm: Arm, failed: int) -> tuple[str, ...]:
    runs = arm.runs.values()
    sizes = [run.peak_memory for run in runs if run.peak_memory is not None]
    return (
        arm.title,
        f"{len(runs)}{f' ({failed} failed)' if failed else ''}",
        spread(arm.summary, arm.unit),
        spread(arm.train_summary, arm.unit),
        count(samples_trained(arm)),
        count(critical_path(arm)),
        count(fmean(run.cases_evaluated for run in runs)),
        duration(fmean(run.seconds for run in runs)),
        memory(max(sizes, default=None)),
    )


def _differences(arms: dict[str, Arm], baselines: list[Arm], setting: Setting) -> Table:
    measure = baselines[0].measure
    unit = ", percentage points" if measure.fraction else ""
    return Table(
        title=f"Difference in test {measure.name} from each baseline{unit}: {setting}",
        columns=("method", *(f"minus {base.title}" for base in baselines)),
        rows=tuple((arm.title, *(_difference(arm, base) for base in baselines)) for arm in arms.values()),
        notes=(
            "Mean difference between runs with the same seed [95 % interval], p of the paired t-test. There is no "
            "interval for a single seed, or where all seeds differ by the same amount; the number of seeds is given "
            "where the two methods do not share all of them. The tests are not adjusted for their number. They cover "
            "other seeds on the same training and test samples; other samples would vary more.",
        ),
    )


def _difference(arm: Arm, base: Arm) -> str:
    if arm is base or not (arm.method == "sgd" or comparable(arm, base)):
        return NONE
    return difference_cell(paired(arm.values, base.values), len({*arm.values, *base.values}), arm.unit)


def _candidates(evidence: Evidence, setting: Setting) -> list[Table]:
    """One row for each method with a population; no table where no run recorded anything."""
    arms = {title: arm for title, arm in evidence.on(setting).items() if arm.recipe.population != 1}
    rows = [(title, *_candidate_cells(arm)) for title, arm in arms.items()]
    if all(cell == NONE for _, *cells in rows for cell in cells[: len(_MEASURED)]):
        return []
    table = Table(
        title=f"How the candidates differed: {setting}",
        columns=("method", *_COLUMNS),
        rows=tuple(rows),
        notes=(
            "Means over generations and seeds. Movement: how far candidates moved from their parent, relative to its "
            "norm. Spread: the distance between two candidates, relative to their movement; 1.41 is unrelated. "
            "Disagreement: cases seen by selection that one of two candidates solves and the other does not. "
            "Heritability: how much of a winner's advantage on cases that did not decide its offspring keep. Cases "
            "used: the median. All failed: selections that ended because no candidate left solved a case.",
        ),
    )
    return [table]


def _candidate_cells(arm: Arm) -> list[str]:
    cells = []
    for name, form in {**_MEASURED, **_CHOSEN}.items():
        values = [getattr(run.candidates, name) for run in arm.runs.values()]
        known = [value for value in values if value is not None]
        cells.append(form(fmean(known)) if known else NONE)
    return cells
