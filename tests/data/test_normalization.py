from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gradlex.data import Normalization
from gradlex.errors import InputError


@settings(deadline=None, max_examples=60)
@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=4, max_dims=4, max_side=7)))
def test_the_statistics_of_bytes_are_those_of_float64(x):
    found = Normalization.of(x)
    unit = x.astype(np.float64) / 255
    np.testing.assert_allclose(found.mean, unit.mean(axis=(0, 1, 2)), rtol=1e-12, atol=1e-15)
    std = unit.std(axis=(0, 1, 2))
    constant = (x == x[:1, :1, :1]).all(axis=(0, 1, 2))
    np.testing.assert_allclose(found.std, np.where(constant, 1, std), rtol=1e-9)


@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays(
        np.float32, st.tuples(st.integers(1, 40), st.integers(1, 5)), elements=st.floats(-100, 100, width=32)
    )
)
def test_the_statistics_of_features_are_those_of_float64(x):
    found = Normalization.of(x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(found.mean, wide.mean(axis=0), rtol=1e-12, atol=1e-12)
    for found_std, std, mean in zip(found.std, wide.std(axis=0), wide.mean(axis=0), strict=True):
        assert found_std == pytest.approx(std, rel=1e-9) or (found_std == 1 and std <= 2e-7 * abs(mean))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_more_samples_than_one_block_are_all_counted(dtype):
    x = np.random.default_rng(0).integers(0, 200, (2500, 2, 2, 3)).astype(dtype)
    x[2400:] += 50
    found = Normalization.of(x)
    unit = x.astype(np.float64) / (255 if dtype == np.uint8 else 1)
    np.testing.assert_allclose(found.mean, unit.mean(axis=(0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(found.std, unit.std(axis=(0, 1, 2)), rtol=1e-12)


def test_a_constant_feature_is_not_blown_up():
    x = np.full((1000, 2), 0.1, np.float32)
    x[:, 1] = np.arange(1000)
    assert Normalization.of(x).std[0] == 1


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_no_copy_of_the_data_is_made(dtype):
    x = np.zeros((20_000, 16, 16, 3), dtype)
    x[::2] = 1
    tracemalloc.start()
    try:
        Normalization.of(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < x.nbytes


def test_normalised_bytes_have_mean_0_and_deviation_1():
    x = np.random.default_rng(0).integers(0, 200, (500, 8, 8, 3), dtype=np.uint8)
    normal = Normalization.of(x).apply(torch.from_numpy(x).permute(0, 3, 1, 2))
    assert normal.dtype == torch.float32
    assert normal.mean(dim=(0, 2, 3)).abs().max() < 1e-5
    assert (normal.std(dim=(0, 2, 3)) - 1).abs().max() < 1e-4


def test_bytes_and_the_same_images_from_0_to_1_are_normalised_alike():
    x = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16)
    normalization = Normalization(mean=(0.4,), std=(0.2,))
    torch.testing.assert_close(normalization.apply(x), normalization.apply(x / 255))
    torch.testing.assert_close(normalization.apply(x), (x / 255 - 0.4) / 0.2)


def test_another_number_of_channels_is_refused():
    with pytest.raises(InputError, match="trained on 1 channels, got 3"):
        Normalization(mean=(0.4,), std=(0.2,)).apply(torch.zeros(1, 3, 4, 4))
