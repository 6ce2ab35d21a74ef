"""Which checkpoint solves which cases: the complementarity that means hide."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from gradlex._files import write_whole
from gradlex.selection import ErrorTable


def plot_cases(errors: ErrorTable, labels: tuple[str, ...], path: Path) -> None:
    """Write a picture of a (checkpoints, cases) table to a .png or .svg file.

    Cases that all checkpoints solve, or none, are left out and counted in the title. The others are sorted by how many
    solve them, so that a column with one dark cell is a case that a single checkpoint solves.

    Examples:
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from gradlex.soups import plot_cases
        >>> plot_cases(np.array([[0, 1, 1, 0], [1, 0, 1, 0]]), ("first", "second"), Path("cases.svg"))
        >>> Path("cases.svg").exists()
        True
    """
    solved = np.asarray(errors) == 0
    count = solved.sum(axis=0)
    telling = np.flatnonzero((count > 0) & (count < len(solved)))
    order = telling[np.lexsort((*solved[::-1, telling], -count[telling]))]
    with matplotlib.style.context(
        ["default", {"font.size": 9, "text.parse_math": False, "svg.hashsalt": "gradlex"}]
    ):
        figure = Figure(figsize=(9, 1.2 + 0.3 * len(labels)), layout="constrained")
        axes = figure.subplots()
        if len(order):
            axes.imshow(
                solved[:, order], aspect="auto", cmap="Greys", interpolation="nearest", vmin=0, vmax=1.2
            )
        shares = [f"{label} ({row.mean():.1%})" for label, row in zip(labels, solved, strict=True)]
        axes.set_yticks(range(len(labels)), shares)
        axes.set_xlabel("validation cases, by how many checkpoints solve them (dark: solved)")
        axes.set_title(
            f"{len(order):,} cases divide the checkpoints; all solve {(count == len(solved)).sum():,}, none "
            f"{(count == 0).sum():,}"
        )
        data = io.BytesIO()
        kind = "svg" if path.suffix.lower() == ".svg" else "png"
        metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        figure.savefig(data, format=kind, dpi=150, metadata=metadata)
    write_whole(path, data.getvalue())
