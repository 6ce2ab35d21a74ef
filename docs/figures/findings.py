"""The README's plot, four rows from the records in results/: python docs/figures/findings.py writes findings.svg."""

from pathlib import Path

from gradlex.report.decisions import decisions
from gradlex.report.figures import forest
from gradlex.report.frames import studies

ROWS = {"paper": ("sgd-matched", "sgd"), "branched-5000": ("sgd",), "branched": ("sgd",)}
"""By the experiment's folder: what its first compared method, which the README speaks of, is compared with."""
FIRST = {"paper": "lexicase", "branched-5000": "branched-average", "branched": "branched-average"}


def draw() -> str:
    """The plot as SVG."""
    groups = []
    for study in studies(Path(__file__).parents[2] / "results"):
        rows = ROWS.get(study.path.name, ())
        found = {each.second: each for each in decisions(study) if each.first == FIRST.get(study.path.name)}
        if rows:
            groups.append((f"CIFAR-10 at 16 x 16: {study.title}", [found[second] for second in rows]))
    return forest(groups)


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(draw(), encoding="utf-8")
