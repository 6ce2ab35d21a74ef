"""Files that are there whole or not at all, and reading that can't hang or fill the memory."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from gradlex.errors import InputError


def write_atomically(path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file aside, wait until the disk has it, and rename it: readers see the old file or the new one.

    Args:
        path: The file.
        content: Its bytes, or a function that writes them to an open file.
    """
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        with open(aside, "wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def check_file(path: Path, limit: int | None = None) -> None:
    """Raise an error unless this is a regular file of at most `limit` bytes; a pipe or a device could block forever."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{path} is not a regular file: name one.")
    if limit is not None and found.st_size > limit:
        raise InputError(f"{path} has {found.st_size:,} bytes, more than the {limit:,} that are read.")


def read_bytes(path: Path, limit: int = 64 * 2**20) -> bytes:
    """The bytes of a regular file of at most `limit` bytes."""
    check_file(path, limit)
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def read_text(path: Path, limit: int = 64 * 2**20) -> str:
    """The text of a regular UTF-8 file of at most `limit` bytes."""
    try:
        return read_bytes(path, limit).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text.") from error
