"""What selection looks at: clean training samples, augmented ones, or a part that is held out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import gradlex
from gradlex import InputError, Recipe
from gradlex.data import ArraySamples
from gradlex.randomness import stream

RECIPE = Recipe(
    population=3, generations=3, batch_size=8, momentum="reset", precision="float32", threads=1, seed=2
)


@pytest.fixture
def numbered():
    """50 samples, each of its own number: (50, 1, 2, 2), and 30 test samples of other numbers."""
    x = torch.arange(50.0).view(-1, 1, 1, 1).expand(-1, 1, 2, 2).contiguous()
    return (x, torch.arange(50) % 3), (x[:30] + 1000, torch.arange(30) % 3)


class Network(nn.Module):
    """Notes the numbers it is shown, in training and outside."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        shown = TRAINED if self.training else ASKED
        shown.extend(x.detach().reshape(len(x), -1)[:, 0].round().long().tolist())
        return self.head(x.flatten(1) / 50)


TRAINED: list[int] = []
ASKED: list[int] = []


@pytest.fixture(autouse=True)
def forgotten():
    TRAINED.clear()
    ASKED.clear()


class Watch(gradlex.engine.PopulationEngine):
    """Forgets what was asked before selection began, the network's probe for example."""

    def train(self, parent, subsets, lr):
        if parent.generation == 0:
            TRAINED.clear()
        candidates = super().train(parent, subsets, lr)
        ASKED.clear()
        return candidates


@pytest.mark.parametrize("share", [None, 0.2, 0.5])
def test_held_out_cases_are_never_trained_on_and_are_no_test_samples(share, numbered, monkeypatch):
    data, test = numbered
    drawn = []
    inner = ArraySamples.augmented

    def noted(self, indices, rng):
        drawn.extend(indices.tolist())
        return inner(self, indices, rng)

    monkeypatch.setattr(ArraySamples, "augmented", noted)
    cases = []

    class Notes(gradlex.Callback):
        def on_generation(self, run, record):
            cases.append(set(ASKED))

    recipe = RECIPE.replace(cases="held-out", held_out=share, selection="tournament")
    run = gradlex.train(Network(), data, recipe, callbacks=[Notes()], engine=Watch, test=test)
    held = set(range(50)) - set(drawn)
    expected = round((share or 0.1) * 50)
    assert run.recipe.held_out == (share or 0.1)
    assert set(drawn) == set(TRAINED)
    # Selection saw every held-out case, and then the test samples were evaluated.
    assert [{number for number in each if number < 1000} for each in cases] == [held] * 3
    assert len(held) == expected
    assert all(record.cases_used == expected for record in run.generations)
    assert run.result["samples_trained"] == 3 * (50 - expected) == len(drawn)
    order = stream(2, "held_out").permutation(50)
    assert held == set(order[:expected].tolist())


def test_by_default_the_cases_are_all_training_samples(numbered):
    data, _ = numbered
    run = gradlex.train(Network(), data, RECIPE.replace(selection="tournament"), engine=Watch)
    assert all(record.cases_used == 50 for record in run.generations)
    assert run.result["samples_trained"] == 150
    assert set(TRAINED) == set(range(50))


def test_other_seeds_hold_other_samples_out(numbered):
    data, _ = numbered
    parts = []
    for seed in (0, 1):
        TRAINED.clear()
        gradlex.train(Network(), data, RECIPE.replace(cases="held-out", seed=seed), engine=Watch)
        parts.append(frozenset(TRAINED))
    assert parts[0] != parts[1]


def test_promotion_cases_are_at_most_the_held_out_ones(numbered):
    data, _ = numbered
    recipe = RECIPE.replace(cases="held-out", held_out=0.2, promotion="expected")
    run = gradlex.train(Network(), data, recipe.replace(promotion_cases=10))
    assert [record.cases_used for record in run.generations] == [10] * 3
    with pytest.raises(InputError, match="promotion_cases 11 is more than the 10 cases: give fewer"):
        gradlex.train(Network(), data, recipe.replace(promotion_cases=11))


@pytest.mark.parametrize(
    ("share", "said"), [(0.005, "leaves no case: give more"), (0.95, "more than half of the")]
)
def test_a_share_that_leaves_too_little_is_refused(share, said, numbered, tmp_path):
    with pytest.raises(InputError, match=said):
        gradlex.train(
            Network(), numbered[0], RECIPE.replace(cases="held-out", held_out=share), out=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


def shifted(batch, rng):
    """Every sample becomes another number of a hundred more, which the network notes."""
    moves = torch.from_numpy(rng.integers(1, 1000, len(batch))).view(-1, 1, 1, 1)
    return batch + 100 * moves


def test_augmented_cases_are_alike_for_all_candidates_and_other_ones_in_each_generation(numbered):
    data, _ = numbered
    seen = []

    class Notes(gradlex.Callback):
        def on_generation(self, run, record):
            seen.append(list(ASKED))

    recipe = RECIPE.replace(cases="augmented", selection="tournament", lr=1e-6)
    gradlex.train(Network(), data, recipe, augment=shifted, callbacks=[Notes()], engine=Watch)
    for asked in seen:
        assert len(asked) == 150
        candidates = [asked[start : start + 50] for start in (0, 50, 100)]
        assert candidates[0] == candidates[1] == candidates[2]
        assert sorted(number % 100 for number in candidates[0]) == list(range(50))
        assert all(number >= 100 for number in candidates[0])
    assert len({tuple(sorted(asked)) for asked in seen}) == 3


def test_augmented_cases_differ_from_what_candidates_were_trained_on(numbered):
    data, _ = numbered
    recipe = RECIPE.replace(cases="augmented", selection="tournament", generations=1)
    gradlex.train(Network(), data, recipe, augment=shifted, engine=Watch)
    trained, asked = set(TRAINED), {number for number in ASKED if number >= 100}
    assert len(asked) == 50
    assert len(trained & asked) < 5


def test_clean_cases_are_clean_also_where_candidates_have_augmentations_of_their_own(signs, sign_net):
    recipe = RECIPE.replace(vary={"augment": "flip|cutout1"}, lr=1e-6, weight_decay=0)
    run = gradlex.train(sign_net, signs, recipe)
    assert [(record.reason, record.cases_used) for record in run.generations] == [("exhausted", 40)] * 3


class Negated(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return -self.x[index], int(self.y[index])


def test_the_cases_of_a_dataset_may_be_those_it_transforms(signs, sign_net):
    still = RECIPE.replace(lr=1e-6, weight_decay=0)
    clean = gradlex.train(sign_net, Negated(*signs), still, clean=TensorDataset(*signs))
    assert [record.reason for record in clean.generations] == ["exhausted"] * 3
    seen = gradlex.train(
        sign_net, Negated(*signs), still.replace(cases="augmented"), clean=TensorDataset(*signs)
    )
    assert [(record.reason, record.cases_used) for record in seen.generations] == [("all_failed", 1)] * 3


def test_held_out_cases_of_a_dataset_are_its_clean_view(signs, sign_net):
    recipe = RECIPE.replace(cases="held-out", held_out=0.25, lr=1e-6, weight_decay=0)
    run = gradlex.train(sign_net, Negated(*signs), recipe, clean=TensorDataset(*signs))
    assert [(record.reason, record.cases_used) for record in run.generations] == [("exhausted", 10)] * 3
    assert run.result["samples_trained"] == 90


def test_the_final_metrics_on_training_samples_are_those_that_were_trained_on(numbered):
    data, _ = numbered
    recipe = RECIPE.replace(cases="held-out", held_out=0.2, generations=1)
    run = gradlex.train(Network(), data, recipe, engine=Watch)
    trained = np.array(sorted(set(TRAINED)))
    with torch.no_grad():
        right = run.model(data[0][trained]).argmax(1) == data[1][trained]
    assert run.train["accuracy"] == pytest.approx(float(right.float().mean()))
