"""Comparisons that are declared before the runs: decided as one family, and never more than the seeds show."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import gradlex
from gradlex.errors import InputError
from gradlex.experiments import comparison_experiment, stored_plan
from gradlex.report import gather, text_report, write_experiment_page
from gradlex.report._pairs import decision_table, decisions
from gradlex.report._statistics import holm

SGD = [90.0, 90.4, 90.2, 90.5, 90.1]


def decided(experiment, accuracies, pairs):
    plan = replace(experiment("compare", accuracies), pairs=pairs)
    plan.save()
    evidence = gather(stored_plan(plan.file))
    return evidence, decisions(evidence, evidence.settings[0])


def test_the_p_values_of_declared_comparisons_are_adjusted_together(experiment):
    arms = {
        "sgd": SGD,
        "random": [90.3, 90.5, 90.7, 90.6, 90.5],
        "lexicase": [91.0, 91.3, 91.3, 91.4, 91.2],
        "average": [90.2, 90.2, 90.4, 90.4, 90.2],
    }
    pairs = (("random", "sgd"), ("lexicase", "sgd"), ("average", "sgd"))
    evidence, found = decided(experiment, arms, pairs)
    assert [decision.p for decision in found] == holm([decision.difference.p for decision in found])
    assert all(decision.p >= decision.difference.p for decision in found)
    assert [decision.conclusion for decision in found] == ["better", "better", "equivalent"]
    assert [decision.primary for decision in found] == [True, False, False]
    rows = decision_table(evidence, evidence.settings[0]).rows
    assert rows[0][:2] == ("random minus SGD (primary)", "better")
    assert "Declared comparisons" in text_report(evidence.plan, 80)


@pytest.mark.parametrize(
    ("values", "conclusion", "words"),
    [
        ([88.9, 89.5, 89.0, 89.6, 88.9], "worse", "Lexicase is worse than SGD"),
        ([90.1, 90.3, 90.3, 90.4, 90.2], "equivalent", "Lexicase is within 0.3 points of SGD"),
        ([91.0, 89.5, 90.9, 89.6, 90.2], "open", "Lexicase is not significantly different from SGD"),
        ([95.0], "open", "Lexicase cannot be compared yet with SGD"),
        ([91.0, 91.3, 91.3, None, 91.2], "under way", "Lexicase is not decided yet against SGD"),
        ([None, None], "under way", "Lexicase is not decided yet against SGD"),
    ],
)
def test_a_conclusion_says_what_the_seeds_support(experiment, values, conclusion, words):
    _, (decision,) = decided(experiment, {"sgd": SGD, "lexicase": values}, (("lexicase", "sgd"),))
    assert (decision.conclusion, decision.claim) == (conclusion, words)
    assert ("80 % power for" in decision.evidence) == (conclusion == "open" and len(values) > 1)


def test_a_declared_comparison_counts_before_its_runs_are_there(experiment):
    arms = {"sgd": SGD, "lexicase": [90.6, 91.3, 90.9, 91.4, 90.8], "average": [None] * 5}
    pairs = (("lexicase", "sgd"), ("average", "sgd"), ("average", "lexicase"))
    evidence, found = decided(experiment, arms, pairs)
    assert found[0].p == pytest.approx(3 * found[0].difference.p)
    assert found[0].evidence.endswith("adjusted for 3 comparisons, 5 seeds")
    assert [decision.conclusion for decision in found] == ["better", "under way", "under way"]
    assert found[1].evidence == "seeds 0, 1, 2, 3 and 4 to come"
    rows = decision_table(evidence, evidence.settings[0]).rows
    assert rows[2] == ("average minus lexicase", "under way", "-", "-", "-", "-", "0", "-")


def test_a_seed_that_failed_is_not_waited_for(experiment):
    failed = {"compare-lexicase-seed4": "the loss is not finite"}
    plan = replace(
        experiment("compare", {"sgd": SGD, "lexicase": [91.0, 91.3, 91.3, 91.4, None]}, failures=failed),
        pairs=(("lexicase", "sgd"),),
    )
    plan.save()
    evidence = gather(stored_plan(plan.file))
    (decision,) = decisions(evidence, evidence.settings[0])
    assert (decision.conclusion, decision.difference.n) == ("better", 4)


def test_an_interval_beside_zero_that_is_not_significant_says_why(experiment):
    arms = {"sgd": SGD, "random": SGD[::-1], "lexicase": [90.1, 90.7, 90.3, 90.6, 90.5]}
    names = ["lexicase", "sgd", "random"]
    pairs = tuple((one, other) for one in names for other in names if one != other)
    _, found = decided(experiment, arms, pairs)
    assert found[0].difference.low > 0
    assert found[0].conclusion == "open"
    assert f"adjusted for 6 comparisons ({found[0].difference.p:.3f} alone)" in found[0].evidence


def test_populations_are_compared_with_their_like(experiment):
    arms = {f"{name} population={p}": SGD for name in ("lexicase", "random") for p in (2, 4)}
    _, found = decided(experiment, arms, (("lexicase", "random"),))
    assert [(each.first, each.second) for each in found] == [
        ("lexicase, p = 2", "random, p = 2"),
        ("lexicase, p = 4", "random, p = 4"),
    ]


@pytest.mark.parametrize(
    "pairs", [["lexicase:average"], ["lexicase"], ["sgd:sgd"], [("a", "b", "c")], ["a:b:c"]]
)
def test_a_pair_that_the_experiment_does_not_have_is_refused(pairs, tmp_path):
    with pytest.raises(InputError, match="pair"):
        comparison_experiment(
            "digits", "mlp", methods=["sgd", "lexicase"], pairs=pairs, out=tmp_path / "runs" / "compare"
        )
    with pytest.raises(InputError, match="pair"):
        gradlex.compare("digits", "mlp", methods=["sgd", "lexicase"], pairs=pairs, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_page_of_several_experiments_leads_with_the_declared_ones_each_under_its_title(
    make_experiment, tmp_path
):
    make_experiment(tmp_path, "table4", {"sgd": [68.0], "lexicase momentum=none": [69.0]})
    for name in ("large", "small"):
        plan = make_experiment(tmp_path / name, "compare", {"sgd": [68.1, 67.4], "lexicase": [70.3, 69.9]})
        replace(plan, pairs=(("lexicase", "sgd"),), title=f"{name} data").save()
    page = write_experiment_page(tmp_path)[0].read_text(encoding="utf-8")
    anchors = re.findall(r'<section id="(.+?)"', page)
    assert len(set(anchors)) == 3
    assert set(re.findall(r'<a href="#(.+?)">', page)) >= set(anchors)
    for name in ("large", "small"):
        assert f"In short, for {name} data: Lexicase is " in page
    assert page.index("small data") < page.index("Table 4")
