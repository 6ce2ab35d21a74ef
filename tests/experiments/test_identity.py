"""What makes two runs the same run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from gradlex import InputError, Recipe
from gradlex.experiments import NEUTRAL, Cell, prepare, run_name, stored_plans

CPU = torch.device("cpu")
RESULTS = Path(__file__).parents[2] / "results"


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
    with pytest.raises(InputError, match="have the same name, which tables go by: rename one"):
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
        {"selection_options": {"on_all_fail": "survive"}},
        {"selection_options": {"depth": 3}},
        {"task_options": {"case_error": "loss"}},
        {"task": "module:Task"},
    ],
    ids=str,
)
def test_any_other_number_makes_another_run(change):
    recipe = Recipe(generations=1, threads=1, precision="bfloat16")
    assert run_name(recipe, "data") != run_name(recipe.replace(**change), "data")


def test_options_of_different_owners_do_not_stand_for_each_other():
    names = {
        run_name(Recipe(**{owner: {"scale": 2, "lr": 0.5}}), "data")
        for owner in ("selection_options", "task_options", "optimizer_options")
    }
    assert len({*names, run_name(Recipe(lr=0.5), "data")}) == 4


def test_a_name_is_the_same_in_every_version_and_process():
    recipe = Recipe(model="package.module:net", generations=10, threads=1, precision="float32", seed=2)
    assert run_name(recipe, "0123", revision=1) == "package.module-net-lexicase-seed2-15e533ddbb7f"


def test_results_of_0_1_0_keep_their_names():
    runs = sorted(RESULTS.glob("runs/*"))
    assert runs
    for run in runs:
        stored = json.loads((run / "recipe.json").read_text())
        recipe = Recipe.from_dict(stored["recipe"])
        assert run_name(recipe, stored["data"]["fingerprint"], revision=stored.get("revision", 1)) == run.name


def test_plans_of_0_1_0_are_read_with_the_defaults_of_0_1_0():
    begun = [
        (planned.recipe, plan.path(planned) / "recipe.json")
        for plan in stored_plans(RESULTS)
        for planned in plan.runs
        if (plan.path(planned) / "recipe.json").exists()
    ]
    assert begun
    for recipe, stored in begun:
        assert recipe == Recipe.from_dict(json.loads(stored.read_text())["recipe"])


def test_another_revision_is_another_run():
    names = {run_name(Recipe(generations=3), "data", revision=revision) for revision in (1, 2, 3)}
    assert len(names) == 3


def test_a_default_that_changes_changes_no_name():
    later = dataclasses.make_dataclass(
        "Recipe",
        [("lr", float, 0.3), ("precision", str, "float32"), ("selection", str | None, "tournament")],
        bases=(Recipe,),
        frozen=True,
        kw_only=True,
    )
    for recipe in (Recipe(generations=3), Recipe(generations=3, lr=0.3, precision="float32")):
        same = later(**{f.name: getattr(recipe, f.name) for f in dataclasses.fields(Recipe)})
        assert run_name(same, "data") == run_name(recipe, "data")


def test_every_field_says_what_runs_without_it_did():
    fields = {field.name for field in dataclasses.fields(Recipe)}
    assert fields - set(NEUTRAL) == {"dataset", "selection_options", "task_options"}


def test_an_option_at_none_is_as_good_as_none_at_all():
    recipe = Recipe(generations=1)
    given = recipe.replace(
        selection_options={"depth": None, "later": None}, task_options={"case_error": "correct"}
    )
    assert run_name(given, "data") == run_name(recipe, "data")


def test_weights_to_start_from_count_by_their_content(tmp_path):
    for name, content in (("a", b"one"), ("b", b"one"), ("c", b"two")):
        (tmp_path / name).write_bytes(content)
    names = [run_name(Recipe(init_from=str(tmp_path / name)), "data") for name in "abc"]
    assert names[0] == names[1] != names[2]


def test_a_name_fits_every_file_system():
    name = run_name(Recipe(model=f"package:{'m' * 500}", seed=10**400), "data")
    assert len(name) < 255
    assert name != run_name(Recipe(model=f"package:{'m' * 501}", seed=10**400), "data")


LATER = {
    "branch_at": 0.0,
    "tail": "continue",
    "tail_options": {},
    "tail_mean": False,
    "steps_per_generation": None,
    "parts": "disjoint",
    "vary": {},
    "inherit_variation": False,
    "timeline": {},
    "cases": "clean",
    "held_out": None,
    "schedule_options": {},
    "parameter_groups": "one",
    "clip_norm": None,
    "accumulate": 1,
    "freeze": None,
    "validation_fraction": None,
    "patience": None,
    "keep": "last",
}


def test_later_fields_at_their_neutral_values_leave_the_names_that_runs_had_without_them():
    recipe = Recipe(model="package.module:net", generations=10, threads=1, precision="float32", seed=2)
    named = "package.module-net-lexicase-seed2-15e533ddbb7f"
    assert run_name(recipe.replace(**LATER), "0123", revision=1) == named
    for name in LATER:
        plain = {key: value for key, value in recipe.to_dict().items() if key != name}
        assert run_name(Recipe.from_dict(plain), "0123", revision=1) == named


@pytest.mark.parametrize(
    "change",
    [
        {"branch_at": 0.5},
        {"branch_at": 0.5, "tail": "constant"},
        {"branch_at": 0.5, "tail_options": {"factor": 2}},
        {"branch_at": 0.5, "tail_options": {"factor": 3}},
        {"branch_at": 0.5, "tail_mean": True},
        {"steps_per_generation": 5},
        {"parts": "all"},
        {"vary": {"lr": "1|2"}},
        {"vary": {"lr": "1|3"}},
        {"vary": {"lr": "1|2"}, "inherit_variation": True},
        {"timeline": {"lr": [0.1]}},
        {"cases": "augmented"},
        {"cases": "held-out", "held_out": 0.1},
        {"schedule_options": {"warmup": 1}},
        {"parameter_groups": "no-decay"},
        {"clip_norm": 1.0},
        {"accumulate": 2},
        {"freeze": "layer1.*"},
        {"validation_fraction": 0.1},
        {"patience": 3},
        {"keep": "best"},
    ],
    ids=str,
)
def test_each_of_them_makes_another_run(change):
    recipe = Recipe(generations=1, threads=1, precision="float32")
    others = [recipe, recipe.replace(branch_at=0.5), recipe.replace(vary={"lr": "1|2"})]
    names = {run_name(each, "data") for each in others if each != recipe.replace(**change)}
    assert run_name(recipe.replace(**change), "data") not in names


def test_text_and_lists_of_variation_are_the_same_run():
    recipe = Recipe(generations=1)
    texts, lists = ({"lr": "0.5|1"}, {"lr": [0.5, 1]})
    assert run_name(recipe.replace(vary=texts), "data") == run_name(recipe.replace(vary=lists), "data")
