"""NumPy archives: every usual layout, and files that are damaged, hostile, or mean nothing."""

from __future__ import annotations

import os
import pickle
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradlex import InputError, Recipe
from gradlex.data import prepare


def parts(path, **fields):
    return prepare(None, Recipe(dataset=str(path), **fields))


def test_images_labels_and_names_are_read(archive):
    path = archive(class_names=np.array(["a", "b", "c"]))
    found, arrays = parts(path), np.load(path)
    inputs, targets = found.train.clean(np.arange(30))
    assert np.array_equal(inputs.permute(0, 2, 3, 1).numpy(), arrays["x_train"])
    assert inputs.dtype == torch.uint8
    assert targets.tolist() == arrays["y_train"].tolist()
    assert found.class_names == ("a", "b", "c")
    assert found.description()["name"] == "data.npz"
    assert (len(found.train), len(found.test), found.sample_shape) == (30, 9, (3, 8, 8))


@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (np.zeros((30, 5, 7), np.uint8), (1, 5, 7)),
        (np.zeros((30, 5, 7, 1), np.uint8), (1, 5, 7)),
        (np.zeros((30, 3, 5, 7), np.uint8), (3, 5, 7)),
        (np.zeros((30, 5, 7, 4), np.uint8), (4, 5, 7)),
        (np.zeros((30, 6)), (6,)),
    ],
)
def test_images_may_have_any_of_the_usual_layouts(archive, x, shape):
    assert parts(archive(x_train=x, x_test=x[:9])).sample_shape == shape


@pytest.mark.parametrize(
    ("dtype", "kept"), [("int64", "uint8"), (">i2", "uint8"), ("float64", "float32"), (">f4", "float32")]
)
def test_whole_numbers_are_bytes_and_fractions_float32(archive, dtype, kept):
    x = np.load(archive())["x_train"].astype(dtype)
    inputs, _ = parts(archive(x_train=x, x_test=x[:9])).train.clean(np.arange(30))
    assert inputs.dtype == getattr(torch, kept)
    assert np.array_equal(inputs.permute(0, 2, 3, 1).numpy(), x)


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (np.arange(30) % 3 / 1.0, "classification"),
        (np.arange(30)[:, None] % 3, "classification"),
        (np.arange(30) % 2 == 0, "classification"),
        (np.arange(30) + 0.5, "regression"),
        (np.arange(60).reshape(30, 2) % 2, None),
    ],
)
def test_targets_are_labels_unless_they_are_fractions_or_several(archive, y, task):
    found = parts(archive(y_train=y, x_test=None, y_test=None))
    assert found.recipe.task == task
    assert found.targets.dtype == (torch.float32 if task == "regression" else torch.int64)
    assert len(found.test) == 6


def test_own_color_images_in_bytes_are_augmented_and_other_data_is_not(archive):
    big = np.zeros((30, 16, 16, 3), np.uint8)
    for x, augment in (
        (big, "crop2,flip"),
        (big[:, :8, :8], "crop1,flip"),
        (big[..., :1], "none"),
        (big / 255, "none"),
    ):
        assert parts(archive(x_train=x, x_test=x[:9])).recipe.augment == augment
    assert parts(archive(), augment="none").recipe.augment == "none"


WRONG = {
    "no x_train": ({"x_train": None}, "has no 'x_train'; it holds x_test, y_test, y_train"),
    "half a test part": ({"y_test": None}, "has no 'y_test'"),
    "lengths": ({"y_train": np.arange(29) % 3}, "the train part has 30 samples and 29 targets"),
    "empty": ({"x_test": np.zeros((0, 8, 8, 3), np.uint8), "y_test": np.zeros(0, int)}, "has 0 samples"),
    "one class": ({"y_train": np.zeros(30, int), "y_test": np.zeros(9, int)}, "all training samples have the class 0"),
    "a gap": ({"y_train": np.arange(30) % 3 * 2}, "without gaps; the labels are 0, 2, 4"),
    "negative": ({"y_train": np.arange(30) % 3 - 1}, "labels are -1, 0, 1"),
    "a test class": ({"y_test": np.full(9, 3)}, "test part has the class 3, which the training part doesn't have"),
    "text labels": ({"y_train": np.array(["a", "b"] * 15)}, r"y_train must hold numbers .* np\.unique"),
    "names": ({"class_names": np.array(["a"])}, "has 1 class_names, and labels up to 2"),
    "shapes": ({"x_test": np.zeros((9, 8, 9, 3), np.uint8)}, "make them match"),
    "types": ({"x_test": np.zeros((9, 8, 8, 3))}, "make them match"),
    "channels": ({"x_train": np.zeros((30, 8, 8, 5), np.uint8)}, "in either axis 1 or axis 3"),
    "either layout": ({"x_train": np.zeros((30, 3, 8, 3), np.uint8)}, "in either axis 1 or axis 3"),
    "axes": ({"x_train": np.zeros(30)}, "features .N, features., gray images"),
    "text": ({"x_train": np.full((30, 2), "a")}, "must hold numbers"),
    "time spans": ({"x_train": np.zeros((30, 2), "m8[s]")}, "must hold numbers"),
    "NaN": ({"x_test": np.full((9, 8, 8, 3), np.nan)}, "x_test contains NaN"),
    "too large": ({"x_train": np.full((30, 2), 1e300)}, "x_train contains NaN or infinity"),
    "NaN targets": ({"y_test": np.full(9, np.nan)}, "y_test contains NaN"),
    "objects": ({"x_train": np.array([object()] * 30)}, "it holds Python objects"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_an_archive_that_means_nothing_is_an_error(archive, what):
    changes, message = WRONG[what]
    with pytest.raises(InputError, match=message) as found:
        parts(archive(**changes))
    assert "allow_pickle" not in str(found.value)


@pytest.mark.parametrize("content", [b"", b"PK", pickle.dumps({"x_train": 1}), b"\x93NUMPY\x01\x00", b"x" * 1000])
def test_a_file_that_is_no_archive_is_an_error_without_numpys_advice(tmp_path, content):
    (tmp_path / "bad.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"not a valid \.npz") as found:
        parts(tmp_path / "bad.npz")
    assert "pickle" not in str(found.value)


def test_an_archive_larger_than_memory_is_an_error(tmp_path, archive):
    source = archive()
    header = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little")
    shape = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 8), }"
    with zipfile.ZipFile(source, "a") as file:
        file.writestr("extra.npy", header + shape.ljust(117) + b"\n")
    with pytest.raises(InputError):
        parts(source)


def test_pipes_and_devices_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "zero.npz").symlink_to("/dev/zero")
    (tmp_path / "pipe.csv").symlink_to(tmp_path / "pipe.npz")
    for name in ("pipe.npz", "zero.npz", "pipe.csv"):
        with pytest.raises(InputError, match="not a regular file"):
            parts(tmp_path / name, **({"target": "y"} if name.endswith("csv") else {}))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255), end=st.none() | st.floats(0, 1))
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_archive_is_read_as_it_was_or_an_error(archive, place, change, end):
    path = archive("damaged.npz")
    whole, before = parts(path), bytearray(open(path, "rb").read())  # noqa: SIM115
    before[int(place * len(before))] ^= change
    with open(path, "wb") as file:
        file.write(before[: None if end is None else int(end * len(before))])
    try:
        found = parts(path)
    except InputError:
        return
    # A length in the zip directory, which no checksum covers, may hide the test part.
    tests = [each.description()["test_fingerprint"] for each in (found, whole)]
    assert tests[0] == tests[1] or len(found.train) < len(whole.train)
