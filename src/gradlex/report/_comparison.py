"""The methods of a plan against SGD and against SGD of equal cost: accuracy, differences, cost."""

from __future__ import annotations

import math

from gradlex.experiments import METHODS
from gradlex.report._columns import Setting
from gradlex.report._evidence import Arm, Evidence
from gradlex.report._format import NONE, count, difference_cell, duration, memory, spread
from gradlex.report._statistics import paired, summarize
from gradlex.report._table import Table

MATCHED = tuple(name for name, method in METHODS.items() if method.matched)
"""SGD on as many samples as the populations train on, at each weight decay. None is chosen by its accuracy."""

BASELINES = ("sgd", *MATCHED)

_MEASURES = (
    "method",
    "seeds",
    "test, %",
    "clean training, %",
    "samples trained",
    "critical path",
    "cases evaluated",
    "wall time",
    "peak memory",
)


def comparison_tables(evidence: Evidence, setting: Setting, notes: tuple[str, ...] = ()) -> list[Table]:
    """What the methods reach and cost on one dataset and model, and how they differ from the baselines."""
    arms = evidence.on(setting)
    baselines = [arm for arm in arms.values() if arm.method in BASELINES]
    failed = {column.title: number for column, number in evidence.failed.items() if column.setting == setting}
    return [
        Table(
            title=f"What each method reaches and costs: {setting}",
            columns=_MEASURES,
            rows=(
                *(_measures(arm, failed.get(title, 0)) for title, arm in arms.items()),
                *(_nothing(title, number) for title, number in failed.items() if title not in arms),
            ),
            notes=(
                "Accuracies: mean ± standard deviation over seeds, after the last generation. Critical path: the "
                "samples that one device sees when every candidate has its own. Cases evaluated: clean training "
                "samples that selection looked at, times candidates. Cases and wall time are means over seeds; "
                "memory is the largest, of the whole process with its libraries and data. Time depends on what else "
                "the machine did: compare methods by samples and cases.",
                *notes,
            ),
        ),
        *([_differences(arms, baselines, setting)] if baselines else []),
    ]


def critical_path(arm: Arm) -> int:
    """Samples that one device trains on when every candidate has its own."""
    recipe = arm.recipe
    samples: int = next(iter(arm.runs.values())).data["train_samples"]
    return recipe.require("generations") * math.ceil(samples / recipe.require("population"))


def comparable(arm: Arm, base: Arm) -> bool:
    """Whether the second is a baseline for the first: plain SGD always, matched SGD where it cost as much."""
    return base.method == "sgd" or mean_of(arm, "samples_trained") == mean_of(base, "samples_trained")


def mean_of(arm: Arm, measure: str) -> float:
    """The mean over seeds of one number of the result."""
    return summarize([result[measure] for result in arm.results.values()]).mean


def _nothing(title: str, failed: int) -> tuple[str, ...]:
    """The row of a method all of whose runs that were tried have failed."""
    return title, f"0 ({failed} failed)", *(NONE for _ in _MEASURES[2:])


def _measures(arm: Arm, failed: int) -> tuple[str, ...]:
    # A run of an earlier version has no peak_memory.
    sizes = [result.get("peak_memory") for result in arm.results.values()]
    return (
        arm.title,
        f"{len(arm.runs)}{f' ({failed} failed)' if failed else ''}",
        spread(arm.summary),
        spread(summarize(list(arm.percentages("train_accuracy").values()))),
        count(mean_of(arm, "samples_trained")),
        count(critical_path(arm)),
        count(mean_of(arm, "cases_evaluated")),
        duration(mean_of(arm, "seconds")),
        memory(max((size for size in sizes if size is not None), default=None)),
    )


def _differences(arms: dict[str, Arm], baselines: list[Arm], setting: Setting) -> Table:
    rows = [
        (
            arm.title,
            *(
                difference_cell(
                    paired(arm.accuracies, base.accuracies), len({*arm.accuracies, *base.accuracies})
                )
                if arm is not base and (arm.method == "sgd" or comparable(arm, base))
                else NONE
                for base in baselines
            ),
        )
        for arm in arms.values()
    ]
    return Table(
        title=f"Test accuracy above each baseline, in points: {setting}",
        columns=("method", *(f"above {base.title}" for base in baselines)),
        rows=tuple(rows),
        notes=(
            "Mean of the differences between runs of the same seed [95 % interval], p of the paired t-test. Without "
            "an interval where there is one seed only, or where all seeds differ by the same; with the number of seeds "
            "where only one of the two has some of them finished. Each is a test of its "
            "own: nothing is adjusted for their number. It is about other seeds on the same training and test "
            "samples: other samples would scatter more.",
        ),
    )
