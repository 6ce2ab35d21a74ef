"""Streams are a published function of their key: stored runs depend on it."""

import itertools
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradlex.randomness import Purpose, stream, torch_seed

# The number of each purpose is part of every stored run and must never change.
NUMBERS = {
    "initialization": 0,
    "split": 1,
    "augmentation": 2,
    "dropout": 3,
    "cases": 4,
    "choice": 5,
    "samples": 6,
    "recalibration": 7,
    "evaluation": 8,
    "validation": 12,
}
KEYS = st.tuples(st.sampled_from(list(NUMBERS)), st.integers(0, 2**31), st.integers(0, 2**31))


def test_streams_are_the_published_function_of_their_key() -> None:
    assert set(get_args(Purpose)) == set(NUMBERS)
    for purpose, number in NUMBERS.items():
        expected = np.random.default_rng(np.random.SeedSequence(11, spawn_key=(number, 3, 2)))
        assert (stream(11, purpose, 3, 2).integers(0, 2**62, 4) == expected.integers(0, 2**62, 4)).all()


@settings(deadline=None)
@given(st.integers(0, 2**64), KEYS, KEYS)
def test_the_same_key_gives_the_same_stream_and_another_key_another(seed, one, other) -> None:
    stream(seed, *one).random(3)
    assert (stream(seed, *one).random(5) == stream(seed, *one).random(5)).all()
    assert 0 <= torch_seed(seed, *one) == torch_seed(seed, *one) < 2**63
    if one != other:
        assert (stream(seed, *one).integers(0, 2**62, 4) != stream(seed, *other).integers(0, 2**62, 4)).any()
        assert torch_seed(seed, *one) != torch_seed(seed, *other)


def test_neighboring_streams_are_uncorrelated() -> None:
    keys = itertools.product((0, 1), NUMBERS, (0, 1), (0, 1))
    draws = np.stack([stream(*key).random(2000) for key in keys])
    correlations = np.corrcoef(draws)[np.triu_indices(len(draws), 1)]
    assert np.abs(correlations).max() < 0.12


def test_an_unknown_purpose_is_an_error() -> None:
    with pytest.raises(KeyError):
        stream(0, "weather")
