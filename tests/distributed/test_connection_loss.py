"""Under a launcher, an error that is no lost connection is told as what it is."""

from __future__ import annotations

import pytest
import torch.distributed as dist
from torch.distributed import HashStore

import gradlex
from gradlex import RunError
from gradlex.engine import DistributedTeam


@pytest.fixture
def group(monkeypatch):
    """This process as the only rank of a group that its own program has formed."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("the fourth wheel came off"), RuntimeError),
        (RuntimeError("ProcessGroupGloo: invalid tensor type"), RuntimeError),
        (RuntimeError("[gloo/transport/tcp/pair.cc:561] Connection closed by peer"), RunError),
        (RuntimeError("[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1000ms"), RunError),
        (dist.DistNetworkError("failed to recv, got 0 bytes"), RunError),
    ],
)
def test_only_a_lost_connection_is_told_as_the_end_of_another_process(
    error, told, group, images, tiny_cnn, small, monkeypatch
):
    def fail(team, number):
        raise error

    monkeypatch.setattr(DistributedTeam, "largest", fail)
    with pytest.raises(RuntimeError) as caught:
        gradlex.train(tiny_cnn(), images, small)
    assert type(caught.value) is told
    assert str(error) in str(caught.value)
    assert ("another process of this run ended unexpectedly" in str(caught.value)) == (told is RunError)
