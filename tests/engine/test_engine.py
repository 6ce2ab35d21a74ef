"""What the engine asks of samples, task and network, written down by spies."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

import gradlex
from gradlex.data import ArraySamples
from gradlex.engine import PopulationEngine, Worker
from gradlex.selection import bind
from gradlex.tasks import Classification

CPU = torch.device("cpu")


class SpySamples:
    """Samples that note every batch given out, and the network's weights at that moment."""

    def __init__(self, x, y):
        self.inner = ArraySamples(x, y)
        self.trained, self.asked, self.states = [], [], []
        self.model, self.channels_last = None, True

    def __len__(self):
        return len(self.inner)

    def to(self, device):
        return self

    def clean(self, indices):
        self.asked.append(indices.copy())
        return self.inner.clean(indices)

    def clean_batches(self, batches):
        return map(self.clean, batches)

    def augmented_batches(self, batches, rngs):
        return map(self.augmented, batches, rngs)

    def augmented(self, indices, rng):
        self.trained.append(indices.copy())
        self.states.append({k: v.detach().clone() for k, v in self.model.state_dict().items()})
        return self.inner.augmented(indices, rng)


class SpyTask:
    """A task that notes how many cases it judged, and in which surroundings."""

    def __init__(self, model):
        self.inner, self.model, self.graded = Classification(), model, False
        self.judged, self.surroundings = 0, set()

    graded = False

    def loss(self, outputs, targets):
        return self.inner.loss(outputs, targets)

    def errors(self, outputs, targets):
        self.judged += len(targets)
        modes = {module.training for module in self.model.modules()}
        self.surroundings.add((frozenset(modes), torch.is_grad_enabled(), outputs.requires_grad))
        return self.inner.errors(outputs, targets)


def spied(model, data, recipe):
    samples = SpySamples(*data)
    task = SpyTask(model)
    worker = Worker(model, samples, task, recipe, CPU)
    samples.model = worker.model
    return samples, task, worker, PopulationEngine(worker)


@pytest.mark.parametrize(("population", "batch_size"), [(3, 8), (4, 5), (7, 3), (1, 49), (25, 8)])
def test_every_sample_is_used_exactly_once_a_generation(population, batch_size, images, tiny_cnn, small):
    recipe = small.replace(population=population, batch_size=batch_size)
    samples, _, worker, engine = spied(tiny_cnn(), images, recipe)
    for _ in gradlex.evolve(worker.first_parent(), engine, bind("random"), recipe):
        used = np.concatenate(samples.trained)
        assert Counter(used.tolist()) == Counter(range(50))
        sizes = [len(batch) for batch in samples.trained]
        assert min(sizes) >= 2
        assert max(sizes) <= batch_size
        samples.trained.clear()


def test_a_candidate_is_trained_on_even_batches(images, tiny_cnn, small):
    x, y = images
    recipe = small.replace(population=2, batch_size=8, generations=1)
    samples, _, worker, engine = spied(tiny_cnn(), (x[:34], y[:34]), recipe)
    list(gradlex.evolve(worker.first_parent(), engine, bind("random"), recipe))
    assert [len(batch) for batch in samples.trained] == [6, 6, 5] * 2


def test_all_candidates_start_from_the_parents_weights_and_buffers(images, tiny_cnn, small, same):
    samples, _, worker, engine = spied(tiny_cnn(), images, small.replace(batch_size=50))
    parent = worker.first_parent()
    starts = []
    for generation in gradlex.evolve(parent, engine, bind("lexicase"), small):
        assert len(samples.states) == 3
        for state in samples.states:
            assert same(state, parent.state)
        starts.append(parent.state)
        samples.states.clear()
        parent = generation.parent
    assert not torch.equal(starts[0]["0.weight"], starts[1]["0.weight"])
    assert not torch.equal(starts[0]["1.running_mean"], starts[1]["1.running_mean"])


def pairs_that_slices_allow(record_choice, population, cases):
    """Pairs of candidate and case when slices of 32, 64, ... cases are asked of those left at their start."""
    total, start, size = 0, 0, 32
    while start < min(record_choice.cases_used, cases):
        alive = [len(left) for used, left in record_choice.survivors if used <= start]
        total += (alive[-1] if alive else population) * min(size, cases - start)
        start, size = start + size, min(2 * size, 1024)
    return total


@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
def test_only_survivors_are_evaluated_and_no_more_cases_than_the_slices_allow(on_all_fail, tiny_cnn, small):
    rng = np.random.default_rng(0)
    y = torch.from_numpy(rng.integers(0, 3, 300))
    x = torch.from_numpy(rng.normal(size=(3, 2, 4, 4))[y.numpy()] + rng.normal(size=(300, 2, 4, 4))).float()
    recipe = small.replace(generations=6)
    samples, task, worker, engine = spied(tiny_cnn(), (x, y), recipe)
    select = bind("lexicase", on_all_fail=on_all_fail)
    lengths, remembered = set(), []
    for generation in gradlex.evolve(worker.first_parent(), engine, select, recipe):
        computed = task.judged
        assert generation.cost.cases_evaluated == computed
        # Heritability looks again at the cases that the parent won by: a part of one slice.
        assert computed == pairs_that_slices_allow(generation.choice, 3, 300) + 3 * len(remembered)
        # The cases are asked in the order they were shuffled into, each once.
        order = gradlex.randomness.stream(recipe.seed, "cases", generation.generation).permutation(300)
        asked = np.concatenate(samples.asked)
        asked, again = np.split(asked, [len(asked) - len(remembered)])
        assert asked.tolist() == order[: len(asked)].tolist()
        assert again.tolist() == remembered
        kept = generation.parent.slots.get("winner")
        remembered = [] if kept is None else kept["cases"].tolist()
        lengths.add(len(asked))
        task.judged = 0
        samples.asked.clear()
    assert min(lengths) < 300  # something was left unasked, or the test would show nothing
    assert task.surroundings == {(frozenset({False}), False, False)}


@pytest.mark.parametrize(("method", "pairs"), [("random", 0), ("tournament", 150), ("plexicase", 150)])
def test_a_method_is_charged_for_what_it_looks_at(method, pairs, images, tiny_cnn, small):
    _, task, worker, engine = spied(tiny_cnn(), images, small)
    for generation in gradlex.evolve(worker.first_parent(), engine, bind(method), small):
        assert generation.cost.cases_evaluated == task.judged == pairs
        task.judged = 0


def test_one_candidate_is_chosen_without_looking_at_any_case(images, tiny_cnn, small):
    recipe = small.replace(population=1)
    _, task, worker, engine = spied(tiny_cnn(), images, recipe)
    for generation in gradlex.evolve(worker.first_parent(), engine, bind("lexicase"), recipe):
        assert generation.choice.reason == "only_candidate"
        assert generation.cost.cases_evaluated == task.judged == 0


@pytest.mark.parametrize("momentum", ["inherit", "reset", "none"])
def test_only_inherit_hands_the_optimizers_buffers_on(momentum, images, tiny_cnn, small):
    recipe = small.replace(momentum=momentum)
    _, _, worker, engine = spied(tiny_cnn(), images, recipe)
    last = list(gradlex.evolve(worker.first_parent(), engine, bind("random"), recipe))[-1]
    if momentum == "inherit":
        names = {name for name, _ in worker.model.named_parameters()}
        assert set(last.parent.optimizer) == names
        assert all(values["momentum_buffer"].abs().sum() > 0 for values in last.parent.optimizer.values())
    else:
        assert last.parent.optimizer is None


@pytest.mark.parametrize(
    ("net", "optimizer", "method"),
    [
        ("tiny_cnn", "sgd", "lexicase"),
        ("tiny_dropout", "adamw", "lexicase"),
        ("tiny_cnn", "adamw", "informed-lexicase"),
    ],
)
def test_starting_again_from_any_yielded_parent_continues_the_same_run(
    net, optimizer, method, images, small, same, request
):
    recipe = small.replace(generations=4, momentum="inherit", optimizer=optimizer, lr=0.02)
    options = {"refresh": 2, "share": 0.5} if method == "informed-lexicase" else {}
    make = request.getfixturevalue(net)

    def evolved(parent=None):
        _, _, worker, engine = spied(make(), images, recipe)
        return list(gradlex.evolve(parent or worker.first_parent(), engine, bind(method, **options), recipe))

    whole = evolved()
    for done, generation in enumerate(whole[:-1], start=1):
        rest = evolved(generation.parent)
        assert [g.choice.index for g in rest] == [g.choice.index for g in whole[done:]]
        assert [g.losses for g in rest] == [g.losses for g in whole[done:]]
        assert same(rest[-1].parent.state, whole[-1].parent.state)
        for name, values in whole[-1].parent.optimizer.items():
            assert same(rest[-1].parent.optimizer[name], values)


def test_evaluation_is_in_full_precision_whatever_the_recipe_says(images, tiny_cnn, small):
    model = tiny_cnn()
    worker = Worker(model, ArraySamples(*images), Classification(), small.replace(precision="bfloat16"), CPU)
    found = worker.evaluate(worker.first_parent().state, ArraySamples(*images))
    with torch.inference_mode():
        outputs = tiny_cnn().eval()(images[0])
    assert found["accuracy"] == pytest.approx((outputs.argmax(1) == images[1]).double().mean().item())
    assert found["loss"] == pytest.approx(nn.functional.cross_entropy(outputs, images[1]).item(), rel=1e-5)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("offload", [False, True])
def test_candidates_asked_together_answer_as_each_would_alone(precision, offload):
    recipe = gradlex.Recipe(precision=precision, population=3, batch_size=8, generations=1, threads=1)
    torch.manual_seed(0)
    x, y = torch.randn(50, 12), torch.randint(5, (50,))
    net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5))
    worker = Worker(net, ArraySamples(x, y), Classification("loss"), recipe, CPU, offload=offload)
    states = [
        {name: torch.randn_like(t) for name, t in worker.first_parent().state.items()} for _ in range(3)
    ]
    cases = np.arange(50)
    together = worker.errors(states, cases)
    for row, state in zip(together, states, strict=True):
        alone = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5))
        alone.load_state_dict(state)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            losses = nn.functional.cross_entropy(alone(x).float(), y, reduction="none")
        np.testing.assert_array_equal(row, losses.numpy())


def test_a_network_is_walked_through_as_often_for_many_candidates_and_cases_as_for_one(images, small):
    walks = []

    class Walked(nn.Sequential):
        def named_modules(self, *given, **how):
            walks.append(1)
            return super().named_modules(*given, **how)

    worker = Worker(
        Walked(nn.Flatten(), nn.Linear(32, 3)), ArraySamples(*images), Classification(), small, CPU
    )
    counts = []
    for states, cases in ((1, 1), (4, 300)):
        parent = worker.first_parent()
        walks.clear()
        worker.errors([parent.state] * states, np.arange(cases) % 50)
        counts.append(len(walks))
    assert counts[0] == counts[1] > 0
