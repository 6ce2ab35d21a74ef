"""One run on disk. A file is written whole under another name and then renamed, or appended line by line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from gradlex.errors import InputError
from gradlex.runs._checkpoint import write_durably

_FILES = (
    "recipe.json",
    "environment.json",
    "generations.jsonl",
    "evaluations.jsonl",
    "checkpoint",
    "model.safetensors",
    "result.json",
)


class RunFolder:
    """RUN/, as docs/run-folder.md tells it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def holds_run(self) -> bool:
        """Whether a run was started here."""
        return (self.path / "recipe.json").exists()

    def refuse_if_taken(self) -> None:
        """Refuse a path that holds a run or that cannot become a folder; nothing is changed."""
        try:
            taken = [name for name in _FILES if (self.path / name).exists()]
            above = self.path
            while not above.exists() and above != above.parent:
                above = above.parent
        except OSError as error:  # a name that no file system takes
            raise InputError(f"the folder {self.path} cannot be written: {error}.") from error
        if taken:
            raise InputError(
                f"{self.path} already holds a run ({taken[0]}): choose another --out, or continue it with --resume."
            )
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            raise InputError(f"the folder {self.path} cannot be written ({above} does not allow it).")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and hold its lock; refused while another process holds it. A crash lets it go."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / ".lock", timeout=0)
            lock.acquire()
        except Timeout as error:
            raise InputError(f"another process is running in {self.path}: wait for it, or end it.") from error
        except OSError as error:
            raise InputError(f"the folder {self.path} cannot be written: {error}.") from error
        try:
            yield
        finally:
            lock.release()

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write one JSON file, whole or not at all."""
        self.write_bytes(name, (json.dumps(content, indent=2) + "\n").encode())

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write one file, whole or not at all."""
        temporary = self.path / f".{name}.new"
        write_durably(temporary, content)
        temporary.replace(self.path / name)

    def append(self, name: str, line: Mapping[str, Any]) -> None:
        """Add one line to a .jsonl file."""
        with open(self.path / name, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def length(self, name: str) -> int:
        """How long a .jsonl file is, in bytes, once the disk has all of it."""
        path = self.path / name
        if not path.exists():
            return 0
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        return path.stat().st_size

    def cut(self, name: str, length: int) -> None:
        """Cut a .jsonl file to the length it had at a checkpoint."""
        path = self.path / name
        present = path.stat().st_size if path.exists() else 0
        if present < length:
            raise InputError(
                f"{path} has {present} bytes, its checkpoint knows of {length}: the file was changed. "
                "Start again in another folder."
            )
        if present > length:
            os.truncate(path, length)

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The lines of a .jsonl file; none where it does not exist."""
        path = self.path / name
        if not path.exists():
            return []
        try:
            return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        except ValueError as error:
            raise InputError(f"{path} cannot be read: {error}.") from error

    def read_json(self, name: str) -> dict[str, Any]:
        """One JSON file of a run that exists."""
        path = self.path / name
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise InputError(f"{self.path} holds no run: there is no {name}.") from error
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read: {error}.") from error
        if not isinstance(content, dict):
            raise InputError(f"{path} is not the {name} of a run.")
        return content
