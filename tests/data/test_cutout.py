"""Cutout against a loop over pixels."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradlex.data import cutout, flip, parse_augment
from gradlex.errors import InputError


def batch_of(number, channels, height, width, dtype):
    """Images without a zero, so that what is cut out shows, lying in memory as samples give them out."""
    rng = np.random.default_rng(7)
    last = rng.integers(1, 256, (number, height, width, channels), dtype=np.uint8)
    return torch.from_numpy(last).permute(0, 3, 1, 2).to(dtype)


def cut_pixel_by_pixel(batch, size, centres):
    result = batch.clone()
    for image, (down, right) in zip(result, centres, strict=True):
        for row in range(down - size // 2, down - size // 2 + size):
            for column in range(right - size // 2, right - size // 2 + size):
                if 0 <= row < image.shape[1] and 0 <= column < image.shape[2]:
                    image[:, row, column] = 0
    return result


@settings(deadline=None, max_examples=60)
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 12), st.integers(1, 12)),
    size=st.integers(1, 15),
    seed=st.integers(0, 2**32),
    dtype=st.sampled_from([torch.uint8, torch.float32, torch.float64]),
)
def test_a_cutout_blackens_a_square_of_every_channel(shape, size, seed, dtype):
    batch = batch_of(*shape, dtype)
    before = batch.clone()
    centres = np.random.default_rng(seed).integers(0, shape[2:], (len(batch), 2)).tolist()
    found = cutout(size)(batch, np.random.default_rng(seed))
    assert torch.equal(found, cut_pixel_by_pixel(batch, size, centres))
    assert found.dtype == dtype
    assert torch.equal(batch, before)


def test_every_place_is_equally_likely_for_the_centre():
    batch = torch.ones(30_000, 1, 3, 5, dtype=torch.uint8)
    found = cutout(1)(batch, np.random.default_rng(0))[:, 0]
    black = (found == 0).sum(dim=0)
    assert black.sum() == 30_000  # one pixel of each image
    assert (black - 2000).abs().max() < 5 * 2000**0.5


def test_its_word_goes_with_the_others_and_the_stream_runs_on():
    batch = batch_of(20, 3, 8, 8, torch.uint8)
    rng = np.random.default_rng(3)
    expected = cutout(4)(flip()(batch, rng), rng)
    named = pickle.loads(pickle.dumps(parse_augment("flip,cutout4")))
    assert torch.equal(named(batch, np.random.default_rng(3)), expected)
    assert not torch.equal(named(batch, np.random.default_rng(4)), expected)


@pytest.mark.parametrize("size", [0, -1, 257, 2.5])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(InputError, match=f"cutout needs a whole size from 1 to 256, got {size}"):
        cutout(size)


@pytest.mark.parametrize("text", ["cutout", "cutout0", "cutout-2", "cutout999"])
def test_a_word_without_a_size_is_refused(text):
    with pytest.raises(InputError, match=r"unknown augmentation|whole size"):
        parse_augment(text)


def test_features_have_no_squares():
    with pytest.raises(InputError, match=r"need images \(N, channels, height, width\), got \(5, 7\)"):
        cutout(2)(torch.zeros(5, 7), np.random.default_rng(0))
