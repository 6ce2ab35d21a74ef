"""The one rule that decides, and its sentences."""

from __future__ import annotations

import pandas as pd
import pytest

from gradlex.report import decide


def frame(metric="test_accuracy", **values):
    rows = [
        {"method": method.replace("_", "-"), "seed": seed, metric: value}
        for method, each in values.items()
        for seed, value in enumerate(each)
    ]
    return pd.DataFrame(rows)


def answer(gaps, **options):
    base = [0.5, 0.7, 0.6, 0.8, 0.55][: len(gaps)]
    runs = frame(lexicase=[value + gap for value, gap in zip(base, gaps, strict=True)], sgd=base)
    (found,) = decide(runs, [("lexicase", "sgd")], **options)
    return found.answer


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ([0.020, 0.021, 0.022, 0.020], "better"),
        ([-0.020, -0.021, -0.022, -0.020], "worse"),
        ([0.0001, -0.0002, 0.0002, -0.0001], "equivalent"),
        ([0.03, -0.02, 0.05, -0.04], "open"),
        ([0.001, -0.004, 0.003, 0.002], "open"),
        ([0.02, 0.02, 0.02, 0.02], "open"),
        ([0.02], "open"),
    ],
)
def test_the_rule_has_four_answers(gaps, expected):
    assert answer(gaps) == expected


def test_a_small_but_certain_difference_is_better_rather_than_equivalent():
    assert answer([0.0010, 0.0011, 0.0010, 0.0011]) == "better"


def test_nothing_is_decided_while_planned_seeds_are_missing():
    assert answer([0.020, 0.021, 0.022], seeds=range(4)) == "under way"
    assert answer([0.020, 0.021, 0.022], seeds=range(3)) == "better"


def test_a_lower_value_can_be_the_better_one():
    runs = frame("test_rmse", lexicase=[2.0, 3.1, 4.2], sgd=[2.5, 3.61, 4.7])
    (found,) = decide(runs, [("lexicase", "sgd")], metric="rmse", higher_is_better=False)
    assert found.answer == "better"


def test_values_that_are_no_fractions_are_never_equivalent():
    runs = frame("test_rmse", lexicase=[2.0, 3.0001, 4.0], sgd=[2.0001, 3.0, 4.0001])
    (found,) = decide(runs, [("lexicase", "sgd")], metric="rmse", higher_is_better=False)
    assert found.answer == "open"


def test_each_declared_comparison_raises_the_bar_for_the_others():
    gaps = [0.010, 0.014, 0.018]  # p = 0.027
    base = [0.5, 0.7, 0.6]
    runs = frame(lexicase=[a + b for a, b in zip(base, gaps, strict=True)], sgd=base, random=[0.4, 0.9, 0.6])
    (alone,) = decide(runs, [("lexicase", "sgd")])
    together, _ = decide(runs, [("lexicase", "sgd"), ("lexicase", "random")])
    missing, _ = decide(runs, [("lexicase", "sgd"), ("lexicase", "tournament")])
    assert (alone.answer, together.answer, missing.answer) == ("better", "open", "open")
    assert together.adjusted == pytest.approx(2 * alone.adjusted) == missing.adjusted


def verdict(*given, **options):
    return "\n".join(decision.sentence for decision in decide(*given, **options))


def test_the_verdict_says_what_a_person_would_say():
    runs = frame(lexicase=[0.38, 0.406], sgd_matched=[0.471, 0.451])
    assert verdict(runs) == (
        "No gain shown: lexicase 39.3%, SGD with as many samples 46.1%. Two seeds cannot decide; about 5 would."
    )


@pytest.mark.parametrize(
    ("lexicase", "sgd", "seeds", "expected"),
    [
        ([0.62, 0.72, 0.63], [0.60, 0.699, 0.612], (), "Better: lexicase 65.7%, SGD 63.7%. The difference is +1.97"),
        ([0.5], [0.4], (), "No gain shown: lexicase 50.0%, SGD 40.0%. One seed cannot decide; run at least three."),
        ([0.5, 0.6], [0.4, 0.5], (), "All seeds show the same difference"),
        ([0.5, 0.6], [0.4, 0.5], range(5), "Under way: lexicase 55.0%, SGD 45.0%. 2 of 5 seeds are finished"),
        ([], [0.4], (), "Lexicase minus SGD: no seed has finished with a number yet."),
        ([0.5001, 0.6, 0.7], [0.5, 0.6001, 0.7001], (), "within ±0.30 points."),
    ],
)
def test_every_answer_has_its_sentence(lexicase, sgd, seeds, expected):
    assert expected in verdict(frame(lexicase=lexicase, sgd=sgd), [("lexicase", "sgd")], seeds=seeds)


def test_by_default_each_method_is_compared_with_sgd_on_equal_samples():
    values = [0.5, 0.61, 0.72]
    lines = verdict(frame(sgd=values, sgd_matched=values, random=values, lexicase=values)).splitlines()
    assert [line.split(": ")[1].split(" ")[0] for line in lines] == ["lexicase", "random"]
    assert all("SGD with as many samples" in line for line in lines)


def test_a_run_without_the_metric_is_left_out():
    runs = frame(lexicase=[0.5, float("nan"), 0.7], sgd=[0.4, 0.5, 0.6])
    (found,) = decide(runs, [("lexicase", "sgd")])
    assert set(found.difference.by_seed) == {0, 2}
    assert found.answer == "under way"


def test_an_unfinished_run_does_not_hide_a_finished_one_of_its_seed():
    runs = frame(lexicase=[0.5, 0.7], sgd=[0.4, 0.5])
    begun = frame(lexicase=[float("nan")] * 2)
    (found,) = decide(pd.concat([runs, begun]), [("lexicase", "sgd")])
    assert found.difference.n == 2
