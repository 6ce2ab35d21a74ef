"""One run on disk. A file is written whole under another name and then renamed, or appended line by line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from gradlex._files import flush_folder, naming, parse_json, write_whole
from gradlex.errors import BusyError, InputError

RECORDS = ("generations.jsonl", "evaluations.jsonl")
_FILES = (
    "recipe.json",
    "environment.json",
    *RECORDS,
    "checkpoint",
    "model.safetensors",
    "ema.safetensors",
    "predictions.safetensors",
    "result.json",
)


class RunFolder:
    """RUN/, as docs/run-folder.md describes it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def absolute(self) -> RunFolder:
        """The same folder, whatever the current directory will be."""
        return RunFolder(Path(os.path.abspath(self.path)))

    @property
    def holds_run(self) -> bool:
        """Whether a run was started here."""
        try:
            return (self.path / "recipe.json").exists()
        except (OSError, ValueError) as error:  # a name that no file system takes
            raise InputError(f"the folder {self.path} cannot be read: {error}.") from error

    def check_free(self, *, resume: bool = False) -> None:
        """Refuse a path that holds a run or that cannot become a folder; nothing is changed.

        With `resume` a run that ended before its recipe was written may begin again.
        """
        try:
            taken = [name for name in _FILES if (self.path / name).exists()]
        except (OSError, ValueError) as error:  # a name that no file system takes
            raise InputError(f"the folder {self.path} cannot be written: {error}.") from error
        if resume and "recipe.json" not in taken:
            if set(taken) - {"environment.json"}:
                raise InputError(
                    f"{self.path} has {taken[-1]} but no recipe.json, so no run can be resumed there: restore "
                    "recipe.json, or choose another folder."
                )
        elif taken:
            raise InputError(
                f"{self.path} already holds a run ({taken[0]}): choose another folder, or resume it (--resume, "
                "resume=True)."
            )
        check_writable(self.path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and hold its lock; refused while another process holds it. A crash lets it go."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / ".lock", timeout=0)
            lock.acquire()
        except Timeout as error:
            raise BusyError(f"another process is running in {self.path}: wait for it, or stop it.") from error
        except (OSError, ValueError, NotImplementedError) as error:  # the last: no locks on this file system
            raise InputError(f"the folder {self.path} cannot be written: {error}.") from error
        try:
            yield
        finally:
            lock.release()

    @property
    def is_held(self) -> bool:
        """Whether a process is at work in the folder right now."""
        if not (self.path / ".lock").exists():
            return False
        try:
            with FileLock(self.path / ".lock", timeout=0):
                return False
        except Timeout:
            return True
        except (OSError, NotImplementedError):  # the run itself says why its folder cannot be locked
            return False

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write one JSON file, whole or not at all."""
        self.write_bytes(name, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write one file, whole or not at all."""
        write_whole(self.path / name, content)

    def remove(self, name: str) -> None:
        """Remove one file, if it is there."""
        (self.path / name).unlink(missing_ok=True)
        flush_folder(self.path)

    def append(self, name: str, line: Mapping[str, Any]) -> bytes:
        """Add one line to a .jsonl file, and return it as it was written."""
        written = (json.dumps(line, allow_nan=False) + "\n").encode()
        with naming(self.path / name), open(self.path / name, "ab") as file:
            file.write(written)
        return written

    def length(self, name: str) -> int:
        """How long a .jsonl file is, in bytes, once the disk has all of it."""
        path = self.path / name
        if not path.exists():
            return 0
        with naming(path), open(path, "ab") as file:
            os.fsync(file.fileno())
        return path.stat().st_size

    def head(self, name: str, length: int) -> bytes:
        """The bytes that a .jsonl file had at a checkpoint; none where it does not exist."""
        path = self.path / name
        return path.read_bytes()[:length] if path.exists() else b""

    def cut(self, name: str, length: int) -> None:
        """Cut what a .jsonl file has beyond the length it had at a checkpoint."""
        path = self.path / name
        if path.exists() and path.stat().st_size > length:
            with naming(path):
                os.truncate(path, length)

    def read_json(self, name: str) -> dict[str, Any]:
        """One JSON file of a run that exists."""
        path = self.path / name
        try:
            content = parse_json(path.read_bytes())
        except FileNotFoundError as error:
            raise InputError(f"{self.path} holds no run: there is no {name}.") from error
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read: {error}.") from error
        if not isinstance(content, dict):
            raise InputError(f"{path} is not the {name} of a run.")
        return content


def check_writable(path: Path) -> None:
    """Refuse a path that is no folder and cannot become one; nothing is changed."""
    above = path
    try:
        while not above.exists() and above != above.parent:
            above = above.parent
    except (OSError, ValueError) as error:  # a name that no file system takes
        raise InputError(f"the folder {path} cannot be written: {error}.") from error
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"the folder {path} cannot be written ({above} does not allow it).")
