"""Who is selected, by the mean error and by lexicase: python docs/figures/chances.py writes chances.svg."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from _svg import COLORS, Figure

from gradlex.selection import selection_probabilities

ERRORS = np.array(
    [
        [0, 0, 0, 0, 1, 1],
        [0, 0, 0, 1, 0, 1],
        [1, 1, 1, 1, 0, 0],
        [1, 0, 0, 1, 1, 1],
    ]
)


def draw() -> Figure:
    figure = Figure(
        980,
        330,
        title="Selection by the mean error and by lexicase",
        description="A table of four candidates and six cases. By the mean error only the two best candidates are ever "
        "selected; lexicase also selects the third, which alone solves the last case.",
    )
    best = ERRORS.mean(axis=1) == ERRORS.mean(axis=1).min()
    columns = {
        "by the mean error": best / best.sum(),
        "by lexicase": selection_probabilities(ERRORS, on_all_fail="survive"),
    }
    for case in range(ERRORS.shape[1]):
        figure.text(150 + 44 * case, 62, f"case {case + 1}", size=11.5, anchor="middle", kind="muted")
    figure.text(440, 62, "solved", size=12.5, anchor="middle", kind="muted")
    for place, title in enumerate(columns):
        figure.text(510 + 225 * place, 46, title, size=16, weight=700)
        figure.text(510 + 225 * place, 62, "chance to be selected", size=11.5, kind="muted")
    for candidate, (row, color) in enumerate(zip(ERRORS, COLORS, strict=True)):
        y = 100 + 52 * candidate
        figure.network(72, y, color)
        for case, error in enumerate(row):
            x = 150 + 44 * case
            tone = "var(--bad)" if error else "var(--good)"
            figure.box(x - 15, y - 15, 30, 30, fill="var(--soft)", stroke=tone, line=1.6)
            cross = f"M{x - 5} {y - 5}L{x + 5} {y + 5}M{x + 5} {y - 5}L{x - 5} {y + 5}"
            mark = f"M{x - 6} {y}L{x - 1.5} {y + 5}L{x + 6.5} {y - 5.5}"
            figure.line(cross if error else mark, stroke=tone, width=2.4)
        figure.text(440, y + 5, f"{(row == 0).sum()} of {len(row)}", anchor="middle")
        for place, chances in enumerate(columns.values()):
            x, share = 510 + 225 * place, float(chances[candidate])
            figure.box(x, y - 10, 150, 20, fill="var(--soft)", radius=4)
            if share:
                figure.box(x, y - 10, 150 * share, 20, fill=color, radius=4)
            figure.text(x + 158, y + 5, f"{share:.0%}", size=13.5, weight=600 if share else 400)
    figure.text(
        40,
        308,
        "The green candidate solves few cases, but the last one nobody else does: lexicase keeps it in play.",
        size=13,
        kind="muted",
    )
    return figure


if __name__ == "__main__":
    draw().save(Path(__file__).with_suffix(".svg"))
