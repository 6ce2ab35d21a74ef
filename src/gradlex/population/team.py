"""The processes that share a population: each trains and evaluates its candidates, all see the same results.

Tables of errors travel by a sum in which all but one addend are zero, which is exact; the chosen candidate travels by
broadcast, and what is averaged with it tensor by tensor, in the order of the candidates. So the number of processes
never changes a bit.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Protocol

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_flatten, tree_unflatten

from gradlex.population.state import cloned
from gradlex.selection.protocol import Floats


class Team(Protocol):
    """Who trains which candidate, and how results travel."""

    rank: int
    processes: int

    def mine(self, size: int) -> list[int]:
        """The candidates that this process trains and evaluates."""
        ...

    def share(self, rows: Mapping[int, Floats], wanted: list[int], length: int) -> Floats:
        """Every wanted candidate's row of numbers, from the process that has it: (wanted, length)."""
        ...

    def hand_over(self, index: int, own: Any) -> Any:
        """A tree of tensors and plain values from the process of candidate `index`, on every process."""
        ...

    def spread(self, index: int, own: Tensor | None, like: Tensor) -> Tensor:
        """One tensor of candidate `index`, shaped as `like`, on every process."""
        ...

    def from_leader(self, value: Any) -> Any:
        """The first process's value on every process."""
        ...


class Alone:
    """One process that does everything."""

    rank, processes = 0, 1

    def mine(self, size: int) -> list[int]:
        """All of them."""
        return list(range(size))

    def share(self, rows: Mapping[int, Floats], wanted: list[int], length: int) -> Floats:
        """The wanted rows as one table."""
        return np.stack([rows[index] for index in wanted]) if wanted else np.zeros((0, length))

    def hand_over(self, index: int, own: Any) -> Any:
        """What was given."""
        return own

    def spread(self, index: int, own: Tensor | None, like: Tensor) -> Tensor:
        """The tensor that was given."""
        assert own is not None
        return own

    def from_leader(self, value: Any) -> Any:
        """The value."""
        return value


class Distributed:
    """The default process group: candidate i belongs to rank i mod processes."""

    def __init__(self) -> None:
        self.rank, self.processes = dist.get_rank(), dist.get_world_size()
        # NCCL alone moves only what lies on its device.
        on_device = dist.get_backend() == "nccl"
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_device else torch.device("cpu")

    def mine(self, size: int) -> list[int]:
        """Every so many-th candidate, so that loads differ by one at most."""
        return list(range(self.rank, size, self.processes))

    def share(self, rows: Mapping[int, Floats], wanted: list[int], length: int) -> Floats:
        """Every wanted candidate's row, from its process."""
        table = np.zeros((len(wanted), length))
        for place, index in enumerate(wanted):
            if index in rows:
                table[place] = rows[index]
        summed = torch.from_numpy(table).to(self._device)
        dist.all_reduce(summed)
        return np.asarray(summed.cpu().numpy())

    def hand_over(self, index: int, own: Any) -> Any:
        """First the tree without its tensors, then the tensors one by one."""
        owner = index % self.processes
        leaves, tree = tree_flatten(cloned(own))  # a copy lies in one piece
        plan = [(tree, [_Layout(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves])]
        dist.broadcast_object_list(plan, src=owner, device=self._device)
        tree, layouts = plan[0]
        found = []
        for place, layout in enumerate(layouts):
            leaf = layout
            if isinstance(layout, _Layout):
                leaf = leaves[place] if self.rank == owner else layout.allocate()
                self._broadcast(leaf, owner)
            found.append(leaf)
        return tree_unflatten(found, tree)

    def spread(self, index: int, own: Tensor | None, like: Tensor) -> Tensor:
        """The owner's tensor, on every process."""
        sent = torch.empty_like(like)
        if own is not None:
            sent.copy_(own)
        self._broadcast(sent, index % self.processes)
        return sent

    def from_leader(self, value: Any) -> Any:
        """Rank 0's value on every process."""
        sent = [value]
        dist.broadcast_object_list(sent, src=0, device=self._device)
        return sent[0]

    def _broadcast(self, tensor: Tensor, owner: int) -> None:
        if not tensor.numel():
            return
        # As bytes, since gloo doesn't send every type; dense tensors of any memory format lie in one piece.
        flat = tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)
        if self._device.type != "cpu" and flat.device.type == "cpu":
            moved = flat.to(self._device)
            dist.broadcast(moved, src=owner)
            flat.copy_(moved)
        else:
            dist.broadcast(flat, src=owner)


class Together(Distributed):
    """Processes that train every candidate together (DistributedDataParallel): rank 0's results are everybody's."""

    def __init__(self) -> None:
        super().__init__()
        self.processes = 1  # rank 0 owns every candidate

    def mine(self, size: int) -> list[int]:
        """All of them."""
        return list(range(size))

    def share(self, rows: Mapping[int, Floats], wanted: list[int], length: int) -> Floats:
        """Rank 0's rows: each process has batch-norm statistics of its own."""
        return super().share(rows if self.rank == 0 else {}, wanted, length)


class _Layout:
    """A tensor without its values: what the others allocate before they receive it."""

    def __init__(self, tensor: Tensor) -> None:
        self.size, self.stride, self.dtype = tensor.size(), tensor.stride(), tensor.dtype
        self.device = tensor.device.type

    def allocate(self) -> Tensor:
        index = torch.cuda.current_device() if self.device == "cuda" else None
        device = torch.device(self.device, index) if index is not None else torch.device(self.device)
        return torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=device)


def find_team(model: nn.Module) -> Team:
    """The processes that this one was started with: by torchrun, or in a process group of the caller's.

    A model in DistributedDataParallel is trained by all processes together, so each of them trains all candidates.
    """
    wrapped = isinstance(getattr(model, "_orig_mod", model), DistributedDataParallel)
    if not dist.is_available() or not (dist.is_initialized() or int(os.environ.get("WORLD_SIZE", "1")) > 1):
        return Alone()
    if not dist.is_initialized():
        join()
    atexit.unregister(leave)
    atexit.register(leave)
    if wrapped:
        return Together()
    return Distributed() if dist.get_world_size() > 1 else Alone()


def join() -> None:
    """Join the process group that torchrun describes in the environment, until the interpreter exits."""
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    # Candidates may train for days. A process that dies closes its connections, and torchrun ends the others.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    hook = sys.excepthook
    dist.init_process_group(backend, timeout=timedelta(days=7))
    sys.excepthook = hook  # torch's would print each later error with the rank before it


def leave() -> None:
    """Leave the process group, also one that the caller made, as the interpreter exits."""
    # torch imports this module late, and then it holds the group in default arguments. Gloo's thread would outlive the
    # group and abort the exit.
    late = sys.modules.get("torch.distributed.nn.functional")
    for function in () if late is None else vars(late).values():
        defaults = getattr(function, "__defaults__", None) or ()
        if any(isinstance(value, dist.ProcessGroup) for value in defaults):
            function.__defaults__ = tuple(None if isinstance(each, dist.ProcessGroup) else each for each in defaults)
    if dist.is_initialized():
        dist.destroy_process_group()
