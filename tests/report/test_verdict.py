"""What the evidence supports: a win, a loss, noise, too few seeds."""

from __future__ import annotations

import pytest

from gradlex.report import gather, verdict

SGD = [68.0, 67.5, 68.3]
CLOSE = [68.2, 67.3, 68.4]


@pytest.fixture
def judged(experiment):
    def judge(accuracies, name="compare"):
        evidence = gather(experiment(name, accuracies))
        return verdict(evidence, evidence.settings[0])

    return judge


def test_a_clear_gain_is_called_one_and_its_cost_is_told(judged):
    text = judged({"sgd": SGD, "lexicase": [70.1, 69.5, 70.2]})
    assert text == (
        "In short, for resnet20 on cifar10.npz: Lexicase, which trains on 5 times the samples of SGD, is "
        "significantly better than SGD (+2.00 points, 95 % interval +1.75 to +2.25, p < 0.001, 3 seeds). There is "
        "no SGD run on equal samples, so a gain over SGD may come from longer training alone."
    )


def test_a_clear_loss_is_called_one(judged):
    text = judged({"sgd": SGD, "sgd-matched": [71.0, 70.6, 71.4], "lexicase": [70.1, 69.6, 70.2]})
    assert "is significantly better than SGD (" in text
    assert (
        "it is significantly worse than SGD on equal samples at weight decay 0.0001 (-1.03 points, 95 % interval"
        in text
    )


def test_noise_supports_no_conclusion(judged):
    text = judged({"sgd": SGD, "lexicase": CLOSE})
    assert "is not significantly different from SGD (+0.03 points" in text
    assert "better than" not in text


def test_one_seed_supports_no_conclusion_however_large_the_difference(judged):
    text = judged({"sgd": [60.0], "sgd-matched": [60.0], "random": [61.0], "lexicase": [90.0]})
    assert "differs from SGD by +30.00 points (1 seed, too few for a conclusion)" in text
    assert "better than" not in text
    assert text.endswith(
        "No population method has an interval against SGD on equal samples: more seeds are needed."
    )


def test_two_seeds_with_the_same_difference_support_no_conclusion(judged):
    text = judged({"sgd": [60.0, 61.0], "lexicase": [62.0, 63.0]})
    assert "is not significantly different from SGD (+2.00 points in each of 2 seeds, no interval)" in text


def test_the_best_supported_method_is_said_to_be_picked_and_unadjusted(judged):
    text = judged(
        {
            "sgd": SGD,
            "sgd-matched": [71.0, 70.6, 71.4],
            "sgd-matched-5e-4": [72.5, 72.0, 72.4],
            "lexicase": [70.1, 69.5, 70.2],
            # The mean of this one is higher, the lower end of its interval is not.
            "expected": [73.0, 74.9, 73.9],
            "average": [73.1, 72.6, 73.3],
        }
    )
    assert (
        "Of the 3 population methods, the best supported against SGD on equal samples at every weight decay, average, "
        "is significantly better than SGD on equal samples at weight decay 0.0001 (" in text
    )
    assert "it is significantly better than SGD on equal samples at weight decay 0.0005 (+0.70 points" in text
    assert text.endswith(
        "it was picked after seeing these results, and the intervals are not adjusted for the number of comparisons."
    )


def test_a_baseline_with_fewer_seeds_than_the_other_does_not_make_the_verdict_contradict_itself(judged):
    matched = {"sgd-matched": [71.0, 70.6, 71.4], "sgd-matched-5e-4": [72.5]}
    text = judged({**matched, "lexicase": [70.1, 69.5, 70.2], "average": [73.1, 72.6, 73.3]})
    assert "it differs from SGD on equal samples at weight decay 0.0005 by -2.40 points (1 seed," in text
    assert text.endswith(
        "No population method has an interval against SGD on equal samples at every weight decay: more "
        "seeds are needed."
    )


def test_one_method_with_an_interval_is_not_picked_from_one(judged):
    text = judged({"sgd-matched": [71.0, 70.6, 71.4], "lexicase": [70.1, 69.5, 70.2], "average": [73.1]})
    assert text.endswith(
        "Of the population methods only lexicase has an interval against SGD on equal samples so far."
    )


def test_the_matched_baseline_is_never_chosen_by_its_accuracy(judged):
    text = judged({"sgd-matched": CLOSE, "sgd-matched-5e-4": SGD, "lexicase": [70.1, 69.5, 70.2]})
    assert text.index("at weight decay 0.0001 (") < text.index("at weight decay 0.0005 (")


def test_a_method_above_one_matched_baseline_alone_is_not_called_above_both(judged):
    text = judged(
        {
            "sgd-matched": [71.0, 70.6, 71.4],
            "sgd-matched-5e-4": [73.0, 72.6, 73.3],
            "lexicase": [70.1, 69.5, 70.2],
            "average": [73.1, 72.6, 73.3],
        }
    )
    assert (
        "None of the 2 population methods with intervals is significantly better than SGD on equal samples at every "
        "weight decay. The closest by its mean, average, is significantly better than SGD on equal samples at weight "
        "decay 0.0001 (+2.00 points" in text
    )
    assert "it is not significantly different from SGD on equal samples at weight decay 0.0005" in text


def test_the_nearest_is_the_one_with_the_highest_mean_however_narrow_the_others_are(judged):
    text = judged(
        {
            "sgd-matched": [71.0, 70.6, 71.4],
            "lexicase": [65.0, 64.5, 65.5],
            "average": [70.0, 72.6, 68.0],
            "random": [66.0, 65.6, 66.4],  # every difference is the same: without an interval
        }
    )
    assert "None of the 2 population methods with intervals is significantly better than" in text
    assert "The closest by its mean, average, is not significantly different from" in text


def test_without_a_baseline_of_equal_cost_the_verdict_says_so(judged):
    text = judged({"sgd-matched population=4": SGD, "lexicase population=2": CLOSE})
    assert "Lexicase has no finished SGD run at equal cost." in text


def test_without_a_common_seed_nothing_is_compared(judged):
    text = judged({"sgd": [68.0, None], "lexicase": [None, 70.0]})
    assert "cannot be compared with SGD: they share no finished seed" in text


def test_without_lexicase_or_without_sgd_the_verdict_says_so(judged, experiment):
    assert "No lexicase run is finished" in judged({"sgd": SGD, "lexicase": [None, None, None]})
    assert "there is nothing to compare lexicase with" in judged({"lexicase": CLOSE}, name="table2")


def test_another_method_than_lexicase_is_judged_where_it_is_the_only_one(judged):
    text = judged({"sgd": SGD, "random": CLOSE})
    assert (
        "Random, which trains on 5 times the samples of SGD, is not significantly different from SGD" in text
    )
    assert "lexicase" not in text


def test_plain_sgd_is_the_baseline_of_methods_that_train_on_as_many_samples(judged):
    text = judged({"sgd": SGD, "branched-average": [70.1, 69.5, 70.2], "branched-random": CLOSE})
    assert (
        "Of the 2 population methods, the best supported against SGD on equal samples, branched average, "
        in text
    )
    assert "is significantly better than SGD (+2.00 points" in text
    assert "There is no SGD run on equal samples" not in text


def test_the_only_method_that_trains_on_as_many_samples_is_judged_in_one_sentence(judged):
    text = judged({"sgd": SGD, "branched-average": [70.1, 69.5, 70.2]})
    assert text.endswith(
        "Branched average is significantly better than SGD (+2.00 points, 95 % interval +1.75 to +2.25, p < 0.001, "
        "3 seeds)."
    )
