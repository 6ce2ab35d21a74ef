"""A team of processes on torch.distributed: candidates spread over ranks, every rank runs the same selection.

Rows of losses and errors travel by a sum in which all but one addend are zero, which is exact; the chosen
candidate travels by broadcast, and what is averaged with it tensor by tensor, in the order of the candidates.
So the bits do not depend on how many processes there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

from gradlex.engine._data_parallel import DataParallel, as_bytes
from gradlex.engine._worker import Candidate
from gradlex.errors import InputError
from gradlex.population import OptimizerState, Parent, State


def check_even(processes: int, population: int) -> None:
    """Refuse more processes than candidates where some candidates would get more of them than others."""
    if processes > population and processes % population:
        raise InputError(
            f"{processes} processes cannot be shared out evenly among {population} candidates: "
            f"use a multiple of {population}, or no more processes than candidates."
        )


class DistributedTeam:
    """The default process group.

    With at most as many processes as candidates, candidate i belongs to rank i mod ranks. With more, the ranks
    form a mesh (candidate x data), and each row of it trains one candidate together.
    """

    def __init__(self, population: int, device: torch.device) -> None:
        self._device = device
        self._rank, self._size = dist.get_rank(), dist.get_world_size()
        self._group_size = max(1, self._size // population)
        self.parallel: DataParallel | None = None
        check_even(self._size, population)
        if self._size > population:
            mesh = init_device_mesh(
                device.type, (population, self._group_size), mesh_dim_names=("candidate", "data")
            )
            self.parallel = DataParallel(mesh.get_group("data"), device)

    @property
    def leads(self) -> bool:
        """Whether this process writes files and prints."""
        return self._rank == 0

    def mine(self, population: int) -> list[int]:
        """Every size-th candidate, so that loads differ by one at most; or the one of this mesh row, if there is."""
        if self.parallel is not None:  # before the branch there is only the first row's
            row = self._rank // self._group_size
            return [row] if row < population else []
        return list(range(self._rank, population, self._size))

    def share(
        self, rows: Mapping[int, npt.NDArray[np.float32]], wanted: npt.NDArray[np.intp], length: int
    ) -> npt.NDArray[np.float32]:
        """Every wanted candidate's row, from whoever has it: (wanted, length)."""
        table = torch.zeros(len(wanted), length)
        for place, index in enumerate(wanted.tolist()):
            if index in rows:
                table[place] = torch.from_numpy(rows[index])
        dist.all_reduce(table)
        return table.numpy()

    def start_from(self, parent: Parent) -> Parent:
        """Rank 0's parent, on every process."""
        rest: list[Any] = [
            (parent.generation, dict(parent.memory), list(parent.slots)) if self.leads else None
        ]
        dist.broadcast_object_list(rest, src=0)
        generation, memory, slots = rest[0]

        def sent(state: State, optimizer: OptimizerState | None = None) -> Candidate:
            own = Candidate(state=state, optimizer=optimizer, loss=None)
            return self._broadcast(own if self.leads else None, 0)

        network = sent(parent.state, parent.optimizer)
        return Parent(
            generation=generation,
            state=network.state,
            optimizer=network.optimizer,
            memory=memory,
            slots={name: sent(parent.slots.get(name, {})).state for name in slots},
        )

    def hand_over(self, index: int, candidates: Mapping[int, Candidate]) -> Candidate:
        """The chosen candidate, from its owner to everyone."""
        owner = self._owner(index)
        return self._broadcast(candidates[index] if self._rank == owner else None, owner)

    def spread(self, index: int, own: Tensor | None, like: Tensor) -> Tensor:
        """The owner's tensor, on every process; in a data-parallel group the first process is the owner."""
        owner = self._owner(index)
        sent = own if own is not None and self._rank == owner else torch.empty_like(like)
        dist.broadcast(as_bytes(sent), src=owner)
        return sent

    def from_leader(self, value: Any) -> Any:
        """Rank 0's value, on every process."""
        sent = [value]
        dist.broadcast_object_list(sent, src=0)
        return sent[0]

    def largest(self, number: int) -> int:
        """The largest of the processes' numbers."""
        table = torch.tensor([number])
        dist.all_reduce(table, op=dist.ReduceOp.MAX)
        return int(table[0])

    def _owner(self, index: int) -> int:
        return index % self._size if self.parallel is None else index * self._group_size

    def _broadcast(self, given: Candidate | None, owner: int) -> Candidate:
        """First what to allocate, then the tensors, one by one and without copies."""
        plan: list[Any] = [
            None if given is None else (_plan(given.state), _optimizer_plan(given), given.loss)
        ]
        dist.broadcast_object_list(plan, src=owner)
        if given is None:
            state, optimizer, loss = plan[0]
            given = Candidate(
                state=self._allocated(state),
                optimizer=None
                if optimizer is None
                else {name: self._allocated(values) for name, values in optimizer.items()},
                loss=loss,
            )
        pending = [dist.broadcast(flat, src=owner, async_op=True) for flat in _flat_tensors(given)]
        for work in pending:
            assert work is not None  # async_op=True returns one to every member of the group
            work.wait()
        return given

    def _allocated(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        return {name: v.allocate(self._device) if isinstance(v, _Shape) else v for name, v in plan.items()}


class _Shape:
    """A tensor without its values: what the others must allocate before they receive it."""

    def __init__(self, tensor: Tensor) -> None:
        self.size, self.stride, self.dtype = tensor.size(), tensor.stride(), tensor.dtype
        self.on_host = tensor.device.type == "cpu"

    def allocate(self, device: torch.device) -> Tensor:
        place = torch.device("cpu") if self.on_host else device
        return torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=place)


def _plan(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _Shape(v) if isinstance(v, Tensor) else v for name, v in values.items()}


def _optimizer_plan(candidate: Candidate) -> dict[str, dict[str, Any]] | None:
    if candidate.optimizer is None:
        return None
    return {name: _plan(values) for name, values in candidate.optimizer.items()}


def _flat_tensors(candidate: Candidate) -> Iterator[Tensor]:
    """The bytes of each tensor that has any."""
    state: State = candidate.state
    optimizer: OptimizerState = candidate.optimizer or {}
    for values in (state, *optimizer.values()):
        for tensor in values.values():
            if isinstance(tensor, Tensor) and tensor.numel():
                yield as_bytes(tensor)
