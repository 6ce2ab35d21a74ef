from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gradlex.cli import main

SMALL = ("--train-size", "120", "--population", "2", "--epochs", "3", "--model", "mlp")


@dataclass(frozen=True)
class Outcome:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


def run(*words: str) -> Outcome:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="\n", write_through=True) for _ in range(2))
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(words))
        except SystemExit as ended:
            code = ended.code
    printed = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return Outcome(int(code or 0), *printed)  # type: ignore[call-overload]


Command = Callable[..., Outcome]


@pytest.fixture(scope="session", autouse=True)
def _eighty_columns() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        patch.delenv("FORCE_COLOR", raising=False)
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture
def gradlex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs the command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A finished run on digits, and what `gradlex train` printed."""
    folder, before = tmp_path_factory.mktemp("trained"), Path.cwd()
    os.chdir(folder)
    try:
        return folder / "runs" / "digits-lexicase-seed3", run("train", *SMALL, "--seed", "3")
    finally:
        os.chdir(before)
