"""Figure 2 of Ding and Spector 2022: how the activations of layers are distributed, method beside method.

A panel a layer: the histogram of all channels' maxima over the first test pictures, and a smooth density over it.
The activations come from RUN/activations.npz alone, so that the figure needs neither weights nor data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path

from gradlex.experiments import Plan
from gradlex.report._diversity import BINS, RESAMPLES, Diversity, Estimate, diversity
from gradlex.report._drawing import SETS, Look, looks, save_figure
from gradlex.report._evidence import gather
from gradlex.report._features import Compared, compared, planned_groups
from gradlex.report._panels import SHOWN, layer_panels
from gradlex.report._setup import setup_notes
from gradlex.report._table import Table


def write_figure2(plan: Plan) -> list[Path]:
    """Draw ROOT/figure2 from the finished runs of a plan, of one dataset and model, as far as they have activations."""
    evidence = gather(plan)
    groups, absent = planned_groups(evidence)
    if not groups:
        return []
    notes = (*setup_notes(evidence), *evidence.missing_notes, *absent)
    return draw_figure2(
        groups,
        plan.root / "figure2",
        layers=plan.layers or None,
        notes=notes,
        drawn_as=looks(evidence),
    )


def draw_figure2(
    groups: Mapping[str, Sequence[Path]],
    target_stem: Path,
    *,
    layers: Sequence[str] | None = None,
    notes: Sequence[str] = (),
    drawn_as: Mapping[str, Look] | None = None,
) -> list[Path]:
    """Draw STEM.png and STEM.svg, with the numbers in STEM.txt, STEM.md and STEM.tex, for sets of runs by title.

    `layers` None: those that all runs keep activations of. `notes` stand below the numbers. `drawn_as` None: the
    first set in the paper's red, the second in its blue.
    """
    found = compared(groups, layers)
    table = _table(found, notes)
    written = [target_stem.with_name(f"{target_stem.name}.{ending}") for ending in ("txt", "md", "tex")]
    for path, content in zip(written, (table.text(), table.markdown(), table.latex()), strict=True):
        path.write_text(content, encoding="utf-8", newline="\n")
    look = drawn_as or dict(zip(groups, cycle(SETS), strict=False))
    return written + save_figure(lambda: layer_panels(found, look), target_stem)


def _table(found: Compared, notes: Sequence[str]) -> Table:
    pictures = len(next(iter(next(iter(found.layers.values())).values()))[0])
    return Table(
        title="Figure 2: representation diversity",
        columns=("layer", "method", "run", "zeros, %", "entropy, nats", "effective rank"),
        rows=tuple(row for layer in found.layers for row in _rows(found, layer)),
        notes=(
            f"The maximum of each channel over its map, for the first {pictures} test pictures. Entropy: of the "
            f"values' histogram in {BINS} bins common to a layer's rows. Effective rank: of the (pictures, channels) "
            "matrix, not centred (Roy and Vetterli 2007).",
            f"In brackets: 95 % bootstrap intervals from {RESAMPLES:,} resamples of the pictures, the same for all "
            "rows of a layer, and of the runs where there are several, seed by seed for methods that have the same "
            "seeds. With one run they say nothing about another seed; with two or three they are rough and rather too "
            "narrow.",
            f"The figure's axes end where {100 * SHOWN:g} % of a method's values do.",
            *notes,
        ),
        words=3,
    )


def _rows(found: Compared, layer: str) -> Iterator[tuple[str, ...]]:
    """Each set's mean and runs, then how far each further set is above the first."""
    sets = {
        title: diversity(runs, found.edges[layer], pairing=found.pairing(title))
        for title, runs in found.layers[layer].items()
    }
    for title, numbers in sets.items():
        seeds = [f"seed {seed}" for seed in found.seeds[title]]
        rows = list(zip(*map(_runs, _estimates(numbers), _DIGITS), strict=True))
        if len(seeds) > 1:
            yield layer, title, f"mean of {len(seeds)}", *_means(numbers)
            yield from ((layer, title, seed, *row) for seed, row in zip(seeds, rows, strict=True))
        else:
            yield layer, title, seeds[0], *_means(numbers)
    (first, base), *others = sets.items()
    for title, numbers in others:
        yield layer, f"{title} less {first}", "difference", *_means(numbers.minus(base), sign="+")


_DIGITS = (1, 3, 1)


def _estimates(numbers: Diversity) -> tuple[Estimate, ...]:
    return numbers.zeros.times(100), numbers.entropy, numbers.effective_rank


def _means(numbers: Diversity, sign: str = "") -> list[str]:
    """Each number's mean with its interval."""
    cells = []
    for estimate, digits in zip(_estimates(numbers), _DIGITS, strict=True):
        mean, low, high = (
            f"{value:{sign}.{digits}f}" for value in (estimate.mean, estimate.low, estimate.high)
        )
        cells.append(f"{mean} [{low}, {high}]")
    return cells


def _runs(estimate: Estimate, digits: int) -> list[str]:
    return [f"{value:.{digits}f}" for value in estimate.runs]
