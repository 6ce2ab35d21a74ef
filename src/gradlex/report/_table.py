"""Table: a title, columns, rows and notes; printed as text, Markdown or LaTeX."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

WIDTH = 120
"""Characters in a line of text, where a terminal has as many."""

_GAP = "  "
_NOTHING = "-"

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": "$<$",
    ">": "$>$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_LATEX_PATTERN = re.compile("|".join(map(re.escape, _LATEX)))
_TAG = re.compile(r"<(?=[A-Za-z/!])")
_MINUS = re.compile(r"(?<![\w.-])-(?=\d)")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells are text; the first `words` columns are set left, the others, which hold numbers, right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    words: int = 1

    def text(self, width: int = WIDTH) -> str:
        """For a terminal: a table too wide for its `width` goes on below, each time with the columns of words.

        What goes on below leaves out rows that have nothing to say there.
        """
        widths = [
            max(*map(len, cells), *map(len, name.split()))
            for name, *cells in zip(self.columns, *self.rows, strict=True)
        ]
        blocks = [
            line
            for number, places in enumerate(self._blocks(widths, width))
            for line in self._block(number, places, widths)
        ]
        notes = [paragraph(note, width) for note in self.notes]
        return "\n".join([paragraph(self.title, width), *blocks, *notes]) + "\n"

    def markdown(self) -> str:
        """For a page; the title is bold above the table, the notes are a list below it."""
        marks = [":---" if place < self.words else "---:" for place in range(len(self.columns))]
        rows = [
            [markdown_text(cell).replace("|", r"\|") for cell in row] for row in (self.columns, *self.rows)
        ]
        lines = [f"| {' | '.join(row)} |" for row in (rows[0], marks, *rows[1:])]
        notes = ["", *(f"- {markdown_text(note)}" for note in self.notes)] if self.notes else []
        return "\n".join([f"**{self.title}**", "", *lines, *notes]) + "\n"

    def latex(self) -> str:
        """A table environment that needs no package."""
        places = "".join("l" if place < self.words else "r" for place in range(len(self.columns)))
        rows = [" & ".join(map(latex_text, row)) + r" \\" for row in (self.columns, *self.rows)]
        notes = [rf"\par {latex_text(note)}" for note in self.notes]
        return (
            "\n".join(
                [
                    r"\begin{table}",
                    rf"\caption{{{latex_text(self.title)}}}",
                    rf"\begin{{tabular}}{{{places}}}",
                    r"\hline",
                    rows[0],
                    r"\hline",
                    *rows[1:],
                    r"\hline",
                    r"\end{tabular}",
                    *notes,
                    r"\end{table}",
                ]
            )
            + "\n"
        )

    def _blocks(self, widths: list[int], width: int) -> list[list[int]]:
        """Which columns stand beside each other."""
        words = list(range(self.words))
        blocks = [words.copy()]
        for place in range(self.words, len(widths)):
            wide = sum(widths[each] + len(_GAP) for each in (*blocks[-1], place)) - len(_GAP)
            if wide > width and len(blocks[-1]) > self.words:
                blocks.append(words.copy())
            blocks[-1].append(place)
        return blocks

    def _block(self, number: int, places: list[int], widths: list[int]) -> list[str]:
        numbers = places[self.words :]
        rows = [row for row in self.rows if number == 0 or any(row[place] != _NOTHING for place in numbers)]
        names = [textwrap.wrap(self.columns[place], widths[place]) for place in places]
        height = max(map(len, names))
        heads = zip(*([""] * (height - len(name)) + name for name in names), strict=True)

        def line(cells: Iterable[str]) -> str:
            set_out = (
                cell.ljust(widths[place]) if place < self.words else cell.rjust(widths[place])
                for place, cell in zip(places, cells, strict=True)
            )
            return _GAP.join(set_out).rstrip()

        rule = "-" * (sum(widths[place] + len(_GAP) for place in places) - len(_GAP))
        return ["", *map(line, heads), rule, *(line(row[place] for place in places) for row in rows), rule]


def paragraph(text: str, width: int = WIDTH) -> str:
    """Sentences broken into lines for a terminal."""
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def markdown_text(text: str) -> str:
    """Text in which nothing is taken for a tag: an error's message may name a <class ...>."""
    return _TAG.sub("&lt;", text)


def latex_text(text: str) -> str:
    """Text with LaTeX's special characters escaped; the hyphen before a number becomes a minus sign."""
    marked = _MINUS.sub("\0", text)  # before the dollar signs of a minus could be escaped themselves
    return _LATEX_PATTERN.sub(lambda found: _LATEX[found.group()], marked).replace("\0", "$-$")
