"""Table: a title, columns, rows and notes, printed as text, Markdown or LaTeX. Every string in it is data."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from gradlex.report._format import NONE, plain

WIDTH = 120
"""Characters per line of text; a narrower terminal has fewer."""

_GAP = "  "
_WRAPPED = 8  # a column's name from this length on may be broken at its spaces

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "↑": r"$\uparrow$",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "--": "-{}-",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_LATEX_PATTERN = re.compile("|".join(map(re.escape, _LATEX)))
_LATEX_OPTION = re.compile(r"^([\[*])")  # after the \\ of the row above it would be an option
_MINUS = re.compile(r"(?<![\w.-])-(?=\d)")

# What Markdown would take for markup; an underscore within a word and a lone < or & are text anyway.
_MARKDOWN = re.compile(r"[\\`*~$]|(?<![^\W_])_|_(?![^\W_])|(?<=\])[(\[:]|(?<=!)\[")
_TAG, _ENTITY = re.compile(r"<(?=[A-Za-z/!?])"), re.compile(r"&(?=[A-Za-z#])")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells are text; the first `words` columns are aligned left, the others, which hold numbers, right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    words: int = 1

    def text(self, width: int = WIDTH) -> str:
        """For a terminal: a table wider than `width` continues below, with the columns of words repeated.

        The continuation leaves out rows that are empty there.
        """
        columns, rows = tuple(map(plain, self.columns)), [tuple(map(plain, row)) for row in self.rows]
        widths = [
            max([1, *map(len, cells), *map(len, [name] if len(name) < _WRAPPED else name.split())])
            for name, *cells in zip(columns, *rows, strict=True)
        ]
        blocks = [
            line
            for number, places in enumerate(self._blocks(widths, width))
            for line in self._block(number, places, widths, columns, rows)
        ]
        notes = [paragraph(note, width) for note in self.notes]
        return "\n".join([paragraph(self.title, width), *blocks, *notes]) + "\n"

    def markdown(self) -> str:
        """For a page: the title in bold above the table, the notes as a list below."""
        marks = [":---" if place < self.words else "---:" for place in range(len(self.columns))]
        rows = [
            [markdown_text(cell).replace("|", r"\|") for cell in row] for row in (self.columns, *self.rows)
        ]
        lines = [f"| {' | '.join(row)} |" for row in (rows[0], marks, *rows[1:])]
        notes = ["", *(f"- {markdown_text(note)}" for note in self.notes)] if self.notes else []
        title = [f"**{markdown_text(self.title)}**", ""] if self.title else []
        return "\n".join([*title, *lines, *notes]) + "\n"

    def latex(self) -> str:
        """A table environment that needs no package."""
        places = "".join("l" if place < self.words else "r" for place in range(len(self.columns)))
        rows = [" & ".join(map(latex_text, row)) + r" \\" for row in (self.columns, *self.rows)]
        lines = [
            r"\begin{table}",
            rf"\caption{{{latex_text(self.title)}}}",
            rf"\begin{{tabular}}{{{places}}}",
            r"\hline",
            rows[0],
            r"\hline",
            *rows[1:],
            r"\hline",
            r"\end{tabular}",
            *(rf"\par {latex_text(note)}" for note in self.notes),
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def _blocks(self, widths: list[int], width: int) -> list[list[int]]:
        """Which columns stand side by side."""
        words = list(range(self.words))
        blocks = [words.copy()]
        for place in range(self.words, len(widths)):
            wide = sum(widths[each] + len(_GAP) for each in (*blocks[-1], place)) - len(_GAP)
            if wide > width and len(blocks[-1]) > self.words:
                blocks.append(words.copy())
            blocks[-1].append(place)
        return blocks

    def _block(
        self,
        number: int,
        places: list[int],
        widths: list[int],
        columns: tuple[str, ...],
        rows: list[tuple[str, ...]],
    ) -> list[str]:
        numbers = places[self.words :]
        shown = [row for row in rows if number == 0 or any(row[place] != NONE for place in numbers)]
        names = [textwrap.wrap(columns[place], widths[place]) for place in places]
        height = max(map(len, names))
        heads = zip(*([""] * (height - len(name)) + name for name in names), strict=True)

        def line(cells: Iterable[str]) -> str:
            aligned = (
                cell.ljust(widths[place]) if place < self.words else cell.rjust(widths[place])
                for place, cell in zip(places, cells, strict=True)
            )
            return _GAP.join(aligned).rstrip()

        rule = "-" * (sum(widths[place] + len(_GAP) for place in places) - len(_GAP))
        return ["", *map(line, heads), rule, *(line(row[place] for place in places) for row in shown), rule]


def paragraph(text: str, width: int = WIDTH) -> str:
    """Sentences broken into lines for a terminal."""
    return textwrap.fill(plain(text), width, break_long_words=False, break_on_hyphens=False)


def markdown_text(text: str) -> str:
    """Text in which Markdown finds no markup: a dataset may be called a_b*, an error may name a <class ...>."""
    escaped = _MARKDOWN.sub(r"\\\g<0>", plain(text))
    return _TAG.sub("&lt;", _ENTITY.sub("&amp;", escaped))


def markdown_code(text: str) -> str:
    """Text in a code span, whatever backticks it has."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{fence}{space}{plain(text)}{space}{fence}"


def latex_text(text: str) -> str:
    """Text with LaTeX's special characters escaped; the hyphen before a number becomes a minus sign."""
    marked = _MINUS.sub("\0", plain(text))  # before the dollar signs of a minus could be escaped themselves
    escaped = _LATEX_PATTERN.sub(lambda found: _LATEX[found.group()], marked).replace("\0", "$-$")
    return _LATEX_OPTION.sub(r"{\1}", escaped)
