"""Where results come from: commands, data, seeds, machine and versions, from the files of the runs alone."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath, PureWindowsPath

from gradlex.report._evidence import Evidence
from gradlex.report._format import count, listed
from gradlex.runs import RunFolder, StoredRun

_DIGITS = 12  # of a fingerprint: enough to tell data apart
_VERSIONS = {"gradlex": "gradlex", "python": "Python", "torch": "PyTorch", "numpy": "NumPy"}


def provenance(evidences: Sequence[Evidence]) -> str:
    """The section of a page that tells how its results were made."""
    runs = {
        run.path: (str(arm.setting), run)
        for evidence in evidences
        for arm in evidence.arms
        for run in arm.runs.values()
    }
    commands = [shown_command(evidence.plan.command) for evidence in evidences]
    found = list(runs.values())
    lines = [
        "```",
        *dict.fromkeys(commands),
        "```",
        "",
        f"Finished: {_number(len(found))}{_seeds([run for _, run in found])}.",
        "",
        *(f"- {line}" for line in (*_data(found), *_machines([run for _, run in found]))),
    ]
    return "\n".join(lines).rstrip() + "\n"


def shown_command(command: str) -> str:
    """The command without the folders of the machine it ran on: a file elsewhere is told by its name."""
    return shlex.join(map(_shown, shlex.split(command)))


def _shown(word: str) -> str:
    option, equals, value = word.rpartition("=")  # --dataset=FILE
    return f"{option}{equals}{PureWindowsPath(value).name}" if _elsewhere(value) else word


def _elsewhere(word: str) -> bool:
    return (
        PurePosixPath(word).is_absolute()
        or PureWindowsPath(word).is_absolute()
        or ".." in PureWindowsPath(word).parts
    )


def _seeds(runs: Sequence[StoredRun]) -> str:
    seeds = sorted({run.recipe.seed for run in runs})
    word = "seed" if len(seeds) == 1 else "seeds"
    return f", with the {word} {listed([str(seed) for seed in seeds])}" if seeds else ""


def _data(found: Sequence[tuple[str, StoredRun]]) -> list[str]:
    facts = Counter(
        f"{setting}: {count(run.data['train_samples'])} training and {count(run.data['test_samples'])} test samples "
        f"(data {run.data['fingerprint'][:_DIGITS]})"
        for setting, run in found
    )
    return [f"{fact}: {_number(runs)}." for fact, runs in facts.items()]


def _machines(runs: Sequence[StoredRun]) -> list[str]:
    facts = Counter(_machine(run) for run in runs if (run.path / "environment.json").exists())
    return [f"{fact}: {_number(number)}." for fact, number in facts.items()]


def _machine(run: StoredRun) -> str:
    environment = RunFolder(run.path).read_json("environment.json")
    device = environment.get("accelerator") or environment.get("processor") or "an unnamed processor"
    threads = environment.get("threads")
    versions = listed([f"{title} {environment.get(name, 'unknown')}" for name, title in _VERSIONS.items()])
    return (
        f"{device}, {threads} thread{'' if threads == 1 else 's'} a worker, "
        f"{environment.get('precision')}, {versions}"
    )


def _number(runs: int) -> str:
    return "1 run" if runs == 1 else f"{runs} runs"
