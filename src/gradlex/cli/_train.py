"""gradlex train, resume and replay"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import tyro

from gradlex.callbacks import LOGGERS, Callback, LoggerName, stored_loggers
from gradlex.errors import InputError, unknown_name
from gradlex.experiments import folder_word
from gradlex.presets import Name as Preset
from gradlex.recipe import Recipe

if TYPE_CHECKING:
    from gradlex.runs import Execution, Run

Placement = Literal["resident", "offload", "stacked"]


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train a network by gradient lexicase selection and write a run folder."""

    recipe: Recipe
    preset: Preset | None = None
    """Named settings that replace the defaults; other flags override them: paper (the paper's method, as without a
    preset), or branched (one network, then the average of several; the final model is the mean of the tail)."""
    data_dir: Path | None = None
    """Where downloaded datasets are kept (default: the user's cache folder)."""
    workers: int | Literal["auto"] = "auto"
    """Processes that train candidates at the same time (default: auto, one per candidate, up to one per CPU or GPU)."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps, ... (default: auto, the accelerator if there is one)."""
    placement: Placement = "resident"
    """Candidates wait on the device, or on the host (offload) if they do not all fit; stacked: those of a worker are
    trained together in one pass."""
    out: Path | None = None
    """The run folder (default: a new one under runs/)."""
    resume: bool = False
    """Resume the run in --out; start it if there is none yet."""
    evaluate_every: int | None = None
    """Generations between two evaluations on the test samples (default: about 20 evaluations per run)."""
    checkpoint_every: int = 1
    """Generations between two checkpoints."""
    keep_checkpoints: tuple[int, ...] = ()
    """Generations whose checkpoints are kept, so that other runs can begin there (--init-from RUN)."""
    log: tuple[LoggerName, ...] = ()
    """Loggers, one or more of tensorboard, wandb, trackio, mlflow and csv; all but csv are extras to install."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Data": (
            "dataset",
            "target",
            "train_size",
            "test_fraction",
            "validation_fraction",
            "image_size",
            "augment",
            "task",
            "task_options",
            "data_dir",
        ),
        "Model": ("model", "width", "init_from", "freeze"),
        "Optimization": (
            "generations",
            "batch_size",
            "lr",
            "schedule",
            "schedule_options",
            "weight_decay",
            "parameter_groups",
            "clip_norm",
            "accumulate",
            "optimizer",
            "optimizer_options",
            "momentum",
            "branch_at",
            "tail",
            "tail_options",
            "tail_mean",
            "steps_per_generation",
            "patience",
            "keep",
            "seed",
        ),
        "Selection": ("selection", "selection_options", "population", "cases", "held_out"),
        "Variation": ("parts", "vary", "inherit_variation", "timeline"),
        "Promotion": (
            "promotion",
            "promotion_cases",
            "recalibrate",
            "recalibrate_final",
            "outer_lr",
            "outer_momentum",
            "outer_nesterov",
            "ema",
        ),
        "Execution": (
            "device",
            "workers",
            "threads",
            "precision",
            "compile",
            "compile_options",
            "fold_norm",
            "deterministic",
            "placement",
        ),
        "Output": ("out", "resume", "evaluate_every", "checkpoint_every", "keep_checkpoints", "log"),
    }
    examples: ClassVar[str] = """
        gradlex train --dataset digits --seed 1
        gradlex train --dataset cifar10 --model resnet18 --preset branched
        gradlex train --selection epsilon-lexicase --selection-options epsilon=0.1
    """

    def __call__(self) -> None:
        """Train, and print what came of it."""
        if self.resume and self.out is None:
            raise InputError("resume needs the run's folder: --out RUN --resume, or gradlex resume RUN.")
        check_names(self.recipe)  # before torch is imported, which takes seconds
        loggers = [LOGGERS[name]() for name in dict.fromkeys(self.log)]

        from gradlex.runs import Execution

        recipe, beginning = (
            self.recipe,
            None if self.recipe.init_from is None else Path(self.recipe.init_from),
        )
        if beginning is not None and beginning.is_dir():
            recipe = recipe.replace(init_from=None)
        else:
            beginning = None
        execution = Execution(
            workers=self.workers,
            device=None if self.device == "auto" else self.device,
            evaluate_every=self.evaluate_every,
            checkpoint_every=self.checkpoint_every,
            placement=self.placement,
            keep_checkpoints=self.keep_checkpoints,
            begin_with=beginning,
        )
        if self.out is not None:
            _start(recipe, execution, self.out, self.data_dir, loggers, resume=self.resume)
            return
        with _new_folder(recipe) as folder:
            _start(recipe, execution, folder, self.data_dir, loggers, resume=False)


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Resume an interrupted run; the result is identical."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    dataset: str | None = None
    """Where the run's data is now (default: where it was)."""
    data_dir: Path | None = None
    """Where downloaded datasets are kept (default: the user's cache folder)."""
    workers: int | Literal["auto"] = "auto"
    """Processes that train candidates at the same time (default: auto, one per candidate, up to one per CPU or GPU)."""
    device: str | None = None
    """cpu, cuda, cuda:1, ... (default: as before). Another kind of device may change the last bits."""
    placement: Placement | None = None
    """Where candidates wait: on the device, or on the host (default: as before)."""
    evaluate_every: int | None = None
    """Generations between two evaluations on the test samples (default: as before)."""
    checkpoint_every: int | None = None
    """Generations between two checkpoints (default: as before)."""
    log: tuple[LoggerName | Literal["none"], ...] = ()
    """Loggers, of tensorboard, wandb, trackio, mlflow and csv, or none (default: as before)."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    examples: ClassVar[str] = "gradlex resume runs/cifar10"

    def __call__(self) -> None:
        """Continue, and print what came of it."""
        from gradlex.runs import (
            Execution,
            RunFolder,
            dataset_of,
            stored_device,
            stored_execution,
            stored_recipe,
        )

        folder = RunFolder(self.run)
        recipe, data = stored_recipe(folder)
        names = self.log or stored_loggers(self.run)
        loggers = [LOGGERS[name]() for name in dict.fromkeys(names) if name in LOGGERS]
        recipe = recipe.replace(dataset=self.dataset or dataset_of(recipe, data, folder))
        asked = {
            "evaluate_every": self.evaluate_every,
            "checkpoint_every": self.checkpoint_every,
            "placement": self.placement,
        }
        given = {name: value for name, value in asked.items() if value is not None}
        execution = Execution(
            workers=self.workers,
            device=self.device or str(stored_device(folder)),
            **{**stored_execution(folder), **given},
        )
        _start(recipe, execution, self.run, self.data_dir, loggers, resume=True)


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Train by SGD along the settings that a run with --vary found."""

    run: Annotated[Path, tyro.conf.Positional]
    """The finished run whose settings are replayed."""
    out: Path | None = None
    """The run folder (default: a new one under runs/)."""
    seed: int | None = None
    """Random seed (default: the run's)."""
    data_dir: Path | None = None
    """Where downloaded datasets are kept (default: the user's cache folder)."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps, ... (default: auto, the accelerator if there is one)."""

    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    examples: ClassVar[str] = "gradlex replay runs/varied --out runs/replayed"

    def __call__(self) -> None:
        """Train, and print what came of it."""
        from gradlex.runs import Execution, RunFolder, dataset_of, replay_recipe, stored_recipe

        recipe, folder = replay_recipe(self.run), RunFolder(self.run)
        recipe = recipe.replace(
            dataset=dataset_of(recipe, stored_recipe(folder)[1], folder),
            seed=recipe.seed if self.seed is None else self.seed,
        )
        execution = Execution(device=None if self.device == "auto" else self.device)
        if self.out is not None:
            _start(recipe, execution, self.out, self.data_dir, resume=False)
            return
        with _new_folder(recipe) as out:
            _start(recipe, execution, out, self.data_dir, resume=False)


def check_names(recipe: Recipe) -> None:
    """Refuse names that no registry knows and that can be nothing else: no module:object, and no path."""
    from gradlex.data import DATASETS
    from gradlex.models import MODELS
    from gradlex.selection import SELECTIONS

    for kind, name, known in (
        ("dataset", recipe.dataset, DATASETS),
        ("model", recipe.model, ("auto", *MODELS)),
        ("selection", recipe.selection, SELECTIONS),
    ):
        if not isinstance(name, str) or name in known or ":" in name:
            continue
        if kind != "dataset" or not (set(name) & set("./\\~") or os.path.exists(name)):
            raise unknown_name(kind, name, known)


_LONGEST_NAME = 200  # bytes; most file systems take 255
_NAMED = {
    "population": "p",
    "generations": "g",
    "batch_size": "b",
    "lr": "lr",
    "weight_decay": "wd",
    "width": "w",
    "train_size": "n",
    "branch_at": "branch",
}
"""What people change most from run to run, and how a folder's name tells it."""


def new_folder_name(recipe: Recipe) -> str:
    """A name for a new run folder that tells runs apart: data, model, method, what differs from the defaults, seed."""
    promotion = () if recipe.promotion == "winner" else (recipe.promotion,)
    usual = Recipe()
    changed = (
        f"{word}{value:g}" if isinstance(value, float) else f"{word}{value}"
        for name, word in _NAMED.items()
        if (value := getattr(recipe, name)) != getattr(usual, name)
    )
    words = (
        Path(recipe.dataset).stem,
        *(() if recipe.model == "auto" else (recipe.model,)),
        str(recipe.to_dict()["selection"] or "lexicase"),  # the task decides which kind
        *promotion,
        *changed,
        f"seed{recipe.seed}",
    )
    name = "-".join(folder_word(word) for word in words)
    return name if len(name.encode(errors="surrogateescape")) <= _LONGEST_NAME else folder_word(name)


@contextmanager
def _new_folder(recipe: Recipe) -> Iterator[Path]:
    """A new folder under runs/; removed again if the run is refused before it writes anything."""
    from gradlex.runs import check_writable, leading

    root, name = Path("runs"), new_folder_name(recipe)
    if not leading():  # only the leading process makes the folder
        yield root / name
        return
    check_writable(root)
    made = not root.exists()
    root.mkdir(exist_ok=True)
    for number in count(1):
        folder = root / (name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            folder.mkdir()  # two commands at the same time: only one of them makes it
            break
    try:
        yield folder
    finally:
        if {path.name for path in folder.iterdir()} <= {".lock"}:
            shutil.rmtree(folder)
            with suppress(OSError):  # it holds other runs
                if made:
                    root.rmdir()


def _start(
    recipe: Recipe,
    execution: Execution,
    out: Path,
    data_dir: Path | None,
    loggers: Sequence[Callback] = (),
    *,
    resume: bool,
) -> None:
    from gradlex._console import console, one_line
    from gradlex.callbacks import Progress
    from gradlex.runs import Named, leading, start

    run = start(
        Named(data_dir=data_dir),
        recipe,
        execution,
        out=out,
        resume=resume,
        callbacks=(Progress(), *loggers),
        handle_signals=True,
        notice=lambda text: console().print(one_line(f"note: {text}"), soft_wrap=True),
    )
    if leading():
        _summary(run, out)


def _summary(run: Run, path: Path) -> None:
    from gradlex._console import console, metric_words, one_line, plural

    result, recipe = run.result, run.recipe
    out = console()
    measures: list[dict[str, Any]] = result["measures"]
    metrics: Mapping[str, Mapping[str, float]] = result["metrics"]
    words = {
        "test": "test",
        "ema": "average of parents, test",
        "validation": "validation",
        "train": "clean training samples",
    }
    for part, title in words.items():
        if part in metrics:
            out.print(f"{title}: {metric_words(metrics[part], measures)}", style="bold", soft_wrap=True)
    stopped = f"; stopped: {result['stopped']}" if result.get("stopped") else ""
    out.print(
        f"{plural(result['generations'], 'generation')} in {result['seconds']:.1f} s, "
        f"{result['samples_trained']:,} samples trained, {result['cases_evaluated']:,} cases evaluated{stopped}",
        soft_wrap=True,
    )
    other = "lexicase" if recipe.selection == "sgd" else "sgd"
    out.print(one_line(f"run folder: {path}"), soft_wrap=True)
    out.print(
        f"next: gradlex report {one_line(shlex.quote(str(path)))} --open, or train with --selection {other} to compare",
        soft_wrap=True,
    )
