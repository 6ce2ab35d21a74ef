from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib.font_manager  # noqa: F401  # writes its cache of fonts when it is first imported, wherever that is
import pytest

from gradlex.cli import main


def plain(printed: str) -> str:
    """What was printed, without the boxes that it is wrapped into."""
    return re.sub(r"[\s│╭╮╰╯─]+", " ", printed)


@pytest.fixture
def words() -> Callable[[str], str]:
    return plain


@pytest.fixture
def as_flags() -> Callable[[Mapping[str, object]], list[str]]:
    """The flags that give these fields of a Recipe."""

    def flags(fields: Mapping[str, object]) -> list[str]:
        words: list[str] = []
        for name, value in fields.items():
            flag = name.replace("_", "-")
            if isinstance(value, Mapping):
                words += [f"--{flag}", *(f"{key}={json.dumps(each)}" for key, each in value.items())]
            elif isinstance(value, bool):
                words += [f"--{flag}"] * value
            else:
                words += [f"--{flag}", str(value)]
        return words

    return flags


def _contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[Sequence[str], str], None]:
    """Asserts that the command refuses: exit code 2, these words on stderr, nothing on disk changed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def check(arguments: Sequence[str], told: str) -> None:
        before = _contents(tmp_path)
        with pytest.raises(SystemExit) as caught:
            main(list(arguments))
        printed = capsys.readouterr()
        assert caught.value.code == 2
        assert told in plain(printed.err)
        assert printed.err
        assert "Traceback" not in printed.err
        assert printed.out == ""
        assert _contents(tmp_path) == before

    return check
