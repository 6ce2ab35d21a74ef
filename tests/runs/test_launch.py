"""Who may run a problem: variables that make no sense, and devices that workers cannot share, are refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gradlex
from gradlex import InputError, Recipe
from gradlex.runs import choose_workers
from gradlex.runs._launch import check_workers

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
LAUNCHED = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"}


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"RANK": "5", "WORLD_SIZE": "2"}, "RANK 5 and WORLD_SIZE 2; a rank goes from 0 to WORLD_SIZE - 1"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "RANK -1 and WORLD_SIZE 2"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "RANK 0 and WORLD_SIZE 0"),
        ({"RANK": "one"}, "environment's RANK is 'one', not a number"),
        ({"WORLD_SIZE": ""}, "environment's WORLD_SIZE is '', not a number"),
        ({"LOCAL_RANK": "x"}, "environment's LOCAL_RANK is 'x', not a number"),
        ({"LOCAL_WORLD_SIZE": "x"}, "environment's LOCAL_WORLD_SIZE is 'x', not a number"),
        ({"MASTER_PORT": "x"}, "RANK and WORLD_SIZE are set, as torchrun sets them, but"),
        ({"MASTER_ADDR": None}, "RANK and WORLD_SIZE are set, as torchrun sets them, but"),
    ],
)
def test_variables_of_torchrun_that_make_no_sense_are_refused_and_not_waited_for(
    variables, told, images, tmp_path, monkeypatch
):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in {**LAUNCHED, **variables}.items():
        if value is not None:
            monkeypatch.setenv(name, value)
    net = nn.Sequential(nn.Flatten(), nn.Linear(32, 3))
    with pytest.raises(InputError, match=f"{told}.*torchrun, or unset"):
        gradlex.train(net, images, Recipe(generations=1), out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    assert not torch.distributed.is_initialized()


def test_workers_need_devices_that_torch_distributed_knows():
    device = torch.device("ipu")
    with pytest.raises(InputError, match=r"several workers need devices .* backend for, got 2 on ipu"):
        check_workers(4, 2, device)


@pytest.mark.parametrize("device", ["mps", "xpu"])
def test_every_worker_needs_a_device_of_its_own(device):
    with pytest.raises(InputError, match=f"2 workers are too many for the 1 {device} devices"):
        check_workers(4, 2, torch.device(device))
    check_workers(4, 1, torch.device(device))
    assert choose_workers("auto", Recipe(population=4), torch.device(device)) == 1


def test_workers_cannot_share_one_cuda_device():
    with pytest.raises(InputError, match="2 workers cannot share the one device cuda:1"):
        check_workers(4, 2, torch.device("cuda:1"))


def test_workers_that_cannot_be_shared_out_among_the_candidates_are_refused():
    with pytest.raises(InputError, match="4 processes cannot be shared out evenly among 3 candidates"):
        check_workers(3, 4, torch.device("cpu"))


def test_more_workers_than_the_machine_has_room_for_are_refused():
    with pytest.raises(InputError, match=r"10000 workers are too many for the \d+ CPUs"):
        check_workers(10000, 10000, torch.device("cpu"))
