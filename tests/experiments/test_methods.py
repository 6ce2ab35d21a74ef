"""Methods as changes to a recipe, and the paper's tables as grids of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gradlex
from gradlex import InputError, Recipe
from gradlex.experiments import METHODS, Arm, published
from gradlex.experiments.arm import read_metrics
from gradlex.experiments.grids import paper_grid
from gradlex.experiments.methods import find_method


def runs_of(grid):
    return len(grid.datasets) * len(grid.models) * len(grid.methods) * grid.num_seeds


def recipe(name, base=None, epochs=10, population=4):
    return METHODS[name].recipe(base or Recipe(), epochs=epochs, population=population)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_makes_a_recipe_and_a_population(name, tmp_path):
    found = recipe(name)
    arm = Arm(
        method=METHODS[name],
        seed=3,
        epochs=found.epochs,
        size=found.population,
        folder=tmp_path / "own" / name / "seed3",
    )
    population = arm.population(nn.Linear(2, 2))
    assert population.size == found.population == METHODS[name].size(4)
    assert population.seed == 3
    assert arm.branch == (found.branch if found.branch_at else None)
    assert [arm.size_at(g) for g in range(arm.epochs)] == [found.population_at(g) for g in range(found.epochs)]


def test_populations_and_matched_sgd_have_p_plus_1_times_as_many_epochs():
    lengths = {name: recipe(name, population=6).epochs for name in METHODS}
    assert lengths["sgd"] == lengths["swa"] == lengths["branched-average"] == 10
    assert lengths["sgd-matched"] == lengths["random"] == lengths["lexicase"] == lengths["average"] == 70
    assert lengths["lexicase-p8"] == 90


def test_the_settings_of_the_late_branch_reach_only_methods_that_have_one():
    base = Recipe(branch_at=0.5, tail="constant(lr=0.05)", lr=0.2)
    assert recipe("branched-random", base).branch_at == 0.5
    assert recipe("branched-random", base).tail == "constant(lr=0.05)"
    assert recipe("lexicase", base).branch_at == 0
    assert recipe("lexicase", base).tail is None
    assert recipe("lexicase", base).lr == recipe("sgd", base).lr == 0.2


def test_the_optimizers_state_of_the_recipe_reaches_every_population():
    base = Recipe(momentum_state="inherit")
    assert recipe("lexicase", base).momentum_state == "inherit"
    assert recipe("sgd", base).momentum_state is None
    assert recipe("branched-average").momentum_state == "inherit"
    assert recipe("lexicase").momentum_state is None


def test_options_of_the_loop_replace_the_methods_own(tmp_path):
    arm = Arm(method=METHODS["lexicase"], seed=0, epochs=1, size=4, folder=tmp_path / "a" / "lexicase" / "seed0")
    population = arm.population(nn.Linear(2, 2), selection="tournament")
    assert len(list(population.candidates(8))) == 4
    choice = population.select(lambda cases: torch.zeros(len(cases)), 8)
    assert choice.reason == "best_mean"


def test_an_unknown_method_names_the_nearest_one():
    with pytest.raises(InputError, match="Did you mean 'tournament'"):
        find_method("tournement")
    with pytest.raises(InputError, match="unknown method 'adamw'"):
        find_method("adamw")


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        (0.5, {"test": {"accuracy": 0.5}}),
        (torch.tensor(0.5), {"test": {"accuracy": 0.5}}),
        ({"loss": 1, "train_loss": 2}, {"test": {"loss": 1.0}, "train": {"loss": 2.0}}),
        ({"test_loss": 1, "top5_accuracy": 1}, {"test": {"loss": 1.0, "top5_accuracy": 1.0}}),
    ],
)
def test_metrics_are_read_by_part(returned, found):
    assert read_metrics(returned) == found


@pytest.mark.parametrize("returned", [None, "good", {"accuracy": None}, [0.5, 0.6]])
def test_metrics_must_be_numbers(returned):
    with pytest.raises(InputError, match="must return a number or"):
        read_metrics(returned)


@pytest.mark.parametrize(
    ("table", "runs"), [("table1", 126), ("table2", 84), ("table3", 30), ("table4", 24), ("figure2", 6)]
)
def test_the_papers_grids_have_its_sizes(table, runs):
    assert runs_of(paper_grid(table, "paper")) == runs


@pytest.mark.parametrize("table", ["table1", "table2", "table3", "table4"])
def test_every_published_number_has_a_place_in_its_grid(table):
    grid, numbers = paper_grid(table, "paper"), published(table)
    assert set(numbers.dataset) == set(grid.datasets)
    assert set(numbers.model) == set(grid.models)
    assert set(numbers.method) == set(grid.methods)
    assert len(numbers) == runs_of(grid) / 3
    assert numbers.accuracy.between(60, 100).all()


@pytest.mark.parametrize("table", ["table1", "table2", "table3", "table4", "figure2"])
@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
def test_every_grid_is_of_known_methods_and_a_valid_recipe(table, scale):
    grid = paper_grid(table, scale)
    for method in grid.methods:
        found = METHODS[method].recipe(grid.recipe, epochs=grid.epochs, population=4)
        assert found.weight_decay == 1e-4
        assert found.epochs == METHODS[method].epochs(grid.epochs, 4)


def test_a_smoke_grid_is_small_and_offline():
    assert all(paper_grid(f"table{n}", "smoke").datasets == ("digits",) for n in (1, 2, 3, 4))
    assert runs_of(paper_grid("table1", "smoke")) == 2


@pytest.mark.parametrize(("table", "scale", "word"), [("table5", "paper", "table"), ("table1", "smal", "scale")])
def test_an_unknown_table_or_scale_raises(table, scale, word):
    with pytest.raises(InputError, match=f"unknown {word}"):
        paper_grid(table, scale)


def test_the_paper_prints_its_table_and_commands(tmp_path):
    found = gradlex.paper("table3", out=tmp_path, commands_only=True)
    assert len(str(found).splitlines()) == 5
    assert "--methods lexicase-p8 --seeds 0" in str(found)
    rows = found.table().rows
    assert rows[0][:4] == ("digits", "small-cnn", "gradlex", "0")
    assert rows[1][:3] == ("cifar10", "vgg16", "published")


@pytest.mark.slow
def test_figure_2_runs_offline_and_is_not_repeated(tmp_path):
    found = gradlex.paper("figure2", out=tmp_path, backend="serial", progress=False)
    folder = tmp_path / "digits-small-cnn"
    assert "lexicase minus SGD" in str(found)
    assert (folder / "figure2.svg").exists()
    before = (folder / "sgd" / "seed0" / "activations.npz").stat().st_mtime_ns
    gradlex.paper("figure2", out=tmp_path, backend="serial", progress=False)
    assert (folder / "sgd" / "seed0" / "activations.npz").stat().st_mtime_ns == before
