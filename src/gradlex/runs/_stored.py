"""A run as its folder tells it, finished or not, without its weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlex._disk import parse_json
from gradlex.errors import InputError
from gradlex.recipe import Recipe
from gradlex.runs._folder import RECORDS, RunFolder
from gradlex.runs._records import Record, records_of
from gradlex.runs._resume import stored_recipe

_DATA = ("fingerprint", "train_samples", "test_samples")
_RESULT = ("generations", "samples_trained", "cases_evaluated", "train_accuracy", "seconds")


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
    result = folder.read_json("result.json") if (path / "result.json").exists() else None
    try:
        records = records_of(*(_lines(path / name, whole=result is not None) for name in RECORDS))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"the records of {path} cannot be read: {error!r}.") from error
    for kind, found, needed in (("data", data, _DATA), ("result", result, _RESULT)):
        missing = [name for name in needed if found is not None and found.get(name) is None]
        if missing:
            raise InputError(
                f"{path} is damaged: its {kind} has no {', '.join(missing)}. Bring the file back."
            )
    if result is not None and len(records) != result["generations"]:
        raise InputError(
            f"{path} is damaged: it has the records of {len(records)} of {result['generations']} generations. Bring "
            "generations.jsonl back."
        )
    return StoredRun(path=path, recipe=recipe, data=data, generations=records, result=result)


def _lines(path: Path, *, whole: bool) -> list[dict[str, Any]]:
    """The lines of a .jsonl file; the last one of a run that was cut off may be cut off too."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    return [parse_json(line) for line in lines if whole or line.endswith(b"\n")]
