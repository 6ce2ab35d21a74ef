from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradlex.randomness import stream, torch_seed

PURPOSES = (
    "initialisation",
    "split",
    "augmentation",
    "dropout",
    "cases",
    "choice",
    "samples",
    "recalibration",
    "evaluation",
    "variation",
    "held_out",
    "case_augmentation",
)
KEYS = st.tuples(st.sampled_from(PURPOSES), st.integers(0, 2**31), st.integers(0, 2**31))


def test_streams_are_the_published_function_of_their_key():
    """Stored runs are resumed by deriving these again: the numbers of the purposes must never move."""
    for number, purpose in enumerate(PURPOSES):
        sequence = np.random.SeedSequence(11, spawn_key=(number, 3, 2))
        expected = np.random.default_rng(sequence).integers(0, 2**62, 4)
        assert (stream(11, purpose, 3, 2).integers(0, 2**62, 4) == expected).all()


@given(st.integers(0, 2**64), KEYS)
def test_the_same_key_gives_the_same_stream_however_often_it_is_asked(seed, key):
    stream(seed, *key).random(3)
    assert (stream(seed, *key).random(5) == stream(seed, *key).random(5)).all()
    assert torch_seed(seed, *key) == torch_seed(seed, *key)


@given(st.integers(0, 2**64), KEYS, KEYS)
def test_different_keys_give_different_streams(seed, one, other):
    if one != other:
        assert (stream(seed, *one).integers(0, 2**62, 4) != stream(seed, *other).integers(0, 2**62, 4)).any()
        assert torch_seed(seed, *one) != torch_seed(seed, *other)


@given(st.integers(0, 2**64), KEYS)
def test_a_torch_seed_is_one_that_torch_takes(seed, key):
    assert 0 <= torch_seed(seed, *key) < 2**63


def test_neighbouring_streams_are_uncorrelated():
    draws = np.stack(
        [
            stream(s, p, g, i).random(2000)
            for s, p, g, i in itertools.product((0, 1), PURPOSES, (0, 1), (0, 1))
        ]
    )
    correlations = np.corrcoef(draws)[np.triu_indices(len(draws), 1)]
    assert np.abs(correlations).max() < 0.12


def test_an_unknown_purpose_is_an_error_of_ours():
    with pytest.raises(KeyError):
        stream(0, "weather")
