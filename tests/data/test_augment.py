"""Augmentations against their definitions, and what a user's own may not do."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradlex import InputError, Recipe
from gradlex.data import crop, crop_flip, flip, prepare
from gradlex.data.augment import parse_augment

IMAGES = torch.from_numpy(np.random.default_rng(5).integers(1, 256, (9, 3, 6, 8), dtype=np.uint8))
LABELS = torch.arange(9) % 3


def stream(seed=0):
    return np.random.default_rng(seed)


@settings(max_examples=20, deadline=None)
@given(padding=st.integers(1, 5), seed=st.integers(0, 99))
def test_a_crop_is_a_window_of_the_padded_image(padding, seed):
    down, right = stream(seed).integers(0, 2 * padding + 1, (2, 9))
    padded = np.pad(IMAGES.numpy(), ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2))
    expected = [image[:, d : d + 6, r : r + 8] for image, d, r in zip(padded, down, right, strict=True)]
    assert np.array_equal(crop(padding)(IMAGES, stream(seed)).numpy(), expected)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99))
def test_a_flip_mirrors_by_the_toss_of_a_coin(seed):
    tossed = stream(seed).random(9) < 0.5
    expected = [image[..., ::-1] if heads else image for image, heads in zip(IMAGES.numpy(), tossed, strict=True)]
    assert np.array_equal(flip()(IMAGES, stream(seed)).numpy(), expected)


def test_a_chain_draws_for_one_step_after_another():
    rng = stream()
    expected = flip()(crop(2)(IMAGES, rng), rng)
    assert torch.equal(crop_flip(2)(IMAGES, stream()), expected)
    assert torch.equal(parse_augment(" crop2 , flip ")(IMAGES, stream()), expected)
    assert parse_augment("none") is None


@pytest.mark.parametrize("augment", [crop(2), flip(), crop_flip(2)])
@pytest.mark.parametrize("change", [torch.Tensor.float, torch.Tensor.bfloat16, torch.Tensor.byte])
def test_type_and_shape_stay_and_the_batch_is_not_written_to(augment, change):
    batch = change(IMAGES)
    before = batch.clone()
    found = augment(batch, stream())
    assert (found.dtype, found.shape) == (batch.dtype, batch.shape)
    assert torch.equal(batch, before)
    assert not torch.equal(found, before)


@pytest.mark.parametrize(
    "text", ["", "crop", "crop0", "crop-1", "crop257", "cutout4", "mixup0.2", "flip;crop2", "flip,,flip"]
)
def test_a_text_that_names_no_augmentation_is_an_error(text):
    with pytest.raises(InputError, match=r"Allowed: none, or crop4|from 1 to 256"):
        parse_augment(text)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "4", True, 257])
def test_sizes_are_whole_pixels(wrong):
    with pytest.raises(InputError, match="a whole number of pixels from 1 to 256"):
        crop(wrong)


def train_samples(augment, data=(IMAGES, LABELS)):
    return prepare(data, Recipe(), augment=augment).train


def test_selection_sees_clean_cases_whatever_training_sees():
    def zero(batch, _):
        return batch.zero_()

    for augment in (crop_flip(2), flip(), zero):
        samples = train_samples(augment)
        first = samples.augmented(np.arange(9), stream())[0]
        assert torch.equal(samples.clean(np.arange(9))[0], IMAGES)
        assert not torch.equal(first, IMAGES)
        assert torch.equal(samples.augmented(np.arange(9), stream())[0], first)


def test_a_function_of_ones_own_gets_the_data_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "own_augmentation.py").write_text(
        "def darken(batch, rng):\n    return batch // int(rng.integers(2, 5))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    parts = prepare((IMAGES, LABELS), Recipe(augment="flip,own_augmentation:darken"))
    rng = stream()
    expected = flip()(IMAGES, rng) // int(rng.integers(2, 5))
    assert torch.equal(parts.train.augmented(np.arange(9), stream())[0], expected)
    sys.modules.pop("own_augmentation")


def failing(batch, rng):
    return 1 // 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda batch, _: batch / 255,
            r"must return a batch like the one it gets, torch.uint8 of shape \(8, 3, 6, 8\)",
        ),
        (lambda batch, _: batch[1:], r"got torch.uint8 of shape \(7, 3, 6, 8\)"),
        (lambda *_: None, "got NoneType"),
        (failing, "the first training batch cannot be made: ZeroDivisionError"),
        (lambda batch: batch, "takes 1 positional argument"),
        (3, "'int' object is not callable"),
    ],
)
def test_an_augmentation_that_cannot_work_is_an_error_before_training(wrong, message):
    with pytest.raises(InputError, match=message):
        train_samples(wrong)


def test_images_are_needed():
    for x in (torch.rand(9, 4), {"a": torch.rand(9, 4)}):
        with pytest.raises(InputError, match=r"need images \(N, channels, height, width\), got "):
            train_samples(flip(), (x, LABELS))
