"""How many workers and threads: a rule from processors, devices, population and network."""

from __future__ import annotations

import pytest
import torch

from gradlex import Recipe
from gradlex.runs import _resources
from gradlex.runs._resources import SMALL_NETWORK, choose_threads, choose_workers


@pytest.mark.parametrize(
    ("asked", "population", "threads", "device", "processors", "gpus", "expected"),
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
        ("auto", 4, "auto", "mps", 8, 0, 1),
        (1, 4, "auto", "cpu", 8, 0, 1),
        (6, 4, 8, "cpu", 2, 0, 6),
        (3, 4, "auto", "mps", 8, 0, 3),
    ],
)
def test_workers_are_candidates_up_to_the_places_to_compute_and_an_asked_number_stays(
    asked, population, threads, device, processors, gpus, expected, monkeypatch
):
    monkeypatch.setattr(_resources, "processors", lambda: processors)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    recipe = Recipe(population=population, threads=threads)
    assert choose_workers(asked, recipe, torch.device(device)) == expected


@pytest.mark.parametrize(
    ("threads", "multiply_adds", "workers", "processors", "expected"),
    [
        ("auto", 1e6, 1, 16, 2),
        ("auto", 1e6, 1, 1, 1),
        ("auto", 1e6, 2, 2, 1),
        ("auto", SMALL_NETWORK, 4, 16, 2),
        ("auto", SMALL_NETWORK + 1, 4, 16, 4),
        ("auto", 1e9, 4, 18, 4),
        ("auto", 1e9, 1, 16, 16),
        ("auto", 1e9, 4, 2, 1),
        (3, 1e6, 4, 2, 3),
        (3, 1e9, 1, 16, 3),
    ],
)
def test_threads_are_the_processors_shared_out_and_at_most_two_for_a_small_network(
    threads, multiply_adds, workers, processors, expected, monkeypatch
):
    monkeypatch.setattr(_resources, "processors", lambda: processors)
    assert choose_threads(Recipe(threads=threads), multiply_adds, workers) == expected
