"""Bad input to the library: refused where it enters, with nothing on disk changed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import gradlex
from gradlex import InputError, Recipe

X, Y = torch.zeros(20, 2, 4, 4), torch.arange(20) % 3


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(X, Y, strict=True))


class HalfLabels(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        return X[index], 0.5


def broken(value):
    x = X.clone()
    x[7, 1, 2, 3] = value
    return x


def net(width=3):
    return nn.Sequential(nn.Flatten(), nn.Linear(32, width))


DATA = {
    "labels as floats": ((X, Y.float()), "labels must be whole numbers"),
    "labels as booleans": ((X, Y > 0), "labels must be whole numbers"),
    "one-hot labels": ((X, nn.functional.one_hot(Y)), "labels must be whole numbers, one a sample"),
    "a negative label": ((X, Y - 1), "from 0 to classes - 1, got -1"),
    "a label beyond the outputs": ((X, Y + 1), "the model has 3 outputs, the labels go from 0 to 3"),
    "labels of another length": ((X, Y[:19]), "20 samples but 19 labels"),
    "an empty set": ((X[:0], Y[:0]), "the set is empty"),
    "NaN pictures": ((broken(torch.nan), Y), "NaN or infinity"),
    "infinite pictures": ((broken(torch.inf), Y), "NaN or infinity"),
    "NaN in NumPy": ((broken(torch.nan).numpy(), Y.numpy()), "NaN or infinity"),
    "three arrays": ((X, Y, Y), r"the pair \(x, y\), got 3"),
    "pictures of another shape": ((X[..., :3], Y), r"cannot take inputs of the shape \(2, 2, 4, 3\)"),
    "pictures of another type": ((X.double(), Y), "type torch.float64"),
    "an iterable dataset": (Stream(), "iterable dataset.*disjoint subsets.*map-style.*Stream"),
    "an empty dataset": (TensorDataset(X[:0], Y[:0]), "TensorDataset is empty"),
    "a dataset of float labels": (HalfLabels(), "whole number"),
    "words": ((["a", "b"], [0, 1]), "x cannot be made a tensor"),
    "a single number": ((3.0, 1), "samples"),
}


@pytest.mark.parametrize("what", DATA)
def test_data_that_cannot_be_learnt_from_is_refused(what, tmp_path):
    data, told = DATA[what]
    with pytest.raises(InputError, match=told):
        gradlex.train(net(), data, Recipe(generations=1, population=2), out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "what", ["labels as floats", "a label beyond the outputs", "NaN pictures", "an empty set"]
)
def test_test_samples_are_checked_as_well(what, tmp_path):
    data, told = DATA[what]
    with pytest.raises(InputError, match=told):
        gradlex.train(net(), (X, Y), Recipe(generations=1, population=2), test=data, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        return self.head(x.flatten(1)), x


MODELS = {
    "too few outputs": (net(2), "the model has 2 outputs, the labels go from 0 to 2: give its last layer 3"),
    "no class axis": (nn.Sequential(nn.Flatten(), nn.Linear(32, 3), nn.Flatten(0)), r"\(samples, classes\)"),
    "two results": (Pair(), r"must return a tensor \(samples, classes\), got tuple"),
    "nothing to train": (net().requires_grad_(False), "no trainable parameter"),
    "no parameter at all": (nn.Flatten(), "no trainable parameter"),
}


@pytest.mark.parametrize("what", MODELS)
def test_a_model_that_does_not_fit_is_refused(what, tmp_path):
    model, told = MODELS[what]
    with pytest.raises(InputError, match=told):
        gradlex.train(model, (X, Y), Recipe(generations=1, population=2), out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


RECIPES = {
    "population over half the samples": (
        {"population": 11},
        "population 11 is more than half of the 20 samples",
    ),
    "an unknown selection": ({"selection": "lexicse"}, "unknown selection 'lexicse'.*'lexicase'"),
    "an unknown optimizer": ({"optimizer": "adamww"}, "'adamw'"),
    "a closure": ({"optimizer": "LBFGS"}, "LBFGS.*closure"),
    "none for adamw": ({"optimizer": "adamw", "momentum": "none"}, "'adamw' has none"),
    "sgd with a population": ({"selection": "sgd", "population": 4}, "trains one network, got population 4"),
    "sgd with reset": ({"selection": "sgd", "momentum": "reset"}, "keeps its momentum, got momentum 'reset'"),
    "on_all_fail for tournament": (
        {"selection": "tournament", "on_all_fail": "random"},
        "on_all_fail belongs to lexicase",
    ),
    "a tournament over the population": (
        {"selection": "tournament", "tournament_size": 3, "population": 2},
        "tournament_size 3 is more than the population of 2",
    ),
    "an option's value": ({"selection": "downsampled-lexicase", "share": 1.5}, "share is a share.*got 1.5"),
    "graded errors for nobody": ({"selection": "random", "case_error": "loss"}, "'random' looks at no case"),
    "graded errors never fail": ({"case_error": "loss", "on_all_fail": "random"}, "needs 0/1 errors"),
    "an optimizer's value": ({"optimizer_options": {"momentum": -1}}, "refused its settings.*momentum"),
    "nesterov without momentum": (
        {"optimizer_options": {"nesterov": True, "momentum": 0}},
        "refused its settings.*[Nn]esterov",
    ),
    "an optimizer's word": ({"optimizer_options": {"momentum": "much"}}, "refused its settings"),
    "an augmentation": ({"augment": "crop4,rotate"}, "unknown augmentation 'rotate'"),
    "a part of given data": ({"train_size": 10}, "train_size"),
    "a share of given data": ({"test_fraction": 0.5}, "test_fraction"),
    "a size for given data": ({"image_size": 8}, "image_size"),
    "a width for a given model": ({"width": 0.5}, "width"),
}


@pytest.mark.parametrize("what", RECIPES)
def test_a_recipe_that_contradicts_itself_or_the_data_is_refused(what, tmp_path):
    fields, told = RECIPES[what]
    recipe = Recipe(**{"generations": 1, **fields})
    with pytest.raises(InputError, match=told):
        gradlex.train(net(), (X, Y), recipe, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_augmentation_given_twice_is_refused():
    with pytest.raises(InputError, match="augment is given twice"):
        gradlex.train(net(), (X, Y), Recipe(augment="flip"), augment=lambda batch, rng: batch)


def test_augmentation_of_pictures_is_refused_for_plain_features(tmp_path):
    with pytest.raises(InputError, match="augment 'flip' needs pictures"):
        gradlex.train(net(), (X.flatten(1), Y), Recipe(augment="flip", generations=1), out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("every", [0, -1])
def test_an_interval_of_less_than_a_generation_is_refused(every, tmp_path):
    with pytest.raises(InputError, match=f"evaluate_every must be .*at least 1, got {every}"):
        gradlex.train(net(), (X, Y), Recipe(generations=1), evaluate_every=every, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("device", ["gpu", "cpu:x", "", "nonsense:0", "hpu"])
def test_an_unknown_device_is_refused(device):
    with pytest.raises(InputError, match=f"device '{device}' cannot be used"):
        gradlex.train(net(), (X, Y), Recipe(generations=1), device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device")
def test_a_device_that_the_machine_lacks_is_refused():
    with pytest.raises(InputError, match="device 'cuda' cannot be used"):
        gradlex.train(net(), (X, Y), Recipe(generations=1), device="cuda")


def test_bytes_tested_on_floats_are_refused_and_the_other_way_round():
    x = X.to(torch.uint8)
    for train, test in ((x, X), (X, x)):
        with pytest.raises(InputError, match=r"test samples are .* arrays of torch\.uint8 are normalised"):
            gradlex.train(net(), (train, Y), Recipe(generations=1), test=(test, Y))


@pytest.mark.parametrize("existing", ["recipe.json", "model.safetensors", "generations.jsonl"])
def test_a_folder_that_already_holds_a_run_is_refused_and_left_alone(existing, tmp_path):
    (tmp_path / existing).write_text("mine")
    with pytest.raises(InputError, match=f"already holds a run .{existing}"):
        gradlex.train(net(), (X, Y), Recipe(generations=1), out=tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(existing, "mine")]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("a file, not a folder")
    for out in (tmp_path / "file", tmp_path / "file" / "below" / "run"):
        with pytest.raises(InputError, match="cannot be written"):
            gradlex.train(net(), (X, Y), Recipe(generations=1), out=out)
    assert (tmp_path / "file").read_text() == "a file, not a folder"


def test_a_folder_whose_name_is_too_long_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be"):
        gradlex.train(net(), (X, Y), Recipe(generations=1), out=tmp_path / ("n" * 300))


def test_an_empty_folder_is_taken(tmp_path):
    recipe = Recipe(generations=1, population=2)
    assert (
        gradlex.train(net(), (np.zeros((20, 32), np.float32), Y.numpy()), recipe, out=tmp_path).path
        == tmp_path
    )
    assert (tmp_path / "result.json").exists()
