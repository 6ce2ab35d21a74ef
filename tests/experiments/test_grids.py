"""Grids: the paper's experiments are held to the paper (its section 4, tables 1 to 4)."""

from __future__ import annotations

import dataclasses

import pytest

from gradlex import InputError, Recipe
from gradlex.data import dataset_info
from gradlex.experiments import EXPERIMENTS, METHODS, OFFERED, comparison, paper_grid, published
from gradlex.runs import resolve_method
from gradlex.tasks import make_task

TITLES = {
    "vgg16": "VGG16",
    "resnet18": "ResNet18",
    "resnet50": "ResNet50",
    "densenet121": "DenseNet121",
    "mobilenetv2": "MobileNetV2",
    "senet18": "SENet18",
    "efficientnetb0": "EfficientNetB0",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
}


@pytest.mark.parametrize(("table", "runs"), [("table1", 42), ("table2", 28), ("table3", 10), ("table4", 8)])
def test_the_paper_scale_has_every_published_cell_with_three_seeds_and_no_other(table, runs):
    cells = paper_grid(table, "paper").cells()
    assert len(cells) == runs * 3
    ours = {
        (
            TITLES[cell.recipe.dataset],
            TITLES[cell.recipe.model],
            cell.method,
            cell.recipe.population or 1,
            cell.recipe.momentum or "inherit",
            cell.recipe.seed,
        )
        for cell in cells
    }
    theirs = {
        (row.dataset, row.model, row.method, row.population, row.momentum, seed)
        for row in published(table)
        for seed in range(3)
    }
    assert ours == theirs


@pytest.mark.parametrize("table", EXPERIMENTS)
def test_the_paper_scale_has_the_papers_settings(table):
    for cell in paper_grid(table, "paper").cells():
        recipe = cell.recipe
        assert (recipe.optimizer, dict(recipe.optimizer_options)) == ("sgd", {})  # SGD's momentum is 0.9 then
        assert (recipe.lr, recipe.schedule, recipe.weight_decay) == (0.1, "cosine", 1e-4)
        assert recipe.batch_size == {"cifar10": 128, "cifar100": 64, "svhn": 64}[recipe.dataset]
        assert (recipe.augment, recipe.precision) == ("crop4,flip", "float32")
        assert (recipe.train_size, recipe.width, recipe.promotion) == (None, 1.0, "winner")
        population = 1 if cell.method == "sgd" else recipe.population
        assert recipe.generations == (200 if cell.method == "sgd" else 200 * (population + 1))


def test_figure_2_compares_sgd_and_lexicase_on_resnet18_and_cifar10():
    cells = paper_grid("figure2", "paper").cells()
    assert {(c.method, c.recipe.model, c.recipe.dataset) for c in cells} == {
        ("sgd", "resnet18", "cifar10"),
        ("lexicase", "resnet18", "cifar10"),
    }


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_small_runs_stay_near_the_papers_regime(experiment):
    for cell in paper_grid(experiment, "small").cells():
        recipe = cell.recipe
        assert recipe.train_size // (recipe.population or 1) // recipe.batch_size >= 30  # steps a candidate
        sgd = paper_grid(experiment, "small").epochs
        assert recipe.generations == sgd * (1 if METHODS[cell.method].is_sgd else recipe.population + 1)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_smoke_needs_no_download_and_one_seed(experiment):
    cells = paper_grid(experiment, "smoke").cells()
    assert {(c.recipe.dataset, c.recipe.model, c.recipe.seed) for c in cells} == {("digits", "small-cnn", 0)}


def test_published_numbers_are_the_papers():
    cells = {(r.dataset, r.model, r.method): (r.accuracy, r.std) for r in published("table1")}
    assert cells["CIFAR-10", "ResNet18", "lexicase"] == (95.35, 0.06)
    assert cells["SVHN", "EfficientNetB0", "sgd"] == (96.14, 0.12)
    assert [r.accuracy for r in published("table3") if r.model == "VGG16"] == [
        92.85,
        93.61,
        93.40,
        93.92,
        93.37,
    ]
    assert all(r.std is None for table in ("table3", "table4") for r in published(table))
    assert [len(published(f"table{n}")) for n in (1, 2, 3, 4)] == [42, 28, 10, 8]


def test_compute_matched_sgd_trains_on_as_many_samples_as_the_populations():
    grid = dataclasses.replace(
        paper_grid("table2", "small"), methods=("sgd", "sgd-matched", "sgd-matched-5e-4", "lexicase")
    )
    generations = {(c.method, c.recipe.weight_decay): c.recipe.generations for c in grid.cells()}
    assert generations == {
        ("sgd", 1e-4): 60,
        ("sgd-matched", 1e-4): 300,
        ("sgd-matched-5e-4", 5e-4): 300,
        ("lexicase", 1e-4): 300,
    }


def test_compute_matched_sgd_matches_each_population():
    grid = dataclasses.replace(
        paper_grid("table3", "small"), methods=("sgd", "sgd-matched", "lexicase"), seeds=1
    )
    found = [(c.method, c.recipe.population, c.recipe.generations) for c in grid.cells()]
    assert found == [
        ("sgd", None, 60),
        *(("sgd-matched", None, n) for n in (180, 300, 540)),
        ("lexicase", 2, 180),
        ("lexicase", 4, 300),
        ("lexicase", 8, 540),
    ]


def test_the_same_recipe_stands_once():
    grid = comparison("digits", "small-cnn")
    grid = dataclasses.replace(grid, seeds=1, shared=grid.shared.replace(weight_decay=5e-4))
    assert "sgd-matched-5e-4" not in [cell.method for cell in grid.cells()]
    assert len(grid.cells()) == 9


def test_options_of_a_selection_reach_only_the_methods_that_take_them():
    grid = comparison("digits", "small-cnn")
    grid = dataclasses.replace(
        grid, seeds=1, shared=grid.shared.replace(selection_options={"on_all_fail": "survive"})
    )
    rules = {cell.method: cell.recipe.selection_options.get("on_all_fail") for cell in grid.cells()}
    assert rules["lexicase"] == rules["expected"] == "survive"
    assert rules["sgd"] is rules["random"] is rules["tournament"] is None
    assert rules["average"] is rules["average-outer-0.5"] is None  # no selection is asked


def test_options_of_a_promotion_and_an_outer_step_reach_only_the_methods_that_take_them():
    grid = comparison("digits", "small-cnn")
    methods = ("sgd", "lexicase", "survivors", "expected", "average-outer-0.5")
    shared = grid.shared.replace(selection_options={"depth": 10}, promotion_cases=200, outer_nesterov=True)
    cells = dataclasses.replace(grid, seeds=1, methods=methods, shared=shared).cells()
    found = {
        cell.method: (
            cell.recipe.selection_options.get("depth"),
            cell.recipe.promotion_cases,
            cell.recipe.outer_nesterov,
        )
        for cell in cells
    }
    assert found == {
        "sgd": (None, None, False),
        "lexicase": (10, None, False),
        "survivors": (10, None, False),
        "expected": (None, 200, False),
        "average-outer-0.5": (None, None, True),
    }
    for cell in cells:
        resolve_method(cell.recipe, make_task("classification", cell.recipe.task_options))


def test_what_tells_candidates_apart_reaches_only_the_populations():
    given = {"parts": "all", "vary": {"augment": ["flip", "crop2,flip"]}}
    methods = ("sgd", "swa", "branched-average", "branched-random")
    cells = comparison("digits", "mlp").changed(methods=methods, recipe=given, seeds=1).cells()
    found = {cell.method: (cell.recipe.parts, cell.recipe.vary) for cell in cells}
    assert found["sgd"] == found["swa"] == ("disjoint", {})
    assert found["branched-average"] == found["branched-random"] == ("all", given["vary"])


def test_graded_errors_reach_only_the_methods_that_ask_a_selection():
    grid = comparison("digits", "small-cnn")
    grid = dataclasses.replace(grid, seeds=1, shared=grid.shared.replace(task_options={"case_error": "loss"}))
    kinds = {cell.method: cell.recipe.task_options.get("case_error") for cell in grid.cells()}
    assert kinds["lexicase"] == kinds["expected"] == "loss"
    assert kinds["average"] is kinds["random"] is kinds["sgd"] is None
    for cell in grid.cells():
        resolve_method(cell.recipe, make_task("classification", cell.recipe.task_options))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"methods": ("lexicas",)}, "Did you mean 'lexicase'"),
        ({"models": ("resnet19",)}, "unknown model 'resnet19'"),
        ({"methods": ("sgd", "sgd")}, "each once"),
        ({"datasets": ()}, "at least one"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"epochs": 0}, "generations must be at least 1"),
        (
            {"shared": Recipe(selection_options={"sigma": 20.0})},
            "sigma is not an option of sgd, random, tournament, lexicase",
        ),
        (
            {"methods": ("sgd", "lexicase"), "shared": Recipe(selection_options={"tournament_size": 2})},
            "tournament_size is not an option",
        ),
        (
            {"methods": ("sgd", "average"), "shared": Recipe(selection_options={"on_all_fail": "survive"})},
            "on_all_fail is not an option",
        ),
        (
            {"methods": ("sgd", "average"), "shared": Recipe(outer_nesterov=True)},
            "outer_nesterov is not an option",
        ),
    ],
)
def test_a_grid_refuses_what_no_experiment_can_have(change, told):
    with pytest.raises(InputError, match=told):
        dataclasses.replace(paper_grid("table2", "small"), **change)


def test_data_of_ones_own_has_the_settings_that_train_gives_it_whatever_its_file_is_called():
    cells = comparison("data/cifar10.npz", "resnet20").cells()
    info = dataset_info("data/cifar10.npz")
    assert {(c.recipe.batch_size, c.recipe.augment) for c in cells} == {(info.batch_size, info.augment)}
    assert {c.recipe.generations for c in cells if c.method == "sgd"} == {info.baseline_generations}


def test_the_outer_momentum_of_0_9_is_known_to_old_records_and_offered_no_more():
    assert {"average-outer-0.9", "expected-outer-0.9"} == set(METHODS) - set(OFFERED)
    with pytest.raises(InputError) as refused:
        dataclasses.replace(paper_grid("table2", "small"), methods=("average-outer-0.8",))
    assert "0.9" not in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"seed": 3}, "seed is a dimension of the experiment"),
        ({"promotion": "average"}, "promotion tells methods apart"),
        ({"optimiser": "adam"}, "unknown recipe field 'optimiser'. Did you mean 'optimizer'"),
        ({"lr": -1.0}, "lr must be"),
    ],
)
def test_a_recipe_field_that_the_experiment_decides_is_refused(fields, said):
    with pytest.raises(InputError, match=said):
        comparison("digits", "mlp").changed(recipe=fields)


def test_a_changed_grid_keeps_what_is_not_given():
    grid = paper_grid("table3", "small")
    assert grid.changed() == grid
    changed = grid.changed(methods=["sgd"], seeds=1, generations=2, recipe={"lr": 0.5, "weight_decay": 0.0})
    assert (changed.methods, changed.seeds, changed.epochs) == (("sgd",), 1, 2)
    assert (changed.populations, changed.shared.batch_size) == (grid.populations, grid.shared.batch_size)
    assert (changed.shared.lr, changed.shared.weight_decay) == (0.5, 0.0)


def test_so_many_seeds_that_nobody_can_mean_it_are_refused():
    with pytest.raises(InputError, match="at most 1000"):
        comparison("digits", "mlp").changed(seeds=10**18)
