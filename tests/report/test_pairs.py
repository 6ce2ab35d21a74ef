"""Comparisons that are declared before the runs: decided as one family, and never more than the seeds show."""

from __future__ import annotations

from dataclasses import replace

import pytest

import gradlex
from gradlex.errors import InputError
from gradlex.experiments import comparison_experiment, stored_plan
from gradlex.report import gather, text_report
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
    ],
)
def test_a_conclusion_says_what_the_seeds_support(experiment, values, conclusion, words):
    _, (decision,) = decided(experiment, {"sgd": SGD, "lexicase": values}, (("lexicase", "sgd"),))
    assert (decision.conclusion, decision.claim) == (conclusion, words)
    assert ("could have been detected" in decision.evidence) == (conclusion == "open" and len(values) > 1)


def test_populations_are_compared_with_their_like(experiment):
    arms = {f"{name} population={p}": SGD for name in ("lexicase", "random") for p in (2, 4)}
    _, found = decided(experiment, arms, (("lexicase", "random"),))
    assert [(each.first.recipe.population, each.second.recipe.population) for each in found] == [
        (2, 2),
        (4, 4),
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
