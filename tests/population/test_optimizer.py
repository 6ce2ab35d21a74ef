from __future__ import annotations

import pytest
import torch
from torch import nn

from gradlex import InputError, Recipe
from gradlex.population import (
    check_optimizer,
    export_state,
    import_state,
    make_optimizer,
    optimizer_keywords,
)


def made(**fields):
    return make_optimizer(Recipe(**fields), nn.Linear(3, 2), 0.05, "cpu")


def test_sgd_has_the_papers_momentum_unless_told_otherwise():
    assert made(momentum="reset").defaults["momentum"] == 0.9
    assert made(momentum="reset", optimizer_options={"momentum": 0.5}).defaults["momentum"] == 0.5


def test_the_rate_and_the_weight_decay_reach_the_optimizer():
    optimizer = made(momentum="inherit", optimizer="AdamW", weight_decay=0.03)
    assert isinstance(optimizer, torch.optim.AdamW)
    assert (optimizer.defaults["lr"], optimizer.defaults["weight_decay"]) == (0.05, 0.03)


def test_momentum_none_sets_the_optimizers_momentum_to_zero():
    assert made(momentum="none").defaults["momentum"] == 0
    assert made(momentum="none", optimizer="rmsprop").defaults["momentum"] == 0


def test_momentum_none_is_refused_where_there_is_no_momentum_keyword():
    with pytest.raises(InputError, match=r"'none'.*'adamw' has none.*'reset' or 'inherit'"):
        made(momentum="none", optimizer="adamw")


def test_momentum_none_contradicts_a_momentum_among_the_options():
    with pytest.raises(InputError, match=r"'none' contradicts momentum=0\.5"):
        made(momentum="none", optimizer_options={"momentum": 0.5})


@pytest.mark.parametrize("name", ["lbfgs", "LBFGS"])
def test_an_optimizer_that_needs_a_closure_is_refused_by_name(name):
    with pytest.raises(InputError, match=f"{name!r}.*closure"):
        made(optimizer=name, weight_decay=0)


def test_an_unknown_optimizer_is_told_its_nearest_neighbour():
    with pytest.raises(InputError, match=r"unknown optimizer 'adamww'.*'adamw'"):
        made(optimizer="adamww")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"lr": 0.1}, "recipe's own field lr"),
        ({"weight_decay": 0.1}, "recipe's own field weight_decay"),
        ({"nestrov": True}, "'nesterov'"),
        ({"params": []}, "params"),
        ({"maximize": True}, "maximize"),
    ],
)
def test_an_option_that_is_not_the_optimizers_to_take_is_refused(options, told):
    with pytest.raises(InputError, match=told):
        optimizer_keywords(Recipe(optimizer_options=options))


@pytest.mark.parametrize("value", [-1, "much"])
def test_an_option_that_the_optimizer_itself_refuses_is_told_with_its_reason(value):
    recipe = Recipe(optimizer_options={"momentum": value})
    with pytest.raises(InputError, match=r"'sgd' refused its settings.*momentum.*: \w+Error: "):
        check_optimizer(recipe, nn.Linear(3, 2), "cpu")


@pytest.mark.parametrize("name", ["sgd", "adamw", "rmsprop"])
def test_checking_the_optimizer_leaves_the_model_as_it_was(name):
    model = nn.Linear(3, 2)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    check_optimizer(Recipe(optimizer=name, weight_decay=0.5), model, "cpu")
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_weight_decay_is_refused_where_the_optimizer_has_none():
    with pytest.raises(InputError, match=r"no weight decay, got 0\.0001: set weight_decay to 0"):
        made(optimizer="sparseadam")


def test_frozen_parameters_are_not_given_to_the_optimizer():
    model = nn.Linear(3, 2)
    model.bias.requires_grad_(False)
    optimizer = make_optimizer(Recipe(), model, 0.1, "cpu")
    assert [p is model.weight for group in optimizer.param_groups for p in group["params"]] == [True]


def _step(model, optimizer):
    model(torch.ones(4, 3)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("name", ["sgd", "adamw", "rmsprop", "nadam"])
def test_an_imported_state_continues_the_exported_one_and_shares_nothing_with_it(name):
    recipe = Recipe(optimizer=name, momentum="inherit")
    model = nn.Linear(3, 2)
    first = make_optimizer(recipe, model, 0.01, "cpu")
    _step(model, first)
    exported = export_state(first, model, torch.device("cpu"))
    before = {p: {k: torch.as_tensor(v).clone() for k, v in s.items()} for p, s in exported.items()}

    twin = nn.Linear(3, 2)
    twin.load_state_dict(model.state_dict())
    second = make_optimizer(recipe, twin, 0.01, "cpu")
    import_state(second, twin, exported)
    _step(twin, second)
    for parameter, values in before.items():
        for key, value in values.items():
            assert torch.equal(torch.as_tensor(exported[parameter][key]), value)
    _step(model, first)
    assert torch.equal(twin.weight, model.weight)
    assert torch.equal(twin.bias, model.bias)


@pytest.mark.parametrize("keyword", ["fused", "capturable"])
def test_a_stored_count_of_steps_follows_the_parameter_where_the_step_is_taken_on_its_device(keyword):
    stored = {"weight": {"step": torch.tensor(3.0), "exp_avg": torch.zeros(2, 3)}}
    for on_device, expected in ((True, "meta"), (False, "cpu")):
        model = nn.Linear(3, 2, device="meta")
        optimizer = torch.optim.AdamW(model.parameters())
        optimizer.param_groups[0][keyword] = on_device
        import_state(optimizer, model, stored)
        found = optimizer.state[model.weight]
        assert (found["step"].device.type, found["exp_avg"].device.type) == (expected, "meta")
