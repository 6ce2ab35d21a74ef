"""What the paper claims of accuracies.

In general, that lexicase is above the others. Where its tables have both numbers for the same dataset and model, the
claim is what they say, which for some networks is the opposite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradlex.experiments import EXPERIMENTS, Published, published
from gradlex.report._claim import Claim
from gradlex.report._evidence import Arm
from gradlex.report._statistics import paired

_MOMENTA = {"none": "no momentum", "inherit": "inherited momentum"}


def accuracy_claims(arms: Sequence[Arm]) -> Iterator[Claim]:
    """Lexicase against SGD, random, tournament, and other momenta, on one dataset and model."""
    for arm in arms:
        recipe = arm.recipe
        # The paper claims a gain for lexicase with momentum that is reset; the other two it tries and drops.
        if arm.method != "lexicase" or recipe.momentum != "reset":
            continue
        name = f"Lexicase (p = {recipe.population})"
        for other in arms:
            like = other.recipe
            same = like.population == recipe.population and like.momentum == recipe.momentum
            ratio = recipe.require("generations") / like.require("generations")
            if other.method == "sgd":
                yield from _claim(arm, other, name, f"SGD at {ratio:.3g} times its generations")
            elif other.method in ("random", "tournament") and same:
                yield from _claim(arm, other, name, f"{other.method} selection")
            elif other.method == "lexicase" and like.population == recipe.population and not same:
                momentum = _MOMENTA[str(like.momentum)]
                yield from _claim(arm, other, f"{name} with momentum reset", momentum)


def _claim(arm: Arm, other: Arm, name: str, other_name: str) -> Iterator[Claim]:
    difference = paired(arm.accuracies, other.accuracies)
    if difference is None:
        return
    theirs = _published_difference(arm, other)
    side = "below" if theirs is not None and theirs < 0 else "above"
    told = "" if theirs is None else f", published {theirs:+.2f}"
    yield Claim(
        text=f"{name} {side} {other_name}, {arm.setting}{told}",
        difference=difference,
        side=1 if side == "above" else -1,
        runs=frozenset(run.path for each in (arm, other) for run in each.runs.values()),
    )


def _published_difference(arm: Arm, other: Arm) -> float | None:
    """What the paper's tables have for the same two on the same dataset and model; None: nothing, or a tie."""
    for table in EXPERIMENTS:
        cells = {_cell_key(cell): cell.accuracy for cell in published(table)}
        ours, theirs = cells.get(_arm_key(arm)), cells.get(_arm_key(other))
        if ours is not None and theirs is not None and ours != theirs:
            return ours - theirs
    return None


def _cell_key(cell: Published) -> tuple[object, ...]:
    return cell.dataset, cell.model, cell.method, cell.population, cell.momentum


def _arm_key(arm: Arm) -> tuple[object, ...]:
    return arm.setting.dataset, arm.setting.model, arm.method, arm.recipe.population, arm.recipe.momentum
