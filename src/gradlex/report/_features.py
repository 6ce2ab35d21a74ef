"""What figure 2 is drawn from: the activations that are kept with runs, by layer, set of runs and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from gradlex.errors import InputError
from gradlex.experiments import ACTIVATIONS, stored_activations
from gradlex.report._diversity import Features, Values, common_edges
from gradlex.report._evidence import Evidence
from gradlex.report._format import listed
from gradlex.runs import stored_run

Layer: TypeAlias = dict[str, list[Features]]
"""The features of each set's runs."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Sets of runs, and what each layer answers in them."""

    groups: Mapping[str, Sequence[Path]]
    """Runs by the set's title, in the order of their seeds."""
    seeds: Mapping[str, Sequence[int]]
    layers: Mapping[str, Layer]
    edges: Mapping[str, Values]
    """Of the bins that a layer's sets have in common."""

    def pairing(self, title: str) -> list[int]:
        """What sets with the same seeds share: runs of one seed begin alike, and so are resampled together.

        A set that has a seed twice shares nothing.
        """
        seeds = list(self.seeds[title])
        return seeds if len(set(seeds)) == len(seeds) else [list(self.seeds).index(title), *seeds]


def planned_groups(evidence: Evidence) -> tuple[dict[str, list[Path]], list[str]]:
    """The finished runs by their columns' titles, and lines for those that lack activations."""
    settings = evidence.settings
    if len(settings) != 1:
        told = listed([str(setting) for setting in settings]) if settings else "no finished run"
        raise InputError(
            f"figure 2 compares methods on one dataset and model, {evidence.plan.root / evidence.plan.name}.json has "
            f"{told}: name one of each, or give the runs themselves."
        )
    groups, absent = dict[str, list[Path]](), list[str]()
    for title, arm in evidence.on(settings[0]).items():
        for seed, run in arm.runs.items():
            kept = stored_activations(run.path) if (run.path / ACTIVATIONS).exists() else {}
            if kept and set(evidence.plan.layers) <= set(kept):
                groups.setdefault(title, []).append(run.path)
            else:
                absent.append(
                    f"Not drawn: {title}, seed {seed}: its activations come with gradlex paper figure2."
                )
    return groups, absent


def compared(groups: Mapping[str, Sequence[Path]], layers: Sequence[str] | None) -> Compared:
    """Read the activations; refused unless all runs have the layers, on as many pictures.

    `layers` None: those that all runs keep activations of.
    """
    if not groups or not all(groups.values()):
        raise InputError(f"figure 2 needs at least one run in every set, got {dict(groups)}.")
    seeds = {run: stored_run(run).recipe.seed for runs in groups.values() for run in runs}
    groups = {title: sorted(runs, key=seeds.__getitem__) for title, runs in groups.items()}
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
    found = {
        layer: {title: [kept[run][layer] for run in runs] for title, runs in groups.items()}
        for layer in layers or common
    }
    edges = {
        layer: common_edges(each for runs in sets.values() for each in runs) for layer, sets in found.items()
    }
    return Compared(
        groups=groups,
        seeds={title: [seeds[run] for run in runs] for title, runs in groups.items()},
        layers=found,
        edges=edges,
    )
