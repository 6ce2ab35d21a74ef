"""Figure 2 for runs that are finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gradlex.cli._console import console, typed_command
from gradlex.cli._dimensions import Carried
from gradlex.errors import InputError
from gradlex.experiments import record_activations
from gradlex.report import draw_figure2
from gradlex.runs import StoredRun, refuse_unwritable, stored_run


def compare_runs(
    first: Sequence[Path], second: Sequence[Path], layers: tuple[str, ...], carried: Carried
) -> None:
    """Figure 2 for two sets of finished runs."""
    if not first or not second:
        raise InputError("figure2 compares two sets of runs: give --first RUN ... and --second RUN ...")
    root = carried.out or Path("runs")
    refuse_unwritable(root)
    runs = {run: stored_run(run) for run in (*first, *second)}
    _refuse_other_pictures(runs)
    for run in runs:
        record_activations(run, layers=layers or None, device=carried.device, data_dir=carried.data_dir)
    root.mkdir(parents=True, exist_ok=True)
    notes = [
        f"{title}: {', '.join(run.resolve().name for run in paths)}."
        for title, paths in (("first", first), ("second", second))
    ]
    stem = root / "figure2-runs"
    written = draw_figure2(
        {"first": first, "second": second},
        stem,
        layers=layers or None,
        notes=(*notes, f"Made by: {typed_command()}"),
    )
    console().print(stem.with_suffix(".txt").read_text(encoding="utf-8"), soft_wrap=True)
    console().print(f"written: {', '.join(map(str, written))}", soft_wrap=True)


def _refuse_other_pictures(runs: Mapping[Path, StoredRun]) -> None:
    """Refuse runs that were not tested on the same data; the part that each was trained on may differ."""
    names = {
        path: f"{Path(run.recipe.dataset).name} with {run.data['test_samples']} test samples"
        for path, run in runs.items()
    }
    # A run of an earlier version knows only the fingerprint of all its data; then its name has to do.
    prints = {path: run.data.get("test_fingerprint") for path, run in runs.items()}
    same = len({run.data["fingerprint"] for run in runs.values()}) == 1
    if not same and len(set((names if None in prints.values() else prints).values())) > 1:
        told = "; ".join(f"{path} has {name}" for path, name in names.items())
        raise InputError(f"figure2 compares runs on the same test pictures, and these are not: {told}.")
