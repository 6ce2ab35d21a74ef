from __future__ import annotations

import pytest
import safetensors.torch
import torch
from torch import nn

import gradlex
from gradlex import InputError


@pytest.fixture
def weights(images, tiny_cnn, small, tmp_path):
    """A file of weights, and the network that they are of."""
    run = gradlex.train(tiny_cnn(), images, small.replace(seed=8), out=tmp_path / "first")
    return str(tmp_path / "first" / "model.safetensors"), run.model


def test_a_run_from_a_file_is_the_run_from_that_network(weights, images, tiny_cnn, small, same):
    path, model = weights
    expected = gradlex.train(model, images, small)
    found = gradlex.train(tiny_cnn(), images, small.replace(init_from=path))
    assert same(expected.model.state_dict(), found.model.state_dict())
    assert found.recipe.init_from == path


def refused(recipe, model, images, told, folder):
    with pytest.raises(InputError, match=told):
        gradlex.train(model, images, recipe, out=folder)
    assert not folder.exists()


def test_weights_of_another_shape_are_refused_with_both(weights, images, tiny_cnn, small, tmp_path):
    model = tiny_cnn()
    model[4] = nn.Linear(64, 5)
    told = r"4\.weight has the shape \(3, 64\), the model's has \(5, 64\)"
    refused(small.replace(init_from=weights[0]), model, images, told, tmp_path / "run")


def test_weights_of_other_names_are_refused_with_those_that_differ(
    weights, images, tiny_dropout, small, tmp_path
):
    told = r"0\.(weight|bias) is not in the model.*, and 5 more"
    refused(small.replace(init_from=weights[0]), tiny_dropout(), images, told, tmp_path / "run")


@pytest.mark.parametrize("change", ["missing", "surplus"])
def test_one_name_too_few_or_too_many_is_refused(change, weights, images, tiny_cnn, small, tmp_path):
    stored = safetensors.torch.load_file(weights[0])
    if change == "missing":
        del stored["4.bias"]
    else:
        stored["5.bias"] = torch.zeros(1)
    path = str(tmp_path / "changed.safetensors")
    safetensors.torch.save_file(stored, path)
    told = r"4\.bias is missing" if change == "missing" else r"5\.bias is not in the model"
    refused(small.replace(init_from=path), tiny_cnn(), images, told, tmp_path / "run")


def test_a_file_that_is_not_there_or_not_sound_is_refused(images, tiny_cnn, small, tmp_path):
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"not weights at all")
    refused(small.replace(init_from=str(broken)), tiny_cnn(), images, "not a sound", tmp_path / "run")
    absent = str(tmp_path / "absent.safetensors")
    refused(small.replace(init_from=absent), tiny_cnn(), images, "there is no file", tmp_path / "run")
    refused(small.replace(init_from=str(tmp_path)), tiny_cnn(), images, "cannot be read", tmp_path / "run")
