"""A run folder without a checkpoint: of a run that is finished, of one that had none yet, or of one that lost them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradlex.errors import InputError
from gradlex.population import Parent, State, capture, copy
from gradlex.runs._folder import RECORDS, RunFolder
from gradlex.runs._problem import Problem
from gradlex.runs._resume import stored_execution
from gradlex.runs._stored import stored_run
from gradlex.runs._weights import load_weights


def without_checkpoint(folder: RunFolder, problem: Problem, first: Parent) -> tuple[Parent, dict[str, Any]]:
    """The parent to go on from, and the progress it stands for; nothing is changed.

    A finished run is given back as its files have it, and one that can have had no checkpoint yet begins again. A
    run that has done more is refused: beginning again would erase it.
    """
    if (folder.path / "result.json").exists():
        return _finished(folder, problem)
    done = max(_lines(folder.path / name) for name in RECORDS)
    every = stored_execution(folder).get("checkpoint_every", 1)
    if done and (not isinstance(every, int) or done > every):
        raise InputError(
            f"{folder.path} has the records of {done} generations but no checkpoint, though one was due after every "
            f"{every}: bring its folder checkpoint back, or start again in another folder. Nothing was changed."
        )
    return first, {}


def _finished(folder: RunFolder, problem: Problem) -> tuple[Parent, dict[str, Any]]:
    """The end of the run: its weights from their files, its records as they are."""
    result = stored_run(folder.path).result
    assert result is not None
    done, asked = result["generations"], problem.recipe.require("generations")
    if done != asked:
        raise InputError(
            f"{folder.path} is a finished run of {done} generations without a checkpoint, asked for {asked}: it cannot "
            "be made longer. Bring its folder checkpoint back, or start again in another folder."
        )
    names = ("model.safetensors", *(() if problem.recipe.ema is None else ("ema.safetensors",)))
    missing = [name for name in names if not (folder.path / name).exists()]
    if missing:
        raise InputError(
            f"all {done} generations of {folder.path} are done already: nothing is trained again. There is no network "
            f"to give back, without a checkpoint or {' and '.join(missing)}; result.json has the outcome."
        )
    state, ema = (
        _weights(problem, folder.path / name) if name in names else None
        for name in ("model.safetensors", "ema.safetensors")
    )
    assert state is not None
    whole = {name: folder.length(name) for name in RECORDS}
    return Parent(generation=done, state=state, ema=ema), {"bytes": whole, "seconds": result["seconds"]}


def _weights(problem: Problem, path: Path) -> State:
    load_weights(problem.model, path)
    return copy(capture(problem.model))


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
