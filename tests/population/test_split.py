from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradlex.population import batches, split


@given(st.integers(1, 300), st.integers(1, 20), st.integers(0, 2**32))
def test_a_split_deals_every_sample_out_once_in_sizes_that_differ_by_at_most_one(samples, population, seed):
    subsets = split(samples, population, np.random.default_rng(seed))
    assert len(subsets) == population
    assert sorted(np.concatenate(subsets).tolist()) == list(range(samples))
    sizes = [len(subset) for subset in subsets]
    assert max(sizes) - min(sizes) <= 1


def test_a_split_of_one_is_the_order_itself():
    (only,) = split(20, 1, np.random.default_rng(3))
    assert only.tolist() == np.random.default_rng(3).permutation(20).tolist()


def test_every_sample_is_as_likely_in_every_subset():
    counts = np.zeros((10, 3))
    for seed in range(600):
        for index, subset in enumerate(split(10, 3, np.random.default_rng(seed))):
            counts[subset, index] += 1
    expected = 600 * np.array([4, 3, 3]) / 10
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()


@given(st.integers(1, 300), st.integers(1, 50))
def test_batches_hold_the_subset_in_its_order(size, batch_size):
    subset = np.random.default_rng(size).permutation(1000)[:size]
    assert np.concatenate(batches(subset, batch_size)).tolist() == subset.tolist()


@given(st.integers(1, 2000), st.integers(1, 300))
def test_batches_are_even(size, batch_size):
    """No step at the full learning rate on a few samples, just before selection looks."""
    sizes = [len(batch) for batch in batches(np.arange(size), batch_size)]
    assert max(sizes) - min(sizes) <= 1
    if batch_size != 2:  # an odd subset in pairs has a batch of three
        assert max(sizes) <= batch_size
    assert 2 * min(sizes) >= min(batch_size, size)


@given(st.integers(2, 300), st.integers(2, 50))
def test_no_batch_has_a_single_sample_which_batch_norm_cannot_train_on(size, batch_size):
    assert min(len(batch) for batch in batches(np.arange(size), batch_size)) >= 2


@pytest.mark.parametrize(
    ("size", "batch_size", "expected"),
    [
        (8, 4, [4, 4]),
        (9, 4, [3, 3, 3]),
        (10, 4, [4, 3, 3]),
        (3, 4, [3]),
        (1, 4, [1]),
        (5, 4, [3, 2]),
        (129, 128, [65, 64]),
        (3, 2, [3]),
        (7, 2, [3, 2, 2]),
        (3, 1, [1, 1, 1]),
    ],
)
def test_the_sizes_of_batches(size, batch_size, expected):
    assert [len(batch) for batch in batches(np.arange(size), batch_size)] == expected
