from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradlex.data import DATASETS, crop, crop_flip, flip, parse_augment
from gradlex.errors import InputError


def batch_of(number, channels, height, width, *, dtype=torch.uint8):
    """Images without a zero, so that padding shows, lying in memory as samples give them out."""
    rng = np.random.default_rng(7)
    last = rng.integers(1, 256, (number, height, width, channels), dtype=np.uint8)
    return torch.from_numpy(last).permute(0, 3, 1, 2).to(dtype)


def cropped_one_by_one(batch, padding, down, right):
    result = []
    for image, top, left in zip(batch, down, right, strict=True):
        channels, height, width = image.shape
        padded = torch.zeros(channels, height + 2 * padding, width + 2 * padding, dtype=batch.dtype)
        padded[:, padding : padding + height, padding : padding + width] = image
        result.append(padded[:, top : top + height, left : left + width])
    return torch.stack(result)


@settings(deadline=None, max_examples=60)
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 12), st.integers(1, 12)),
    padding=st.integers(1, 5),
    seed=st.integers(0, 2**32),
    dtype=st.sampled_from([torch.uint8, torch.float32]),
)
def test_a_crop_equals_padding_and_cutting_each_image(shape, padding, seed, dtype):
    batch = batch_of(*shape, dtype=dtype)
    down, right = np.random.default_rng(seed).integers(0, 2 * padding + 1, (2, len(batch))).tolist()
    found = crop(padding)(batch, np.random.default_rng(seed))
    assert torch.equal(found, cropped_one_by_one(batch, padding, down, right))
    assert found.dtype == dtype


@settings(deadline=None, max_examples=40)
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 8), st.integers(1, 8)),
    seed=st.integers(0, 2**32),
)
def test_a_flip_mirrors_whole_images_from_left_to_right(shape, seed):
    batch = batch_of(*shape)
    chosen = np.random.default_rng(seed).random(len(batch)) < 0.5
    found = flip()(batch, np.random.default_rng(seed))
    for image, result, mirrored in zip(batch, found, chosen, strict=True):
        assert torch.equal(result, image.flip(2) if mirrored else image)


def test_every_window_of_a_crop_is_equally_likely():
    batch = torch.ones(81 * 200, 1, 9, 9, dtype=torch.uint8)
    found = crop(4)(batch, np.random.default_rng(0))[:, 0]
    top, left = found[:, 0].any(dim=1), found[:, :, 0].any(dim=1)
    windows = {tuple(image.flatten().tolist()) for image in found}
    assert len(windows) == 81
    assert 5 / 9 - 0.02 < top.float().mean() < 5 / 9 + 0.02
    assert 5 / 9 - 0.02 < left.float().mean() < 5 / 9 + 0.02


def test_half_of_the_images_are_flipped():
    batch = torch.tensor([[1, 2]], dtype=torch.uint8).expand(10_000, 1, 1, 2)
    flipped = flip()(batch, np.random.default_rng(0))[:, 0, 0, 0] == 2
    assert 0.48 < flipped.float().mean() < 0.52


def test_crop_flip_is_a_crop_and_then_a_flip():
    batch = batch_of(50, 3, 8, 8)
    rng = np.random.default_rng(3)
    expected = flip()(crop(2)(batch, rng), rng)
    assert torch.equal(crop_flip(2)(batch, np.random.default_rng(3)), expected)


@pytest.mark.parametrize("text", ["crop4", "flip", "crop4,flip", "flip, crop2"])
def test_the_same_stream_gives_the_same_batch_and_another_stream_another(text):
    batch, before = batch_of(50, 3, 8, 8), batch_of(50, 3, 8, 8)
    augment = parse_augment(text)
    assert torch.equal(augment(batch, np.random.default_rng(3)), augment(batch, np.random.default_rng(3)))
    assert not torch.equal(augment(batch, np.random.default_rng(3)), augment(batch, np.random.default_rng(4)))
    assert torch.equal(batch, before)


def test_words_name_the_library_functions():
    batch = batch_of(20, 3, 8, 8)
    for text, augment in (("crop3", crop(3)), ("flip", flip()), ("crop4,flip", crop_flip(4))):
        named = parse_augment(text)(batch, np.random.default_rng(0))
        assert torch.equal(named, augment(batch, np.random.default_rng(0)))
    assert parse_augment("none") is None


@pytest.mark.parametrize(
    "text", ["", "crop", "crop0", "crop-1", "crop4;flip", "rotate", "crop4,none", "Flip"]
)
def test_an_unknown_augmentation_is_refused_with_those_there_are(text):
    with pytest.raises(InputError, match=r"unknown augmentation .* Allowed: none, or crop4"):
        parse_augment(text)


def test_a_function_of_the_users_own_is_named_by_its_module(tmp_path, monkeypatch):
    (tmp_path / "my_steps.py").write_text(
        "def darken(batch, rng):\n    return batch // int(rng.integers(2, 5))\ndef wrong(batch):\n    return batch\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    batch = batch_of(5, 3, 8, 8)
    rng = np.random.default_rng(3)
    expected = flip()(batch, rng) // int(rng.integers(2, 5))
    assert torch.equal(parse_augment("flip,my_steps:darken")(batch, np.random.default_rng(3)), expected)
    with pytest.raises(InputError, match=r"augmentation 'my_steps:darkn'.*darken"):
        parse_augment("my_steps:darkn")
    with pytest.raises(InputError, match=r"augmentation 'wrong' must take \(batch, rng\)"):
        parse_augment("my_steps:wrong")


def test_a_crop_without_padding_is_refused():
    with pytest.raises(InputError, match="from 1 to 256, got 0"):
        crop(0)


@pytest.mark.parametrize("augment", [crop(2), flip()])
def test_features_cannot_be_cropped_or_flipped(augment):
    with pytest.raises(InputError, match=r"need images \(N, channels, height, width\), got \(5, 7\)"):
        augment(torch.zeros(5, 7), np.random.default_rng(0))


def test_the_papers_datasets_are_cropped_by_4_and_flipped_and_digits_are_not():
    augments = {name: info.augment for name, info in DATASETS.items()}
    assert augments == {
        "digits": "none",
        "cifar10": "crop4,flip",
        "cifar100": "crop4,flip",
        "svhn": "crop4,flip",
    }


def test_augmentations_can_be_sent_to_other_processes():
    augment = pickle.loads(pickle.dumps(crop_flip(4)))
    batch = batch_of(5, 3, 8, 8)
    expected = crop_flip(4)(batch, np.random.default_rng(0))
    assert torch.equal(augment(batch, np.random.default_rng(0)), expected)
