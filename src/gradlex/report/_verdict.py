"""What the evidence supports, in two plain sentences that claim no more than the intervals do."""

from __future__ import annotations

from gradlex.experiments import METHODS
from gradlex.report._comparison import MATCHED, comparable, equal_samples, samples_trained
from gradlex.report._evidence import Arm, Evidence, Setting
from gradlex.report._format import difference_words, listed
from gradlex.report._statistics import Difference, paired

_UNADJUSTED = "the intervals are not adjusted for the number of comparisons"


def verdict(evidence: Evidence, setting: Setting) -> str:
    """Lexicase, or the only method, against SGD and SGD at equal cost; then the best-supported population method."""
    arms = list(evidence.on(setting).values())
    sgd = [arm for arm in arms if arm.method == "sgd"]
    matched = [arm for arm in arms if arm.method in MATCHED]
    populations = [arm for arm in arms if not METHODS[arm.method].is_sgd]
    subjects = [arm for arm in populations if arm.method == "lexicase" or len(populations) == 1]
    planned = any(each.method == "lexicase" for each in evidence.plan.runs)
    first = _against_sgd(subjects, sgd, matched) if subjects or planned else ""
    # Some populations train on as many samples as plain SGD does.
    equal = [base for base in (*sgd, *matched) if any(equal_samples(arm, base) for arm in populations)]
    second = _best(populations, equal) if equal else _unmatched(populations, sgd)
    sentences = (first, second, _failed(evidence, setting))
    return f"In short, for {setting}: {' '.join(sentence for sentence in sentences if sentence)}"


def _against_sgd(arms: list[Arm], sgd: list[Arm], matched: list[Arm]) -> str:
    if not arms:
        return "No lexicase run is finished, so there is nothing to say about it."
    if not sgd and not matched:
        return f"No SGD run is finished, so there is nothing to compare {arms[0].title} with."
    sentences = []
    for arm in arms:
        cost = (
            f", which trains on {samples_trained(arm) / samples_trained(sgd[0]):.3g} times the samples of SGD,"
            if sgd and not equal_samples(arm, sgd[0])
            else ""
        )
        bases = [base for base in (*sgd, *matched) if comparable(arm, base)]
        told = (
            "; it ".join(_predicate(arm, base) for base in bases) or "has no finished SGD run at equal cost"
        )
        sentences.append(f"{arm.title[0].upper()}{arm.title[1:]}{cost} {told}.")
    return " ".join(sentences)


def _failed(evidence: Evidence, setting: Setting) -> str:
    """What no mean shows: a method that fails with some seeds may look better than it is."""
    finished = {title: len(arm.runs) for title, arm in evidence.on(setting).items()}
    failures = [
        f"{column.title}: {failed} of {failed + finished.get(column.title, 0)} seeds"
        for column, failed in evidence.failed.items()
        if column.setting == setting
    ]
    return f"Failed runs ({listed(failures)}) are not part of the means." if failures else ""


def _better(difference: Difference, arm: Arm) -> int:
    """1 where the first method is better, -1 where it is worse, 0 where the interval holds zero."""
    return difference.sign * _direction(arm)


def _direction(arm: Arm) -> int:
    return 1 if arm.measure.higher_is_better else -1


def _predicate(arm: Arm, base: Arm) -> str:
    """Whether the method is better than the other, as far as the seeds show."""
    decay = f" at weight decay {base.recipe.weight_decay:g}" if base.method in MATCHED else ""
    name = f"SGD on equal samples{decay}" if decay else base.title
    difference = paired(arm.values, base.values)
    if difference is None:
        return f"cannot be compared with {name}: they share no finished seed"
    words = f"({difference_words(difference, arm.unit)})"
    better = _better(difference, arm)
    if better:
        return f"is significantly {'better' if better > 0 else 'worse'} than {name} {words}"
    if difference.n == 1:
        gap = f"{arm.unit.signed(difference.mean)} {arm.unit.word}".rstrip()
        return f"differs from {name} by {gap} (1 seed, too few for a conclusion)"
    return f"is not significantly different from {name} {words}"


def _best(arms: list[Arm], baselines: list[Arm]) -> str:
    """The method whose least gain over the baselines of equal cost has the highest lower end; where no lower end is
    above zero, the one whose least mean gain is highest. Either way the sentence says that it was picked.
    """
    if len(arms) < 2:
        return ""
    decays = {base.recipe.weight_decay for base in baselines}
    rivals = f"SGD on equal samples{' at every weight decay' if len(decays) > 1 else ''}"
    found = []
    for arm in arms:
        like = [base for base in baselines if equal_samples(arm, base)]
        gains = [_gain(paired(arm.values, base.values), arm) for base in like]
        sure = [gain for gain in gains if gain is not None]
        if like and len(sure) == len(like):
            lows, means = zip(*sure, strict=True)
            found.append((min(lows), min(means), arm))
    if not found:
        return f"No population method has an interval against {rivals}: more seeds are needed."
    if len(found) == 1:
        return f"Of the population methods only {found[0][-1].title} has an interval against {rivals} so far."
    shown = any(low > 0 for low, _, _ in found)
    *_, best = max(found, key=lambda each: each[0] if shown else each[1])  # the first of equals
    told = "; it ".join(_predicate(best, base) for base in baselines if equal_samples(best, base))
    first = (
        f"Of the {len(found)} population methods, the best supported against {rivals}"
        if shown
        else f"None of the {len(found)} population methods with intervals is significantly better than {rivals}. "
        "The closest by its mean"
    )
    return f"{first}, {best.title}, {told}; it was picked after seeing these results, and {_UNADJUSTED}."


def _gain(difference: Difference | None, arm: Arm) -> tuple[float, float] | None:
    """The lower end and the mean of a difference that counts as better upwards; None without an interval."""
    if difference is None or difference.low is None or difference.high is None:
        return None
    ends = (_direction(arm) * difference.low, _direction(arm) * difference.high)
    return min(ends), _direction(arm) * difference.mean


def _unmatched(populations: list[Arm], sgd: list[Arm]) -> str:
    if not populations or not sgd:
        return ""
    told = "There is no SGD run on equal samples, so a gain over SGD may come from longer training alone"
    return f"{told}; {_UNADJUSTED}." if len(populations) > 1 else f"{told}."
