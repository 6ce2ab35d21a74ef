"""Execution: how a run is carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from gradlex._checks import whole
from gradlex.errors import unknown_name

Placement: TypeAlias = Literal["resident", "offload"]


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a run is carried out. Nothing here changes its outcome, but for more workers than candidates."""

    workers: int = 1
    """Processes that train candidates at the same time, on all machines of the run."""
    evaluate_every: int | None = None
    """Generations between two evaluations on the test samples. None: about twenty a run."""
    checkpoint_every: int = 1
    """Generations between two checkpoints."""
    placement: Placement = "resident"
    """Where candidates wait: on the device, or on the host where they do not all fit."""

    def __post_init__(self) -> None:
        """Refuse intervals and numbers of workers below one."""
        for name in ("workers", "evaluate_every", "checkpoint_every"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), least=1)
        if self.placement not in get_args(Placement):
            raise unknown_name("placement", str(self.placement), get_args(Placement))

    def tests(self, generation: int, generations: int) -> bool:
        """Whether the test samples are asked after this many generations; always at the end."""
        every = self.evaluate_every or max(1, generations // 20)
        return generation % every == 0 or generation == generations
