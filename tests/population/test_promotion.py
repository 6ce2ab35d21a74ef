"""The arithmetic of promotion: means, the outer step, the moving average."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from gradlex import Recipe
from gradlex.population import (
    MovingAverage,
    OuterStep,
    Parent,
    Recalibration,
    averaged,
    batch_norm_layers,
    export_state,
    make_optimizer,
    move_to_mean,
    pieces,
    statistics_of,
    steps_of,
)


class Generation:
    """What a step may ask about: here that "w" is trained."""

    trainable = ("w",)


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


def random(*shape, seed=0, dtype=torch.float32):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_mean_is_taken_in_float64_and_stored_in_the_tensors_type(dtype):
    one, *others = (random(7, 5, seed=seed, dtype=dtype) for seed in range(3))
    wide = [t.double().clone() for t in (one, *others)]
    expected = (wide[0] + (0.3 * (wide[1] - wide[0]) + 0.2 * (wide[2] - wide[0]))).to(dtype)
    move_to_mean(one, zip([0.3, 0.2], others, strict=True))
    assert one.dtype == dtype
    assert torch.equal(bits(one), bits(expected))
    assert torch.allclose(one.double(), 0.5 * wide[0] + 0.3 * wide[1] + 0.2 * wide[2], rtol=1e-2, atol=1e-2)


def test_rounding_happens_once_at_the_end():
    # In float32 each of these shifts would be lost, one after the other.
    one = torch.ones(1)
    others = [torch.tensor([1 + 2**-23])] * 3
    move_to_mean(one, ((0.2, other) for other in others))
    assert one.item() == 1 + 2**-23


@given(
    value=st.floats(width=32, allow_nan=False),
    weights=st.lists(st.floats(0.001, 1), min_size=1, max_size=8),
)
def test_the_mean_of_identical_tensors_is_that_tensor_bit_for_bit(value, weights):
    one = torch.tensor([value])
    before = one.clone()
    move_to_mean(one, ((weight, before.clone()) for weight in weights))
    assert torch.equal(bits(one), bits(before))  # also for -0.0 and for a mask's -inf


def test_what_is_averaged_with_is_left_as_it_was():
    for dtype in (torch.float32, torch.float64):
        other = random(4, seed=1, dtype=dtype)
        before = other.clone()
        move_to_mean(random(4, dtype=dtype), [(0.5, other)])
        assert torch.equal(other, before)


def test_complex_tensors_are_averaged_too():
    one = torch.tensor([1 + 2j])
    move_to_mean(one, [(0.25, torch.tensor([5 - 2j]))])
    assert one.tolist() == [2 + 1j]


def test_the_number_of_threads_changes_no_bit(one_thread):
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        one = random(99_991)
        move_to_mean(one, [(1 / 3, random(99_991, seed=1)), (1 / 3, random(99_991, seed=2))])
        found.append(one)
    assert all(torch.equal(bits(one), bits(found[0])) for one in found)


@pytest.mark.parametrize("channels_last", [False, True])
def test_pieces_are_views_of_the_tensor_in_the_order_of_the_other(channels_last):
    like = random(4, 3, 5, 5)
    if channels_last:
        like = like.contiguous(memory_format=torch.channels_last)
    tensor = torch.empty_like(like).copy_(random(4, 3, 5, 5, seed=1))
    (piece,) = pieces(tensor, like)
    piece.zero_()
    assert tensor.abs().sum() == 0
    (own,), (other,) = pieces(like, like), pieces(like.contiguous(), like)
    assert torch.equal(own, other)


def test_a_large_tensor_comes_in_several_pieces_that_hold_it_all():
    tensor = torch.arange(2_500_000)
    parts = pieces(tensor, tensor)
    assert len(parts) == 3
    assert torch.equal(torch.cat(list(parts)), tensor)


def stepped(name, model):
    optimizer = make_optimizer(Recipe(optimizer=name, momentum="inherit"), model, 0.01, "cpu")
    model(torch.ones(4, 3)).square().sum().backward()
    optimizer.step()
    return export_state(optimizer, model, torch.device("cpu"))


def test_whole_numbers_and_an_optimizers_counts_are_not_averaged():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    model.register_buffer("mask", torch.tensor([True, False]))
    model.register_buffer("empty", torch.zeros(0))
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    found = averaged(state, stepped("adamw", model))
    kept = {"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"}
    assert {place[1] for place in found if place[0] == "state"} == kept
    assert {place[2] for place in found if place[0] == "optimizer"} == {"exp_avg", "exp_avg_sq"}
    assert averaged(state, None).keys() == {("state", name) for name in kept}


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return x * self.scale


def test_the_momentum_of_a_parameter_without_dimensions_is_averaged():
    model = Scaled()
    found = averaged(dict(model.named_parameters()), stepped("sgd", model))
    assert ("optimizer", "scale", "momentum_buffer") in found


def outer(parent, promoted, velocity=None, **how):
    before = Parent(
        generation=0,
        state={"w": parent, "buffer": torch.zeros(2)},
        slots={} if velocity is None else {"outer": velocity},
    )
    mean = Parent(generation=1, state={"w": promoted.clone(), "buffer": torch.ones(2)})
    after = OuterStep(**{"lr": 1.0, **how})(mean, before, Generation())
    assert torch.equal(after.state["buffer"], torch.ones(2))  # the network's buffers follow the mean
    return after.state["w"], after.slots.get("outer")


def moving_average(average, state, decay):
    before = Parent(generation=0, state=state, slots={} if average is None else {"ema": average})
    after = MovingAverage(decay)(Parent(generation=1, state=state), before, Generation())
    assert after.state is state
    return after.slots["ema"]


def test_a_recipe_has_the_steps_that_its_numbers_ask_for_in_their_order():
    assert steps_of(Recipe()) == ()
    recipe = Recipe(ema=0.9, recalibrate=2, outer_lr=0.7, outer_momentum=0.5, outer_nesterov=True)
    assert steps_of(recipe) == (OuterStep(0.7, 0.5, True), Recalibration(2), MovingAverage(0.9))


def test_a_slot_is_added_beside_the_others():
    parent = Parent(generation=3, state={}).with_slot("one", {"a": torch.ones(1)})
    both = parent.with_slot("two", {})
    assert (list(parent.slots), list(both.slots), both.generation) == (["one"], ["one", "two"], 3)


def test_an_outer_rate_of_one_without_momentum_changes_nothing():
    promoted = random(50, seed=1)
    moved, velocity = outer(random(50), promoted)
    assert torch.equal(bits(moved), bits(promoted))
    assert velocity is None


def test_the_outer_rate_alone_goes_a_part_of_the_way_and_keeps_no_velocity():
    moved, velocity = outer(torch.tensor([1.0, 4.0]), torch.tensor([3.0, 0.0]), lr=0.25)
    assert moved.tolist() == [1.5, 3.0]
    assert velocity is None


@pytest.mark.parametrize("nesterov", [False, True])
def test_the_outer_step_is_sgd_with_momentum_on_the_movement(nesterov):
    """As DiLoCo has it: torch's own SGD, the movement's negative being the gradient."""
    weight = nn.Parameter(random(20, dtype=torch.float64))
    optimizer = torch.optim.SGD([weight], lr=0.7, momentum=0.9, nesterov=nesterov)
    parent, velocity = weight.detach().clone(), None
    for generation in range(1, 6):
        promoted = parent + random(20, seed=generation, dtype=torch.float64)
        weight.grad = parent - promoted
        optimizer.step()
        parent, velocity = outer(parent, promoted, velocity, lr=0.7, momentum=0.9, nesterov=nesterov)
        assert torch.allclose(parent, weight.detach(), rtol=1e-12, atol=1e-12)


def test_the_outer_step_computes_in_float64_and_stores_in_the_parameters_type():
    parent, promoted, speed = random(30), random(30, seed=1), random(30, seed=2)
    moved, velocity = outer(parent, promoted, {"w": speed}, lr=0.5, momentum=0.9)
    v = 0.9 * speed.double() + (promoted.double() - parent.double())
    assert torch.equal(velocity["w"], v.float())
    assert torch.equal(moved, (parent.double() + 0.5 * v).float())


class Largest(TorchDispatchMode):
    """The elements of the largest float64 tensor that is made inside it."""

    found = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and made.dtype == torch.float64:
            self.found = max(self.found, made.numel())
        return made


@pytest.mark.parametrize("nesterov", [False, True])
def test_no_more_than_a_piece_of_a_tensor_is_widened_at_once(nesterov, monkeypatch):
    monkeypatch.setattr("gradlex.population._promotion._PIECE", 7)
    parent, promoted, speed = (random(6, 5, seed=seed) for seed in range(3))
    with Largest() as largest:
        _, velocity = outer(parent, promoted, {"w": speed}, lr=0.5, momentum=0.9, nesterov=nesterov)
        moving_average(velocity, {"w": promoted}, 0.9)
    assert largest.found == 7


def test_the_moving_average_takes_a_buffer_whose_elements_share_their_place():
    before, state = {"b": random(3, 4)}, {"b": random(3, 1, seed=1).expand(3, 4)}
    expected = (0.9 * before["b"].double() + (1 - 0.9) * state["b"].double()).float()
    assert torch.equal(moving_average(before, state, 0.9)["b"], expected)


def test_the_moving_average_is_that_of_its_definition():
    states = [{"w": random(9, seed=seed), "n": torch.tensor(seed)} for seed in range(4)]
    average = None
    for state in states:
        average = moving_average(average, state, 0.9)
    expected = states[0]["w"]
    for state in states[1:]:
        expected = (0.9 * expected.double() + (1 - 0.9) * state["w"].double()).float()
    assert torch.equal(average["w"], expected)
    assert average["n"] == 3
    assert average["w"].dtype == torch.float32


def test_the_moving_average_shares_nothing_with_what_it_was_made_from():
    state = {"w": torch.ones(2), "n": torch.ones(2, dtype=torch.int64)}
    first = moving_average(None, state, 0.5)
    second = moving_average(first, state, 0.5)
    pointers = [t.data_ptr() for kept in (state, first, second) for t in kept.values()]
    assert len(set(pointers)) == len(pointers)


def test_a_mask_of_infinity_stays_one_in_every_mean():
    mask = torch.tensor([0.0, -math.inf])
    assert moving_average({"m": mask}, {"m": mask}, 0.9)["m"].tolist() == [0.0, -math.inf]
    one = mask.clone()
    move_to_mean(one, [(0.5, mask)])
    assert one.tolist() == [0.0, -math.inf]


def test_the_statistics_of_batch_norm_are_found_by_name_also_when_it_is_the_whole_network():
    names = ("running_mean", "running_var", "num_batches_tracked")
    assert statistics_of(batch_norm_layers(nn.BatchNorm1d(3))) == set(names)
    net = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm2d(1), nn.GroupNorm(1, 1))
    assert statistics_of(batch_norm_layers(net)) == {f"1.{name}" for name in names}
