"""Promotion, outer step, recalibration and moving average in a whole run: recorded, resumed, refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn
from torch.optim.swa_utils import update_bn

import gradlex
from gradlex import InputError, Recipe
from gradlex.randomness import stream

EVERYTHING = {
    "momentum": "inherit",
    "generations": 5,
    "lr": 0.05,
    "outer_lr": 0.9,
    "outer_momentum": 0.5,
    "ema": 0.6,
    "recalibrate": 1,
    "recalibrate_final": 2,
}


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def without_seconds(path):
    return [{k: v for k, v in line.items() if "seconds" not in k} for line in lines(path)]


@pytest.mark.parametrize("promotion", ["winner", "average", "expected", "survivors"])
def test_weights_and_their_entropy_are_recorded(promotion, images, tiny_cnn, small, tmp_path):
    run = gradlex.train(tiny_cnn(), images, small.replace(promotion=promotion), out=tmp_path / "run")
    for line, record in zip(lines(tmp_path / "run" / "generations.jsonl"), run.generations, strict=True):
        weights = line["weights"]
        assert tuple(weights) == record.weights
        assert len(weights) == 3
        assert sum(weights) == pytest.approx(1)
        assert weights[line["selected"]] == max(weights)
        assert line["entropy"] == record.entropy == pytest.approx(-sum(w * math.log(w) for w in weights if w))
        assert math.copysign(1, line["entropy"]) == 1
        if promotion == "winner":
            assert (sorted(weights), line["entropy"]) == ([0, 0, 1], 0)
        if promotion == "average":
            assert (weights, line["reason"], line["cases_evaluated"]) == ([1 / 3] * 3, "average", 0)
    assert run.recipe.promotion == promotion


class Killed(BaseException):
    """Ends a run as a signal or the loss of power would."""


class Kill(gradlex.Callback):
    """Kills the run once so many generations are done."""

    def __init__(self, done):
        self.done = done

    def on_generation(self, run, record):
        if record.generation + 1 == self.done:
            raise Killed


def checkpointed(folder, generation):
    """The tensors of the one checkpoint of a generation."""
    (path,) = (folder / "checkpoint").glob(f"{generation:08d}-*.safetensors")
    return safetensors.torch.load_file(path)


@pytest.mark.parametrize("promotion", ["average", "expected", "winner"])
@pytest.mark.parametrize("done", [1, 3, 4])
def test_a_resumed_run_equals_the_uninterrupted_one(done, promotion, images, tiny_cnn, small, same, tmp_path):
    recipe = small.replace(**EVERYTHING, promotion=promotion)
    whole = gradlex.train(tiny_cnn(), images, recipe, test=images, out=tmp_path / "whole")

    with pytest.raises(Killed):
        gradlex.train(tiny_cnn(), images, recipe, test=images, out=tmp_path / "run", callbacks=[Kill(done)])
    again = gradlex.train(tiny_cnn(), images, recipe, test=images, out=tmp_path / "run", resume=True)
    assert same(again.model.state_dict(), whole.model.state_dict())
    assert same(again.ema.state_dict(), whole.ema.state_dict())
    for name in ("model.safetensors", "ema.safetensors", "evaluations.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    one, other = (without_seconds(tmp_path / where / "generations.jsonl") for where in ("run", "whole"))
    assert one == other
    tensors, expected = (checkpointed(tmp_path / where, 5) for where in ("run", "whole"))
    assert same(tensors, expected)
    places = {"/".join(label.split("/")[: 2 if label.startswith("slot/") else 1]) for label in tensors}
    assert places == {"state", "optimizer", "slot/outer", "slot/ema"}


def test_a_finished_run_is_given_back_as_it_was_returned(images, tiny_cnn, small, same, tmp_path):
    recipe = small.replace(**EVERYTHING, promotion="average")
    first, second = (
        gradlex.train(tiny_cnn(), images, recipe, test=images, out=tmp_path / "run", resume=True)
        for _ in range(2)
    )
    assert same(first.model.state_dict(), second.model.state_dict())
    assert same(first.ema.state_dict(), second.ema.state_dict())
    assert second.generations == first.generations
    assert second.result == first.result
    assert set(second.result["metrics"]) == {"test", "ema", "train"}


def test_a_run_made_longer_equals_one_that_was_long_from_the_start(images, tiny_cnn, small, same, tmp_path):
    recipe = small.replace(**{**EVERYTHING, "schedule": "constant"}, promotion="average")
    whole = gradlex.train(tiny_cnn(), images, recipe)
    gradlex.train(tiny_cnn(), images, recipe.replace(generations=3), out=tmp_path / "run")
    longer = gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run", resume=True)
    assert same(longer.model.state_dict(), whole.model.state_dict())
    assert same(longer.ema.state_dict(), whole.ema.state_dict())


def test_a_run_recorded_before_there_were_weights_goes_on(images, tiny_cnn, small):
    run = gradlex.train(tiny_cnn(), images, small)
    record = run.generations[0]
    old = {name: value for name, value in record.line().items() if name not in ("weights", "entropy")}
    assert type(record).from_lines(json.loads(json.dumps(old)), {}) == record


def test_the_average_is_evaluated_and_saved_beside_the_parent(images, tiny_cnn, small, same, tmp_path):
    recipe = small.replace(generations=4, ema=0.5)
    run = gradlex.train(tiny_cnn(), images, recipe, test=images, evaluate_every=2, out=tmp_path / "run")
    found = lines(tmp_path / "run" / "evaluations.jsonl")
    assert [line["generation"] for line in found] == [1, 3]
    assert all(set(line["metrics"]) == {"test", "ema"} for line in found)
    average = run.result["metrics"]["ema"]
    assert found[-1]["metrics"]["ema"] == average
    assert average["loss"] != run.test["loss"]
    stored = safetensors.torch.load_file(tmp_path / "run" / "ema.safetensors")
    assert same(stored, run.ema.state_dict())
    assert not run.ema.training
    with torch.inference_mode():
        outputs = run.ema(images[0])
    assert (outputs.argmax(1) == images[1]).double().mean() == pytest.approx(average["accuracy"])
    assert nn.functional.cross_entropy(outputs, images[1]) == pytest.approx(average["loss"], rel=1e-5)


def test_without_a_moving_average_there_is_no_trace_of_it(images, tiny_cnn, small, tmp_path):
    run = gradlex.train(tiny_cnn(), images, small, test=images, out=tmp_path / "run")
    assert not (tmp_path / "run" / "ema.safetensors").exists()
    assert "ema" not in run.result["metrics"]
    assert all(set(line["metrics"]) == {"test"} for line in lines(tmp_path / "run" / "evaluations.jsonl"))
    assert not any("ema" in label for label in checkpointed(tmp_path / "run", 2))


def test_without_test_samples_the_average_has_no_metrics(images, tiny_cnn, small):
    run = gradlex.train(tiny_cnn(), images, small.replace(ema=0.5))
    assert set(run.result["metrics"]) == {"train"}
    assert run.ema is not None


def test_the_final_model_is_recalibrated_once_and_the_checkpoint_is_not(
    images, tiny_cnn, small, same, tmp_path, one_thread
):
    x, _ = images
    recipe = small.replace(promotion="average", ema=0.5)
    plain = gradlex.train(tiny_cnn(), images, recipe, test=images, out=tmp_path / "plain")
    run = gradlex.train(
        tiny_cnn(), images, recipe.replace(recalibrate_final=3), test=images, out=tmp_path / "run"
    )
    drawn = stream(recipe.seed, "recalibration", 2, 1).permutation(50)[:24]
    for found, given in ((run.model, plain.model), (run.ema, plain.ema)):
        before = given.state_dict()
        update_bn((x[p].contiguous(memory_format=torch.channels_last) for p in np.split(drawn, 3)), given)
        assert same(found.state_dict(), given.state_dict())
        assert found[1].num_batches_tracked == 3
        assert torch.equal(found[0].weight, before["0.weight"])
    assert same(*(checkpointed(tmp_path / where, 2) for where in ("run", "plain")))
    assert same(safetensors.torch.load_file(tmp_path / "run" / "model.safetensors"), run.model.state_dict())
    # What is evaluated is what is returned.
    with torch.inference_mode():
        loss = nn.functional.cross_entropy(run.model(x), images[1]).item()
    assert run.test["loss"] == pytest.approx(loss, rel=1e-5)
    assert run.train["loss"] == pytest.approx(loss, rel=1e-5)
    assert run.generations[0] == type(run.generations[0])(
        **{
            **vars(plain.generations[0]),
            **{k: v for k, v in vars(run.generations[0]).items() if "seconds" in k},
        }
    )


REFUSED = {
    "cases without expected": (
        {"promotion_cases": 5},
        "promotion_cases belongs to promotion 'expected', got 5",
    ),
    "more cases than there are": (
        {"promotion": "expected", "promotion_cases": 21},
        "promotion_cases 21 is more than the 20 cases: give fewer",
    ),
    "depth without survivors": (
        {"promotion": "average", "selection_options": {"depth": 5}},
        "depth is for selection, which promotion 'average' does not ask, got 5",
    ),
    "survivors of a tournament": (
        {"promotion": "survivors", "selection": "tournament"},
        "'survivors' needs .*; got 'tournament'",
    ),
    "expected dalex": ({"promotion": "expected", "selection": "dalex"}, "exact probabilities .*got 'dalex'"),
    "expected with the pool's own epsilon": (
        {
            "promotion": "expected",
            "selection": "epsilon-lexicase",
            "selection_options": {"epsilon_mode": "dynamic"},
        },
        "got 'epsilon-lexicase'",
    ),
    "nesterov without a momentum": (
        {"outer_nesterov": True},
        "outer momentum, which is 0: set outer_momentum",
    ),
    "sgd with cases": ({"selection": "sgd", "promotion_cases": 5}, "promotion_cases belongs to"),
    "cases of a random choice": (
        {"selection": "random", "promotion": "expected", "promotion_cases": 5},
        "selection 'random' evaluates none, got 5: leave it out",
    ),
    "depth of one candidate": (
        {"selection": "sgd", "promotion": "survivors", "selection_options": {"depth": 5}},
        "selection 'sgd' has no option 'depth': it takes none",
    ),
    **{
        f"average with {option} of {method}": (
            {"promotion": "average", "selection": method, "selection_options": {option: value}},
            f"{option} is for selection, which promotion 'average' does not ask, got",
        )
        for method, option, value in (
            ("lexicase", "on_all_fail", "survive"),
            ("tournament", "tournament_size", 2),
            ("epsilon-lexicase", "epsilon", 0.1),
            ("dalex", "sigma", 3.0),
        )
    },
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_combination_without_a_meaning_is_refused(what, tmp_path):
    fields, told = REFUSED[what]
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    data = torch.zeros(20, 1, 2, 2), torch.arange(20) % 3
    with pytest.raises(InputError, match=told):
        gradlex.train(net, data, Recipe(**{"generations": 1, **fields}), out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", ["lexicase", "tournament", "informed-lexicase", "dalex", "sgd"])
def test_the_resolved_recipe_of_an_average_is_taken_again(method, images, tiny_dropout, small, tmp_path):
    recipe = small.replace(promotion="average", selection=method, momentum=None, population=None)
    run = gradlex.train(tiny_dropout(), images, recipe, out=tmp_path / "run")
    again = gradlex.train(tiny_dropout(), images, run.recipe, out=tmp_path / "run", resume=True)
    assert again.recipe == run.recipe


def test_expected_with_a_fixed_epsilon_is_taken(images, tiny_dropout, small):
    recipe = small.replace(
        promotion="expected",
        selection="epsilon-lexicase",
        selection_options={"epsilon_mode": "dynamic", "epsilon": 0.1},
        task_options={"case_error": "loss"},
    )
    assert gradlex.train(tiny_dropout(), images, recipe).generations[0].reason == "expected"


@pytest.mark.parametrize("field", ["promotion", "outer_momentum", "recalibrate"])
def test_a_run_is_not_resumed_with_another_promotion(field, images, tiny_dropout, small, tmp_path):
    other = {"promotion": "average", "outer_momentum": 0.5, "recalibrate": 2}[field]
    gradlex.train(tiny_dropout(), images, small, out=tmp_path / "run")
    with pytest.raises(InputError, match=f"{field} is .*, asked for {other!r}"):
        gradlex.train(
            tiny_dropout(), images, small.replace(**{field: other}), out=tmp_path / "run", resume=True
        )
