"""One checkpoint: everything that a run needs to continue with the same bits, in one file that torch can read.

The file is written aside and renamed, so it is whole or not there. It is a zip archive with a checksum for each of its
parts, which are compared before anything is used.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from gradlex._files import check_file, write_atomically
from gradlex.errors import InputError

_LARGEST = 2**40  # bytes


class Checkpoint(BaseModel):
    """What the file holds."""

    model_config = ConfigDict(extra="forbid", strict=True)

    recipe: dict[str, Any]
    """The resolved recipe, as in run.json."""
    population: dict[str, Any]
    """`Population.state_dict()`: the parent, the optimizer, the generation."""
    history: list[str]
    """The lines of generations.jsonl."""
    seconds: float
    """Time spent on the run so far."""
    stopped: str | None = None
    """Why a callback ended the run."""
    tail: dict[str, Any] | None = None
    """The mean of the parents since the branch."""
    best: dict[str, Any] | None = None
    """The parent of the best generation so far, with `patience`."""

    def save(self, path: Path) -> None:
        """Write it in place of the last one."""
        write_atomically(path, lambda file: torch.save(dict(self), file))

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read and check it; nothing in the file is run."""
        check_file(path, _LARGEST)
        try:
            with zipfile.ZipFile(path) as archive:
                damaged = archive.testzip()
            if damaged is None:
                found = torch.load(path, map_location="cpu", weights_only=True)
                return cls.model_validate(dict(found) if isinstance(found, Mapping) else {})
            reason = f"a wrong checksum of {damaged}"
        except ValidationError as error:
            place = error.errors()[0]
            reason = f"{'.'.join(map(str, place['loc']))}: {place['msg']}"
        except Exception as error:  # noqa: BLE001  # torch and zipfile raise many kinds
            reason = str(error).partition("\n")[0]
        raise InputError(f"{path} is damaged ({reason}): restore the file, or delete it to start the run again.")
