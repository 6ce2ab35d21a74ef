"""What makes two runs the same run."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from gradlex import InputError, Recipe
from gradlex.experiments import Cell, prepare, run_name

CPU = torch.device("cpu")


def archive(path, seed=0):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 256, (40, 8, 8, 1), dtype=np.uint8), np.arange(40) % 4
    np.savez(path, x_train=x, y_train=y, x_test=x[:8], y_test=y[:8])
    return str(path)


def jobs(root, *recipes):
    return prepare([Cell(method="lexicase", recipe=r) for r in recipes], root, device=CPU)


def test_the_data_counts_and_not_its_path(tmp_path):
    here, there = archive(tmp_path / "here.npz"), archive(tmp_path / "there.npz")
    other = archive(tmp_path / "other.npz", seed=1)
    recipe = Recipe(generations=1, threads=1)
    names = [jobs(tmp_path, recipe.replace(dataset=data))[0].folder.name for data in (here, there, other)]
    assert names[0] == names[1] != names[2]


def test_data_that_would_be_trained_on_twice_or_confused_is_refused(tmp_path):
    recipe = Recipe(generations=1, threads=1)
    here, copy = archive(tmp_path / "here.npz"), archive(tmp_path / "copy.npz")
    (tmp_path / "below").mkdir()
    namesake = archive(tmp_path / "below" / "here.npz", seed=1)
    with pytest.raises(InputError, match="hold the same samples: name it once"):
        jobs(tmp_path, recipe.replace(dataset=here), recipe.replace(dataset=copy))
    with pytest.raises(InputError, match="have the same name, and tables go by it: rename one"):
        jobs(tmp_path, recipe.replace(dataset=here), recipe.replace(dataset=namesake))


def test_what_is_left_open_is_the_same_run_as_what_it_resolves_to(tmp_path):
    data = archive(tmp_path / "data.npz")
    open_, given = (
        Recipe(dataset=data, generations=1, threads=1),
        Recipe(dataset=data, generations=1, threads=1, population=4, momentum="reset", batch_size=64),
    )
    (first,), (second,) = jobs(tmp_path, open_), jobs(tmp_path, given)
    assert first.folder == second.folder
    assert first.recipe == second.recipe


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"lr": 0.05},
        {"threads": 2},
        {"precision": "float32"},
        {"weight_decay": 5e-4},
        {"population": 3},
        {"promotion": "average"},
        {"width": 0.5},
        {"optimizer_options": {"nesterov": True}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_other_number_makes_another_run(change):
    recipe = Recipe(generations=1, threads=1, precision="bfloat16")
    assert run_name(recipe, "data") != run_name(recipe.replace(**change), "data")


def test_a_name_is_the_same_in_every_version_and_process():
    recipe = Recipe(model="package.module:net", generations=10, threads=1, precision="float32", seed=2)
    assert run_name(recipe, "0123") == "package.module-net-lexicase-seed2-15e533ddbb7f"


def test_a_field_that_a_later_version_adds_leaves_old_names_as_they_are():
    recipe = Recipe(generations=3)
    before = run_name(recipe, "data")
    later = dataclasses.make_dataclass(
        "Recipe", [("later", int, 7)], bases=(Recipe,), frozen=True, kw_only=True
    )
    assert run_name(later(generations=3), "data") == before


def test_weights_to_start_from_count_by_their_content(tmp_path):
    for name, content in (("a", b"one"), ("b", b"one"), ("c", b"two")):
        (tmp_path / name).write_bytes(content)
    names = [run_name(Recipe(init_from=str(tmp_path / name)), "data") for name in "abc"]
    assert names[0] == names[1] != names[2]
