"""Candidates that diverge, and models that fail in the middle."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

import gradlex
from gradlex import RunError
from gradlex.population import split
from gradlex.randomness import stream
from gradlex.runs import stored_run


@pytest.mark.parametrize("method", ["lexicase", "random", "tournament", "dalex"])
def test_a_diverged_candidate_is_dropped_and_the_run_goes_on(method, images, tiny_cnn, small, tmp_path):
    x, y = images
    x = x.clone()
    x[0] = 99.0

    def poison(batch, rng):
        return batch * torch.nan if (batch == 99).any() else batch

    recipe = small.replace(selection=method, generations=5)
    run = gradlex.train(tiny_cnn(), (x, y), recipe, augment=poison, out=tmp_path / "run")
    for generation, record in enumerate(run.generations):
        subsets = split(50, 3, stream(recipe.seed, "split", generation))
        sick = next(index for index, subset in enumerate(subsets) if 0 in subset)
        assert [loss is None for loss in record.losses] == [index == sick for index in range(3)]
        assert record.selected != sick
        assert all(sick not in left for _, left in record.survivors)
    assert all(torch.isfinite(t).all() for t in run.model.state_dict().values())
    lines = (tmp_path / "run" / "generations.jsonl").read_text().splitlines()
    assert [json.loads(line)["losses"].count(None) for line in lines] == [1] * 5


def test_weights_that_are_not_finite_count_as_diverged_though_the_loss_is_finite(signs, sign_net, small):
    recipe = small.replace(population=1, generations=1, batch_size=40, lr=1e38, momentum="none")
    with pytest.raises(RunError, match="diverged"):
        # One step only: its loss is computed before the weights overflow.
        gradlex.train(sign_net, (1e3 * signs[0], 1 - signs[1]), recipe)


def test_a_loss_too_large_for_float32_is_recorded_as_the_largest_there_is(signs, sign_net, small, tmp_path):
    """Only a network in float64 has one, and goes on with it."""
    wrong = (signs[0].double() * 1e60, 1 - signs[1])
    recipe = small.replace(lr=1e-300, momentum="none")
    run = gradlex.train(sign_net.double(), wrong, recipe, test=wrong, out=tmp_path)
    largest = float(np.finfo(np.float32).max)
    assert [record.losses for record in run.generations] == [(largest,) * 3] * 2
    assert [record.losses for record in stored_run(tmp_path).generations] == [(largest,) * 3] * 2
    assert run.test["loss"] > largest


def test_when_all_diverge_the_error_names_the_generation_and_the_rate(images, tiny_cnn, small, tmp_path):
    with pytest.raises(RunError, match=r"every candidate of generation 0 diverged.* 1e\+30: .*smaller lr"):
        gradlex.train(tiny_cnn(), images, small.replace(lr=1e30), out=tmp_path / "run")
    assert not (tmp_path / "run" / "result.json").exists()


def test_when_all_diverge_later_that_generation_and_its_rate_are_named(images, tiny_cnn, small):
    done = []

    class Noting(gradlex.Callback):
        def on_generation(self, run, record):
            done.append(record.generation)

    def poison(batch, rng):
        return batch * torch.nan if len(done) == 2 else batch

    recipe = small.replace(generations=4, lr=0.04)
    with pytest.raises(RunError, match=r"generation 2 diverged.*rate 0\.02:"):
        gradlex.train(tiny_cnn(), images, recipe, augment=poison, callbacks=[Noting()])
    assert done == [0, 1]


def test_an_outer_step_that_overflows_is_named_and_its_parent_is_not_saved(images, tiny_cnn, small, tmp_path):
    recipe = small.replace(generations=4, outer_lr=1e45, outer_momentum=0.5)
    with pytest.raises(
        RunError,
        match=r"outer step after generation 0 .*outer_lr 1e\+45 and outer_momentum 0\.5: use smaller",
    ):
        gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoint").exists()
    assert not (tmp_path / "run" / "generations.jsonl").exists()


def test_when_all_diverge_after_an_outer_step_its_numbers_are_named_too(images, tiny_cnn, small):
    recipe = small.replace(generations=4, outer_lr=1e30)
    with pytest.raises(RunError, match=r"generation 1 diverged.*a smaller lr, outer_lr or outer_momentum"):
        gradlex.train(tiny_cnn(), images, recipe)


class Fragile(nn.Module):
    """Breaks at a chosen training step; the count is the class's because the model is copied."""

    steps = 0
    breaks_at = 0

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(32, 3))

    def forward(self, x):
        if self.training:
            Fragile.steps += 1
            if Fragile.steps == Fragile.breaks_at:
                raise ZeroDivisionError("the third wheel came off")
        return self.net(x)


@pytest.mark.parametrize(
    ("breaks_at", "told"), [(1, "candidate 0 of generation 0"), (9 + 5, "candidate 1 of generation 1")]
)
def test_a_model_that_fails_in_the_middle_is_told_with_candidate_and_generation(
    breaks_at, told, images, small, tmp_path, monkeypatch
):
    monkeypatch.setattr(Fragile, "steps", 0)
    monkeypatch.setattr(Fragile, "breaks_at", breaks_at)
    with pytest.raises(
        RunError, match=f"{told} failed: ZeroDivisionError: the third wheel came off .*test_failures"
    ) as caught:
        gradlex.train(Fragile(), images, small.replace(batch_size=6), out=tmp_path / "run")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert not (tmp_path / "run" / "result.json").exists()


class AnswersNaN(nn.Module):
    """Trains well and answers NaN in evaluation once its marker has been trained."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)
        self.register_buffer("marked", torch.zeros(1))

    def forward(self, x):
        flat = x.flatten(1)
        if self.training:
            self.marked += (flat.abs() > 1).any()
            return self.net(flat)
        return self.net(flat) + torch.where(self.marked > 0, torch.nan, 0.0)


@pytest.mark.parametrize("case_error", ["correct", "loss"])
def test_a_network_that_answers_nan_fails_its_cases(case_error, signs, small):
    x, y = signs
    x = x.clone()
    x[0] = -2.0
    recipe = small.replace(
        generations=1,
        task_options={"case_error": case_error},
        selection_options={"on_all_fail": "survive"},
        lr=0.5,
        population=2,
    )
    run = gradlex.train(AnswersNaN(), (x, y), recipe)
    subsets = split(40, 2, stream(recipe.seed, "split", 0))
    (healthy,) = (index for index, subset in enumerate(subsets) if 0 not in subset)
    assert None not in run.generations[0].losses
    assert run.generations[0].selected == healthy
    assert np.isfinite(run.train["loss"])
