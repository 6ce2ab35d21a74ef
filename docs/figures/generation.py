"""One generation of gradient lexicase selection: python docs/figures/generation.py writes generation.svg.

It is narrow, so that a phone shows it at three quarters of its size, and follows the reader's light or dark mode.
"""

from html import escape
from itertools import pairwise
from pathlib import Path

WIDTH, HEIGHT = 480, 584
COLORS = ("#3b82f6", "#f59e0b", "#10b981", "#a855f7")
COLUMNS = (112, 204, 296, 388)
SOLVED = ((True, True, False), (False,), (True, True, True, True), (True, True, True, False))
"""Which cases each copy solves, up to the one that it fails."""
SURVIVOR = 2
DESCRIPTION = (
    "Four copies of a parent network train on four separate parts of the data. Selection looks at one training case "
    "after another. A copy that fails a case is out. The last one left is the parent of the next generation."
)
STYLE = """
  svg { --card: #ffffff; --ink: #1f2328; --muted: #59636e; --line: #d1d9e0; --soft: #f3f5f8; --good: #1a7f37; --bad: #cf222e }
  @media (prefers-color-scheme: dark) {
    svg { --card: #161b22; --ink: #e6edf3; --muted: #9198a1; --line: #3d444d; --soft: #21262d; --good: #56d364; --bad: #ff7b72 }
  }
  text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; fill: var(--ink) }
  .muted { fill: var(--muted) }
"""


def draw() -> str:
    """The figure as SVG."""
    middle = sum(COLUMNS) / 4
    parts = [
        *(step(y, *texts) for y, texts in zip((34, 196, 288), STEPS, strict=True)),
        box(middle - 34, 54, 68, 52, fill="var(--soft)", stroke="var(--line)", radius=12),
        network(middle, 80, "#64748b"),
        text(middle + 44, 85, "parent", weight=600),
    ]
    for column, (x, color, solved) in enumerate(zip(COLUMNS, COLORS, SOLVED, strict=True)):
        parts += [line(f"M{middle:g} 106C{middle:g} 128 {x} 116 {x} 132", tip=True), network(x, 154, color)]
        for tile in range(12):  # the training set, of which each copy has a part of its own
            mine = tile // 3 == column
            where = (x - 35 + 5.6 * tile + 1.2 * (tile // 3), 216, 4.4, 24)
            parts += [box(*where, fill=color if mine else "var(--line)", radius=1.5)]
        parts += [line(f"M{x} 314L{x} {330 + 44 * (len(solved) - 1)}", stroke=color, width=2.5)]
        for case in range(4):
            parts += mark(x, 334 + 44 * case, solved[case] if case < len(solved) else None)
    parts += [text(20, 339 + 44 * case, f"case {case + 1}", kind="muted") for case in range(4)]
    x, color = COLUMNS[SURVIVOR], COLORS[SURVIVOR]
    back = f"M{x + 34} 532L440 532Q454 532 454 518L454 94Q454 80 440 80L{middle + 106:g} 80"
    parts += [
        line(f"M{x} 482L{x} 504", stroke=color, width=2.5),
        box(x - 34, 506, 68, 52, fill="var(--soft)", stroke=color, radius=12, line=2),
        network(x, 532, color),
        line(back, stroke=color, width=2, tip=True),
        text(x - 44, 528, "A copy that fails a case is out.", anchor="end", kind="muted"),
        text(x - 44, 550, "The last one left is the parent.", anchor="end", kind="muted"),
    ]
    return "\n".join([HEAD, *parts, "</svg>", ""])


STEPS = (
    ("1", "Copy", "the parent, p times"),
    ("2", "Train", "each copy on its own part, by SGD"),
    ("3", "Select", "one training case at a time"),
)
HEAD = f"""<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" \
role="img" aria-labelledby="title description">
<title id="title">One generation of gradient lexicase selection</title>
<desc id="description">{DESCRIPTION}</desc>
<style>{STYLE}</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">\
<path d="M0 0L8 4L0 8z" style="fill:var(--muted)"/></marker></defs>
<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="14" style="fill:var(--card);stroke:var(--line)"/>"""


def step(y: float, number: str, title: str, words: str) -> str:
    """The heading of a step."""
    return "\n".join(
        [
            circle(31, y - 6, 12, "var(--ink)"),
            text(31, y - 0.5, number, anchor="middle", weight=700, fill="var(--card)"),
            text(52, y, title, size=18, weight=700),
            text(128, y, words, kind="muted"),
        ]
    )


def mark(x: float, y: float, solved: bool | None) -> list[str]:
    """A case: solved, failed, or no longer asked for."""
    if solved is None:
        return [box(x - 15, y - 15, 30, 30, fill="none", stroke="var(--line)")]
    color = "var(--good)" if solved else "var(--bad)"
    tick = f"M{x - 6} {y}L{x - 1.5} {y + 5}L{x + 6.5} {y - 5.5}"
    cross = f"M{x - 5} {y - 5}L{x + 5} {y + 5}M{x + 5} {y - 5}L{x - 5} {y + 5}"
    shape = box(x - 15, y - 15, 30, 30, fill="var(--soft)", stroke=color, line=2)
    return [shape, line(tick if solved else cross, stroke=color, width=2.6)]


def network(x: float, y: float, color: str) -> str:
    """A small network of three layers, centered at (x, y)."""
    layers = [[(x + dx, y + dy) for dy in column] for dx, column in ((-15, (-9, 9)), (0, (-14, 0, 14)), (15, (-9, 9)))]
    edges = [(a, b) for left, right in pairwise(layers) for a in left for b in right]
    lines = [line(f"M{ax:g} {ay:g}L{bx:g} {by:g}", stroke=color, width=1, opacity=0.55) for (ax, ay), (bx, by) in edges]
    return "\n".join([*lines, *(circle(cx, cy, 3.6, color) for layer in layers for cx, cy in layer)])


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: float = 15,
    anchor: str = "start",
    weight: int = 400,
    kind: str = "",
    fill: str = "",
) -> str:
    """A line of text."""
    style = f' style="fill:{fill}"' if fill else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}" font-weight="{weight}" '
        f'class="{kind}"{style}>{escape(words)}</text>'
    )


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    fill: str,
    stroke: str = "none",
    radius: float = 6,
    line: float = 1,
) -> str:
    """A rectangle with round corners."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" '
        f'style="fill:{fill};stroke:{stroke};stroke-width:{line:g}"/>'
    )


def circle(x: float, y: float, radius: float, fill: str) -> str:
    """A disk."""
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" style="fill:{fill}"/>'


def line(path: str, *, stroke: str = "var(--muted)", width: float = 1.5, tip: bool = False, opacity: float = 1) -> str:
    """A path."""
    end = ' marker-end="url(#tip)"' if tip else ""
    return (
        f'<path d="{path}" fill="none" opacity="{opacity:g}" stroke-linecap="round" stroke-linejoin="round"{end} '
        f'style="stroke:{stroke};stroke-width:{width:g}"/>'
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(draw(), encoding="utf-8")
