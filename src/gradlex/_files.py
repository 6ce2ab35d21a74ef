"""Files that are there whole or not at all, and errors that say which file it was."""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NO_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
"""How a network file system says that it flushes files only."""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an OSError the file's name: the system does not say which file a full disk has cut off."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_durably(path: Path, data: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with naming(path), open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, data: bytes, *, shared: bool = False) -> None:
    """Write one file, whole or not at all; `shared`: where another process may be writing the same one."""
    mark = f".{uuid.uuid4().hex}" if shared else ""  # else what a crash has left is found again and replaced
    temporary = path.with_name(f".{path.name}{mark}.new")
    try:
        write_durably(temporary, data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Wait until the disk has the folder's names: what was created, renamed or removed in it."""
    if os.name != "posix":  # elsewhere a folder cannot be opened, and renames are durable by themselves
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with naming(folder):
            os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_FOLDERS:
            raise
    finally:
        os.close(handle)


def parse_json(data: bytes | str) -> Any:
    """JSON from a file that may hold anything; ValueError for whatever is none."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
