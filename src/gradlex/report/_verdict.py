"""What the evidence supports, in two plain sentences that claim no more than the intervals do."""

from __future__ import annotations

from gradlex.experiments import METHODS
from gradlex.report._columns import Setting
from gradlex.report._comparison import MATCHED, comparable, mean_of
from gradlex.report._evidence import Arm, Evidence
from gradlex.report._format import difference_words, listed
from gradlex.report._statistics import paired

_UNADJUSTED = "no interval is adjusted for the number of comparisons"


def verdict(evidence: Evidence, setting: Setting) -> str:
    """Lexicase against SGD and against SGD of equal cost; then the best-supported method with a population."""
    arms = list(evidence.on(setting).values())
    sgd = [arm for arm in arms if arm.method == "sgd"]
    matched = [arm for arm in arms if arm.method in MATCHED]
    populations = [arm for arm in arms if not METHODS[arm.method].is_sgd]
    first = _lexicase([arm for arm in populations if arm.method == "lexicase"], sgd, matched)
    second = _best(populations, matched) if matched else _unmatched(populations, sgd)
    told = (first, second, _failed(evidence, setting))
    return f"In short, for {setting}: {' '.join(sentence for sentence in told if sentence)}"


def _lexicase(arms: list[Arm], sgd: list[Arm], matched: list[Arm]) -> str:
    if not arms:
        return "No run of lexicase is finished, so nothing can be said about it."
    if not sgd and not matched:
        return "There is no finished run of SGD, so lexicase has nothing to be compared with."
    sentences = []
    for arm in arms:
        cost = f", which trains on {_ratio(arm, sgd[0]):.3g} times the samples of SGD," if sgd else ""
        bases = [base for base in (*sgd, *matched) if comparable(arm, base)]
        told = "; it ".join(_predicate(arm, base) for base in bases) or "has no finished SGD of equal cost"
        sentences.append(f"{arm.title[0].upper()}{arm.title[1:]}{cost} {told}.")
    return " ".join(sentences)


def _failed(evidence: Evidence, setting: Setting) -> str:
    """What no mean shows: a method that fails with some seeds may look better than it is."""
    finished = {title: len(arm.runs) for title, arm in evidence.on(setting).items()}
    told = [
        f"{column.title} with {failed} of {failed + finished.get(column.title, 0)}"
        for column, failed in evidence.failed.items()
        if column.setting == setting
    ]
    return f"Runs failed ({listed(told)} seeds tried) and are in no mean." if told else ""


def _ratio(arm: Arm, base: Arm) -> float:
    return mean_of(arm, "samples_trained") / mean_of(base, "samples_trained")


def _predicate(arm: Arm, base: Arm) -> str:
    """Whether the method is above the other, as far as the seeds tell."""
    decay = f" at weight decay {base.recipe.weight_decay:g}" if base.method in MATCHED else ""
    name = f"SGD on equal samples{decay}" if decay else base.title
    difference = paired(arm.accuracies, base.accuracies)
    if difference is None:
        return f"cannot be compared with {name}, since no seed has both finished"
    words = f"({difference_words(difference)})"
    if difference.sign:
        return f"is {'more' if difference.sign > 0 else 'less'} accurate than {name} {words}"
    if difference.n == 1:
        side = "above" if difference.mean > 0 else "below"
        told = f"{abs(difference.mean):.2f} points {side}" if difference.mean else "level with"
        return f"is {told} {name} in one seed, which supports no conclusion"
    return f"cannot be told from {name} by these {difference.n} seeds {words}"


def _best(arms: list[Arm], matched: list[Arm]) -> str:
    """The method whose worst lower end over the matched baselines is highest, or, where none is above zero, the one
    whose worst mean is; that it was picked is said.
    """
    if len(arms) < 2:
        return ""
    decays = {base.recipe.weight_decay for base in matched}
    rivals = f"SGD on equal samples{' at every weight decay tried' if len(decays) > 1 else ''}"
    found = []
    for arm in arms:
        like = [base for base in matched if comparable(arm, base)]
        differences = [paired(arm.accuracies, base.accuracies) for base in like]
        sure = [(each.low, each.mean) for each in differences if each is not None and each.low is not None]
        if like and len(sure) == len(like):
            lows, means = zip(*sure, strict=True)
            found.append((min(lows), min(means), arm))
    if not found:
        return f"No method with a population has an interval against {rivals}: more seeds are needed."
    if len(found) == 1:
        title = found[0][-1].title
        return f"Of the methods with a population only {title} has an interval against {rivals} so far."
    shown = any(low > 0 for low, _, _ in found)
    *_, best = max(found, key=lambda each: each[0] if shown else each[1])  # the first of equals
    like = [base for base in matched if comparable(best, base)]
    told = "; it ".join(_predicate(best, base) for base in like)
    first = (
        f"Of the {len(found)} methods with a population the best supported against {rivals}"
        if shown
        else f"None of the {len(found)} methods with a population that have intervals is shown to be above {rivals}: "
        "the nearest by its mean"
    )
    return f"{first}, {best.title}, {told}; it was picked by these numbers themselves, and {_UNADJUSTED}."


def _unmatched(populations: list[Arm], sgd: list[Arm]) -> str:
    if not populations or not sgd:
        return ""
    told = (
        "There is no SGD on as many samples here, so a gain over SGD may come from the longer training alone"
    )
    return f"{told}; {_UNADJUSTED}." if len(populations) > 1 else f"{told}."
