"""How different candidates are, by sketches of their weights; how much of a winner's advantage its offspring keep."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from gradlex.population import SKETCH, heritability, sketch, weight_diversity, winner_slot

NAMES = ["conv", "linear", "bias"]
SHAPES = {"conv": (16, 8, 3, 3), "linear": (300, 100), "bias": (7,)}


def state(rng, scale=1.0):
    return {name: torch.from_numpy(scale * rng.normal(size=shape)).float() for name, shape in SHAPES.items()}


def moved(parent, delta):
    return {name: parent[name] + delta[name] for name in parent}


def flat(values):
    return torch.cat([values[name].flatten() for name in NAMES]).double()


@pytest.mark.parametrize("seed", range(6))
def test_movement_and_spread_are_those_of_the_weights_within_a_quarter(seed):
    rng = np.random.default_rng(seed)
    parent, shared = state(rng), state(rng, 0.1)
    candidates = [moved(moved(parent, shared), state(rng, 0.05 * (1 + index))) for index in range(4)]
    table = np.stack([sketch(candidate, parent, NAMES) for candidate in candidates])
    assert table.shape == (4, 1 + SKETCH)
    movement, spread = weight_diversity(table)
    lengths = [float((flat(candidate) - flat(parent)).norm()) for candidate in candidates]
    pairs = [float((flat(one) - flat(other)).norm()) for one, other in combinations(candidates, 2)]
    assert movement == pytest.approx(np.mean(lengths) / float(flat(parent).norm()), rel=0.25)
    assert spread == pytest.approx(np.mean(pairs) / np.mean(lengths), rel=0.25)


@pytest.mark.parametrize("size", [(256, 256), (512, 128), (131_072,), (64, 64, 3, 3), (33_000,)])
def test_a_structured_movement_does_not_cancel_out(size):
    """All weights moved alike, or by rows or columns: signs that repeat would lose it."""
    parent = {"weight": torch.ones(size)}
    ramp = torch.linspace(-1, 2, size[0]).view(-1, *[1] * (len(size) - 1))
    for delta in (torch.ones(size), ramp.expand(size), torch.ones(size) * torch.linspace(-1, 2, size[-1])):
        found = sketch({"weight": parent["weight"] + delta}, parent, ["weight"])
        assert np.linalg.norm(found[1:]) == pytest.approx(float(delta.norm()), rel=0.25)


def mixed(number):
    """Wellons' lowbias32, its last shift left out."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        number = (number ^ number >> shift) * factor % 2**32
    return number


def test_signs_are_the_highest_bits_of_a_hash_of_the_place_also_in_long_tensors():
    """Records of other versions and of other workers must be comparable, however a tensor is cut up."""
    names, size = ["a", "b"], 2**19 + 5
    parent = {name: torch.zeros(size) for name in names}
    for name, place in [("a", 0), ("a", 2**18 - 1), ("b", 2**18), ("b", 2**18 + 300), ("b", size - 1)]:
        child = {other: tensor.clone() for other, tensor in parent.items()}
        child[name][place] = 1.0
        found = sketch(child, parent, names)[1:]
        bits = mixed((place + 0x9E3779B1 * (names.index(name) + 1)) % 2**32)
        assert found[place % SKETCH] == (1 if bits >> 31 else -1), (name, place)
        assert np.abs(found).sum() == 1


def test_the_estimate_is_not_biased():
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(60):
        parent = {name: torch.zeros(4000) for name in "ab"}
        delta = {name: torch.from_numpy(rng.normal(size=4000)).float() for name in "ab"}
        found = sketch(delta, parent, ["a", "b"])
        ratios.append((np.linalg.norm(found[1:]) ** 2) / sum(float(d.square().sum()) for d in delta.values()))
    assert np.mean(ratios) == pytest.approx(1, abs=4 * np.sqrt(2 / SKETCH / 60))
    assert np.std(ratios) < 2 * np.sqrt(2 / SKETCH)


def test_candidates_that_are_alike_have_no_spread_and_unrelated_ones_the_root_of_two():
    rng = np.random.default_rng(1)
    parent = state(rng)
    one, other = moved(parent, state(rng, 0.1)), moved(parent, state(rng, 0.1))
    row, apart = (sketch(each, parent, NAMES) for each in (one, other))
    assert weight_diversity(np.stack([row, row]))[1] == 0
    assert weight_diversity(np.stack([row, apart]))[1] == pytest.approx(2**0.5, rel=0.15)


def test_frozen_weights_and_buffers_have_no_part_in_it():
    rng = np.random.default_rng(2)
    parent = state(rng)
    other = moved(parent, state(rng))
    partly = {**parent, "bias": other["bias"]}
    assert np.linalg.norm(sketch(partly, parent, ["conv", "linear"])[1:]) == 0
    assert np.linalg.norm(sketch(partly, parent, ["bias"])[1:]) == pytest.approx(
        float((other["bias"] - parent["bias"]).norm()), rel=1e-5
    )


def test_one_candidate_has_a_movement_but_no_spread():
    rng = np.random.default_rng(3)
    parent = state(rng)
    movement, spread = weight_diversity(sketch(moved(parent, state(rng)), parent, NAMES)[None])
    assert movement == pytest.approx(1, rel=0.2)
    assert spread is None


def test_where_there_is_nothing_to_tell_it_is_none():
    zero = np.zeros((2, 1 + SKETCH), dtype=np.float32)
    assert weight_diversity(zero) == (None, None)
    assert weight_diversity(zero[:0]) == (None, None)
    assert weight_diversity(np.full_like(zero, np.inf)) == (None, None)
    assert not sketch({}, {}, []).any()


def test_complex_weights_count_as_two_numbers_each():
    parent = {"w": torch.zeros(50, dtype=torch.complex64)}
    delta = torch.complex(torch.ones(50), 2 * torch.ones(50))
    found = sketch({"w": delta}, parent, ["w"])
    assert np.linalg.norm(found[1:]) == pytest.approx(float(delta.abs().square().sum() ** 0.5), rel=1e-5)


def slope(rng, kept, winner, generations=400):
    """The heritability over generations of 4 candidates on 30 cases; offspring keep so much of the winner's errors."""
    covariance = variance = 0.0
    for _ in range(generations):
        difficulty = rng.random(30)
        errors = (rng.random((4, 30)) < difficulty).astype(np.float32)
        index, used = winner(errors)
        slot = winner_slot(np.arange(30), errors, index, used)
        fresh = (rng.random((4, 30)) < difficulty).astype(np.float32)
        inherited = rng.random((4, 30)) < kept
        found = heritability(slot, np.where(inherited, errors[index], fresh))
        assert found.cases == 30 - used
        covariance += found.cases * found.covariance
        variance += found.cases * found.variance
    return covariance / variance


def at_random(errors):
    return 0, 0


def by_the_first_case(errors):
    return int(errors[:, 0].argmin()), 1


@pytest.mark.parametrize("winner", [at_random, by_the_first_case])
@pytest.mark.parametrize("kept", [0, 0.5, 1])
def test_heritability_is_the_share_of_the_advantage_that_offspring_keep(winner, kept):
    assert slope(np.random.default_rng(8), kept, winner) == pytest.approx(kept, abs=0.03)


def test_a_winner_is_remembered_only_where_cases_are_left_that_did_not_decide():
    errors = np.zeros((3, 10), dtype=np.float32)
    assert winner_slot(np.arange(10), errors, 0, 9) is None
    assert winner_slot(np.arange(10), errors[:1], 0, 0) is None
    assert winner_slot(np.arange(10), errors, 0, 8) is not None
    errors[1, 9] = np.inf
    assert winner_slot(np.arange(10), errors, 0, 8) is None
