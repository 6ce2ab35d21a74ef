"""What the tests of pages share: a real run on digits, and the text that a reader of a page sees."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from gradlex.cli import main

SMALL = [
    *(
        "--dataset",
        "digits",
        "--model",
        "mlp",
        "--train-size",
        "200",
        "--generations",
        "6",
        "--batch-size",
        "16",
    ),
    *("--workers", "1", "--threads", "1", "--evaluate-every", "2", "--device", "cpu"),
]


def train(out: Path, *more: str) -> Path:
    """A small run on digits, as the command makes it."""
    main(["train", *SMALL, *more, "--out", str(out)])
    return out


class _Reader(HTMLParser):
    """Takes a page apart."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag):
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data):
        if not self._inside or self._inside[-1] not in ("script", "style"):
            self.text.append(data)


def read(page: str) -> tuple[str, list[tuple[str, dict[str, str | None]]]]:
    """The text of a page in one line, and its tags."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return " ".join(" ".join(reader.text).split()), reader.tags
