"""What the paper claims of representations (figure 2): lexicase's have fewer zeros, are flatter and more diverse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from gradlex.report._claim import Claim
from gradlex.report._diversity import Features, effective_rank, entropy, share_of_zeros
from gradlex.report._evidence import FIGURE2, Evidence
from gradlex.report._features import compared, planned_groups
from gradlex.report._statistics import paired


def representation_claims(evidence: Evidence) -> Iterator[Claim]:
    """Zeros, entropy and effective rank of each layer, lexicase against SGD, run by run of the same seed.

    The runs are what is compared here, so that one line is as sure of another seed as those of accuracies are; how the
    pictures scatter stands in the figure's table.
    """
    groups = planned_groups(evidence)[0] if evidence.plan.name == FIGURE2 and evidence.arms else {}
    pair = [arm for method in ("lexicase", "sgd") for arm in evidence.arms if arm.method == method]
    if len(pair) != 2 or not all(arm.title in groups for arm in pair):
        return
    found = compared(groups, evidence.plan.layers or None)
    for layer, sets in found.layers.items():
        numbers: dict[str, tuple[Callable[[Features], float], str, int]] = {
            "Zeros": (lambda features: 100 * share_of_zeros(features), "points", -1),
            "Entropy": (partial(entropy, edges=found.edges[layer]), "nats", 1),
            "Effective rank": (effective_rank, "dimensions", 1),
        }
        for what, (number, unit, side) in numbers.items():
            lexicase, sgd = (
                dict(zip(found.seeds[arm.title], map(number, sets[arm.title]), strict=True)) for arm in pair
            )
            difference = paired(lexicase, sgd)
            if difference is not None:
                yield Claim(
                    text=f"{what} of {layer} with lexicase {'above' if side > 0 else 'below'} SGD, {pair[0].setting}",
                    difference=difference,
                    side=side,
                    runs=frozenset(run for arm in pair for run in found.groups[arm.title]),
                    unit=unit,
                )
