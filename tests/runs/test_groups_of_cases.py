"""Cases in training that are groups, or weigh more than others; the worst group is reported."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch import nn

import gradlex
from gradlex.errors import InputError
from gradlex.runs import Execution, Named, start
from gradlex.selection import Cases, Choice, OnCases, bind

RNG = np.random.default_rng(0)
X = torch.tensor(RNG.normal(size=(120, 4)), dtype=torch.float32)
Y = torch.tensor(RNG.integers(0, 2, 120))
GROUPS = RNG.choice(["a", "b", "c"], 90, p=[0.6, 0.3, 0.1])
TEST_GROUPS = np.arange(30) % 3
RECIPE = gradlex.Recipe(population=3, generations=3, batch_size=16, threads=1)

ALONE = Execution(workers=1)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def train(recipe=RECIPE, **options):
    return gradlex.train(net(), (X[:90], Y[:90]), recipe, test=(X[90:], Y[90:]), progress=False, **options)


def test_a_strategy_sees_a_case_for_each_group_with_its_mean_error():
    seen = []

    def watching(cases, errors, rng) -> Choice:
        grouped, single = errors.matrix(), errors._errors.matrix()
        means = np.stack([single[:, name == GROUPS].mean(axis=1) for name in "abc"], axis=1)
        seen.append((sorted(cases), np.abs(grouped - means).max()))
        return Choice(index=int(errors.candidates[0]), reason="first")

    train(RECIPE.replace(selection=watching), cases=Cases(groups=GROUPS))
    assert [cases for cases, _ in seen] == [[0, 1, 2]] * 3
    assert max(difference for _, difference in seen) < 1e-6


def test_groups_are_graded_and_counted_as_cases():
    run = train(cases=Cases(groups=GROUPS), test_groups=TEST_GROUPS)
    assert run.recipe.selection_options["on_all_fail"] == "survive"
    assert all(1 <= record.cases_used <= 3 for record in run.generations)
    with torch.no_grad():
        right = (run.model(X[90:]).argmax(dim=1) == Y[90:]).numpy()
    assert run.test["accuracy"] == pytest.approx(right.mean())
    worst = min(right[group == TEST_GROUPS].mean() for group in range(3))
    assert run.test["worst_group_accuracy"] == pytest.approx(worst)
    assert run.result["measures"][-1]["name"] == "worst_group_accuracy"
    assert "worst_group_accuracy" not in train().test


def test_weights_change_which_cases_are_looked_at_first():
    asked = []

    def first(cases, errors, rng) -> Choice:
        asked.append(int(cases[0]))
        return Choice(index=int(errors.candidates[0]), reason="first", deciding=(int(cases[0]),))

    recipe = RECIPE.replace(selection=first)
    run = train(recipe, cases=Cases(subset=[3, 5, 7], priority=np.where(np.arange(90) == 5, 0, 1)))
    assert asked == [1, 1, 1]  # of the three that take part, the second
    assert [record.deciding for record in run.generations] == [(5,)] * 3
    weighted = Cases(weights=np.where(np.arange(90) < 2, 1.0, 0.0))
    assert all(record.cases_used <= 2 for record in train(cases=weighted).generations)


def test_expected_promotion_follows_the_weights():
    recipe = RECIPE.replace(promotion="expected", selection_options={"on_all_fail": "survive"})
    alone = train(recipe, cases=Cases(subset=[4])).generations[-1]
    first = train(recipe, cases=Cases(priority=np.arange(90) != 4, subset=[4, 5])).generations[-1]
    assert len(alone.weights) == len(first.weights) == 3


def test_a_rule_is_asked_in_every_generation():
    shapes = []

    def telling(errors):
        shapes.append(errors.shape)
        return errors.min(axis=0) < 2

    train(cases=Cases(subset=telling))
    assert shapes == [(3, 90)] * 3


def test_held_out_cases_keep_their_groups():
    recipe = RECIPE.replace(cases="held-out", held_out=0.3)
    run = train(recipe, cases=Cases(groups=GROUPS, weights={"a": 1.0, "b": 2.0, "c": 3.0}))
    assert all(record.cases_used <= 3 for record in run.generations)


def test_a_resumed_run_has_the_same_bits_and_other_groups_are_refused(tmp_path):
    described = Cases(groups=GROUPS, weights={"c": 4.0})
    whole = train(cases=described, out=tmp_path / "whole")

    class Stop(gradlex.Callback):
        def on_generation(self, run, record):
            if record.generation == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(cases=described, out=tmp_path / "cut", callbacks=[Stop()])
    resumed = train(cases=described, out=tmp_path / "cut", resume=True)
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name])
    with pytest.raises(InputError, match="data"):
        train(cases=Cases(groups=GROUPS[::-1]), out=tmp_path / "whole", resume=True)


def test_an_archive_may_hold_groups(tmp_path):
    path = tmp_path / "data.npz"
    arrays = {"x_train": X[:90], "y_train": Y[:90], "x_test": X[90:], "y_test": Y[90:]}
    arrays = {name: tensor.numpy() for name, tensor in arrays.items()}
    np.savez(path, **arrays, groups_train=GROUPS, groups_test=TEST_GROUPS)
    recipe = RECIPE.replace(dataset=str(path), model="mlp")
    run = start(Named(), recipe, ALONE)
    assert all(record.cases_used <= 3 for record in run.generations)
    assert 0 <= run.test["worst_group_accuracy"] <= run.test["accuracy"]
    with pytest.raises(InputError, match="a group's mean error is graded"):
        start(Named(), recipe.replace(selection_options={"on_all_fail": "random"}), ALONE)
    np.savez(path, **arrays, groups_train=GROUPS[:5])
    with pytest.raises(
        InputError, match="groups_train must be a whole number or name for each of the 90 samples"
    ):
        start(Named(), recipe, ALONE)


def test_what_does_not_fit_is_refused_before_anything_is_trained(tmp_path):
    for described, match in (
        (Cases(groups=[1, 2]), "each of the 90 columns"),
        (Cases(maximize=True), "maximize and nan are for tables"),
        ({"groups": GROUPS}, "must be a gradlex.selection.Cases"),
    ):
        with pytest.raises(InputError, match=match):
            train(cases=described, out=tmp_path / "run")
    with pytest.raises(InputError, match="which selection 'tournament' does not follow"):
        train(RECIPE.replace(selection="tournament"), cases=Cases(weights=np.arange(90)))
    with pytest.raises(InputError, match="each of the 30 test samples"):
        train(test_groups=[1, 2])
    assert not (tmp_path / "run").exists()


def test_a_selection_on_cases_can_be_sent_to_workers():
    select = OnCases(bind("lexicase", on_all_fail="survive"), Cases(groups=GROUPS), 90)
    assert pickle.loads(pickle.dumps(select)).columns == 90
