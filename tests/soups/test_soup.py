"""gradlex.soup: which mixture each method chooses, what it is made of, and who reports."""

from __future__ import annotations

import copy
import json
import weakref

import numpy as np
import pytest
import torch
from safetensors import safe_open

import gradlex
from gradlex.errors import InputError
from gradlex.selection import Cases, selection_probabilities
from gradlex.soups import METHODS, Checkpoint, open_checkpoint, plot_cases


def errors_of(net, part) -> np.ndarray:
    with torch.no_grad():
        return (net.eval()(part[0]).argmax(dim=1) != part[1]).numpy().astype(float)


def mean_of(nets, shares) -> dict[str, torch.Tensor]:
    states = [net.state_dict() for net in nets]
    return {
        name: sum(share * state[name].double() for share, state in zip(shares, states, strict=True)).float()
        for name, tensor in states[0].items()
        if tensor.is_floating_point()
    }


def test_each_method_mixes_what_it_says(nets, data):
    made = gradlex.soup(nets, data["validation"], test=data["test"], recalibrate=0)
    table = np.stack([errors_of(net, data["validation"]) for net in nets])
    np.testing.assert_array_equal(made.errors, table)
    labels, weights = made.labels, {name: mixture.weights for name, mixture in made.mixtures.items()}
    assert weights["best"] == {labels[table.mean(axis=1).argmin()]: 1.0}
    assert weights["uniform"] == weights["ensemble"] == dict.fromkeys(labels, 0.25)
    chances = selection_probabilities(table, on_all_fail="survive")
    assert weights["lexicase"] == {labels[chances.argmax()]: 1.0}
    assert list(weights["expected"].values()) == pytest.approx(chances[chances > 0].tolist())
    assert set(made.mixtures) == {*METHODS, "ensemble"}


def test_a_mixture_is_the_weighted_mean_of_its_checkpoints(nets, data):
    made = gradlex.soup(nets, data["validation"], methods=["expected"], recalibrate=0)
    shares = [made.mixtures["expected"].weights.get(label, 0.0) for label in made.labels]
    assert 0 < max(shares) < 1
    for name, tensor in mean_of(nets, shares).items():
        torch.testing.assert_close(made.model.state_dict()[name], tensor)
    assert not made.model.training


def test_the_greedy_soup_follows_its_published_steps(nets, data):
    x, y = data["validation"]

    def accuracy(chosen) -> float:
        shares = [1 / len(chosen) * (number in chosen) for number in range(4)]
        mixed = copy.deepcopy(nets[0])
        mixed.load_state_dict(mean_of(nets, shares), strict=False)
        return 1 - errors_of(mixed, (x, y)).mean()

    order = sorted(range(4), key=lambda number: -accuracy([number]))
    chosen = [order[0]]
    for number in order[1:]:
        if accuracy([*chosen, number]) >= accuracy(chosen):
            chosen.append(number)
    made = gradlex.soup(nets, (x, y), methods=["greedy"], recalibrate=0)
    assert made.mixtures["greedy"].weights == {made.labels[n]: 1 / len(chosen) for n in sorted(chosen)}
    assert made.mixtures["greedy"].validation["accuracy"] == pytest.approx(accuracy(chosen))


def test_greedy_by_cases_asks_first_who_solves_what_is_unsolved():
    # By accuracy checkpoint 1 comes next; but checkpoint 2 alone solves the cases that 0 fails.
    errors = np.ones((3, 10))
    errors[0, :6], errors[1, :5], errors[2, 6:9] = 0, 0, 0
    asked = []

    def evaluate(shares):
        asked.append(np.flatnonzero(shares).tolist())
        return errors[np.flatnonzero(shares)].min(axis=0)

    np.testing.assert_allclose(METHODS["cases"](errors, evaluate, None), [0.5, 0, 0.5])
    assert asked == [[0, 2]]  # nobody solves the last case, so nobody else is asked
    METHODS["greedy"](errors, evaluate, None)
    assert asked[1] == [0, 1]


def test_batch_norm_of_a_mixture_is_recalibrated_on_the_training_samples(nets, data):
    made = gradlex.soup(nets, data["validation"], train=data["train"], methods=["uniform"])
    plain = gradlex.soup(nets, data["validation"], train=data["train"], methods=["uniform"], recalibrate=0)
    x = data["train"][0]
    inputs = made.model[0](x)
    torch.testing.assert_close(made.model.state_dict()["1.running_mean"], inputs.mean(dim=0))
    torch.testing.assert_close(
        plain.model.state_dict()["1.running_mean"], mean_of(nets, [0.25] * 4)["1.running_mean"]
    )
    alone = gradlex.soup(nets, data["validation"], train=data["train"], methods=["best"])
    chosen = nets[int(alone.errors.mean(axis=1).argmin())]
    torch.testing.assert_close(alone.model.state_dict(), chosen.state_dict())


def test_the_test_part_reports_and_changes_no_choice(nets, data):
    made = gradlex.soup(nets, data["validation"], test=data["test"])
    other = gradlex.soup(nets, data["validation"], test=(data["test"][0], (data["test"][1] + 1) % 3))
    assert {name: m.weights for name, m in made.mixtures.items()} == {
        name: m.weights for name, m in other.mixtures.items()
    }
    assert made.chosen == other.chosen
    assert made.mixtures["best"].test != other.mixtures["best"].test
    best = nets[int(made.errors.mean(axis=1).argmin())]
    right = 1 - errors_of(best, data["test"])
    test, y = made.mixtures["best"].test, data["test"][1].numpy()
    assert test["accuracy"] == pytest.approx(right.mean())
    assert test["worst_class_accuracy"] == pytest.approx(min(right[y == label].mean() for label in range(3)))
    assert 0 <= test["calibration_error"] <= 1
    assert gradlex.soup(nets, data["validation"]).mixtures["best"].test is None


def test_the_ensemble_is_the_mean_of_the_outputs(nets, data):
    made = gradlex.soup(nets, data["validation"], test=data["test"])
    with torch.no_grad():
        outputs = torch.stack([net(data["test"][0]) for net in nets]).mean(dim=0)
    right = (outputs.argmax(dim=1) == data["test"][1]).float().mean()
    assert made.mixtures["ensemble"].test["accuracy"] == pytest.approx(float(right))


def test_groups_of_cases_choose_too(nets, data):
    x, y = data["validation"]
    cases = Cases(groups=y.numpy())
    made = gradlex.soup(nets, (x, y), cases=cases)
    chances = selection_probabilities(made.errors, cases=cases, on_all_fail="survive")
    assert list(made.mixtures["expected"].weights.values()) == pytest.approx(chances[chances > 0].tolist())


def test_the_file_holds_the_mixture_and_where_it_came_from(nets, data, tmp_path):
    out = tmp_path / "soup.safetensors"
    made = gradlex.soup(nets, data["validation"], test=data["test"], methods=["uniform"], out=out)
    with safe_open(out, framework="pt") as file:
        told = json.loads(file.metadata()["gradlex"])
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    torch.testing.assert_close(found, dict(made.model.state_dict()))
    assert told["method"] == "uniform"
    assert told["weights"] == dict.fromkeys(made.labels, 0.25)
    assert told["chosen_on"] == "80 validation samples"
    assert told["reported_on"] == "120 test samples"
    assert open_checkpoint(out).provenance["sha256"]


def test_the_callers_networks_stay_as_they_are(nets, data):
    before = [{name: t.clone() for name, t in net.state_dict().items()} for net in nets]
    gradlex.soup(nets, data["validation"], train=data["train"])
    for net, state in zip(nets, before, strict=True):
        torch.testing.assert_close(dict(net.state_dict()), state)


def test_checkpoints_are_read_tensor_by_tensor(nets, data):
    alive: set[int] = set()
    most = 0

    def watched(net, number) -> Checkpoint:
        state = net.state_dict()

        def read(name):
            nonlocal most
            tensor, key = state[name].clone(), object()
            alive.add(id(key))
            weakref.finalize(tensor, alive.discard, id(key))
            keys.append(key)
            most = max(most, len(alive))
            return tensor

        return Checkpoint(
            label=str(number), shapes={name: tuple(t.shape) for name, t in state.items()}, read=read
        )

    keys: list[object] = []
    gradlex.soup([watched(net, number) for number, net in enumerate(nets)], data["validation"], model=nets[0])
    assert len(keys) > 100
    assert most <= 2


def test_what_cannot_be_mixed_is_refused(nets, data, net):
    validation = data["validation"]
    with pytest.raises(InputError, match="at least two checkpoints"):
        gradlex.soup(nets[:1], validation)
    with pytest.raises(InputError, match="Did you mean 'greedy'"):
        gradlex.soup(nets, validation, methods=["gredy"])
    with pytest.raises(InputError, match="recalibrate must be"):
        gradlex.soup(nets, validation, recalibrate=-1)
    with pytest.raises(InputError, match="give the network they belong to"):
        gradlex.soup([net.state_dict() for net in nets], validation)
    other = torch.nn.Sequential(torch.nn.Linear(6, 9))
    with pytest.raises(InputError, match=r"0\.weight has the shape \(9, 6\), the model's has \(8, 6\)"):
        gradlex.soup([nets[0], {**nets[1].state_dict(), **other.state_dict()}], validation)
    with pytest.raises(InputError, match=r"3\.bias is missing"):
        gradlex.soup([nets[0], {n: t for n, t in nets[1].state_dict().items() if n != "3.bias"}], validation)
    with pytest.raises(InputError, match="each of the 80 columns"):
        gradlex.soup(nets, validation, cases=Cases(groups=[1, 2]))


def test_the_plot_shows_the_cases_that_divide_the_checkpoints(tmp_path):
    errors = np.array([[0, 1, 0, 1], [1, 0, 0, 1]])
    for name in ("cases.png", "cases.svg"):
        plot_cases(errors, ("a", "b"), tmp_path / name)
        first = (tmp_path / name).read_bytes()
        plot_cases(errors, ("a", "b"), tmp_path / name)
        assert (tmp_path / name).read_bytes() == first
    assert "2 cases divide the checkpoints; all solve 1, none" in (tmp_path / "cases.svg").read_text()
