from __future__ import annotations

import contextlib
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradlex.data import load
from gradlex.errors import InputError
from gradlex.recipe import Recipe


def loaded(path, **fields):
    return load(Recipe(dataset=str(path), **fields))


def test_bytes_with_channels_last_are_taken_as_they_are(archive):
    x = np.random.default_rng(1).integers(0, 256, (30, 8, 9, 3), dtype=np.uint8)
    arrays = loaded(archive(x_train=x, x_test=x[:9]))
    assert arrays.x_train.dtype == np.uint8
    assert np.array_equal(arrays.x_train, x)
    assert arrays.input_shape == (3, 8, 9)
    assert arrays.num_classes == 3


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_first_and_channels_last_hold_the_same_images(archive, channels):
    x = np.random.default_rng(1).integers(0, 256, (30, 8, 9, channels), dtype=np.uint8)
    last = loaded(archive(x_train=x, x_test=x[:9]))
    moved = x.transpose(0, 3, 1, 2)
    first = loaded(archive(x_train=moved, x_test=moved[:9]))
    assert first.fingerprint() == last.fingerprint()
    assert first.input_shape == (channels, 8, 9)


def test_grey_images_without_a_channel_axis_get_one(archive):
    x = np.random.default_rng(1).integers(0, 256, (30, 8, 9), dtype=np.uint8)
    arrays = loaded(archive(x_train=x, x_test=x[:9]))
    assert np.array_equal(arrays.x_train, x[..., None])


def test_arrays_stored_in_fortran_order_are_the_same_data(archive):
    x = np.random.default_rng(1).integers(0, 256, (30, 8, 8, 3), dtype=np.uint8)
    plain = loaded(archive(x_train=x))
    fortran = loaded(archive(x_train=np.asfortranarray(x)))
    assert fortran.x_train.flags.c_contiguous
    assert fortran.fingerprint() == plain.fingerprint()


def test_images_whose_channels_could_be_either_axis_are_refused_with_the_cure(archive):
    x = np.zeros((30, 3, 8, 3), np.uint8)
    with pytest.raises(InputError, match=r"both axis 1 and axis 3 could be the channels\. Store grey .* pad"):
        loaded(archive(x_train=x, x_test=x[:9]))


def test_images_without_an_axis_of_channels_are_refused(archive):
    x = np.zeros((30, 8, 8, 2), np.uint8)
    with pytest.raises(InputError, match="no axis of 1, 3 or 4 channels"):
        loaded(archive(x_train=x, x_test=x[:9]))


@pytest.mark.parametrize("shape", [(30,), (30, 2, 8, 8, 3)])
def test_arrays_that_are_neither_images_nor_features_are_refused(archive, shape):
    with pytest.raises(InputError, match=r"give images \(3 or 4 axes\) or features \(2 axes\)"):
        loaded(archive(x_train=np.zeros(shape, np.uint8)))


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "uint8", ">f4"])
def test_features_become_float32_unscaled(archive, dtype):
    x = (np.arange(30 * 5).reshape(30, 5) % 100).astype(dtype)
    arrays = loaded(archive(x_train=x, x_test=x[:9]))
    assert arrays.x_train.dtype == np.float32
    assert np.array_equal(arrays.x_train, x.astype(np.float32))
    assert arrays.input_shape == (5,)


def test_whole_numbers_of_any_type_from_0_to_255_become_bytes(archive):
    x = np.random.default_rng(1).integers(0, 256, (30, 8, 8, 3), dtype=np.uint8)
    wide = loaded(archive(x_train=x.astype(np.int64), x_test=x[:9].astype(np.int16)))
    assert wide.x_train.dtype == wide.x_test.dtype == np.uint8
    assert np.array_equal(wide.x_train, x)


def test_floats_from_0_to_255_and_from_0_to_1_are_the_same_images(archive):
    x = np.random.default_rng(1).integers(0, 256, (30, 8, 8, 3)).astype(np.float64)
    wide = loaded(archive(x_train=x, x_test=x[:9]))
    unit = loaded(archive(x_train=x / 255, x_test=x[:9] / 255))
    assert wide.x_train.dtype == np.float32
    assert np.array_equal(wide.x_train, unit.x_train)
    assert wide.x_train.max() == 1


@pytest.mark.parametrize(
    ("value", "told"), [(-0.5, "-0.5 to 1"), (255.5, "0 to 255.5"), (np.inf, "0 to inf")]
)
def test_float_images_outside_their_range_are_refused(archive, value, told):
    x = np.ones((30, 8, 8, 3), np.float32)
    x[3, 2, 1, 0] = value
    with pytest.raises(InputError, match=f"x_train: images must be in 0 to 1 or 0 to 255, got {told}"):
        loaded(archive(x_train=x, x_test=np.ones((9, 8, 8, 3), np.float32)))


def test_whole_numbers_above_255_are_refused_not_wrapped(archive):
    x = np.full((30, 8, 8, 3), 256)
    with pytest.raises(InputError, match="got 0 to 256: rescale them"):
        loaded(archive(x_train=x))


def test_parts_in_different_ranges_are_refused(archive):
    x = np.full((30, 8, 8, 3), 0.5, np.float32)
    with pytest.raises(InputError, match="x_train from 0 to 1 and x_test from 0 to 255: rescale"):
        loaded(archive(x_train=x, x_test=x[:9] * 255))


def test_bytes_in_one_part_and_floats_in_the_other_are_refused(archive):
    with pytest.raises(InputError, match="x_train uint8 and x_test float32: store all images as bytes"):
        loaded(archive(x_test=np.ones((9, 8, 8, 3), np.float32)))


@pytest.mark.parametrize("shape", [(30, 8, 8, 3), (30, 5)])
def test_a_sample_that_is_not_a_number_is_refused_by_its_place(archive, shape):
    x = np.ones(shape, np.float32)
    x[17, 0] = np.nan
    with pytest.raises(InputError, match="training: sample 17 contains NaN or infinity"):
        loaded(archive(x_train=x, x_test=np.ones((9, *shape[1:]), np.float32)))


def test_features_too_large_for_float32_are_refused(archive):
    x = np.ones((30, 5))
    x[4, 0] = 1e300
    with pytest.raises(InputError, match="sample 4 contains NaN or infinity"):
        loaded(archive(x_train=x, x_test=x[:3], y_test=np.arange(3)))


@pytest.mark.parametrize("key", ["x_train", "y_train"])
def test_a_missing_key_is_refused_with_those_there_are(archive, key):
    with pytest.raises(InputError, match=f"has no '{key}'; it holds images, x_test, .*y_test"):
        loaded(archive(**{key: None}, images=np.zeros(3)))


@pytest.mark.parametrize("key", ["x_test", "y_test"])
def test_only_one_of_test_images_and_labels_is_refused(archive, key):
    with pytest.raises(InputError, match="only one of x_test and y_test: give both, or neither"):
        loaded(archive(**{key: None}))


def test_labels_in_a_column_are_taken(archive):
    column = loaded(archive(y_train=(np.arange(30) % 3)[:, None].astype(np.uint8)))
    assert column.y_train.dtype == np.int64
    assert column.y_train.tolist() == [0, 1, 2] * 10


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (np.arange(30) % 2 == 0, "must hold whole numbers or class names, one per sample, got bool"),
        (np.where(np.arange(30) == 4, np.nan, 1.0), "must hold whole numbers, got nan for sample 4"),
        (np.where(np.arange(30) == 4, np.inf, 1.0), "must hold whole numbers, got inf for sample 4"),
        (np.where(np.arange(30) == 4, 1e300, 1.0), r"must hold whole numbers, got 1e\+300 for sample 4"),
        (np.full(30, 2**63, np.uint64), "must hold whole numbers, got 9223372036854775808 for sample 0"),
        (np.arange(30) % 3 - 1, "labels must be from 0 to classes - 1, got -1"),
        (np.arange(29) % 3, "30 samples but 29 labels"),
        (
            np.arange(30) % 3 * 2,
            "labels go from 0 to 4 but none is 1: number the classes from 0, without gaps",
        ),
        (np.arange(30) % 3 + 1, "labels go from 1 to 3 but none is 0"),
        (np.where(np.arange(30) < 29, 0, 10**15), "none is 1"),
        (np.zeros(30, int), "all training labels are 0; at least two classes"),
        (np.arange(30) % 2, "a test label is 2, training labels go to 1"),
    ],
)
def test_labels_that_do_not_number_the_classes_are_refused(archive, labels, told):
    with pytest.raises(InputError, match=told):
        loaded(archive(y_train=labels))


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint64", "int8"])
def test_labels_of_any_type_with_whole_values_are_taken(archive, dtype):
    arrays = loaded(archive(y_train=(np.arange(30) % 3).astype(dtype)))
    assert arrays.y_train.dtype == np.int64
    assert arrays.y_train.tolist() == [0, 1, 2] * 10


NAMES = np.array(["dog", "cat", "bird"])


@pytest.mark.parametrize("kind", ["U", "S"])
@pytest.mark.parametrize("column", [False, True])
def test_labels_that_are_names_number_the_classes_in_their_sorted_order(archive, kind, column):
    train, test = (NAMES[np.arange(number) % 3].astype(kind) for number in (30, 9))
    arrays = loaded(archive(y_train=train[:, None] if column else train, y_test=test))
    assert arrays.class_names == ("bird", "cat", "dog")
    assert arrays.y_train.tolist() == [2, 1, 0] * 10
    assert arrays.y_test.tolist() == [2, 1, 0] * 3
    assert arrays.y_train.dtype == np.int64


def test_names_beside_labels_that_are_names_must_be_the_same(archive):
    labels = {"y_train": NAMES[np.arange(30) % 3], "y_test": NAMES[np.arange(9) % 3]}
    assert loaded(archive(**labels, class_names=np.sort(NAMES))).class_names == ("bird", "cat", "dog")
    with pytest.raises(InputError, match="class_names are 'dog', 'cat', 'bird', but the labels are 'bird'"):
        loaded(archive(**labels, class_names=NAMES))


@pytest.mark.parametrize(
    ("train", "test", "told"),
    [
        (
            NAMES[np.arange(30) % 2],
            NAMES[np.arange(9) % 3],
            "y_test has the label 'bird', which y_train does not have",
        ),
        (NAMES[np.arange(30) % 3], np.arange(9) % 3, "y_test must be text, one per sample, got int64"),
        (np.arange(30) % 3, NAMES[np.arange(9) % 3], "y_train must be text, one per sample, got int64"),
        (np.full(30, "cat"), np.full(9, "cat"), "at least two classes are needed"),
        (
            np.full((30, 2), "cat"),
            np.full(9, "cat"),
            r"y_train must be text, one per sample, got .* \(30, 2\)",
        ),
    ],
)
def test_labels_that_are_names_and_do_not_fit_are_refused(archive, train, test, told):
    with pytest.raises(InputError, match=told):
        loaded(archive(y_train=train, y_test=test))


def test_an_empty_part_is_refused(archive):
    nothing = np.zeros((0, 8, 8, 3), np.uint8)
    with pytest.raises(InputError, match="test: the set is empty"):
        loaded(archive(x_test=nothing, y_test=np.zeros(0, int)))
    with pytest.raises(InputError, match="training: the set is empty"):
        loaded(archive(x_train=nothing, y_train=np.zeros(0, int)))


@pytest.mark.parametrize("kind", ["m8[s]", "M8[D]", "F", "?", "U3"])
def test_samples_that_are_no_numbers_are_refused(archive, kind):
    with pytest.raises(InputError, match="x_train must hold numbers, got"):
        loaded(archive(x_train=np.arange(120).reshape(30, 4).astype(kind), x_test=None, y_test=None))


def test_samples_without_a_number_are_refused(archive):
    with pytest.raises(InputError, match="training samples contain no numbers"):
        loaded(archive(x_train=np.zeros((30, 0)), x_test=None, y_test=None))


def test_test_images_of_another_shape_are_refused(archive):
    with pytest.raises(InputError, match=r"test samples have the shape \(9, 8, 3\), training \(8, 8, 3\)"):
        loaded(archive(x_test=np.zeros((9, 9, 8, 3), np.uint8)))


@pytest.mark.parametrize("kind", ["U", "S"])
def test_class_names_are_kept(archive, kind):
    assert loaded(archive(class_names=np.array(["a", "b", "c"], kind))).class_names == ("a", "b", "c")
    assert loaded(archive()).class_names is None


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (np.array(["a", "b"]), "2 class names for 3 classes"),
        (np.array("abc"), "class_names must be text, one per class"),
        (np.arange(3), "class_names must be text, one per class, got int64"),
    ],
)
def test_class_names_that_do_not_fit_are_refused(archive, names, told):
    with pytest.raises(InputError, match=told):
        loaded(archive(class_names=names))


class _Trap:
    def __reduce__(self):
        return os.mkdir, (os.environ["GRADLEX_TRAP"],)


@pytest.mark.parametrize("key", ["x_train", "class_names"])
def test_a_pickled_array_is_refused_and_nothing_in_it_is_run(archive, tmp_path, monkeypatch, key):
    monkeypatch.setenv("GRADLEX_TRAP", str(tmp_path / "sprung"))
    with pytest.raises(InputError, match=r"not a sound .npz archive of plain arrays"):
        loaded(archive(**{key: np.array([_Trap()] * 30, dtype=object)}))
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("content", [b"", b"no archive", pickle.dumps([1])])
def test_a_file_that_is_no_archive_is_refused(tmp_path, content):
    path = tmp_path / "data.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"is not a .npz archive, or only a part of one"):
        loaded(path)


def test_a_single_array_named_as_an_archive_is_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.zeros(3))
    path = (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    with pytest.raises(InputError, match=r"is not a .npz archive"):
        loaded(path)


def test_a_member_that_is_no_array_is_refused(archive):
    path = archive(y_train=None)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("y_train.npy", b"0 1 2")
    with pytest.raises(InputError, match=r"data\.npz"):
        loaded(path)


def test_a_file_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*missing\.npz"):
        loaded(tmp_path / "missing.npz")


def test_an_archive_whose_directory_hides_the_test_part_is_refused(archive):
    path = archive()
    altered = bytearray(path.read_bytes())
    entry = altered.rindex(b"y_train.npy") - 46
    altered[entry + 33] = 1  # the length of the entry's comment, which then swallows the entries that follow
    path.write_bytes(altered)
    with pytest.raises(InputError, match="its directory lists 2 of 4 arrays"):
        loaded(path)


def _compressed(path: Path) -> None:
    with np.load(path) as stored:
        arrays = dict(stored)
    np.savez_compressed(path, **arrays)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_truncated_archive_is_refused(archive, compressed):
    path = archive()
    if compressed:
        _compressed(path)
    whole = path.read_bytes()
    for kept in (0.1, 0.5, 0.99):
        path.write_bytes(whole[: int(len(whole) * kept)])
        with pytest.raises(InputError, match=str(path)):
            loaded(path)


@pytest.mark.parametrize("compressed", [False, True])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_an_altered_archive_is_refused_or_holds_the_same_data(archive, compressed, place, change):
    path = archive()
    if compressed:
        _compressed(path)
    sound = loaded(path).fingerprint()
    altered = bytearray(path.read_bytes())
    altered[int(place * len(altered))] ^= change
    path.write_bytes(altered)
    with contextlib.suppress(InputError):
        assert loaded(path).fingerprint() == sound


ESCAPE = "\x1b]0;owned\x07"


def test_a_refusal_does_not_quote_the_whole_file(archive):
    path = archive()
    data = path.read_bytes()
    length = data.index(b"x_train.npy") - 4  # of the first member's name, which zipfile quotes
    path.write_bytes(data[:length] + (1000).to_bytes(2, "little") + data[length + 2 :])
    with pytest.raises(InputError, match=r"not a sound \.npz archive") as refused:
        loaded(path)
    assert len(str(refused.value)) < 300 + len(str(path)) + 100


def test_control_characters_of_names_never_get_out(archive, tmp_path):
    """A terminal obeys them: a file's or an array's name could retitle a window, or worse."""
    wrong = (
        archive(f"one{ESCAPE}.npz", y_train=None, **{f"more{ESCAPE}": np.zeros(3)}),
        archive(f"two{ESCAPE}.npz", y_train=NAMES[np.arange(30) % 3], y_test=np.full(9, ESCAPE)),
        archive(f"three{ESCAPE}.npz", x_train=np.full((30, 5), np.nan), x_test=np.ones((9, 5))),
        archive(f"four{ESCAPE}.npz", x_test=None),
        tmp_path / f"five{ESCAPE}.npz",
        tmp_path / f"six{ESCAPE}.csv",
    )
    for path in wrong:
        with pytest.raises(InputError, match=r"\\x1b\]0;owned\\x07") as refused:
            loaded(path)
        assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("targets", "task"),
    [
        (np.arange(30) % 3 + 0.5, None),
        (np.arange(30).reshape(15, 2).repeat(2, axis=0), None),
        (np.arange(30) * 7, "regression"),
        (np.arange(30) % 3 * 1.5, "mine:Task"),
    ],
)
def test_targets_that_are_no_labels_are_kept_as_they_are(targets, task, tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, x_train=np.zeros((30, 4), np.float32), y_train=targets)
    found = load(Recipe(dataset=str(path), task=task))
    assert not found.labelled
    assert sorted(np.concatenate([found.y_train, found.y_test]).tolist()) == sorted(targets.tolist())


def test_targets_that_are_no_numbers_are_refused(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, x_train=np.zeros((3, 4), np.float32), y_train=np.array([1.5, np.nan, 2]))
    with pytest.raises(InputError, match="y_train is NaN or infinite for sample 1"):
        load(Recipe(dataset=str(path)))
    np.savez(path, x_train=np.zeros((3, 4), np.float32), y_train=np.array(["a", "b", "c"]))
    with pytest.raises(InputError, match="y_train must hold numbers, got <U1"):
        load(Recipe(dataset=str(path), task="regression"))


def test_groups_belong_to_targets_of_any_kind(tmp_path):
    path = tmp_path / "mine.npz"
    y, groups = np.linspace(0, 1, 30), np.array(["a", "b", "c"]).repeat(10)
    np.savez(path, x_train=np.zeros((30, 4), np.float32), y_train=y, groups_train=groups)
    found = load(Recipe(dataset=str(path), test_fraction=0.5))
    for targets, own in ((found.y_train, found.groups_train), (found.y_test, found.groups_test)):
        assert own.tolist() == groups[np.searchsorted(y, targets)].tolist()


def test_test_targets_of_another_shape_are_refused(tmp_path):
    path, x = tmp_path / "mine.npz", np.zeros((30, 4), np.float32)
    np.savez(path, x_train=x, y_train=np.ones((30, 4), int), x_test=x[:6], y_test=np.arange(6))
    with pytest.raises(
        InputError, match=r"test targets have the shape \(\) for each sample, training .*\(4,\)"
    ):
        load(Recipe(dataset=str(path)))


def test_whole_targets_above_64_bits_are_refused_not_wrapped(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, x_train=np.zeros((3, 4), np.float32), y_train=np.array([1, 2, 2**63], np.uint64))
    with pytest.raises(InputError, match="y_train has the number 9223372036854775808, above the largest"):
        load(Recipe(dataset=str(path), task="regression"))
