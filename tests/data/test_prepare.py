"""One call loads, splits, cuts and normalizes; what it draws is written down, since stored results depend on it."""

from __future__ import annotations

import hashlib
import json
import random

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from gradlex import InputError, Recipe
from gradlex.data import crop_flip, prepare
from gradlex.data.load import read_inputs, read_samples
from gradlex.data.normalization import Normalization, normalized

X = torch.randn(20, 2, 4, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(20) % 4
FIRST = np.arange(4)


def numbered(size, classes=5):
    """Samples whose input is their own number."""
    return torch.arange(float(size))[:, None], torch.arange(size) % classes


def numbers(samples):
    return [] if samples is None else samples.clean(np.arange(len(samples)))[0][:, 0].int().tolist()


def digest(tensor):
    return hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest()[:12]


def test_the_bits_of_digits_are_those_of_the_stored_results():
    recipe = Recipe(dataset="digits", validation_fraction=0.2, seed=5, augment="crop2,flip")
    parts = prepare(None, recipe)
    assert parts.fingerprint == "88dc805681c04029b3d02d9f71dd61396b7a069964b1c9a65b11c7cf2aa4f39c"
    assert parts.description()["test_fingerprint"] == "860aded723d44d234d5eeaa13a5043981d47fa0fbd09c6f69c090cc2475254a2"
    assert [digest(part.targets) for part in (parts.train, parts.validation)] == ["935752809d09", "b216ba87bb50"]
    assert parts.normalization == Normalization(mean=(0.3052230392156863,), std=(0.3759349603761327,))
    net, ten = normalized(torch.nn.Identity(), parts.normalization), np.arange(10)
    assert digest(net(parts.train.clean(ten)[0])) == "b3c3a0f95acc"
    assert digest(net(parts.train.augmented(ten, np.random.default_rng(1))[0])) == "423da700ec00"


@settings(max_examples=30, deadline=None)
@given(
    size=st.integers(40, 120),
    classes=st.integers(2, 6),
    test=st.none() | st.floats(0.1, 0.5),
    validation=st.none() | st.floats(0.1, 0.5),
    seed=st.integers(0, 3),
)
def test_parts_are_disjoint_and_hold_every_sample_once(size, classes, test, validation, seed):
    recipe = Recipe(test_fraction=test, validation_fraction=validation, seed=seed)
    parts = prepare(numbered(size, classes), recipe)
    found = [numbers(part) for part in (parts.train, parts.validation, parts.test)]
    assert sorted([*found[0], *found[1], *found[2]]) == list(range(size))
    assert all(part == sorted(part) for part in found)
    assert len(found[2]) == round(size * (test or 0))
    assert len(found[1]) == round((size - len(found[2])) * (validation or 0))


@settings(max_examples=30, deadline=None)
@given(labels=st.lists(st.integers(0, 3), min_size=30, max_size=80), fraction=st.floats(0.1, 0.6))
def test_test_part_and_train_size_are_stratified(labels, fraction):
    y = torch.tensor([0, 0, 1, 1, *labels])
    recipe = Recipe(test_fraction=fraction, train_size=len(y) - round(len(y) * fraction) - 3)
    parts = prepare((torch.zeros(len(y), 1), y), recipe)
    assert len(parts.train) == recipe.train_size
    for part in (parts.train, parts.test):
        shares = y.bincount(minlength=4) * len(part) / len(y)
        assert (part.targets.bincount(minlength=4) - shares).abs().max() <= 2
    assert set(parts.train.targets.tolist()) == set(y.tolist())


def test_only_the_validation_part_depends_on_the_seed():
    recipe = Recipe(test_fraction=0.2, train_size=60, validation_fraction=0.2)
    one, other = (prepare(numbered(100), recipe.replace(seed=seed)) for seed in (0, 1))
    assert numbers(one.test) == numbers(other.test)
    assert sorted(numbers(one.train) + numbers(one.validation)) == sorted(
        numbers(other.train) + numbers(other.validation)
    )
    assert numbers(one.validation) != numbers(other.validation)


def test_normalization_is_learned_from_the_training_part_alone():
    x = torch.randint(0, 256, (40, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    parts = prepare((x, torch.arange(40) % 2), Recipe(test_fraction=0.25, validation_fraction=0.5))
    own = parts.train.clean(np.arange(len(parts.train)))[0].double() / 255
    assert parts.normalization.mean == pytest.approx(own.mean(dim=(0, 2, 3)).tolist())
    assert parts.normalization.std == pytest.approx(own.std(dim=(0, 2, 3), correction=0).tolist())
    found = normalized(torch.nn.Identity(), parts.normalization)(parts.train.clean(np.arange(15))[0])
    torch.testing.assert_close(found.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)


def test_floats_that_are_passed_in_stay_as_they_are():
    parts = prepare((X, Y), Recipe())
    assert parts.normalization is None
    assert parts.test is parts.validation is None
    assert torch.equal(parts.train.clean(FIRST)[0], X[:4])
    model = torch.nn.Identity()
    assert normalized(model, None) is model


def test_the_description_is_plain_and_the_recipe_is_filled_in():
    parts = prepare((X, Y), Recipe(test_fraction=0.25, validation_fraction=0.2), augment=crop_flip(1))
    assert json.loads(json.dumps(parts.description())) == parts.description()
    assert parts.description()["samples"] == {"train": 12, "validation": 3, "test": 5}
    recipe = parts.recipe
    assert (recipe.dataset, recipe.augment, recipe.batch_size, recipe.test_fraction) == ("given", "given", 64, 0.25)
    assert prepare((X, Y), Recipe()).recipe.augment == "none"
    assert sorted(parts.targets.tolist()) == sorted(torch.cat([parts.train.targets, parts.validation.targets]).tolist())


@pytest.mark.parametrize("changed", ["x", "y", "test"])
def test_the_fingerprint_knows_every_number(changed):
    x, y, test = X.clone(), Y.clone(), (X.clone(), Y.clone())
    before = prepare((x, y), Recipe(), test=test)
    {"x": x, "y": y, "test": test[0]}[changed].view(-1)[-1] += 1
    after = prepare((x, y), Recipe(), test=test)
    assert before.fingerprint != after.fingerprint
    tests = [parts.description()["test_fingerprint"] for parts in (before, after)]
    assert (tests[0] != tests[1]) == (changed == "test")
    assert prepare(TensorDataset(X, Y), Recipe()).fingerprint is None


@pytest.mark.parametrize("form", [lambda x: x, lambda x: x.numpy(), lambda x: x.tolist(), lambda x: x.double().numpy()])
def test_tensors_arrays_and_lists_are_the_same_data(form):
    inputs, targets = prepare((form(X), form(Y)), Recipe(task="classification")).train.clean(FIRST)
    torch.testing.assert_close(inputs, X[:4])
    assert inputs.dtype == torch.float32
    assert targets.tolist() == Y[:4].tolist()


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[::-1],
        lambda x: x.astype(">f4"),
        np.asfortranarray,
        lambda x: np.lib.stride_tricks.as_strided(x, writeable=False),
    ],
)
def test_arrays_that_torch_cannot_share_are_taken_too(change):
    x = change(X.numpy())
    assert np.array_equal(prepare((x, Y), Recipe()).train.clean(FIRST)[0].numpy(), x[:4])


@pytest.mark.parametrize("x", [(X, X.flatten(1)), (X.numpy(), Y.numpy()), {"image": X, "more": (Y, {"deep": X})}])
def test_inputs_may_be_a_structure(x):
    parts = prepare((x, Y), Recipe(), test=(x, Y))
    inputs = parts.train.clean(FIRST)[0]
    assert type(inputs) is type(x)
    first = inputs["image"] if isinstance(x, dict) else inputs[0]
    assert torch.equal(first, X[:4])
    assert parts.sample_shape is None


def test_a_loader_stands_for_its_dataset_and_collate_function():
    def doubled(samples):
        x, y = zip(*samples, strict=True)
        return 2 * torch.stack(x), torch.stack(y)

    loader = DataLoader(TensorDataset(X, Y), batch_size=7, shuffle=True, collate_fn=doubled)
    parts = prepare(loader, Recipe(validation_fraction=0.5), test=TensorDataset(X, Y))
    assert len(parts.train) == len(parts.validation) == 10
    whole = torch.cat([part.clean(np.arange(10))[0] for part in (parts.train, parts.validation)])
    assert torch.equal(whole.sort(0).values, (2 * X).sort(0).values)
    assert torch.equal(parts.test.clean(FIRST)[0], X[:4])


class Noisy(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, place):
        return torch.full((2,), float(place)) + random.random() + torch.rand(2), place % 3


def test_random_transforms_without_a_clean_view_are_a_warning():
    with pytest.warns(UserWarning, match="transforms its samples at random.*clean=") as found:
        prepare(Noisy(), Recipe())
    assert found[0].filename == __file__
    clean = TensorDataset(torch.arange(10.0)[:, None].expand(10, 2), torch.arange(10) % 3)
    parts = prepare(Noisy(), Recipe(), clean=clean)
    assert parts.train.clean(FIRST)[0][:, 0].tolist() == [0, 1, 2, 3]
    assert parts.train.augmented(FIRST, np.random.default_rng(0))[0][0, 0] > 0


def test_float_images_of_0_to_255_are_a_warning():
    with pytest.warns(UserWarning, match="floats up to 200, which are not normalized"):
        prepare((X.abs() / X.max() * 200 * X.max() / X.abs().max(), Y), Recipe())


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(X, Y, strict=True))


def broken(value):
    x = X.clone()
    x[7, 1, 2, 3] = value
    return x


BAD = {
    "NaN": ((broken(torch.nan), Y), "sample 7 of x contains NaN"),
    "infinity": ((broken(torch.inf).numpy(), Y), "sample 7 of x contains NaN or infinity"),
    "half NaN": ((broken(torch.nan).bfloat16(), Y), "sample 7 of x contains NaN"),
    "NaN deep inside": (({"a": (X, broken(torch.nan))}, Y), r"sample 7 of x\['a'\]\[1\] contains NaN"),
    "NaN target": ((X, torch.full((20,), torch.nan)), "sample 0 of y contains NaN"),
    "other lengths": ((X, Y[:19]), "20 samples and 19 targets"),
    "a single target": ((X, 3), "y must hold samples along its first axis"),
    "lengths inside": (((X, Y[:3]), Y), r"x\[0\] torch.float32 of shape \(20, 2, 4, 4\), x\[1\] torch.int64"),
    "nothing": ((X[:0], Y[:0]), "0 samples"),
    "no structure": (((), Y), "x must hold tensors"),
    "no features": ((torch.zeros(20, 0), Y), r"x must hold samples along its first axis, got the shape \(20, 0\)"),
    "three arrays": ((X, X, Y), r"must be the pair \(x, y\), got 3"),
    "text": ((X, np.array(["cat", "dog"])[Y % 2]), r"y must hold numbers .* np\.unique\("),
    "objects": ((np.array([object()] * 20), Y), "x must hold numbers"),
    "control characters": ((X, ["\x1b[2J"] * 20), r"\\x1b\[2J"),
    "masked": ((X, np.ma.masked_array(np.zeros(20), mask=np.arange(20) == 3)), "sample 3 of y contains NaN"),
    "complex targets": ((X, Y.to(torch.complex64)), "y must be real numbers"),
    "a dict of targets": ((X, {"a": Y}), "y must hold numbers"),
    "a tuple of targets": ((X, (Y, Y)), "20 samples and 2 targets"),
    "sparse": ((X.to_sparse(), Y), "x must hold numbers in ordinary tensors"),
    "a tensor alone": (X, "don't form a batch"),
    "a number": (3, "got int"),
    "an empty dataset": (TensorDataset(X[:0], Y[:0]), "the data has 0 samples"),
    "a loader of single samples": (DataLoader(TensorDataset(X, Y), batch_size=None), "don't form a batch"),
    "an iterable dataset": (Stream(), "got Stream, whose first samples cannot be read"),
    "a loader of one": (DataLoader(Stream()), "got DataLoader, whose first samples cannot be read"),
    "samples without targets": ([X[0]] * 20, "several inputs go into one tuple"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_data_is_an_error_of_one_sentence(what):
    data, message = BAD[what]
    with pytest.raises(InputError, match=message) as found:
        prepare(data, Recipe())
    assert "\n" not in str(found.value)


def test_parts_may_have_different_forms():
    parts = prepare((X, Y), Recipe(), test=TensorDataset(X, Y))
    assert torch.equal(parts.test.clean(FIRST)[0], X[:4])
    assert len(prepare(TensorDataset(X, Y), Recipe(), test=(X, Y)).test) == 20


@pytest.mark.parametrize("name", ["test", "validation"])
def test_a_class_that_training_lacks_is_an_error(name):
    with pytest.raises(InputError, match=f"the {name} part has the class 4, which the training part doesn't have"):
        prepare((X, Y), Recipe(), **{name: (X, Y + 1)})


def test_a_dataset_that_starts_with_nan_is_an_error():
    with pytest.raises(InputError, match="the dataset's first samples contain NaN"):
        prepare(TensorDataset(broken(torch.nan), Y), Recipe())


@pytest.mark.parametrize("name", ["test", "validation"])
def test_an_error_names_its_part(name):
    with pytest.raises(InputError, match=rf"in the {name} part: sample 7 of x contains NaN"):
        prepare((X, Y), Recipe(), **{name: (broken(torch.nan), Y)})
    with pytest.raises(InputError, match=rf"the {name} part has bytes .*, the training part fractions of shape"):
        prepare((X, Y), Recipe(), **{name: (X.byte(), Y)})


@pytest.mark.parametrize(
    ("fields", "options", "message"),
    [
        ({"test_fraction": 0.2}, {"test": (X, Y)}, "test part of its own, got test_fraction 0.2"),
        ({"validation_fraction": 0.2}, {"validation": (X, Y)}, "given twice"),
        ({"test_fraction": 0.01}, {}, "test_fraction 0.01 leaves 20 of 20 samples"),
        ({"validation_fraction": 0.01}, {}, "makes a part of 0"),
        ({"train_size": 21}, {}, "train_size 21 leaves 21 of 20"),
        ({"train_size": 3}, {}, "train_size 3 leaves 3 of 20 samples.*each class"),
        ({"target": "price"}, {}, "target is for a table"),
        ({"image_size": 8}, {}, "image_size is for a folder"),
        ({"augment": "given"}, {}, "isn't stored"),
        ({}, {"clean": (X, Y)}, "other data is clean already"),
    ],
)
def test_settings_that_mean_nothing_are_an_error(fields, options, message):
    with pytest.raises(InputError, match=message):
        prepare((X, Y), Recipe(**fields), **options)


def test_a_wrong_dataset_name_has_a_hint(tmp_path):
    for name, message in (
        ("cifr10", "Did you mean 'cifar10'"),
        (f"{tmp_path}/none.npz", "No such file"),
        (f"{tmp_path}/none", "unknown dataset"),
        ("given", "pass"),
    ):
        with pytest.raises(InputError, match=message):
            prepare(None, Recipe(dataset=name))


def test_new_samples_are_read_as_the_run_needs_them(archive, images, tmp_path):
    described = prepare(None, Recipe(dataset=archive())).description()
    x = np.load(archive())["x_test"]
    np.savez(tmp_path / "new.npz", x=x)
    names, inputs = read_inputs(tmp_path / "new.npz", described)
    assert names == [str(number) for number in range(9)]
    assert torch.equal(inputs, torch.from_numpy(x).permute(0, 3, 1, 2))
    names, inputs = read_inputs(images / "test", {"input_shape": [3, 6, 6]})
    assert names == ["cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"]
    assert inputs.shape == (4, 3, 6, 6)
    assert read_inputs(images / "test" / "cat" / "1.png", {"input_shape": [3, 6, 6]})[0] == ["1.png"]
    for path, shape, message in (
        (tmp_path / "new.npz", [3, 9, 9], r"shape \(3, 8, 8\), the run was trained on \(3, 9, 9\)"),
        (images, [64], r"shape \(3, 64, 64\), the run was trained on \(64,\)"),
        (tmp_path / "rows.csv", [64], "contains no images"),
        (tmp_path / "absent.png", [3, 8, 8], "absent.png"),
        (archive("other.npz", x_test=None, y_test=None), [3, 8, 8], "has no array x; it holds x_train, y_train"),
    ):
        with pytest.raises(InputError, match=message):
            read_inputs(path, {"input_shape": shape})


def test_a_run_is_evaluated_on_the_test_part_of_other_data(archive, images):
    described = prepare(None, Recipe(dataset=archive())).description()
    assert len(read_samples(archive(), described)) == 9
    assert len(read_samples(archive("alone.npz", x_test=None, y_test=None), described)) == 30
    assert len(read_samples((X, Y), described)) == 20
    described = prepare(None, Recipe(dataset=str(images), image_size=6)).description()
    assert read_samples(images, described).clean(FIRST)[0].shape == (4, 3, 6, 6)
    with pytest.raises(InputError, match="cat, dog, the run was trained on cat, fox"):
        read_samples(images, {**described, "class_names": ["cat", "fox"]})


def test_a_frame_is_split_encoded_and_read_again():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"area": rng.uniform(20, 200, 60), "town": ["A", "B", "C"] * 20})
    frame["price"] = frame.area * 1000.5
    parts = prepare(frame, Recipe(target="price"))
    assert (len(parts.train), len(parts.test), parts.sample_shape) == (48, 12, (5,))
    assert parts.train.clean(np.arange(48))[0][:, 0].mean().abs() < 1e-6
    assert parts.recipe.task == "regression"
    described = json.loads(json.dumps(parts.description()))
    inputs = read_inputs(frame.drop(columns="price"), described)[1]
    assert torch.equal(inputs, read_samples(frame, described).clean(np.arange(60))[0])
    assert len(prepare(frame[:40], Recipe(target="price"), test=frame[40:]).test) == 20
