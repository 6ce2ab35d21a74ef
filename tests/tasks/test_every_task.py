"""Every task learns what can be learnt, by SGD and by selection, and trains as a plain PyTorch loop would."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

import gradlex
from gradlex import Recipe
from gradlex.data import call
from gradlex.randomness import stream
from gradlex.tasks import TASKS, default_selection, infer_task

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("selection", ["sgd", None])
def test_it_reaches_the_answer_by_sgd_and_by_selection(known, selection):
    settings = {"lr": 0.2, **known.settings}
    recipe = Recipe(
        selection=selection, generations=30, batch_size=10, threads=1, precision="float32", **settings
    )
    run = gradlex.train(known.network(), known.train, recipe, test=known.test, task=known.task)
    assert known.reached(run.test[known.metric]), run.test
    assert run.recipe.selection == (selection or default_selection(TASKS[known.task]()))
    assert [measure.name for measure in run.measures] == list(run.test)
    assert all(math.isfinite(value) for value in run.test.values())


def test_the_targets_tell_the_task(known):
    run = gradlex.train(known.network(), known.train, Recipe(generations=1, batch_size=10, lr=0.01))
    assert run.recipe.task == known.task == infer_task(known.train[1])


def rows(inputs, place):
    return {name: part[place] for name, part in inputs.items()} if isinstance(inputs, dict) else inputs[place]


def test_candidates_are_those_of_a_plain_loop_bit_for_bit(known, same):
    recipe = Recipe(
        population=3,
        generations=3,
        batch_size=7,
        lr=0.05,
        schedule="constant",
        seed=2,
        precision="float32",
        threads=1,
    )
    run = gradlex.train(known.network(), known.train, recipe, task=known.task)

    x, y = known.train
    parent = known.network().to(memory_format=torch.channels_last)
    for generation, record in enumerate(run.generations):
        candidates = []
        for subset in np.array_split(stream(2, "split", generation).permutation(len(y)), 3):
            candidate = copy.deepcopy(parent)
            optimizer = torch.optim.SGD(
                candidate.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, fused=True
            )
            for batch in np.array_split(subset, math.ceil(len(subset) / 7)):
                optimizer.zero_grad()
                inputs = rows(x, batch)
                if torch.is_tensor(inputs) and inputs.ndim == 4:
                    inputs = inputs.contiguous(memory_format=torch.channels_last)
                known.loss(call(candidate, inputs), y[batch]).backward()
                optimizer.step()
            candidates.append(candidate)
        parent = candidates[record.selected]
    assert same(run.model.state_dict(), parent.state_dict())


def test_errors_are_those_of_the_definition(known):
    run = gradlex.train(
        known.network(), known.train, Recipe(generations=2, batch_size=10, lr=0.02), task=known.task
    )
    with torch.no_grad():
        outputs = call(run.model, known.train[0])
        errors = run.task.errors(outputs, known.train[1])
        assert torch.allclose(errors.double(), known.errors(outputs, known.train[1]).double(), atol=1e-6)
        assert torch.isclose(run.task.loss(outputs, known.train[1]), known.loss(outputs, known.train[1]))
    assert errors.shape == (len(known.train[1]),)
    assert (errors >= 0).all()


def test_a_network_that_answers_nan_has_failed_every_case(known):
    run = gradlex.train(
        known.network(), known.train, Recipe(generations=1, batch_size=10, lr=0.01), task=known.task
    )
    with torch.no_grad():
        outputs = call(run.model, known.train[0]).fill_(torch.nan)
        errors = run.task.errors(outputs, known.train[1])
    assert ((errors == 1) | errors.isnan()).all()  # the engine takes NaN for infinity


def test_metrics_do_not_depend_on_how_the_set_is_cut(known):
    run = gradlex.train(
        known.network(), known.train, Recipe(generations=2, batch_size=10, lr=0.02), task=known.task
    )
    x, y = known.test
    with torch.no_grad():
        outputs = call(run.model, x)
    whole = run.task.metrics([(outputs, y)])
    parts = run.task.metrics(
        (outputs[start : start + 7], y[start : start + 7]) for start in range(0, len(y), 7)
    )
    assert whole == pytest.approx(parts, rel=1e-6)
    assert whole == pytest.approx(run.task.metrics([(outputs.flip(0), y.flip(0))]), rel=1e-6)


def test_resume_evaluates_with_what_the_task_took_from_the_training_part(known, tmp_path):
    recipe = Recipe(generations=2, batch_size=10, lr=0.02, threads=1)
    gradlex.train(
        known.network(), known.train, recipe, test=known.test, task=known.task, out=tmp_path / "run"
    )
    (tmp_path / "run" / "result.json").unlink()
    again = gradlex.train(
        known.network(), known.train, recipe, test=known.test, out=tmp_path / "run", resume=True
    )
    task = gradlex.runs.load_task(tmp_path / "run")
    assert task == again.task
    with torch.no_grad():
        assert task.metrics([(call(again.model, known.test[0]), known.test[1])]) == pytest.approx(again.test)
