"""One run on disk: every file has its documented fields, and they agree with each other."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

import gradlex
from gradlex import Recipe
from gradlex.runs import stored_run

GENERATION_FIELDS = {
    "generation",
    "lr",
    "losses",
    "selected",
    "weights",
    "entropy",
    "reason",
    "cases_used",
    "cases_evaluated",
    "survivors",
    "train_seconds",
    "select_seconds",
}
REASONS = {"sole_survivor", "all_failed", "exhausted", "only_candidate", "random", "best_mean"}


def strict(text):
    """JSON as the standard has it: no NaN, no Infinity."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def lines(path):
    return [strict(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def run(images, tiny_cnn, small, tmp_path):
    recipe = small.replace(generations=4, augment="flip", optimizer_options={"nesterov": True})
    return gradlex.train(tiny_cnn(), images, recipe, test=images, evaluate_every=2, out=tmp_path / "run")


def test_the_files_of_a_finished_run_are_there_and_no_temporary_one(run):
    names = {path.name for path in run.path.iterdir() if path.is_file()}
    assert names >= {
        "recipe.json",
        "environment.json",
        "generations.jsonl",
        "evaluations.jsonl",
        "model.safetensors",
        "result.json",
    }
    assert not [name for name in names if name.endswith(".new")]


def test_every_generation_has_its_line(run):
    found = lines(run.path / "generations.jsonl")
    assert [line["generation"] for line in found] == [0, 1, 2, 3]
    for line, record in zip(found, run.generations, strict=True):
        assert set(line) >= GENERATION_FIELDS
        assert line["lr"] == run.recipe.lr_at(line["generation"])
        assert len(line["losses"]) == 3
        assert tuple(line["losses"]) == record.losses
        assert line["selected"] in range(3)
        assert line["reason"] in REASONS
        assert 0 < line["cases_used"] <= 50
        assert line["cases_evaluated"] >= line["cases_used"]
        for used, left in line["survivors"]:
            assert 0 < used <= line["cases_used"]
            assert set(left) < {0, 1, 2}
        if line["reason"] == "sole_survivor":
            assert line["survivors"][-1] == [line["cases_used"], [line["selected"]]]
        assert line["train_seconds"] >= 0
        assert line["select_seconds"] >= 0


def test_every_evaluation_has_its_line_and_the_last_is_the_result(run):
    found = lines(run.path / "evaluations.jsonl")
    assert [line["generation"] for line in found] == [1, 3]
    result = strict((run.path / "result.json").read_text())
    assert found[-1]["metrics"] == {"test": result["metrics"]["test"]}
    for line, record in zip(found, (run.generations[1], run.generations[3]), strict=True):
        assert line["metrics"]["test"] == record.test
        assert set(record.test) >= {"accuracy", "loss"}
        assert 0 <= record.test["accuracy"] <= 1


def test_the_result_sums_up_the_run(run):
    result = strict((run.path / "result.json").read_text())
    assert result == run.result
    assert result["generations"] == 4
    assert result["samples_trained"] == 4 * 50
    assert result["cases_evaluated"] == sum(record.cases_evaluated for record in run.generations)
    assert result["parameters"] == sum(p.numel() for p in run.model.parameters())
    assert result["metrics"]["train"] == result["metrics"]["test"]  # the same samples
    assert result["measures"][:2] == [
        {"name": "accuracy", "higher_is_better": True, "fraction": True},
        {"name": "loss", "higher_is_better": False, "fraction": False},
    ]
    assert result["stopped"] is None
    assert set(result["sha256"]) == {"model.safetensors", "predictions.safetensors"}
    assert result["seconds"] >= 0
    assert result["data"]["train_samples"] == result["data"]["test_samples"] == 50


def test_the_stored_recipe_is_the_resolved_one_with_the_data_it_saw(run):
    stored = strict((run.path / "recipe.json").read_text())
    assert Recipe.from_dict(stored["recipe"]) == run.recipe
    assert stored["gradlex"] == gradlex.__version__
    assert stored["data"]["fingerprint"] == run.result["data"]["fingerprint"]
    assert (run.recipe.dataset, run.recipe.model, run.recipe.augment) == ("given", "given", "flip")
    for name in ("population", "momentum", "generations", "batch_size", "augment"):
        assert stored["recipe"][name] is not None
    assert stored["recipe"]["selection_options"] == {"on_all_fail": "random"}
    assert stored["revision"] == gradlex.recipe.REVISION
    assert "auto" not in stored["recipe"].values()


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("sgd", ()),
        ("lexicase", ("on_all_fail",)),
        ("epsilon-lexicase", ("epsilon_mode",)),
        ("batch-lexicase", ("case_batch",)),
        ("downsampled-lexicase", ("share", "on_all_fail")),
        ("informed-lexicase", ("share", "refresh", "on_all_fail")),
        ("dalex", ("sigma",)),
        ("plexicase", ("alpha",)),
        ("tournament", ("tournament_size",)),
        ("random", ()),
    ],
)
def test_no_option_that_a_method_used_is_left_open(method, options, images, tiny_dropout):
    run = gradlex.train(tiny_dropout(), images, Recipe(selection=method, generations=2))
    for name in ("population", "momentum", "generations", "batch_size", "augment"):
        assert getattr(run.recipe, name) is not None
    assert set(run.recipe.selection_options) == set(options)
    assert run.recipe.threads != "auto"
    assert run.recipe.precision != "auto"
    assert Recipe.from_dict(json.loads(json.dumps(run.recipe.to_dict()))) == run.recipe


def test_the_resolved_recipe_repeats_the_run(images, tiny_dropout, same):
    open_recipe = Recipe(selection="downsampled-lexicase", generations=3, seed=5)
    run = gradlex.train(tiny_dropout(), images, open_recipe)
    again = gradlex.train(tiny_dropout(), images, run.recipe.replace(augment="none"))
    assert again.recipe == run.recipe
    assert same(run.model.state_dict(), again.model.state_dict())


def test_the_environment_says_what_computed_the_run(run):
    found = strict((run.path / "environment.json").read_text())
    assert found["torch"] == torch.__version__
    assert found["gradlex"] == gradlex.__version__
    assert (found["threads"], found["precision"], found["device"]) == (1, "float32", "cpu")
    assert set(found) >= {"python", "numpy", "platform", "processor", "accelerator", "workers"}


def test_the_stored_weights_are_the_models(run, tiny_cnn, same):
    stored = safetensors.torch.load_file(run.path / "model.safetensors")
    assert same(stored, run.model.state_dict())
    model = tiny_cnn()
    model.load_state_dict(stored)


def test_without_test_samples_the_result_has_the_training_metrics_alone(images, tiny_cnn, small, tmp_path):
    run = gradlex.train(tiny_cnn(), images, small, out=tmp_path / "run")
    assert not (tmp_path / "run" / "evaluations.jsonl").exists()
    result = strict((tmp_path / "run" / "result.json").read_text())
    assert set(result["metrics"]) == {"train"}
    assert result["metrics"]["train"] == run.train
    assert run.test is None


def test_the_stored_run_is_read_back_as_it_was(run):
    found = stored_run(run.path)
    assert found.recipe == run.recipe
    assert found.generations == run.generations
    assert found.result == run.result
    assert found.data["train_samples"] == 50
    assert found.revision == gradlex.recipe.REVISION


def test_a_metric_that_is_not_finite_is_null_in_files_and_nan_in_memory(images, small, tmp_path):
    started = []

    class Odd(gradlex.tasks.Classification):
        def metrics(self, batches):
            return super().metrics(batches) | ({"loss": math.inf} if started else {})

    class Started(gradlex.Callback):  # what is not finite before that is refused
        def on_start(self, run):
            started.append(run)

    net = nn.Sequential(nn.Flatten(), nn.Linear(32, 3))
    out = tmp_path / "run"
    gradlex.train(net, images, small, test=images, task=Odd(), out=out, callbacks=[Started()])
    assert all(
        line["metrics"]["test"]["loss"] is None for line in lines(tmp_path / "run" / "evaluations.jsonl")
    )
    assert strict((tmp_path / "run" / "result.json").read_text())["metrics"]["train"]["loss"] is None
    assert math.isnan(stored_run(tmp_path / "run").result["metrics"]["test"]["loss"])
    assert math.isnan(stored_run(tmp_path / "run").generations[-1].test["loss"])


def test_a_callable_augmentation_stands_as_given(images, tiny_cnn, small, tmp_path):
    run = gradlex.train(tiny_cnn(), images, small, augment=gradlex.data.flip(), out=tmp_path / "run")
    assert run.recipe.augment == "given"


def test_the_fingerprint_changes_with_any_sample_and_any_label(images, tiny_dropout, small):
    def fingerprint(x, y):
        return gradlex.train(tiny_dropout(), (x, y), small.replace(generations=1)).result["data"][
            "fingerprint"
        ]

    x, y = images
    moved, renamed = x.clone(), y.clone()
    moved[9, 1, 3, 3] += 1e-3
    renamed[9] = (renamed[9] + 1) % 3
    assert len({fingerprint(x, y), fingerprint(moved, y), fingerprint(x, renamed)}) == 3
    assert fingerprint(x, y) == fingerprint(x.clone(), y.clone())


def test_a_finished_run_holds_what_its_network_predicts_for_every_sample(images, tiny_cnn, small, tmp_path):
    x, y = images
    run = gradlex.train(tiny_cnn(), images, small, test=(x[:20], y[:20]), out=tmp_path / "run")
    found = gradlex.runs.stored_predictions(tmp_path / "run", run.result)
    with torch.no_grad():
        outputs = run.model(x)
    for part, count in (("train", 50), ("test", 20)):
        losses = torch.nn.functional.cross_entropy(outputs[:count], y[:count], reduction="none")
        assert np.allclose(found[part].errors, losses, atol=1e-5)
        assert found[part].predicted.tolist() == outputs[:count].argmax(dim=1).tolist()
        assert found[part].targets.tolist() == y[:count].tolist()
    path = tmp_path / "run" / "predictions.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(gradlex.InputError, match="damaged"):
        gradlex.runs.stored_predictions(tmp_path / "run", run.result)
    path.unlink()
    assert gradlex.runs.stored_predictions(tmp_path / "run", run.result) == {}
