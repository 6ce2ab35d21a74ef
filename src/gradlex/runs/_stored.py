"""A run as its folder tells it, finished or not, without its weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlex.errors import InputError
from gradlex.recipe import Recipe
from gradlex.runs._disk import parse_json
from gradlex.runs._folder import RunFolder
from gradlex.runs._records import Record, records_of
from gradlex.runs._resume import stored_recipe


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """What recipe.json, the records and result.json of a run hold."""

    path: Path
    recipe: Recipe
    data: dict[str, Any]
    """Of the data: fingerprint, train_samples, test_samples, ..."""
    generations: list[Record]
    result: dict[str, Any] | None
    """None while the run is not finished."""


def stored_run(path: Path) -> StoredRun:
    """Read a run folder; refused where there is none, or where what it holds is no run."""
    folder = RunFolder(path)
    recipe, data = stored_recipe(folder)
    try:
        lines = {
            name: [parse_json(line) for line in (path / name).read_bytes().splitlines()]
            if (path / name).exists()
            else []
            for name in ("generations.jsonl", "evaluations.jsonl")
        }
        records = records_of(lines["generations.jsonl"], lines["evaluations.jsonl"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"the records of {path} cannot be read: {error!r}.") from error
    finished = (path / "result.json").exists()
    return StoredRun(
        path=path,
        recipe=recipe,
        data=data,
        generations=records,
        result=folder.read_json("result.json") if finished else None,
    )
