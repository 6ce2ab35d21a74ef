"""Promotion in training, against means, outer steps and averages written out here."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

import gradlex
from gradlex.data import ArraySamples
from gradlex.engine import PopulationEngine, Worker
from gradlex.population import steps_of
from gradlex.selection import Choice, promoting, selection_probabilities
from gradlex.tasks import Classification

pytestmark = pytest.mark.usefixtures("one_thread")
PROMOTIONS = ["winner", "average", "expected", "survivors"]


def worker_of(model, data, recipe):
    return Worker(model, ArraySamples(*data), Classification(), recipe, torch.device("cpu"))


class Seen:
    """An engine that keeps a copy of every generation's candidates, and the parent they started from."""

    def __init__(self, worker):
        self.inner = PopulationEngine(worker, steps=steps_of(worker.recipe))
        self.num_samples, self.num_cases = self.inner.num_samples, self.inner.num_cases
        self.generations, self.parents = [], []

    def train(self, parent, subsets, lr):
        candidates = self.inner.train(parent, subsets, lr)
        self.parents.append(parent)
        self.generations.append(copy.deepcopy(candidates._own))
        return candidates


def evolved(make, data, recipe, select):
    seen = Seen(worker_of(make(), data, recipe))
    return seen, list(gradlex.evolve(seen.inner.worker.first_parent(), seen, select, recipe))


def mean(weights, tensors):
    """reference + sum of weight x (tensor - reference) in float64, the largest weight being the reference."""
    first = max(weights, key=weights.get)
    start = tensors[first].double()
    shift = sum(
        (weight * (tensors[i].double() - start) for i, weight in weights.items() if i != first),
        torch.zeros_like(start),
    )
    return (start + shift).to(tensors[first].dtype)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("promotion", ["average", "expected", "survivors"])
def test_the_parent_is_the_weighted_mean_of_the_candidates(promotion, optimizer, images, tiny_cnn, small):
    recipe = small.replace(momentum="inherit", optimizer=optimizer, lr=0.02)
    depth = {"depth": 3} if promotion == "survivors" else {}
    select = promoting(promotion, "lexicase", options={"on_all_fail": "survive", **depth})
    seen, generations = evolved(tiny_cnn, images, recipe, select)
    mixed = 0
    for candidates, generation in zip(seen.generations, generations, strict=True):
        weights, largest = generation.choice.weights, candidates[generation.choice.index]
        mixed += len(weights) > 1
        for name, found in generation.parent.state.items():
            if found.is_floating_point():
                expected = mean(weights, {i: candidates[i].state[name] for i in weights})
            else:
                expected = largest.state[name]
            assert torch.equal(found, expected), name
        for name, values in generation.parent.optimizer.items():
            for key, found in values.items():
                if found.ndim:
                    expected = mean(weights, {i: candidates[i].optimizer[name][key] for i in weights})
                else:
                    expected = largest.optimizer[name][key]
                assert torch.equal(found, expected), (name, key)
    assert mixed


def test_expected_weighs_by_the_chances_of_the_candidates_errors(images, tiny_cnn, small):
    select = promoting("expected", "lexicase")
    seen, generations = evolved(tiny_cnn, images, small, select)
    x, y = images
    for candidates, generation in zip(seen.generations, generations, strict=True):
        rows = []
        for index in range(3):
            model = tiny_cnn()
            model.load_state_dict(candidates[index].state)
            with torch.inference_mode():
                rows.append((model.eval()(x).argmax(1) != y).numpy())
        chances = selection_probabilities(np.array(rows))
        assert [generation.choice.shares.get(i, 0.0) for i in range(3)] == pytest.approx(chances)
        assert generation.cost.cases_evaluated == 150


@pytest.mark.parametrize("momentum", ["inherit", "reset"])
def test_one_candidate_makes_all_promotions_equal(momentum, images, tiny_cnn, small, same):
    recipe = small.replace(population=1, momentum=momentum)
    runs = [gradlex.train(tiny_cnn(), images, recipe.replace(promotion=name)) for name in PROMOTIONS]
    sgd = [
        gradlex.train(tiny_cnn(), images, recipe.replace(promotion=name, selection="sgd", momentum=None))
        for name in PROMOTIONS
    ]
    for run in (*runs[1:], *(sgd if momentum == "inherit" else ())):
        assert same(run.model.state_dict(), runs[0].model.state_dict())
    assert all(record.weights == (1.0,) and record.entropy == 0 for run in runs for record in run.generations)


def one_hot(cases, errors, rng):
    return Choice(index=1, reason="told", weights={1: 1.0})


def the_second(cases, errors, rng):
    return Choice(index=1, reason="told")


def test_one_hot_weights_are_the_winner(images, tiny_cnn, small, same):
    recipe = small.replace(momentum="inherit")
    (_, found), (_, expected) = (evolved(tiny_cnn, images, recipe, s) for s in (one_hot, the_second))
    assert same(found[-1].parent.state, expected[-1].parent.state)
    for name, values in expected[-1].parent.optimizer.items():
        assert same(found[-1].parent.optimizer[name], values)


def test_the_average_of_identical_candidates_is_that_candidate_bit_for_bit(images, tiny_cnn, small):
    worker = worker_of(tiny_cnn(), images, small.replace(momentum="inherit"))
    engine = PopulationEngine(worker)
    candidates = engine.train(worker.first_parent(), np.array_split(np.arange(50), 3), 0.1)
    own = candidates._own
    own[0], own[2] = copy.deepcopy(own[1]), copy.deepcopy(own[1])
    expected = copy.deepcopy(own[1])
    parent = candidates.promote(Choice(index=0, reason="told", weights={0: 0.5, 1: 0.3, 2: 0.2}))
    for name, tensor in expected.state.items():
        found, wanted = (t.flatten().view(torch.uint8) for t in (parent.state[name], tensor))
        assert torch.equal(found, wanted), name
    for name, values in expected.optimizer.items():
        assert torch.equal(parent.optimizer[name]["momentum_buffer"], values["momentum_buffer"])


def test_the_mean_lies_where_the_largest_candidate_lay(images, tiny_cnn, small):
    worker = worker_of(tiny_cnn(), images, small)
    candidates = PopulationEngine(worker).train(worker.first_parent(), np.array_split(np.arange(50), 3), 0.1)
    places = {name: tensor.data_ptr() for name, tensor in candidates._own[1].state.items()}
    parent = candidates.promote(Choice(index=1, reason="told", weights={0: 0.2, 1: 0.5, 2: 0.3}))
    assert {name: tensor.data_ptr() for name, tensor in parent.state.items()} == places
    assert candidates._own == {}


def test_the_size_of_the_pieces_changes_no_bit(images, tiny_cnn, small, same, monkeypatch):
    recipe = small.replace(
        promotion="average", momentum="inherit", generations=3, outer_lr=0.7, outer_momentum=0.6, ema=0.8
    )
    whole = gradlex.train(tiny_cnn(), images, recipe)
    monkeypatch.setattr("gradlex.population._promotion._PIECE", 7)
    parts = gradlex.train(tiny_cnn(), images, recipe)
    assert same(parts.model.state_dict(), whole.model.state_dict())
    assert same(parts.ema.state_dict(), whole.ema.state_dict())


def test_a_diverged_candidate_has_no_part_in_the_mean(images, tiny_cnn, small):
    x, y = images
    x = x.clone()
    x[0] = 99.0

    def poison(batch, rng):
        return batch * torch.nan if (batch == 99).any() else batch

    for promotion in PROMOTIONS:
        run = gradlex.train(
            tiny_cnn(), (x, y), small.replace(promotion=promotion, generations=3), augment=poison
        )
        for record in run.generations:
            (sick,) = (index for index, loss in enumerate(record.losses) if loss is None)
            assert record.weights[sick] == 0
            assert sum(record.weights) == pytest.approx(1)
        assert all(torch.isfinite(t).all() for t in run.model.state_dict().values())


def test_a_candidate_without_an_optimizer_state_for_a_parameter_follows_the_others(images, tiny_cnn, small):
    for missing in (0, 2):
        worker = worker_of(tiny_cnn(), images, small.replace(momentum="inherit"))
        candidates = PopulationEngine(worker).train(
            worker.first_parent(), np.array_split(np.arange(50), 3), 0.1
        )
        own = candidates._own
        kept = {name: values for name, values in own[missing].optimizer.items() if name != "4.bias"}
        own[missing] = replace(own[missing], optimizer=kept)
        parent = candidates.promote(Choice(index=0, reason="told", weights=dict.fromkeys(range(3), 1 / 3)))
        assert ("4.bias" in parent.optimizer) == (missing != 0)


@pytest.mark.parametrize("promotion", PROMOTIONS)
def test_an_outer_rate_of_one_with_hardly_a_momentum_goes_to_the_promoted_mean(
    promotion, images, tiny_cnn, small, same
):
    """The arithmetic of the outer step, which a momentum of exactly 0 would leave out."""
    recipe = small.replace(promotion=promotion, generations=3)
    plain = gradlex.train(tiny_cnn(), images, recipe)
    other = gradlex.train(tiny_cnn(), images, recipe.replace(outer_momentum=1e-300))
    assert same(plain.model.state_dict(), other.model.state_dict())


@pytest.mark.parametrize("nesterov", [False, True])
def test_the_outer_step_moves_the_parent_with_momentum(nesterov, images, tiny_cnn, small):
    recipe = small.replace(generations=4, outer_lr=0.7, outer_momentum=0.6, outer_nesterov=nesterov)
    seen, generations = evolved(tiny_cnn, images, recipe, promoting("average", "lexicase"))
    names = {name for name, _ in tiny_cnn().named_parameters()}
    velocity = None
    for parent, candidates, generation in zip(seen.parents, seen.generations, generations, strict=True):
        weights, stored = generation.choice.weights, {}
        for name, found in generation.parent.state.items():
            average = mean(weights, {i: candidates[i].state[name] for i in weights})
            if name not in names:  # buffers follow the mean
                expected = average if found.is_floating_point() else candidates[0].state[name]
                assert torch.equal(found, expected), name
                continue
            start = parent.state[name].double()
            delta = average.double() - start
            speed = delta if velocity is None else 0.6 * velocity[name].double() + delta
            step = delta + 0.6 * speed if nesterov else speed
            assert torch.equal(found, (start + 0.7 * step).float()), name
            stored[name] = speed.float()
        assert generation.parent.slots["outer"].keys() == names
        assert all(torch.equal(generation.parent.slots["outer"][name], stored[name]) for name in names)
        velocity = stored


def test_the_moving_average_follows_the_parents(images, tiny_cnn, small):
    recipe = small.replace(generations=4, ema=0.8)
    _, generations = evolved(tiny_cnn, images, recipe, promoting("winner", "lexicase"))
    expected = generations[0].parent.state
    for generation in generations[1:]:
        expected = {
            name: (0.8 * expected[name].double() + (1 - 0.8) * t.double()).float()
            if t.is_floating_point()
            else t
            for name, t in generation.parent.state.items()
        }
        assert all(torch.equal(generation.parent.slots["ema"][name], t) for name, t in expected.items())


def test_the_moving_average_has_no_part_in_the_run(images, tiny_cnn, small, same):
    plain = gradlex.train(tiny_cnn(), images, small)
    other = gradlex.train(tiny_cnn(), images, small.replace(ema=0.5))
    assert same(plain.model.state_dict(), other.model.state_dict())
    assert plain.ema is None
    assert not same(other.ema.state_dict(), other.model.state_dict())


@pytest.mark.parametrize("promotion", PROMOTIONS)
def test_starting_again_from_any_yielded_parent_continues_the_same_run(
    promotion, images, tiny_cnn, small, same
):
    recipe = small.replace(
        generations=4, momentum="inherit", lr=0.02, outer_momentum=0.5, outer_lr=0.8, ema=0.7, recalibrate=1
    )
    select = promoting(promotion, "lexicase")

    def run(parent=None):
        worker = worker_of(tiny_cnn(), images, recipe)
        engine = PopulationEngine(worker, steps=steps_of(recipe))
        return list(gradlex.evolve(parent or worker.first_parent(), engine, select, recipe))

    whole = run()
    for generation in whole[:-1]:
        last = run(generation.parent)[-1]
        assert same(last.parent.state, whole[-1].parent.state)
        for slot in ("outer", "ema"):
            assert same(last.parent.slots[slot], whole[-1].parent.slots[slot])
