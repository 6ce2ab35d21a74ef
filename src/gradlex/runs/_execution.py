"""Execution: how a run is carried out, and on which device."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from gradlex._checks import check, check_fields
from gradlex.errors import InputError
from gradlex.recipe import Count

Placement: TypeAlias = Literal["resident", "offload", "stacked"]


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a run is executed.

    Only the device, shared threads, stacked candidates and more workers than candidates change its last bits.

    Examples:
        >>> from gradlex.runs import Execution
        >>> Execution(workers=2, device="cpu", checkpoint_every=10).evaluate_every is None  # about 20 a run
        True
        >>> Execution(workers=0)
        Traceback (most recent call last):
        gradlex.errors.InputError: workers must be a whole number of at least 1 or 'auto', got 0.
    """

    workers: Count | Literal["auto"] = "auto"
    """Processes that train candidates at the same time (auto: one per candidate, up to one per CPU or GPU)."""
    device: str | None = None
    """cpu, cuda, cuda:1, mps, ... (default: the accelerator if there is one)."""
    evaluate_every: Count | None = None
    """Generations between two evaluations on the test samples (default: about 20 a run)."""
    checkpoint_every: Count = 1
    """Generations between two checkpoints."""
    placement: Placement = "resident"
    """resident: candidates wait on the device; offload: on the host, where they do not all fit; stacked: those of a
    worker are trained together, in one pass (up to rounding the same)."""
    keep_checkpoints: tuple[int, ...] = ()
    """Generations whose checkpoints are kept, for other runs to begin with."""
    begin_with: Path | None = None
    """A run whose first generations are the same: they are taken from its folder rather than computed again."""
    threads_per_worker: bool = False
    """Share the CPUs among the workers that are asked for, rather than among those that auto would take.

    What auto takes does not depend on `workers`, so that these change no bit; a library call with one worker would
    rather use all CPUs.
    """

    def __post_init__(self) -> None:
        """Refuse intervals and numbers of workers below one."""
        check_fields(self)
        if self.begin_with is not None:  # absolute, since the model or the data may change the directory
            object.__setattr__(self, "begin_with", Path(os.path.abspath(self.begin_with)))
        if not isinstance(self.keep_checkpoints, Sequence) or isinstance(self.keep_checkpoints, str):
            raise InputError(
                f"keep_checkpoints must be a list of generations, got {self.keep_checkpoints!r:.80}."
            )
        object.__setattr__(self, "keep_checkpoints", tuple(self.keep_checkpoints))
        for generation in self.keep_checkpoints:
            check("keep_checkpoints", Count, generation)

    def check_kept(self, generations: int) -> None:
        """Refuse to keep a checkpoint that a run of so many generations will not have."""
        for generation in self.keep_checkpoints:
            if generation > generations:
                raise InputError(
                    f"keep_checkpoints {generation} is after the last of the {generations} generations: leave it out."
                )

    def described(self, workers: int) -> dict[str, Any]:
        """What environment.json says of it, with the workers that there really are."""
        return {
            "workers": workers,
            "evaluate_every": self.evaluate_every,
            "checkpoint_every": self.checkpoint_every,
            "placement": self.placement,
            "keep_checkpoints": list(self.keep_checkpoints),
            "begin_with": None if self.begin_with is None else self.begin_with.name,
        }

    def evaluates(self, generation: int, generations: int) -> bool:
        """Whether the test samples are evaluated after this many generations; always at the end."""
        every = self.evaluate_every or max(1, generations // 20)
        return generation % every == 0 or generation == generations


def find_device(name: str | None) -> torch.device:
    """The named device; None or auto: the machine's accelerator where it has one, else the CPU."""
    if name is None or name == "auto":
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return found or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:  # torch's, for an unknown or missing device
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"device {name!r} cannot be used: {reason} Use auto, cpu, cuda or cuda:1."
        ) from error
    if device.type == "meta":
        raise InputError(
            f"device {name!r} cannot be used: it holds no numbers. Use auto, cpu, cuda or cuda:1."
        )
    return device
