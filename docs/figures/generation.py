"""One generation of gradient lexicase selection: python docs/figures/generation.py writes generation.svg."""

from __future__ import annotations

from pathlib import Path

from _svg import COLORS, Figure

PARENT = "#64748b"
ROWS = (122, 184, 246, 308)  # where the candidates stand


def solved(candidate: int, case: int) -> bool | None:
    """Whether the candidate predicts the case correctly; None where it is no longer asked."""
    table = {0: (True, True, False), 1: (False,), 2: (True, True, True, True), 3: (True, True, True, False)}
    own = table[candidate]
    return own[case] if case < len(own) else None


def draw() -> Figure:
    figure = Figure(
        980,
        430,
        title="One generation of gradient lexicase selection",
        description="Four copies of a parent network train on four disjoint parts of the data. Lexicase selection looks at "
        "one training case after another and keeps the copies that predict it correctly. The survivor is the next parent.",
    )
    for x, number, title, below in (
        (36, "1", "Copy", "the parent, p times"),
        (212, "2", "Train", "each copy on its own part, by SGD"),
        (534, "3", "Select", "one training case at a time"),
    ):
        figure.circle(x + 11, 41, 11, fill="var(--ink)")
        figure.text(x + 11, 45.5, number, size=13, anchor="middle", weight=700, fill="var(--card)")
        figure.text(x + 32, 40, title, size=17, weight=700)
        figure.text(x + 32, 58, below, size=12.5, kind="muted")

    middle = sum(ROWS) / len(ROWS)
    figure.box(42, middle - 34, 84, 68, fill="var(--soft)", stroke="var(--line)", radius=12)
    figure.network(84, middle, PARENT, scale=1.25)
    figure.text(84, middle + 54, "parent", anchor="middle", weight=600)

    for index, (y, color) in enumerate(zip(ROWS, COLORS, strict=True)):
        figure.line(f"M130 {middle:g}C165 {middle:g} 160 {y} 196 {y}", tip=True)
        figure.network(226, y, color)
        # The training set, of which each copy has a part of its own.
        for tile in range(20):
            mine = tile // 5 == index
            figure.box(
                262 + 8.6 * tile + 4 * (tile // 5),
                y - 11,
                7,
                22,
                fill=color if mine else "var(--line)",
                radius=2,
                opacity=1 if mine else 0.45,
            )
        survivor = index == 2
        figure.line(f"M452 {y}L500 {y}", tip=True)
        figure.network(530, y, color)
        left, case = True, 0
        for case in range(4):
            x = 592 + 74 * case
            told = solved(index, case)
            if told is None:
                figure.box(x - 15, y - 15, 30, 30, fill="none", stroke="var(--line)", opacity=0.6)
                continue
            if case:
                figure.line(f"M{x - 55} {y}L{x - 20} {y}", stroke=color, width=2.5)
            else:
                figure.line(f"M552 {y}L{x - 20} {y}", stroke=color, width=2.5)
            left = told
            figure.box(
                x - 15,
                y - 15,
                30,
                30,
                fill="var(--soft)",
                stroke="var(--good)" if told else "var(--bad)",
                line=2,
            )
            mark = f"M{x - 6} {y}L{x - 1.5} {y + 5}L{x + 6.5} {y - 5.5}"
            cross = f"M{x - 5} {y - 5}L{x + 5} {y + 5}M{x + 5} {y - 5}L{x - 5} {y + 5}"
            figure.line(mark if told else cross, stroke="var(--good)" if told else "var(--bad)", width=2.6)
        if survivor:
            assert left
            figure.line(f"M832 {y}L866 {y}", stroke=color, width=2.5)
            figure.box(870, y - 32, 76, 64, fill="var(--soft)", stroke=color, radius=12, line=2)
            figure.network(908, y, color, scale=1.15)
            figure.text(908, y - 42, "survivor", anchor="middle", weight=600)
            figure.line(
                f"M908 {y + 34}L908 384Q908 396 896 396L96 396Q84 396 84 384L84 {middle + 66:g}",
                stroke=color,
                width=2,
                tip=True,
            )
    for case in range(4):
        figure.text(592 + 74 * case, 92, f"case {case + 1}", size=12.5, anchor="middle", kind="muted")
    figure.text(496, 388, "the parent of the next generation", anchor="middle", size=13, kind="muted")
    figure.text(349, 346, "together they use every sample once", anchor="middle", size=12.5, kind="muted")
    figure.text(703, 346, "who fails a case is out", anchor="middle", size=12.5, kind="muted")
    return figure


if __name__ == "__main__":
    draw().save(Path(__file__).with_suffix(".svg"))
