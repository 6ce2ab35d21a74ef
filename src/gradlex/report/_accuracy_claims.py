"""What the paper claims of accuracies.

In general, that lexicase is above the others, and these above SGD. Where its tables have both numbers for the same
dataset and model, the claim is what they say, which for some networks is the opposite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradlex.experiments import EXPERIMENTS, METHODS, Published, published
from gradlex.report._claim import Claim
from gradlex.report._evidence import Arm
from gradlex.report._statistics import paired

_METHODS = {"random": "Random selection", "tournament": "Tournament selection", "lexicase": "Lexicase"}
_MOMENTA = {"none": "itself without momentum", "inherit": "itself with inherited momentum"}


def accuracy_claims(arms: Sequence[Arm]) -> Iterator[Claim]:
    """Each selection against SGD; lexicase also against SGD of equal cost, the others, and other momenta of its own."""
    for arm in sorted(arms, key=lambda arm: arm.method != "lexicase"):
        # What the paper claims is of momentum that is reset; the other two it tries and drops.
        if arm.method in _METHODS and arm.recipe.momentum == "reset":
            name = f"{_METHODS[arm.method]} (p = {arm.recipe.population})"
            for other in arms:
                against = _against(arm, other)
                if against is not None:
                    yield from _claim(arm, other, name, against)


def _against(arm: Arm, other: Arm) -> str | None:
    """What the second is called as something that the paper has the first above; None where it says nothing."""
    recipe, like = arm.recipe, other.recipe
    ratio = recipe.require("generations") / like.require("generations")
    if other.method == "sgd":
        return "SGD" if ratio == 1 else f"SGD with 1/{ratio:.3g} of its generations"
    if arm.method != "lexicase":
        return None
    if METHODS[other.method].matched:  # "outperforms SGD even at the same level of computation", section 4.2
        return f"SGD on as many samples, weight decay {like.weight_decay:g}" if ratio == 1 else None
    if like.population != recipe.population:
        return None
    if other.method == "lexicase":
        return _MOMENTA.get(str(like.momentum))
    same = other.method in _METHODS and like.momentum == recipe.momentum
    return f"{other.method} selection" if same else None


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
