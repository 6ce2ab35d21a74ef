"""The validation part: metrics, early stopping and the best model; the test part decides nothing."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

import gradlex
from gradlex import InputError, Recipe
from gradlex.callbacks import EarlyStopping, best_generation
from gradlex.data import validation_numbers
from gradlex.tasks import Measure

BASE = Recipe(
    population=2,
    generations=8,
    batch_size=8,
    precision="float32",
    threads=1,
    lr=0.02,
    validation_fraction=0.3,
)


class Stop(gradlex.Callback):
    def __init__(self, generation):
        self.generation = generation

    def on_generation(self, run, record):
        if record.generation == self.generation:
            raise gradlex.errors.InterruptedRun(2, "")


class Notes(gradlex.Callback):
    """The parents, and the metrics of a part computed by hand."""

    def __init__(self):
        self.states = []

    def on_generation(self, run, record):
        self.states.append({name: tensor.clone() for name, tensor in run.parent.state.items()})


def lines(path):
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.endswith("seconds")} for line in found]


def test_a_part_of_the_training_samples_is_validated_on_and_never_trained_on(images, tiny_cnn):
    x, y = images
    marked = x.clone()
    marked[:, 0, 0, 0] = torch.arange(50)  # a number by which a sample is known
    seen = set()

    def spy(batch, rng):
        seen.update(batch[:, 0, 0, 0].int().tolist())
        return batch

    run = gradlex.train(tiny_cnn(), (marked, y), BASE.replace(generations=2), augment=spy)
    assert len(seen) == 35
    assert run.result["samples_trained"] == 70
    left = np.setdiff1d(np.arange(50), sorted(seen))
    answers = run.model(marked[left]).argmax(1)
    assert run.validation["accuracy"] == pytest.approx((answers == y[left]).float().mean().item())
    assert [record.validation is None for record in run.generations] == [False, False]


@pytest.mark.parametrize("kind", ["targets", "bytes", "archive"])
def test_nothing_is_learnt_from_the_validation_part(kind, images, same, tmp_path):
    recipe = BASE.replace(generations=2, lr=0.01, seed=4)
    apart = torch.from_numpy(validation_numbers(recipe, 50))
    x, y = (images[0] * 20).clamp(0, 100).byte() if kind != "targets" else images[0], images[1]
    y = images[0].sum((1, 2, 3)) if kind == "targets" else y
    others = [x.clone(), y.clone()]
    others[1 if kind == "targets" else 0][apart] = 250
    runs = []
    for number, (own_x, own_y) in enumerate(((x, y), others)):
        if kind == "archive":
            path = tmp_path / f"{number}.npz"
            last = own_x.flatten(1)
            np.savez(path, x_train=last, y_train=own_y, x_test=last[:2], y_test=own_y[:2])
            named = recipe.replace(dataset=str(path), model="mlp", width=0.1)
            runs.append(gradlex.runs.start(gradlex.runs.Named(), named))
            continue
        torch.manual_seed(1)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(32, 1 if kind == "targets" else 3))
        runs.append(gradlex.train(net, (own_x, own_y), recipe))
    one, other = runs
    assert one.task == other.task
    assert one.normalization == other.normalization
    assert same(one.model.state_dict(), other.model.state_dict())
    assert one.validation != other.validation


def test_validation_samples_may_be_given(images, tiny_cnn, same):
    x, y = images
    recipe = BASE.replace(validation_fraction=None)
    run = gradlex.train(tiny_cnn(), (x[:40], y[:40]), recipe, validation=(x[40:], y[40:]), test=images)
    plain = gradlex.train(tiny_cnn(), (x[:40], y[:40]), recipe, test=images)
    assert same(run.model.state_dict(), plain.model.state_dict())
    own = run.model(x[40:])
    assert run.validation["accuracy"] == pytest.approx((own.argmax(1) == y[40:]).float().mean().item())
    assert plain.validation is None


def test_the_best_on_validation_is_kept_and_it_is_the_first_of_equals(images, tiny_cnn, same, tmp_path):
    notes = Notes()
    run = gradlex.train(
        tiny_cnn(),
        images,
        BASE.replace(keep="best", lr=0.5),
        test=images,
        callbacks=[notes],
        out=tmp_path / "run",
    )
    scores = [record.validation["accuracy"] for record in run.generations]
    best = scores.index(max(scores))
    assert run.result["best_generation"] == best < 7
    assert same(run.model.state_dict(), notes.states[best])
    assert run.validation["accuracy"] == max(scores)
    again = gradlex.train(
        tiny_cnn(), images, BASE.replace(keep="best", lr=0.5), test=images, out=tmp_path / "run", resume=True
    )
    assert same(again.model.state_dict(), run.model.state_dict())
    assert again.result == json.loads((tmp_path / "run" / "result.json").read_text())


def test_patience_stops_after_so_many_generations_without_a_better_one(images, tiny_cnn):
    recipe = BASE.replace(patience=2, lr=0.5, generations=30)
    run = gradlex.train(tiny_cnn(), images, recipe, test=images)
    scores = [record.validation["accuracy"] for record in run.generations]
    best = scores.index(max(scores))
    assert len(scores) == best + 3 < 30
    assert run.result["stopped"] == (
        f"no better validation accuracy for 2 generations, the best was generation {best}"
    )
    for end in range(1, len(scores)):  # it would not have stopped before
        assert end - 1 - scores[:end].index(max(scores[:end])) < 2


def test_the_test_part_decides_nothing(images, tiny_cnn, same):
    x, y = images
    recipe = BASE.replace(patience=3, keep="best", lr=0.5)
    one = gradlex.train(tiny_cnn(), images, recipe, test=images)
    other = gradlex.train(tiny_cnn(), images, recipe, test=(x.flip(0), y), evaluate_every=1)
    assert same(one.model.state_dict(), other.model.state_dict())
    assert one.result["best_generation"] == other.result["best_generation"]
    assert one.test != other.test


@pytest.mark.parametrize("stop", [0, 2, 4])
def test_an_interrupted_run_keeps_and_stops_as_the_whole_one(stop, images, tiny_cnn, tmp_path):
    recipe = BASE.replace(patience=3, keep="best", lr=0.5, momentum="inherit")
    whole = gradlex.train(tiny_cnn(), images, recipe, test=images, out=tmp_path / "whole")
    assert whole.result["stopped"]
    assert len(whole.generations) > 4
    with pytest.raises(gradlex.errors.InterruptedRun):
        gradlex.train(tiny_cnn(), images, recipe, test=images, out=tmp_path / "run", callbacks=[Stop(stop)])
    gradlex.train(tiny_cnn(), images, recipe, test=images, out=tmp_path / "run", resume=True)
    for file in ("generations.jsonl", "evaluations.jsonl"):
        assert lines(tmp_path / "run" / file) == lines(tmp_path / "whole" / file)
    one, other = ((tmp_path / run / "model.safetensors").read_bytes() for run in ("run", "whole"))
    assert one == other
    results = [json.loads((tmp_path / run / "result.json").read_text()) for run in ("run", "whole")]
    assert [result["stopped"] for result in results] == [whole.result["stopped"]] * 2
    assert results[0]["metrics"] == results[1]["metrics"]


def test_a_kill_right_after_the_stop_changes_nothing(images, tiny_cnn, tmp_path):
    recipe = BASE.replace(patience=2, lr=0.5, generations=30)
    whole = gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run")
    for name in ("result.json", "model.safetensors"):
        (tmp_path / "run" / name).unlink()
    again = gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run", resume=True)
    assert len(again.generations) == len(whole.generations)
    assert again.result["stopped"] == whole.result["stopped"]
    shutil.rmtree(tmp_path / "run")


def test_the_best_is_recalibrated_and_evaluated_as_the_final_model(images, tiny_cnn):
    recipe = BASE.replace(keep="best", lr=0.5, recalibrate_final=2)
    run = gradlex.train(tiny_cnn(), images, recipe, test=images)
    own = (run.model(images[0]).argmax(1) == images[1]).float().mean().item()
    assert run.test["accuracy"] == pytest.approx(own)


def test_cases_are_held_out_of_what_is_left(images, tiny_cnn):
    recipe = BASE.replace(cases="held-out", held_out=0.2, generations=1)
    run = gradlex.train(tiny_cnn(), images, recipe)
    assert run.result["samples_trained"] == 28  # 50 less 15 to validate on, less 7 cases


@pytest.mark.parametrize(
    ("changes", "given", "told"),
    [
        (
            {"patience": 3},
            {},
            "patience 3 looks at a validation part, and there is none: set validation_fraction",
        ),
        ({"keep": "best"}, {}, "keep best looks at a validation part, and there is none"),
        (
            {"validation_fraction": 0.001},
            {},
            "validation_fraction 0.001 of 50 samples leaves none to validate on",
        ),
        ({"validation_fraction": 0.99}, {}, "population 2 is more than half of the 0 samples"),
        ({"validation_fraction": 0.3}, {"validation": 1}, "the validation part is given twice"),
        (
            {"validation_fraction": 0.3, "keep": "best", "tail_mean": True, "branch_at": 0.5},
            {},
            "tail_mean and keep 'best' each say what the final model is",
        ),
        (
            {},
            {"callbacks": [EarlyStopping(2)]},
            "early stopping looks at a validation part, and there is none",
        ),
    ],
)
def test_what_cannot_decide_is_refused(changes, given, told, images, tiny_cnn):
    with pytest.raises(InputError, match=told):
        gradlex.train(tiny_cnn(), images, BASE.replace(**{"validation_fraction": None, **changes}), **given)


def test_patience_is_a_whole_number():
    for value in (0, 1.5, "2"):
        with pytest.raises(InputError, match="patience must be a whole number of at least 1"):
            EarlyStopping(value)


def test_lower_is_better_where_the_metric_says_so_and_nan_is_worst(images, tiny_cnn):
    run = gradlex.train(tiny_cnn(), images, BASE.replace(generations=3))
    losses = [0.5, float("nan"), 0.5]
    records = [
        gradlex.Record(**{**vars(record), "metrics": {"validation": {"loss": loss}}})
        for record, loss in zip(run.generations, losses, strict=True)
    ]
    assert best_generation(records, Measure(name="loss", higher_is_better=False)) == 0
    assert best_generation(records[1:], Measure(name="loss", higher_is_better=False)) == 2
    assert best_generation([], Measure(name="loss")) is None
