"""Activations of a finished run: what is kept, when it is computed again, and what is refused."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn
from torch.nn import functional as F

import gradlex
from gradlex import Recipe
from gradlex.cli import main
from gradlex.data import load
from gradlex.errors import InputError
from gradlex.experiments import choose_layers, record_activations, stored_activations
from gradlex.runs import Execution, Named, make_problem

TRAIN = ("train", "--train-size", "60", "--workers", "1", "--generations", "1", "--selection", "sgd")


class Odd(nn.Module):
    """Maps of one size, a module computed twice, one that is never computed, and one changed after it was."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.first, self.again = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 1)
        self.unused, self.words = nn.Linear(1, 1), nn.Flatten(2)
        self.hidden, self.head = nn.Linear(4, 8), nn.Linear(8, num_classes)

    def forward(self, x):
        words = self.words(self.again(self.again(self.first(x))))
        return self.head(self.hidden(words.mean(dim=2)).relu_())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A small-cnn, trained for a moment; to be copied where it is changed."""
    folder = tmp_path_factory.mktemp("activations") / "run"
    main([*TRAIN, "--out", str(folder)])
    return folder


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def by_hand(run, count):
    """The maxima of small-cnn's first and third convolution, written out."""
    weights = safetensors.torch.load_file(run / "model.safetensors")
    scales = json.loads((run / "recipe.json").read_text())["data"]["normalization"]
    images = load(Recipe(dataset="digits", train_size=60)).x_test[:count]
    maps = torch.from_numpy((images / 255.0 - scales["mean"]) / scales["std"]).float().permute(0, 3, 1, 2)
    found = []
    for index, stride in enumerate((1, 2, 1)):
        maps = F.conv2d(maps, weights[f"features.{index}.0.weight"], stride=stride, padding=1)
        norm = [weights[f"features.{index}.1.{n}"] for n in ("running_mean", "running_var", "weight", "bias")]
        maps = F.batch_norm(maps, *norm).relu()
        found.append(maps.numpy().max(axis=(2, 3)))
    return {"features.0": found[0], "features.2": found[2]}


def test_activations_are_the_maxima_of_each_channel_on_the_first_test_images(run):
    assert record_activations(run) == run / "activations.npz"
    found, expected = stored_activations(run), by_hand(run, 100)
    assert list(found) == ["features.0", "features.2"]
    for layer, values in found.items():
        assert values.dtype == np.float32
        np.testing.assert_allclose(values, expected[layer], rtol=1e-4, atol=1e-5)
    assert not list(run.glob("*.new")) + list(run.glob(".*.new"))


def test_the_same_run_gives_the_same_bytes_and_more_layers_join_those_that_are_there(run):
    first = record_activations(run).read_bytes()
    (run / "activations.npz").unlink()
    assert record_activations(run).read_bytes() == first
    before = stored_activations(run)
    record_activations(run, layers=["features.1", "classifier"])
    after = stored_activations(run)
    assert list(after) == ["features.0", "features.2", "features.1", "classifier"]
    assert all(np.array_equal(after[layer], before[layer]) for layer in before)
    assert after["classifier"].shape == (100, 10)
    assert after["classifier"].min() < 0  # logits as they are, without a maximum over anything


def test_what_is_kept_serves_without_the_weights_and_nothing_else_does(run):
    record_activations(run)
    kept = (run / "activations.npz").read_bytes()
    (run / "model.safetensors").unlink()
    record_activations(run)
    record_activations(run, layers=["features.2"])
    assert (run / "activations.npz").read_bytes() == kept
    with pytest.raises(InputError, match=r"activations of features.1 on 100 .* bring model.safetensors back"):
        record_activations(run, layers=["features.1"])
    with pytest.raises(InputError, match="on 50 test samples"):
        record_activations(run, samples=50)
    assert (run / "activations.npz").read_bytes() == kept


def test_other_weights_and_another_number_of_images_are_computed_anew(run):
    record_activations(run)
    before = stored_activations(run)
    record_activations(run, samples=7)
    assert all(values.shape[0] == 7 for values in stored_activations(run).values())
    weights = safetensors.torch.load_file(run / "model.safetensors")
    weights["features.0.1.bias"] += 1
    safetensors.torch.save_file(weights, run / "model.safetensors")
    result = json.loads((run / "result.json").read_text())  # as a run that was made longer writes both
    result["sha256"]["model.safetensors"] = sha256((run / "model.safetensors").read_bytes()).hexdigest()
    (run / "result.json").write_text(json.dumps(result))
    record_activations(run)
    after = stored_activations(run)
    assert after["features.0"].shape == before["features.0"].shape
    assert (after["features.0"] > before["features.0"]).all()


def test_an_unknown_layer_is_refused_with_those_there_are(run):
    with pytest.raises(
        InputError, match=r"small-cnn has no layer 'features.9'.*There are features, classifier"
    ):
        record_activations(run, layers=["features.0", "features.9"])
    assert not (run / "activations.npz").exists()
    with pytest.raises(InputError, match=r"samples must be at least 1, got 0"):
        record_activations(run, samples=0)


def test_a_network_of_plain_features_has_its_hidden_layers(tmp_path):
    main([*TRAIN, "--model", "mlp", "--out", str(tmp_path / "run")])
    record_activations(tmp_path / "run", samples=10_000)
    found = stored_activations(tmp_path / "run")
    assert list(found) == ["2", "4"]
    test_samples = json.loads((tmp_path / "run" / "recipe.json").read_text())["data"]["test_samples"]
    assert all(values.shape == (test_samples, 128) for values in found.values())
    assert all(values.min() == 0 for values in found.values())


def test_a_layer_that_gives_no_features_once_an_image_is_refused(tmp_path, monkeypatch):
    (tmp_path / "odd_network.py").write_text(
        f"import sys\n\ndef make(num_classes):\n    return sys.modules[{__name__!r}].Odd(num_classes)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = tmp_path / "run"
    main([*TRAIN, "--model", "odd_network:make", "--out", str(run)])
    record_activations(run)
    assert list(stored_activations(run)) == ["first"]  # one size of maps: one stage
    record_activations(run, layers=["hidden"])
    assert (stored_activations(run)["hidden"] < 0).any()  # as the layer gave it, before relu_
    for layer in ("again", "unused"):
        with pytest.raises(InputError, match=f"layer '{layer}' of .* is not computed once"):
            record_activations(run, layers=[layer])
    with pytest.raises(InputError, match=r"layer 'words' of .* gives \('N', 4, 64\)"):
        record_activations(run, layers=["words"])


def test_a_run_that_cannot_be_asked_is_refused(run, tmp_path, images, tiny_cnn, small):
    with pytest.raises(InputError, match=r"holds no activations.npz"):
        stored_activations(run)
    (run / "activations.npz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"activations.npz cannot be read.*Remove the file"):
        record_activations(run)
    (run / "activations.npz").unlink()
    (run / "result.json").unlink()
    with pytest.raises(InputError, match="is not finished"):
        record_activations(run)
    with pytest.raises(InputError, match="holds no run"):
        record_activations(tmp_path)
    gradlex.train(tiny_cnn(), images, small, test=images, out=tmp_path / "given")
    with pytest.raises(InputError, match="objects of its own"):
        record_activations(tmp_path / "given")


@pytest.mark.parametrize(
    ("model", "layers"),
    [
        ("resnet18", ("conv4_x", "conv5_x")),
        ("vgg16", ("conv4", "conv5")),
        ("densenet121", ("dense3", "norm")),
    ],
)
def test_the_default_layers_of_the_papers_networks_are_their_last_two_stages(model, layers, tmp_path):
    x, y = np.zeros((8, 32, 32, 3), dtype=np.uint8), np.arange(8) % 2
    x[::2] = 255
    np.savez(tmp_path / "images.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    recipe = Recipe(dataset=str(tmp_path / "images.npz"), model=model, width=0.125)
    problem = make_problem(Named(), recipe, execution=Execution(workers=1), device=torch.device("cpu"))
    assert choose_layers(problem) == layers
