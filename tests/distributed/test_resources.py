"""How many workers and threads: a rule from CPUs, devices, population and network."""

from __future__ import annotations

import re
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from gradlex import InputError, Recipe
from gradlex.runs import _resources
from gradlex.runs._launch import check_workers, choose_processes
from gradlex.runs._resources import SMALL_NETWORK, choose_threads, choose_workers


@pytest.mark.parametrize(
    ("asked", "population", "threads", "device", "cpus", "gpus", "expected"),
    [
        ("auto", 4, "auto", "cpu", 8, 0, 4),
        ("auto", 4, "auto", "cpu", 2, 0, 2),
        ("auto", 4, "auto", "cpu", 3, 0, 3),
        ("auto", 1, "auto", "cpu", 8, 0, 1),
        ("auto", 4, 2, "cpu", 8, 0, 4),
        ("auto", 4, 3, "cpu", 8, 0, 2),
        ("auto", 4, 16, "cpu", 8, 0, 1),
        ("auto", 4, "auto", "cuda", 2, 8, 4),
        ("auto", 4, "auto", "cuda", 64, 2, 2),
        ("auto", 4, 8, "cuda", 2, 1, 1),
        ("auto", 4, "auto", "cuda:1", 64, 8, 1),
        ("auto", 4, "auto", "mps", 8, 0, 1),
        (1, 4, "auto", "cpu", 8, 0, 1),
        (6, 4, 8, "cpu", 2, 0, 6),
        (3, 4, "auto", "mps", 8, 0, 3),
    ],
)
def test_workers_are_candidates_up_to_the_places_to_compute_and_an_asked_number_stays(
    asked, population, threads, device, cpus, gpus, expected, monkeypatch
):
    monkeypatch.setattr(_resources, "cpus", lambda: cpus)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    recipe = Recipe(population=population, threads=threads)
    assert choose_workers(asked, recipe, torch.device(device)) == expected


@pytest.mark.parametrize(
    ("threads", "multiply_adds", "population", "device", "cpus", "expected"),
    [
        ("auto", 1e6, 1, "cpu", 16, 2),
        ("auto", 1e6, 1, "cpu", 1, 1),
        ("auto", 1e6, 2, "cpu", 2, 1),
        ("auto", SMALL_NETWORK, 4, "cpu", 16, 2),
        ("auto", SMALL_NETWORK + 1, 4, "cpu", 16, 4),
        ("auto", 1e9, 4, "cpu", 18, 4),
        ("auto", 1e9, 1, "cpu", 16, 16),
        ("auto", 1e9, 4, "cpu", 2, 1),
        ("auto", 1e9, 4, "cuda", 16, 8),
        ("auto", 1e9, 4, "cuda:1", 16, 16),
        (3, 1e6, 4, "cpu", 2, 3),
        (3, 1e9, 1, "cpu", 16, 3),
    ],
)
def test_threads_are_the_cpus_shared_out_and_at_most_two_for_a_small_network(
    threads, multiply_adds, population, device, cpus, expected, monkeypatch
):
    monkeypatch.setattr(_resources, "cpus", lambda: cpus)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    recipe = Recipe(population=population, threads=threads)
    assert choose_threads(recipe, multiply_adds, torch.device(device)) == expected


def test_workers_that_are_given_share_the_cpus(monkeypatch):
    monkeypatch.setattr(_resources, "cpus", lambda: 8)
    cpu = torch.device("cpu")
    assert [choose_threads(Recipe(population=4), 1e9, cpu, workers) for workers in (1, 2)] == [8, 4]


@pytest.mark.parametrize(
    ("workers", "device", "told"),
    [
        (3, "cuda", "3 workers are too many for the 2 cuda devices"),
        (2, "cuda:1", "2 workers cannot share the one device cuda:1: use one worker, or --device cuda"),
        (2, "cuda", None),
        (1, "cuda:1", None),
        (3, "cpu", None),
    ],
)
@pytest.mark.parametrize("torchrun", [False, True])
def test_workers_without_a_device_of_their_own_are_refused(workers, device, told, torchrun, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    if torchrun:
        for name, value in {"RANK": 0, "WORLD_SIZE": 2 * workers, "LOCAL_WORLD_SIZE": workers}.items():
            monkeypatch.setenv(name, str(value))
    expected = nullcontext() if told is None else pytest.raises(InputError, match=re.escape(told))
    with expected:
        check_workers(6, workers, torch.device(device))


def test_torchrun_says_how_many_workers_the_whole_run_has_and_another_number_is_refused(monkeypatch):
    for name, value in {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    problem = SimpleNamespace(recipe=Recipe(population=4), device=torch.device("cpu"))
    for asked in ("auto", 4):
        assert choose_processes(asked, problem) == 4
    told = "2 workers were asked for, but torchrun has started 4 for this run: leave workers out"
    with pytest.raises(InputError, match=re.escape(told)):
        choose_processes(2, problem)
