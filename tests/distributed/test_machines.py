"""Ranks on machines that differ: one recipe, that of rank 0, the same data, and one copy of it on each machine."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="module")
def folder(start, tmp_path_factory):
    """What the three ranks of machines.py leave behind."""
    path = tmp_path_factory.mktemp("machines")
    groups = [start("-W", "error", "machines.py", str(rank), path) for rank in range(3)]
    for group in groups:
        assert group.wait() == 0, group.err
    return path


@pytest.fixture(scope="module")
def noted(folder):
    """What every rank wrote under a name."""
    return lambda name: [torch.load(folder / f"{name}-{rank}.pt") for rank in range(3)]


def test_every_rank_computes_by_the_recipe_of_rank_0(noted, same):
    first, *others = noted("first")
    assert (first["recipe"]["threads"], first["recipe"]["precision"]) == (1, "float32")
    for other in others:
        assert other["recipe"] == first["recipe"]
        assert same(other["state"], first["state"])


def test_a_run_goes_on_by_the_recipe_in_a_folder_that_rank_0_alone_sees(noted, folder, same):
    alone = torch.load(folder / "alone-0.pt")
    for longer in noted("longer"):
        assert longer["recipe"] == alone["recipe"]
        assert same(longer["state"], alone["state"])
    assert not (folder / "unseen").exists()


def test_ranks_share_a_copy_within_their_machine_and_a_lonely_one_keeps_its_own(noted):
    assert noted("shared") == [[True], [True], [False]]


def test_the_environment_has_the_workers_of_all_machines(noted):
    assert noted("environment")[0]["workers"] == 3


def test_other_data_on_one_machine_is_refused_on_every_rank(noted, folder):
    told = noted("refused")
    assert told[0] is not None
    assert told[0].startswith("rank 2 has other data than rank 0: fingerprint ")
    assert told[0].count("60 training and 0 test samples") == 2
    assert told == [told[0]] * 3
    assert not list(folder.glob("refused-[0-2]"))
