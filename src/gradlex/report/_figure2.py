"""Figure 2 of Ding and Spector 2022: how the activations of layers are distributed, method beside method.

A panel a layer: the histogram of all channels' maxima over the first test pictures, and a smooth density over it.
The activations come from RUN/activations.npz alone, so that the figure needs neither weights nor data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

from gradlex.errors import InputError
from gradlex.experiments import ACTIVATIONS, Plan, stored_activations
from gradlex.report._diversity import BINS, RESAMPLES, Estimate, Values, common_edges, diversity
from gradlex.report._drawing import Look, looks, save_figure
from gradlex.report._evidence import gather
from gradlex.report._format import listed
from gradlex.report._panels import SHOWN, Layer, layer_panels
from gradlex.report._setup import setup_notes
from gradlex.report._table import Table
from gradlex.runs import stored_run

# Red for the baseline and blue for lexicase, as the paper has them, in tones that the colour-blind can tell apart
# (Okabe and Ito 2008).
_LOOKS = tuple(map(Look, ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")))


def write_figure2(plan: Plan) -> list[Path]:
    """Draw ROOT/figure2 from the finished runs of a plan, of one dataset and model, as far as they have activations."""
    evidence = gather(plan)
    settings = evidence.settings
    if len(settings) != 1:
        told = listed([str(setting) for setting in settings]) if settings else "no finished run"
        raise InputError(
            f"figure 2 compares methods on one dataset and model, {plan.root / plan.name}.json has {told}: "
            "name one of each, or give the runs themselves."
        )
    groups, absent = dict[str, list[Path]](), list[str]()
    for title, arm in evidence.on(settings[0]).items():
        for seed, run in arm.runs.items():
            if (run.path / ACTIVATIONS).exists():
                groups.setdefault(title, []).append(run.path)
            else:
                absent.append(
                    f"Not drawn: {title}, seed {seed}: its activations come with gradlex paper figure2."
                )
    if not groups:
        return []
    notes = (*setup_notes(evidence), *evidence.missing_notes, *absent)
    layers = plan.layers or None
    return draw_figure2(groups, plan.root / "figure2", layers=layers, notes=notes, drawn_as=looks(evidence))


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
    compared = _compared(groups, layers)
    edges = {
        layer: common_edges(each for runs in sets.values() for each in runs)
        for layer, sets in compared.items()
    }
    seeds = {title: [stored_run(run).recipe.seed for run in runs] for title, runs in groups.items()}
    table = _table(compared, edges, seeds, notes)
    written = [target_stem.with_name(f"{target_stem.name}.{ending}") for ending in ("txt", "md", "tex")]
    for path, content in zip(written, (table.text(), table.markdown(), table.latex()), strict=True):
        path.write_text(content, encoding="utf-8", newline="\n")
    look = drawn_as or dict(zip(groups, cycle(_LOOKS), strict=False))
    return written + save_figure(lambda: layer_panels(compared, edges, look), target_stem)


def _compared(groups: Mapping[str, Sequence[Path]], layers: Sequence[str] | None) -> dict[str, Layer]:
    """The features by layer, group and run; refused unless all runs have the layers on as many pictures."""
    if not groups or not all(groups.values()):
        raise InputError(f"figure 2 needs at least one run in every set, got {dict(groups)}.")
    kept = {run: stored_activations(run) for runs in groups.values() for run in runs}
    first = next(iter(kept.values()))
    common = [layer for layer in first if all(layer in activations for activations in kept.values())]
    told = "; ".join(f"{run} has {', '.join(activations)}" for run, activations in kept.items())
    missing = [layer for layer in layers or () if layer not in common]
    if missing or not common:
        raise InputError(
            f"the runs do not all keep activations of {', '.join(missing) or 'a common layer'}: {told}. Record the "
            "same layers for all of them with gradlex.experiments.record_activations."
        )
    pictures = {run: len(next(iter(activations.values()))) for run, activations in kept.items()}
    if len(set(pictures.values())) > 1 or min(pictures.values()) < 2:
        numbers = "; ".join(f"{run} has {number}" for run, number in pictures.items())
        raise InputError(
            f"the runs must keep activations on as many pictures, at least 2: {numbers}. Record them again."
        )
    return {
        layer: {title: [kept[run][layer] for run in runs] for title, runs in groups.items()}
        for layer in layers or common
    }


def _table(
    compared: Mapping[str, Layer],
    edges: Mapping[str, Values],
    seeds: Mapping[str, Sequence[int]],
    notes: Sequence[str],
) -> Table:
    rows: list[tuple[str, ...]] = []
    for layer, sets in compared.items():
        for title, runs in sets.items():
            found = diversity(runs, edges[layer])
            cells = (
                _cells(found.zeros, 1, times=100),
                _cells(found.entropy, 3),
                _cells(found.effective_rank, 1),
            )
            several = len(runs) > 1
            names = [f"mean of {len(runs)}"] if several else []
            names += [f"seed {seed}" for seed in seeds[title]]
            rows += [
                (layer, title, *row)
                for row in zip(names, *(c if several else c[:1] for c in cells), strict=True)
            ]
    pictures = len(next(iter(next(iter(compared.values())).values()))[0])
    return Table(
        title="Figure 2: representation diversity",
        columns=("layer", "method", "run", "zeros, %", "entropy, nats", "effective rank"),
        rows=tuple(rows),
        notes=(
            f"The maximum of each channel over its map, for the first {pictures} test pictures. Entropy: of the "
            f"values' histogram in {BINS} bins common to a layer's rows. Effective rank: of the (pictures, channels) "
            "matrix, not centred (Roy and Vetterli 2007).",
            f"In brackets: 95 % bootstrap intervals from {RESAMPLES:,} resamples of the pictures, and of the runs "
            f"where there are several. The figure's axes end where {100 * SHOWN:g} % of a method's values do.",
            *notes,
        ),
        words=3,
    )


def _cells(estimate: Estimate, digits: int, *, times: float = 1) -> list[str]:
    """The mean with its interval, then each run's own number."""
    mean, low, high, *runs = (
        f"{times * value:.{digits}f}"
        for value in (estimate.mean, estimate.low, estimate.high, *estimate.runs)
    )
    return [f"{mean} [{low}, {high}]", *runs]
