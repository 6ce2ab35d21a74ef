"""Serial and distributed runs: the same bits up to p processes, the same numbers beyond."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

RANKS = runpy.run_path(str(Path(__file__).with_name("ranks.py")))
TRIALS, EXACT = RANKS["TRIALS"], RANKS["EXACT"]

SPREAD = [
    (name, size) for name, trial in TRIALS.items() for size in trial.teams if size <= trial.recipe.population
]
TOGETHER = [
    (name, size)
    for name, trial in TRIALS.items()
    for size in trial.teams
    if size > trial.recipe.population and trial.network in EXACT
]


def flat(optimizer):
    """An optimizer's state as one flat mapping."""
    return {
        f"{name}.{key}": torch.as_tensor(value)
        for name, values in (optimizer or {}).items()
        for key, value in values.items()
    }


@pytest.mark.parametrize(("name", "size"), SPREAD)
def test_the_candidates_spread_over_processes_give_the_bits_of_one_process(name, size, found, same):
    alone = found(f"{name}-alone")
    for rank in range(size):
        here = found(f"{name}-{size}-{rank}")
        assert here["records"] == alone["records"]
        assert same(here["state"], alone["state"])
        assert same(flat(here["optimizer"]), flat(alone["optimizer"]))
        assert same(here["memory"], alone["memory"])


def test_the_runs_that_are_compared_are_not_trivial(found):
    for name, trial in TRIALS.items():
        alone = found(f"{name}-alone")
        assert all(np.isfinite(record["losses"]).all() for record in alone["records"])
        if trial.network not in EXACT:
            assert alone["state"]["steps"] > 0
        assert bool(alone["optimizer"]) == (trial.recipe.momentum == "inherit")
    chosen = {record["selected"] for name in TRIALS for record in found(f"{name}-alone")["records"]}
    assert chosen >= {0, 1, 2, 3}
    assert found("memory-alone")["memory"]
    states = [found(f"{name}-alone")["state"]["head.weight"] for name in ("reset", "adamw", "bfloat16")]
    assert not torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_candidates_that_wait_on_the_host_have_the_same_bits(found, same):
    resident, offloaded = found("adamw-alone"), found("offload-alone")
    assert offloaded["records"] == resident["records"]
    assert same(offloaded["state"], resident["state"])
    assert same(flat(offloaded["optimizer"]), flat(resident["optimizer"]))


@pytest.mark.parametrize(("name", "size"), TOGETHER)
def test_processes_that_train_a_candidate_together_take_the_steps_of_one_process(name, size, found, same):
    alone, first = found(f"{name}-alone"), found(f"{name}-{size}-0")
    for record, expected in zip(first["records"], alone["records"], strict=True):
        assert record["losses"] == pytest.approx(expected["losses"], rel=1e-6)  # they travel as float32
        assert {**record, "losses": ()} == {**expected, "losses": ()}
    assert all(tensor.dtype == torch.float64 for tensor in alone["state"].values())
    for key, tensor in alone["state"].items():
        torch.testing.assert_close(first["state"][key], tensor, rtol=1e-11, atol=1e-12)
    for key, tensor in flat(alone["optimizer"]).items():
        torch.testing.assert_close(flat(first["optimizer"])[key], tensor, rtol=1e-9, atol=1e-12)
    for rank in range(1, size):
        other = found(f"{name}-{size}-{rank}")
        assert other["records"] == first["records"]
        assert same(other["state"], first["state"])


def test_the_cases_split_within_a_group_are_the_whole_table(found):
    name = "2 candidates, together"
    alone = found(f"{name}-alone")["tables"]
    for rank in range(4):
        for table, expected in zip(found(f"{name}-4-{rank}")["tables"], alone, strict=True):
            assert table.shape == (2, 91)
            torch.testing.assert_close(table, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "size"),
    [("1 candidate with batch norm", 2), ("1 candidate that skips", 2), ("2 candidates that skip", 4)],
)
def test_a_group_with_batch_norm_or_random_branches_agrees_on_its_candidate(name, size, found, same):
    alone, first = found(f"{name}-alone"), found(f"{name}-{size}-0")
    assert len(first["records"]) == len(alone["records"])
    assert first["state"]["steps"] == alone["state"]["steps"]
    for rank in range(1, size):
        other = found(f"{name}-{size}-{rank}")
        assert same(first["state"], other["state"])
        assert first["records"] == other["records"]


@pytest.mark.parametrize(
    ("size", "refused"), [(2, set()), (3, {2}), (4, {3})], ids=["2 processes", "3 processes", "4 processes"]
)
def test_processes_that_candidates_cannot_be_shared_out_among_are_refused(size, refused, found):
    for rank in range(size):
        told = found(f"refusals-{size}-{rank}")
        assert {population for population, text in told.items() if text} == refused
        for population in refused:
            assert f"{size} processes cannot be shared out evenly among {population}" in told[population]
            assert f"a multiple of {population}" in told[population]
