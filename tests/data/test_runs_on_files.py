"""From a file to a run and back: what is recorded of the data, and evaluation on other data."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from gradlex.data import Normalization, load
from gradlex.errors import InputError
from gradlex.recipe import Recipe
from gradlex.runs import Execution, Named, evaluate, load_network, load_normalization, make_problem, start

ALONE = Execution(workers=1, device="cpu")


def recipe(path, **fields):
    return Recipe(
        **{"dataset": str(path), "model": "mlp", "generations": 1, "batch_size": 8, "threads": 1, **fields}
    )


def problem(path, **fields):
    return make_problem(Named(), recipe(path, **fields), execution=ALONE, device=torch.device("cpu"))


@pytest.fixture
def run(archive, tmp_path):
    path = archive("trained.npz", class_names=np.array(["a", "b", "c"]))
    start(Named(), recipe(path), ALONE, out=tmp_path / "run")
    return tmp_path / "run"


def test_the_fingerprint_sizes_and_normalisation_are_recorded(run, tmp_path):
    arrays = load(Recipe(dataset=str(tmp_path / "trained.npz")))
    stored = json.loads((run / "recipe.json").read_text())["data"]
    normalization = Normalization.of(arrays.x_train)
    assert stored["fingerprint"] == arrays.fingerprint()
    assert (stored["train_samples"], stored["test_samples"]) == (30, 9)
    assert stored["class_names"] == ["a", "b", "c"]
    assert tuple(stored["normalization"]["mean"]) == normalization.mean
    assert tuple(stored["normalization"]["std"]) == normalization.std
    result = json.loads((run / "result.json").read_text())["data"]
    assert result == {key: stored[key] for key in ("fingerprint", "train_samples", "test_samples")}


def test_training_images_are_held_once_and_given_to_the_samples(archive, monkeypatch):
    held = []
    monkeypatch.setattr(
        "gradlex.runs._source.load", lambda *given, **how: held.append(load(*given, **how)) or held[0]
    )
    made = problem(archive())
    assert np.shares_memory(made.train._x.numpy(), held[0].x_train)
    assert np.shares_memory(made.test._x.numpy(), held[0].x_test)


def test_evaluating_again_gives_the_runs_own_accuracy(run):
    found = evaluate(run, device="cpu")
    result = json.loads((run / "result.json").read_text())
    assert found == pytest.approx(result["metrics"]["test"], abs=1e-6)


def test_the_finished_network_computes_what_the_run_was_tested_with(run, tmp_path):
    network, normalization = load_network(str(run)), load_normalization(str(run))
    with np.load(tmp_path / "trained.npz") as stored:
        x, y = torch.from_numpy(stored["x_test"]).permute(0, 3, 1, 2), torch.from_numpy(stored["y_test"])
    with torch.inference_mode():
        right = network(normalization.apply(x)).argmax(dim=1) == y
    result = json.loads((run / "result.json").read_text())
    assert right.double().mean().item() == result["metrics"]["test"]["accuracy"]


def test_other_data_is_normalised_by_the_runs_statistics_and_not_its_own(run, archive, tmp_path):
    """The same test images beside much darker training images must be judged the same."""
    with np.load(tmp_path / "trained.npz") as stored:
        arrays = dict(stored)
    dark = archive("dark.npz", **{**arrays, "x_train": arrays["x_train"] // 8})
    assert evaluate(run, dataset=str(dark), device="cpu") == evaluate(run, device="cpu")


def test_floats_of_the_same_images_are_judged_the_same(run, archive, tmp_path):
    with np.load(tmp_path / "trained.npz") as stored:
        arrays = dict(stored)
    floats = archive("floats.npz", **{**arrays, **{key: arrays[key] / 255 for key in ("x_train", "x_test")}})
    found, expected = evaluate(run, dataset=str(floats), device="cpu"), evaluate(run, device="cpu")
    assert found["accuracy"] == expected["accuracy"]
    assert found["loss"] == pytest.approx(expected["loss"], abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"x_train": np.zeros((30, 9, 8, 3), np.uint8), "x_test": np.zeros((9, 9, 8, 3), np.uint8)},
            r"samples of shape \(3, 9, 8\), the run was trained on \(3, 8, 8\)",
        ),
        ({"y_train": np.arange(30) % 4}, "has 4 classes, the run was trained on 3"),
        (
            {"class_names": np.array(["c", "b", "a"])},
            "has the classes 'c', 'b', 'a', the run was trained on 'a', 'b', 'c'",
        ),
    ],
)
def test_other_data_that_does_not_fit_is_refused(run, archive, changes, told):
    with pytest.raises(InputError, match=told):
        evaluate(run, dataset=str(archive(**changes)), device="cpu")


def test_data_that_has_changed_since_the_run_is_refused(run, archive):
    path = archive(
        "trained.npz", x_test=np.zeros((9, 8, 8, 3), np.uint8), class_names=np.array(["a", "b", "c"])
    )
    with pytest.raises(InputError, match="has changed since the run was trained on it: restore the old data"):
        evaluate(run, device="cpu")
    assert 0 <= evaluate(run, dataset=str(path), device="cpu")["accuracy"] <= 1


def test_a_run_with_parts_of_its_own_is_evaluated_on_a_folder_and_back(images, archive, tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (30, 10, 10, 3), dtype=np.uint8)
    split = archive("split.npz", x_train=x, y_train=np.arange(30) % 2, x_test=None, y_test=None)
    start(Named(), recipe(split, test_fraction=0.4, train_size=10), ALONE, out=tmp_path / "run")
    assert evaluate(tmp_path / "run", dataset=str(split), device="cpu") == evaluate(
        tmp_path / "run", device="cpu"
    )
    assert evaluate(tmp_path / "run", dataset=str(images), device="cpu")["accuracy"] in (
        0,
        0.25,
        0.5,
        0.75,
        1,
    )

    start(Named(), recipe(images, image_size=10), ALONE, out=tmp_path / "second")
    whole = archive("whole.npz", x_train=x, y_train=np.arange(30) % 2, x_test=x[:4], y_test=np.arange(4) % 2)
    assert evaluate(tmp_path / "second", dataset=str(whole), device="cpu")["accuracy"] in (
        0,
        0.25,
        0.5,
        0.75,
        1,
    )


def test_images_smaller_than_the_network_takes_are_refused(archive, tmp_path):
    with pytest.raises(InputError, match=r"vgg16 needs .* of at least \d+ x \d+, got 8"):
        problem(archive(), model="vgg16")
    assert not (tmp_path / "run").exists()


def test_features_are_refused_by_networks_and_augmentations_for_images(archive):
    x = np.random.default_rng(0).normal(size=(30, 5))
    path = archive(x_train=x, x_test=x[:9])
    with pytest.raises(InputError, match=r"needs .*; this data has 5 plain features: use mlp"):
        problem(path, model="small-cnn")
    with pytest.raises(InputError, match="augment 'flip' needs"):
        problem(path, augment="flip")
    assert problem(path).data["input_shape"] == [5]
