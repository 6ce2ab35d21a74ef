"""How a generation's samples are dealt out: every sample counted, none twice in a pass."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradlex import Recipe
from gradlex.population import batches, deal, split
from gradlex.randomness import stream


def recipes(**fields):
    return st.builds(
        Recipe,
        population=st.integers(1, 5),
        generations=st.integers(1, 8),
        batch_size=st.integers(1, 9),
        branch_at=st.sampled_from([0.0, 0.5, 0.9]),
        seed=st.integers(0, 99),
        momentum=st.just("reset"),
        **fields,
    )


def dealt(recipe, samples):
    return [deal(samples, recipe, generation) for generation in range(recipe.generations)]


@settings(max_examples=60, deadline=None)
@given(recipe=recipes(), samples=st.integers(10, 60))
def test_by_default_it_is_the_split_of_the_paper(recipe, samples):
    for generation, subsets in enumerate(dealt(recipe, samples)):
        expected = split(samples, recipe.population_at(generation), stream(recipe.seed, "split", generation))
        assert [part.tolist() for part in subsets] == [part.tolist() for part in expected]


@settings(max_examples=100, deadline=None)
@given(
    recipe=recipes(steps_per_generation=st.integers(1, 6), parts=st.sampled_from(["disjoint", "all"])),
    samples=st.integers(10, 60),
)
def test_a_candidate_takes_as_many_steps_as_it_is_told_on_whole_batches(recipe, samples):
    for generation, subsets in enumerate(dealt(recipe, samples)):
        assert len(subsets) == recipe.population_at(generation)
        sizes = [[len(batch) for batch in batches(subset, recipe.batch_size)] for subset in subsets]
        assert sizes == [[recipe.batch_size] * recipe.steps_per_generation] * len(subsets)
        assert sum(map(len, subsets)) == recipe.samples_at(generation, samples)


@settings(max_examples=100, deadline=None)
@given(recipe=recipes(steps_per_generation=st.integers(1, 6)), samples=st.integers(10, 60))
def test_disjoint_parts_go_through_the_samples_pass_by_pass_across_generations(recipe, samples):
    whole = np.concatenate([part for subsets in dealt(recipe, samples) for part in subsets])
    for start in range(0, len(whole), samples):
        part = whole[start : start + samples].tolist()
        assert max(Counter(part).values()) == 1
        if len(part) == samples:
            assert sorted(part) == list(range(samples))
    if len(whole) >= 2 * samples:
        assert whole[:samples].tolist() != whole[samples : 2 * samples].tolist()


def test_so_many_steps_that_they_are_a_pass_deal_what_the_default_deals():
    plain = Recipe(population=3, generations=4, batch_size=5, momentum="reset", seed=2)
    for given_, expected in zip(
        dealt(plain.replace(steps_per_generation=2), 30), dealt(plain, 30), strict=True
    ):
        assert [part.tolist() for part in given_] == [part.tolist() for part in expected]


@settings(max_examples=100, deadline=None)
@given(
    recipe=recipes(parts=st.just("all"), steps_per_generation=st.none() | st.integers(1, 9)),
    samples=st.integers(10, 60),
)
def test_parts_of_all_samples_are_as_large_and_each_in_an_order_of_its_own(recipe, samples):
    other = recipe.replace(parts="disjoint")
    for generation, subsets in enumerate(dealt(recipe, samples)):
        sizes = [len(part) for part in deal(samples, other, generation)]
        assert [len(part) for part in subsets] == sizes
        for part in subsets if generation >= recipe.branch else ():
            assert set(part.tolist()) <= set(range(samples))
            counts = Counter(part.tolist())
            assert max(counts.values()) <= -(-len(part) // samples)
            if len(part) >= samples:
                assert len(counts) == samples


def test_parts_of_all_samples_overlap_and_change_with_the_generation():
    recipe = Recipe(population=3, generations=2, batch_size=5, parts="all", momentum="reset")
    (first, second, _), (again, *_) = dealt(recipe, 30)
    assert set(first.tolist()) & set(second.tolist())
    assert first.tolist() != again.tolist()
    every = Counter(
        i
        for seed in range(200)
        for part in dealt(recipe.replace(seed=seed), 30)
        for j in part
        for i in j.tolist()
    )
    expected = 200 * 2  # every sample as often as any other
    assert all(abs(count - expected) < 6 * expected**0.5 for count in every.values())


@settings(max_examples=60, deadline=None)
@given(
    recipe=recipes(steps_per_generation=st.none() | st.integers(1, 6), parts=st.just("all")),
    samples=st.integers(10, 60),
)
def test_until_the_branch_the_order_does_not_depend_on_the_parts_or_on_the_population(recipe, samples):
    """So that runs which branch can begin with plain SGD's."""
    plain = recipe.replace(parts="disjoint", branch_at=0.0, population=1)
    for generation in range(recipe.branch):
        (one,), (other,) = (deal(samples, each, generation) for each in (recipe, plain))
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize("parts", ["disjoint", "all"])
def test_samples_that_the_population_does_not_divide_are_all_counted(parts):
    recipe = Recipe(population=4, generations=1, batch_size=5, parts=parts, momentum="reset")
    assert [len(part) for part in deal(50, recipe, 0)] == [13, 13, 12, 12]
    assert recipe.samples_at(0, 50) == 50
