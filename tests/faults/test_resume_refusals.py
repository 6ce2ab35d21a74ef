"""Resuming what is not the run that was started is refused, with what differs, and nothing on disk is touched."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from torch import nn

import gradlex
from gradlex import InputError, Recipe


def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return nn.Sequential(nn.Flatten(), nn.Linear(32, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))


def train(folder, images, settings, **how):
    recipe = Recipe(**{"population": 3, "generations": 6, "batch_size": 8, "threads": 1, **settings})
    return gradlex.train(network(), images, recipe, test=images, out=folder, **how)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"lr": 0.2}, "lr is 0.1, asked for 0.2"),
        ({"seed": 4}, "seed is 0, asked for 4"),
        ({"optimizer": "adamw", "seed": 1}, "optimizer is 'sgd', asked for 'adamw'; seed is 0, asked for 1"),
        ({"threads": 2}, "threads is 1, asked for 2"),
        ({"generations": 7}, "its schedule would have given every generation so far another learning rate"),
        ({"generations": 5}, "fewer generations than the run has planned"),
        ({"optimizer_options": {"nesterov": True}}, "optimizer_options is {}, asked for {'nesterov': True}"),
        ({"init_from": "other.safetensors"}, "init_from is None, asked for 'other.safetensors'"),
    ],
)
def test_another_recipe_is_refused_with_what_differs(change, told, images, contents, dying, tmp_path):
    with dying(after=1) as end:
        train(tmp_path, images, {}, callbacks=[end])
    before = contents(tmp_path)
    with pytest.raises(InputError) as caught:
        train(tmp_path, images, change, resume=True)
    assert told in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert contents(tmp_path) == before


def test_other_data_is_refused(images, contents, dying, tmp_path):
    with dying(after=1) as end:
        train(tmp_path, images, {}, callbacks=[end])
    before = contents(tmp_path)
    x, y = images
    for data in ((x + 1, y), (x[:40], y[:40])):
        with pytest.raises(InputError, match="its fingerprint differs"):
            train(tmp_path, data, {}, resume=True)
    assert contents(tmp_path) == before


def test_another_model_is_refused_with_what_differs(images, contents, dying, tmp_path):
    with dying(after=1) as end:
        train(tmp_path, images, {}, callbacks=[end])
    before = contents(tmp_path)
    other = nn.Sequential(nn.Flatten(), nn.Linear(32, 3))
    recipe = Recipe(population=3, generations=6, batch_size=8, threads=1)
    for model in (other, network().double()):
        data = tuple(
            part.to(next(model.parameters()).dtype) if part.is_floating_point() else part for part in images
        )
        with pytest.raises(InputError, match=r"another model: \S+ is .* in this model|fingerprint differs"):
            gradlex.train(model, data, recipe, test=data, out=tmp_path, resume=True)
        assert contents(tmp_path) == before


def test_a_library_run_is_refused_by_the_command_which_names_the_call(
    images, forks, contents, dying, tmp_path
):
    with dying(after=1) as end:
        train(tmp_path / "run", images, {}, callbacks=[end])
    before = contents(tmp_path)
    done = forks.run("resume", tmp_path / "run", "--workers", 1, expect=2)
    assert "call gradlex.train with the same model and data" in done.err
    done = forks.run("evaluate", tmp_path / "run", expect=2)
    assert "trained from the library on objects of its own" in done.err
    assert contents(tmp_path) == before


def test_records_that_were_changed_are_refused_and_nothing_is_touched(images, contents, dying, tmp_path):
    with dying(after=3) as end:
        train(tmp_path, images, {}, callbacks=[end])
    path = tmp_path / "generations.jsonl"
    good = path.read_bytes()
    third = good.splitlines(keepends=True)[2]  # the fourth has no checkpoint yet, and is trained again
    for bad in (good[:40], b"", good.replace(b'"lr"', b'"LR"', 1), good.replace(third, third[:-2] + b"!\n")):
        path.write_bytes(bad)
        before = contents(tmp_path)
        with pytest.raises(InputError, match=r"generations\.jsonl is not what it was"):
            train(tmp_path, images, {}, resume=True)
        assert contents(tmp_path) == before
    path.write_bytes(good)
    train(tmp_path, images, {}, resume=True)


def test_a_folder_without_its_recipe_is_refused_rather_than_mixed(
    forks, train, undisturbed, contents, tmp_path
):
    shutil.copytree(undisturbed, tmp_path / "run")
    (tmp_path / "run" / "recipe.json").unlink()
    before = contents(tmp_path)
    done = forks.run(*train, "--seed", 9, "--out", tmp_path / "run", "--resume", expect=2)
    assert "but no recipe.json" in done.err
    assert contents(tmp_path) == before


def test_a_recipe_that_was_changed_is_refused_and_nothing_is_touched(images, contents, dying, tmp_path):
    with dying(after=3) as end:
        train(tmp_path, images, {}, callbacks=[end])
    path = tmp_path / "recipe.json"
    good = path.read_text()
    for old, new in (('"lr": 0.1', '"lr": 0.5'), ('"generations": 6', '"generations": 9')):
        assert old in good
        path.write_text(good.replace(old, new))
        stored, before = Recipe.from_dict(json.loads(path.read_text())["recipe"]), contents(tmp_path)
        with pytest.raises(InputError, match=r"recipe\.json is not what it was"):
            train(tmp_path, images, {"lr": stored.lr, "generations": stored.generations}, resume=True)
        assert contents(tmp_path) == before
    path.write_text(good)
    train(tmp_path, images, {}, resume=True)
