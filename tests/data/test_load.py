from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradlex.data import Arrays, ArraySamples, Normalization, load
from gradlex.data._arrays import stratified
from gradlex.errors import InputError
from gradlex.recipe import Recipe


def loaded(path, **fields):
    return load(Recipe(dataset=str(path), **fields))


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_stratified_part_has_its_size_every_class_and_their_shares(data):
    counts = data.draw(st.lists(st.integers(1, 40), min_size=2, max_size=8))
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    size = data.draw(st.integers(len(counts), len(labels)))
    kept, rest = stratified(labels, size, "asked")
    assert len(kept) == size
    assert sorted([*kept, *rest]) == list(range(len(labels)))
    assert (np.diff(kept) > 0).all()
    taken = np.bincount(labels[kept], minlength=len(counts))
    share = np.array(counts) * size / len(labels)
    assert (taken >= 1).all()
    if (share >= 1).all():
        assert (np.abs(taken - share) < 1).all()


def test_the_training_part_is_the_same_for_every_seed_and_method():
    parts = [
        load(Recipe(train_size=200, seed=seed, selection=selection))
        for seed, selection in ((0, "lexicase"), (1, "sgd"))
    ]
    assert parts[0].fingerprint() == parts[1].fingerprint()
    assert len(parts[0].y_train) == 200
    counts = np.bincount(parts[0].y_train)
    assert counts.min() >= 19
    assert counts.max() <= 21


def test_the_training_part_is_random_and_not_the_first_samples(archive):
    x = np.arange(300, dtype=np.float64)[:, None]
    part = loaded(archive(x_train=x, y_train=np.arange(300) % 3, x_test=x[:9]), train_size=60).x_train
    assert part[:, 0].max() > 250
    assert len(np.unique(part)) == 60


def test_a_training_part_leaves_the_test_part_as_it_is(archive):
    path = archive()
    assert np.array_equal(loaded(path, train_size=6).x_test, loaded(path).x_test)


def test_a_training_part_of_all_but_one_sample_and_of_one_a_class_are_given(archive):
    path = archive()
    assert len(loaded(path, train_size=29).y_train) == 29
    assert loaded(path, train_size=30).fingerprint() == loaded(path).fingerprint()
    assert sorted(loaded(path, train_size=3).y_train) == [0, 1, 2]


def test_a_training_part_larger_than_the_data_is_refused(archive):
    with pytest.raises(InputError, match="train_size 31 is more than the 30 training samples: give fewer"):
        loaded(archive(), train_size=31)


@pytest.mark.parametrize("size", [1, 2])
def test_a_training_part_too_small_for_every_class_is_refused(archive, size):
    with pytest.raises(
        InputError, match=f"train_size (must be at least 2, got 1|{size} leaves .* 3 classes)"
    ):
        loaded(archive(), train_size=size)


def test_without_a_test_part_a_fifth_or_the_fraction_asked_for_is_held_out(archive):
    path = archive(x_test=None, y_test=None)
    assert (len(loaded(path).y_train), len(loaded(path).y_test)) == (24, 6)
    third = loaded(path, test_fraction=1 / 3)
    assert sorted(np.bincount(third.y_train)) == [6, 7, 7]
    rows = {row.tobytes() for row in third.x_train} | {row.tobytes() for row in third.x_test}
    assert len(rows) == 30


def test_a_training_part_and_a_test_fraction_do_not_overlap(archive):
    arrays = loaded(archive(x_test=None, y_test=None), test_fraction=0.3, train_size=12)
    assert (len(arrays.y_train), len(arrays.y_test)) == (12, 9)
    assert not {row.tobytes() for row in arrays.x_train} & {row.tobytes() for row in arrays.x_test}


def test_a_test_fraction_for_data_with_a_test_part_is_refused(archive):
    with pytest.raises(InputError, match=r"has a test part of its own, got test_fraction 0\.3: leave it out"):
        loaded(archive(), test_fraction=0.3)


@pytest.mark.parametrize(
    ("fraction", "told"), [(0.01, "leaves none for testing"), (0.95, "fewer than the 3 classes")]
)
def test_a_test_fraction_that_leaves_too_little_is_refused(archive, fraction, told):
    with pytest.raises(InputError, match=told):
        loaded(archive(x_test=None, y_test=None), test_fraction=fraction)


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5])
def test_a_test_fraction_outside_0_and_1_is_refused(fraction):
    with pytest.raises(InputError, match="test_fraction must be"):
        Recipe(test_fraction=fraction)


def test_an_image_size_for_data_that_is_no_folder_is_refused(archive):
    for name in (str(archive()), "digits"):
        with pytest.raises(InputError, match="image_size resizes a folder's images"):
            loaded(name, image_size=16)


def test_digits_come_as_bytes_with_a_test_part():
    arrays = load(Recipe())
    assert arrays.x_train.dtype == np.uint8
    assert arrays.input_shape == (1, 8, 8)
    assert (len(arrays.y_train), len(arrays.y_test), arrays.num_classes) == (1438, 359, 10)
    assert (arrays.x_train.min(), arrays.x_train.max()) == (0, 255)


def test_a_known_name_goes_before_a_folder_of_that_name(images, tmp_path, monkeypatch):
    images.rename(tmp_path / "digits")
    monkeypatch.chdir(tmp_path)
    assert load(Recipe(dataset="digits")).num_classes == 10
    assert load(Recipe(dataset="./digits")).num_classes == 2


def test_a_misspelt_name_is_refused_with_the_nearest():
    with pytest.raises(InputError, match=r"unknown dataset 'cifar-10'\. Did you mean 'cifar10'\?"):
        load(Recipe(dataset="cifar-10"))


@pytest.mark.parametrize("name", ["no/such/folder", "data.txt", "~nobody-there/data"])
def test_a_path_that_does_not_exist_is_refused(name):
    with pytest.raises(
        InputError, match=r"neither an existing folder of images nor an existing .npz archive"
    ):
        load(Recipe(dataset=name))


def test_a_file_of_another_kind_is_refused(tmp_path, monkeypatch):
    (tmp_path / "data").write_text("1,2,3")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        InputError, match=r"neither an existing folder of images nor an existing .npz archive"
    ):
        load(Recipe(dataset="data"))


def test_the_home_folder_and_an_upper_case_extension_are_understood(archive, tmp_path, monkeypatch):
    archive().rename(tmp_path / "DATA.NPZ")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(load(Recipe(dataset="~/DATA.NPZ")).y_train) == 30


def test_the_fingerprint_is_that_of_values_shapes_and_labels(archive):
    same = loaded(archive()).fingerprint()
    assert loaded(archive("copy.npz")).fingerprint() == same
    x = np.random.default_rng(0).integers(0, 256, (30, 8, 8, 3), dtype=np.uint8)
    one_pixel = x.copy()
    one_pixel[29, 7, 7, 2] ^= 1
    assert loaded(archive(x_train=x)).fingerprint() == same
    changes = (
        {"x_train": one_pixel},
        {"y_train": (np.arange(30) + 1) % 3},
        {"y_test": (np.arange(9) + 1) % 3},
        {"x_test": np.zeros((9, 8, 8, 3), np.uint8)},
        {"x_test": None, "y_test": None},
    )
    assert len({same, *(loaded(archive(**change)).fingerprint() for change in changes)}) == 6


def test_loading_holds_the_images_once(archive):
    x = np.random.default_rng(0).integers(0, 256, (8000, 16, 16, 3), dtype=np.uint8)
    path = archive(x_train=x, y_train=np.arange(8000) % 3, x_test=x[:9])
    tracemalloc.start()
    try:
        arrays = loaded(path)
        Normalization.of(arrays.x_train)
        arrays.fingerprint()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * x.nbytes
    samples = ArraySamples(
        torch.from_numpy(arrays.x_train).permute(0, 3, 1, 2), torch.from_numpy(arrays.y_train)
    )
    assert np.shares_memory(samples._x.numpy(), arrays.x_train)


def test_arrays_name_their_sizes():
    arrays = Arrays(
        x_train=np.zeros((4, 5, 6, 3), np.uint8), y_train=np.array([0, 1, 2, 1]), x_test=None, y_test=None
    )
    assert arrays.input_shape == (3, 5, 6)
    assert arrays.num_classes == 3


def test_the_registry_and_its_package_need_no_torch(python):
    done = python(
        "-c",
        "import sys; sys.modules['torch'] = None; import gradlex.data as data; "
        "print(data.dataset_info('svhn').name, data.OWN.name, data.Arrays.__name__, 'make_samples' in dir(data))",
    )
    assert (done.stdout.strip(), done.stderr) == ("svhn your own Arrays True", "")
