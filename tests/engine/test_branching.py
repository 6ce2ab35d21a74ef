"""Late branching, tails, their mean and variation, against the same written out as plain PyTorch loops."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, update_bn

import gradlex
from gradlex import Recipe
from gradlex.data import crop_flip, parse_augment
from gradlex.population import deal
from gradlex.randomness import stream, torch_seed
from gradlex.runs import stored_run

pytestmark = pytest.mark.usefixtures("one_thread")

SGD = Recipe(selection="sgd", generations=6, batch_size=8, seed=4, precision="float32", threads=1)


def without_times(record):
    return {name: value for name, value in vars(record).items() if "seconds" not in name}


def records(run):
    return [without_times(record) for record in run.generations]


def train(model, optimizer, x, y, order, recipe, augment, generation, candidate):
    """One pass over `order`."""
    rng = stream(recipe.seed, "augmentation", generation, candidate)
    model.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(recipe.seed, "dropout", generation, candidate))
        for batch in np.array_split(order, math.ceil(len(order) / recipe.batch_size)):
            inputs = x[batch].contiguous(memory_format=torch.channels_last)
            loss = F.cross_entropy(model(augment(inputs, rng) if augment else inputs), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def optimizer_of(model, lr, decay=1e-4):
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=decay, fused=True)


@pytest.mark.parametrize("net", ["tiny_cnn", "tiny_dropout"])
@pytest.mark.parametrize("branch_at", [0.2, 0.75])
@pytest.mark.parametrize(
    "fields", [{}, {"selection": "lexicase", "population": 1, "momentum": "inherit"}], ids=["sgd", "lexicase"]
)
def test_with_one_candidate_and_the_cosine_going_on_a_branch_changes_no_bit(
    fields, branch_at, net, images, request, same, tmp_path
):
    make = request.getfixturevalue(net)
    how = {"augment": crop_flip(1), "test": images}
    plain = gradlex.train(make(), images, SGD, **how, out=tmp_path / "plain")
    branched = gradlex.train(
        make(), images, SGD.replace(branch_at=branch_at, **fields), **how, out=tmp_path / "branched"
    )
    assert same(plain.model.state_dict(), branched.model.state_dict())
    assert records(plain) == records(branched)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("plain", "branched")]
    assert weights[0] == weights[1]
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("plain", "branched")]
    assert results[0]["metrics"] == results[1]["metrics"]
    assert results[0]["samples_trained"] == results[1]["samples_trained"] == 300


TAILS = {
    "lexicase": {"population": 3},
    "average, constant": {"population": 2, "promotion": "average", "tail": "constant", "tail_mean": True},
    "outer step": {"population": 3, "outer_momentum": 0.9, "recalibrate": 2},
    "varied": {"population": 3, "vary": {"lr": "1|2"}, "inherit_variation": True, "parts": "all"},
    "no momentum": {"population": 2, "momentum": "none", "selection": "random"},
}


@pytest.mark.parametrize("tail", TAILS)
def test_until_the_branch_a_run_has_the_bits_and_the_records_of_sgd(tail, images, tiny_cnn, same):
    states = {}

    class Notes(gradlex.Callback):
        def __init__(self, name):
            self.name = name

        def on_generation(self, run, record):
            states[self.name, record.generation] = {k: v.clone() for k, v in run.parent.state.items()}

    fields = {"selection": "lexicase", **TAILS[tail]}
    plain = gradlex.train(tiny_cnn(), images, SGD, test=images, callbacks=[Notes("plain")])
    recipe = SGD.replace(branch_at=0.5, **fields)
    branched = gradlex.train(tiny_cnn(), images, recipe, test=images, callbacks=[Notes("branched")])
    for generation in range(3):
        assert same(states["plain", generation], states["branched", generation])
    assert records(plain)[:3] == records(branched)[:3]
    assert not same(states["plain", 3], states["branched", 3])
    assert [len(record.losses) for record in branched.generations] == [1] * 3 + [fields["population"]] * 3
    assert branched.result["samples_trained"] == plain.result["samples_trained"]


@pytest.mark.parametrize("augment", [None, crop_flip(1)], ids=["plain", "augmented"])
def test_the_mean_of_one_candidates_tail_is_swa(augment, images, tiny_cnn, tmp_path):
    x, y = images
    recipe = SGD.replace(branch_at=0.5, tail="constant", tail_options={"lr": 0.05}, tail_mean=True)
    run = gradlex.train(tiny_cnn(), images, recipe, test=images, augment=augment, out=tmp_path / "run")

    model = tiny_cnn().to(memory_format=torch.channels_last)
    optimizer, mean = optimizer_of(model, 0.1), AveragedModel(model)
    for generation in range(6):
        lr = 0.05 if generation >= 3 else 0.05 * (1 + math.cos(math.pi * generation / 6))
        optimizer.param_groups[0]["lr"] = lr
        train(
            model,
            optimizer,
            x,
            y,
            stream(4, "split", generation).permutation(50),
            recipe,
            augment,
            generation,
            0,
        )
        if generation >= 3:
            mean.update_parameters(model)
    rng = stream(4, "recalibration", 6, 1)
    loader = [x[part] for part in np.array_split(rng.permutation(50), 7)]
    loader = loader if augment is None else [augment(batch, rng) for batch in loader]
    update_bn([batch.contiguous(memory_format=torch.channels_last) for batch in loader], mean)

    assert run.recipe.recalibrate_final == 7  # every sample once
    expected, found = mean.module.state_dict(), run.model.state_dict()
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        assert torch.allclose(found[name].double(), tensor.double(), rtol=1e-5, atol=1e-6), name
    # The plain end of the trajectory is another network: what is returned is the declared one.
    assert not torch.allclose(found["0.weight"], model.state_dict()["0.weight"], rtol=1e-3)
    mean.module.eval()
    with torch.no_grad():
        outputs = mean.module(x.contiguous(memory_format=torch.channels_last))
    assert run.test["accuracy"] == pytest.approx(float((outputs.argmax(1) == y).float().mean()))
    assert run.test["loss"] == pytest.approx(float(F.cross_entropy(outputs, y)), rel=1e-4)
    assert run.test == stored_run(tmp_path / "run").generations[-1].test == run.generations[-1].test


def test_before_the_branch_and_in_between_what_is_evaluated_is_the_parent(images, tiny_cnn):
    recipe = SGD.replace(branch_at=0.5, tail_mean=True)
    plain = gradlex.train(tiny_cnn(), images, SGD, test=images)
    run = gradlex.train(tiny_cnn(), images, recipe, test=images)
    assert records(run)[:-1] == records(plain)[:-1]
    assert run.generations[-1].test != plain.generations[-1].test


def test_the_mean_of_a_populations_tail_is_the_mean_of_its_parents(images, tiny_cnn):
    parents = []

    class Notes(gradlex.Callback):
        def on_generation(self, run, record):
            parents.append({name: tensor.double() for name, tensor in run.parent.state.items()})

    recipe = SGD.replace(
        selection="lexicase", population=3, branch_at=0.5, promotion="average", tail_mean=True
    )
    run = gradlex.train(tiny_cnn(), images, recipe, callbacks=[Notes()])
    for name, parameter in run.model.named_parameters():
        expected = torch.stack([parent[name] for parent in parents[3:]]).mean(0)
        assert torch.allclose(parameter.double(), expected, rtol=1e-5, atol=1e-7)


def test_steps_of_promotion_are_taken_since_the_branch_and_a_moving_average_from_the_start(
    images, tiny_cnn, same
):
    slots = {}

    class Notes(gradlex.Callback):
        def __init__(self, name):
            self.name = name

        def on_generation(self, run, record):
            slots[self.name, record.generation] = run.parent.slots
            tracked = int(run.parent.state["1.num_batches_tracked"])
            slots[self.name, "batches", record.generation] = tracked

    recipe = SGD.replace(outer_momentum=0.9, recalibrate=2, ema=0.5, branch_at=0.5, tail_mean=True)
    gradlex.train(tiny_cnn(), images, recipe, callbacks=[Notes("branched")])
    gradlex.train(tiny_cnn(), images, SGD.replace(ema=0.5), callbacks=[Notes("plain")])
    assert [set(slots["branched", generation]) for generation in range(6)] == [{"ema"}] * 3 + [
        {"ema", "outer", "tail", "tail_count"}
    ] * 3
    assert [slots["branched", "batches", generation] for generation in range(6)] == [7, 14, 21, 2, 2, 2]
    for generation in range(3):
        assert same(slots["branched", generation]["ema"], slots["plain", generation]["ema"])
    assert [int(slots["branched", generation]["tail_count"]["parents"]) for generation in range(3, 6)] == [
        1,
        2,
        3,
    ]
    # The first outer step has no velocity yet: it is what the candidate moved by.
    assert slots["branched", 3]["outer"].keys() == {
        "0.weight",
        "0.bias",
        "1.weight",
        "1.bias",
        "4.weight",
        "4.bias",
    }


@pytest.mark.parametrize("momentum", ["reset", "inherit"])
@pytest.mark.parametrize("chosen", range(3))
def test_a_candidate_with_settings_of_its_own_is_a_plain_loop_with_them(
    chosen, momentum, images, tiny_cnn, same
):
    x, y = images
    vary = {
        "lr": [0.5, 2.0, 1.0],
        "weight_decay": [0.0, 1e-2],
        "augment": ["none", "crop1,flip", "flip,cutout2"],
    }

    def take(cases, errors, rng):
        pool = errors.candidates
        index = chosen if len(pool) == 3 else int(pool[0])
        return gradlex.selection.Choice(index=index, reason="mine")

    recipe = SGD.replace(
        selection=take, population=3, generations=3, branch_at=0.34, momentum=momentum, vary=vary
    )
    run = gradlex.train(tiny_cnn(), images, recipe, augment=crop_flip(1))

    model = tiny_cnn().to(memory_format=torch.channels_last)
    optimizer = optimizer_of(model, 0.1)
    train(model, optimizer, x, y, deal(50, run.recipe, 0)[0], recipe, crop_flip(1), 0, 0)
    for generation in (1, 2):
        state = copy.deepcopy(optimizer.state_dict()["state"])
        lr = vary["lr"][chosen] * 0.05 * (1 + math.cos(math.pi * generation / 3))
        optimizer = optimizer_of(model, lr, vary["weight_decay"][chosen % 2])
        if momentum == "inherit":
            optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
        order = deal(50, run.recipe, generation)[chosen]
        augment = parse_augment(vary["augment"][chosen])
        train(model, optimizer, x, y, order, recipe, augment, generation, chosen)
    assert same(run.model.state_dict(), model.state_dict())
    assert run.generations[0].settings == ()
    assert run.generations[2].settings[chosen] == {
        "lr": vary["lr"][chosen],
        "weight_decay": vary["weight_decay"][chosen % 2],
        "augment": vary["augment"][chosen],
    }


@pytest.mark.parametrize("parts", ["disjoint", "all"])
def test_samples_are_counted_as_they_are_trained_on(parts, images, tiny_cnn):
    seen = []

    def note(batch, rng):
        seen.append(len(batch))
        return batch

    base = SGD.replace(selection="random", population=3, branch_at=0.5, parts=parts)
    for steps, expected in ((None, 300), (2, 2 * 8 * 3 + 2 * 8 * 3 * 3)):
        seen.clear()
        run = gradlex.train(tiny_cnn(), images, base.replace(steps_per_generation=steps), augment=note)
        tried = seen.pop(0)  # before the run
        assert tried == 8
        assert sum(seen) == run.result["samples_trained"] == expected
        if steps:
            assert seen == [8] * (2 * 3 + 2 * 3 * 3)


def test_disagreement_is_that_of_the_cases_that_selection_saw(images, tiny_cnn):
    tables = []

    def look(cases, errors, rng):
        pool = errors.candidates
        for part in (cases[:20], cases[20:]):
            tables.append(errors(part, pool))  # noqa: PERF401
        return gradlex.selection.Choice(index=int(pool[0]), reason="mine")

    recipe = SGD.replace(selection=look, population=4, momentum="reset", generations=3, lr=0.3)
    run = gradlex.train(tiny_cnn(), images, recipe)
    assert 0 < run.generations[0].disagreement < 1
    for generation, record in enumerate(run.generations):
        solved = np.concatenate(tables[2 * generation : 2 * generation + 2], axis=1) == 0
        pairs = [np.mean(solved[i] != solved[j]) for i in range(4) for j in range(i)]
        assert record.disagreement == pytest.approx(np.mean(pairs), rel=1e-3)


def test_diversity_is_none_where_it_takes_two_or_nobody_looks(images, tiny_cnn):
    alone = gradlex.train(tiny_cnn(), images, SGD).generations[0]
    assert (alone.spread, alone.disagreement) == (None, None)
    assert alone.movement > 0
    unseen = gradlex.train(
        tiny_cnn(), images, SGD.replace(selection="random", population=3, momentum="reset")
    ).generations[0]
    assert unseen.disagreement is None
    assert unseen.spread > 0
    graded = SGD.replace(
        selection="epsilon-lexicase", population=3, momentum="reset", task_options={"case_error": "loss"}
    )
    assert gradlex.train(tiny_cnn(), images, graded).generations[0].disagreement is None


def test_diversity_of_a_run_is_that_of_its_networks(images, tiny_cnn):
    states = []

    class Engine(gradlex.engine.PopulationEngine):
        def train(self, parent, subsets, lr):
            candidates = super().train(parent, subsets, lr)
            states.append((parent.state, [candidate.state for candidate in candidates._own.values()]))
            return candidates

    recipe = SGD.replace(selection="random", population=4, momentum="reset", generations=2)
    run = gradlex.train(tiny_cnn(), images, recipe, engine=Engine)
    names = [name for name, _ in run.model.named_parameters()]

    def flat(state):
        return torch.cat([state[name].flatten() for name in names]).double()

    for record, (parent, candidates) in zip(run.generations, states, strict=True):
        moves = [flat(candidate) - flat(parent) for candidate in candidates]
        length = np.mean([float(move.norm()) for move in moves])
        pairs = [float((moves[i] - moves[j]).norm()) for i in range(4) for j in range(i)]
        assert record.movement == pytest.approx(length / float(flat(parent).norm()), rel=0.25)
        assert record.spread == pytest.approx(np.mean(pairs) / length, rel=0.25)


def test_heritability_compares_offspring_with_the_winner_on_its_cases(images, tiny_cnn):
    """Against tables that the test evaluates itself, and for a winner alone."""
    seen = []

    def first_of_two(cases, errors, rng):
        pool = errors.candidates
        own = errors(cases[:40], pool)
        seen.append((own, errors(seen[-1][2], pool) if seen else None, cases[:40]))
        return gradlex.selection.Choice(index=int(pool[1]), reason="mine", cases_used=5)

    recipe = SGD.replace(selection=first_of_two, population=3, momentum="reset", generations=3, lr=0.3)
    run = gradlex.train(tiny_cnn(), images, recipe)
    assert run.generations[0].heritability is None
    for generation in (1, 2):
        before, after = seen[generation - 1][0][:, 5:], seen[generation][1][:, 5:]
        x, y = before.mean(axis=0) - before[1], before.mean(axis=0) - after.mean(axis=0)
        found = run.generations[generation].heritability
        assert found["cases"] == 35
        assert found["advantage"] == pytest.approx(x.mean(), abs=1e-4)
        assert found["variance"] == pytest.approx(x.var(), rel=1e-3)
        assert found["covariance"] == pytest.approx(np.cov(x, y, bias=True)[0, 1], abs=1e-4)
    mean = gradlex.train(tiny_cnn(), images, recipe.replace(selection="lexicase", promotion="average"))
    assert all(record.heritability is None for record in mean.generations)
