"""Groups of columns as cases: on tables, and in the function that Population.select asks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from gradlex import InputError, Population
from gradlex.selection import by_group, group_means, select_parents, selection_probabilities

GRADED = np.random.default_rng(0).random((5, 6))
GROUPS = ["b", "a", "b", "a", "c", "c"]


def test_a_groups_error_is_the_mean_over_its_columns_in_the_order_of_names():
    means = np.stack([GRADED[:, [1, 3]], GRADED[:, [0, 2]], GRADED[:, [4, 5]]]).mean(axis=2).T
    np.testing.assert_allclose(group_means(GRADED, GROUPS), means)
    np.testing.assert_allclose(group_means(torch.from_numpy(GRADED), np.array(GROUPS, dtype=object)), means)


def test_groups_choose_a_candidate_that_a_mean_over_all_columns_would_not():
    # Nine columns of a large group and one of a small one: the mean prefers 0, half of the orders of groups don't.
    table = np.array([[0.0] * 9 + [1.0], [1.0] * 9 + [0.0]])
    assert set(select_parents(table, 30, "tournament", rng=0)) == {0}
    np.testing.assert_allclose(selection_probabilities(group_means(table, [0] * 9 + [1])), [0.5, 0.5])


def test_an_error_that_is_not_finite_makes_its_group_the_worst():
    table = GRADED.copy()
    table[0, 1] = np.nan
    assert np.isinf(group_means(table, GROUPS)[0]).tolist() == [True, False, False]


def test_the_function_by_group_returns_what_the_table_has():
    asked = []

    def errors(samples):
        asked.append(samples.tolist())
        return torch.from_numpy(GRADED[2])[torch.from_numpy(samples)]

    means, num_cases = by_group(errors, GROUPS)
    assert num_cases == 3
    np.testing.assert_allclose(means(np.array([2, 0])), group_means(GRADED, GROUPS)[2, [2, 0]])
    assert asked == [[4, 5, 1, 3]]


def test_a_population_selects_by_groups():
    x = torch.linspace(-1, 1, 12)[:, None]
    model, patients = nn.Linear(1, 1), np.arange(12) // 4
    population = Population(model, size=3, selection="lexicase(on_all_fail=survive)")
    for candidate in population.candidates(12):
        with torch.no_grad():
            model.weight.fill_(candidate.index)
            model.bias.zero_()
    choice = population.select(*by_group(lambda cases: (model(x[cases]) - x[cases]).abs()[:, 0], patients))
    assert (choice.index, choice.cases_used) == (1, 1)


@pytest.mark.parametrize("groups", [[1, 2], [[0] * 6], [0.5] * 6, []])
def test_each_column_needs_a_group(groups):
    with pytest.raises(InputError, match="groups must be a number or a name for each of the 6 columns"):
        group_means(GRADED, groups)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.bool])
def test_errors_by_group_may_have_any_type(dtype):
    means, _ = by_group(lambda samples: torch.ones(len(samples), dtype=dtype), [0, 0, 1])
    assert means(np.array([0, 1])).tolist() == [1.0, 1.0]


def test_groups_may_be_a_tensor():
    means, num_cases = by_group(lambda samples: samples > 1, torch.tensor([0, 0, 1]))
    assert (num_cases, means(np.array([0, 1])).tolist()) == (2, [0.0, 1.0])
