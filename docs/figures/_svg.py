"""The few shapes that the figures are drawn with, as SVG that follows the reader's light or dark mode."""

from __future__ import annotations

from html import escape
from itertools import pairwise
from pathlib import Path

COLORS = ("#3b82f6", "#f59e0b", "#10b981", "#a855f7")
STYLE = """
  svg { --card: #ffffff; --ink: #1f2328; --muted: #59636e; --line: #d1d9e0; --soft: #f3f5f8; --good: #1a7f37; --bad: #cf222e }
  @media (prefers-color-scheme: dark) {
    svg { --card: #161b22; --ink: #e6edf3; --muted: #9198a1; --line: #3d444d; --soft: #21262d; --good: #56d364; --bad: #ff7b72 }
  }
  text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; fill: var(--ink) }
  .muted { fill: var(--muted) }
"""


class Figure:
    """Shapes in the order they are drawn."""

    def __init__(self, width: int, height: int, *, title: str, description: str) -> None:
        self.size = (width, height)
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            'aria-labelledby="title description">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}</desc>',
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z" style="fill:var(--muted)"/></marker></defs>',
            f'<rect width="{width}" height="{height}" rx="14" style="fill:var(--card);stroke:var(--line)"/>',
        ]

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 14,
        anchor: str = "start",
        weight: int = 400,
        kind: str = "",
        fill: str = "",
    ) -> None:
        style = f' style="fill:{fill}"' if fill else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}" font-weight="{weight}" '
            f'class="{kind}"{style}>{escape(words)}</text>'
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str,
        radius: float = 6,
        stroke: str = "none",
        opacity: float = 1,
        line: float = 1,
    ) -> None:
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" opacity="{opacity:g}" '
            f'style="fill:{fill};stroke:{stroke};stroke-width:{line:g}"/>'
        )

    def circle(self, x: float, y: float, radius: float, *, fill: str, opacity: float = 1) -> None:
        self.parts.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" opacity="{opacity:g}" style="fill:{fill}"/>'
        )

    def line(
        self,
        path: str,
        *,
        stroke: str = "var(--muted)",
        width: float = 1.5,
        tip: bool = False,
        dashed: bool = False,
        opacity: float = 1,
    ) -> None:
        end = ' marker-end="url(#tip)"' if tip else ""
        dash = ' stroke-dasharray="3 4"' if dashed else ""
        self.parts.append(
            f'<path d="{path}" fill="none" opacity="{opacity:g}" stroke-linecap="round" stroke-linejoin="round"{dash}{end} '
            f'style="stroke:{stroke};stroke-width:{width:g}"/>'
        )

    def network(self, x: float, y: float, color: str, *, scale: float = 1, opacity: float = 1) -> None:
        """A small network of three layers, centred at (x, y)."""
        layers = [(-15, (-9, 9)), (0, (-14, 0, 14)), (15, (-9, 9))]
        places = [[(x + scale * dx, y + scale * dy) for dy in column] for dx, column in layers]
        for left, right in pairwise(places):
            for ax, ay in left:
                for bx, by in right:
                    self.line(
                        f"M{ax:g} {ay:g}L{bx:g} {by:g}", stroke=color, width=scale, opacity=0.55 * opacity
                    )
        for column in places:
            for cx, cy in column:
                self.circle(cx, cy, 3.6 * scale, fill=color, opacity=opacity)

    def save(self, path: Path) -> None:
        path.write_text("\n".join([*self.parts, "</svg>", ""]), encoding="utf-8")
