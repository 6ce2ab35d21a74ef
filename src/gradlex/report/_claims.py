"""The paper's claims and what runs say about them, by one rule: on which side of zero is the difference, surely?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gradlex.experiments import EXPERIMENTS, METHODS, Published, published
from gradlex.report._diversity import NUMBERS
from gradlex.report._evidence import FIGURE2, Arm, Evidence, Setting
from gradlex.report._figure2 import compared, planned_groups
from gradlex.report._format import Unit
from gradlex.report._statistics import LEVEL, Difference, holm, paired

_METHODS = {"random": "Random selection", "tournament": "Tournament selection", "lexicase": "Lexicase"}
_MOMENTA = {"none": "lexicase without momentum", "inherit": "lexicase with inherited momentum"}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim on one dataset and model, and the difference that tests it."""

    text: str
    difference: Difference
    side: int
    """1: the paper has the difference above zero; -1: below."""
    runs: frozenset[Path]
    """What the difference is computed from."""
    unit: Unit
    awaited: bool = False
    """Whether planned seeds are missing: nothing is concluded before they are there."""
    tables: tuple[str, ...] = ()
    """The experiments that planned the runs, by title or name."""
    p: float | None = None
    """Of the paired t-test, adjusted for the number of claims of its kind."""
    tests: int = 1
    """That number."""

    @property
    def agreement(self) -> int:
        """1: the runs agree with the paper; -1: they disagree; 0: no conclusion."""
        if self.awaited or self.p is None or self.p >= 1 - LEVEL:
            return 0
        return self.side if self.difference.mean > 0 else -self.side


def claims(evidences: Iterable[Evidence]) -> list[Claim]:
    """Every claim that has runs on both sides, once, in the order of the plans.

    Those about test results are one family of tests, those about representations another (Holm).
    """
    results: list[Claim] = []
    representations: list[Claim] = []
    for evidence in evidences:
        tables = (evidence.plan.title or evidence.plan.name,)
        for setting in evidence.settings:
            for claim in _result_claims(evidence, setting):
                _add(results, replace(claim, tables=tables))
        for claim in _representation_claims(evidence):
            _add(representations, replace(claim, tables=tables))
    return [*_adjusted(results), *_adjusted(representations)]


def _adjusted(family: list[Claim]) -> list[Claim]:
    ps = holm([claim.difference.p for claim in family])
    return [replace(claim, p=p, tests=len(family)) for claim, p in zip(family, ps, strict=True)]


def _add(found: list[Claim], claim: Claim) -> None:
    """Tables share runs: a claim tested on a subset of another's runs is no further evidence."""
    for place, other in enumerate(found):
        if other.text == claim.text and (claim.runs <= other.runs or claim.runs > other.runs):
            wider = other if claim.runs <= other.runs else claim
            found[place] = replace(wider, tables=(*other.tables, *claim.tables))
            return
    found.append(claim)


# Test results. In general the paper has lexicase above the other methods, and these above SGD. Where its tables have
# both numbers for the same dataset and model, the claim is what they say: for some networks, the opposite.


def _result_claims(evidence: Evidence, setting: Setting) -> Iterator[Claim]:
    """Each selection against SGD; lexicase also against SGD at equal cost, the others, and its own other momenta."""
    arms = list(evidence.on(setting).values())
    for arm in sorted(arms, key=lambda arm: arm.method != "lexicase"):
        # The claims are about momentum that is reset; the other two the paper tries and drops.
        if arm.method in _METHODS and arm.recipe.momentum == "reset":
            # The paper never compares across weight decays.
            for other in [each for each in arms if each.recipe.weight_decay == arm.recipe.weight_decay]:
                rival = _rival(arm, other)
                if rival is not None:
                    awaited = any(evidence.awaited.get(each.column) for each in (arm, other))
                    yield from (replace(claim, awaited=awaited) for claim in _claim(arm, other, rival))


def _rival(arm: Arm, other: Arm) -> str | None:
    """The second arm's name as something that the paper has the first better than; None where it claims nothing."""
    recipe, like = arm.recipe, other.recipe
    ratio = recipe.require("generations") / like.require("generations")
    if other.method == "sgd":
        return "SGD" if ratio == 1 else f"SGD with 1/{ratio:.3g} of the generations"
    if arm.method != "lexicase":
        return None
    if METHODS[other.method].matched:  # "outperforms SGD even at the same level of computation", section 4.2
        return f"SGD on equal samples, weight decay {like.weight_decay:g}" if ratio == 1 else None
    if like.population != recipe.population:
        return None
    if other.method == "lexicase":
        return _MOMENTA.get(str(like.momentum))
    same = other.method in _METHODS and like.momentum == recipe.momentum
    return f"{other.method} selection" if same else None


def _claim(arm: Arm, other: Arm, rival: str) -> Iterator[Claim]:
    difference = paired(arm.values, other.values)
    if difference is None:
        return
    theirs = _published_difference(arm, other)
    better = theirs is None or theirs > 0
    published_words = "" if theirs is None else f", published {theirs:+.2f}"
    name = f"{_METHODS[arm.method]} (p = {arm.recipe.population})"
    yield Claim(
        text=f"{name} {'better' if better else 'worse'} than {rival}, {arm.setting}{published_words}",
        difference=difference,
        side=1 if better == arm.measure.higher_is_better else -1,
        runs=frozenset(run.path for each in (arm, other) for run in each.runs.values()),
        unit=arm.unit,
    )


def _published_difference(arm: Arm, other: Arm) -> float | None:
    """What the paper's tables have for these two on the same dataset and model; None: nothing, or a tie."""
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


# Representations (figure 2): lexicase's have fewer zeros, and are flatter and more diverse.

_WORDS = {
    "zeros": ("fewer zeros", "points", -1),
    "entropy": ("higher entropy", "nats", 1),
    "effective rank": ("higher effective rank", "dimensions", 1),
}


def _representation_claims(evidence: Evidence) -> Iterator[Claim]:
    """Zeros, entropy and effective rank of each layer, lexicase against SGD, paired by seed as test results are."""
    groups = planned_groups(evidence)[0] if evidence.plan.name == FIGURE2 and evidence.arms else {}
    pair = [arm for method in ("lexicase", "sgd") for arm in evidence.arms if arm.method == method]
    if len(pair) != 2 or not all(arm.title in groups for arm in pair):
        return
    found = compared(groups, evidence.plan.layers or None)
    for layer, sets in found.layers.items():
        for name, number in NUMBERS.items():
            words, unit, side = _WORDS[name]
            lexicase, sgd = (
                {
                    seed: number(features, found.edges[layer])
                    for seed, features in zip(found.seeds[arm.title], sets[arm.title], strict=True)
                }
                for arm in pair
            )
            difference = paired(lexicase, sgd)
            if difference is not None:
                yield Claim(
                    text=f"Layer {layer}: {words} with lexicase than with SGD, {pair[0].setting}",
                    difference=difference,
                    side=side,
                    runs=frozenset(run for arm in pair for run in found.groups[arm.title]),
                    unit=Unit(unit),
                )
