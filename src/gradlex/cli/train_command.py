"""gradlex train"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from gradlex._checks import Count, check
from gradlex._text import parse as parse_text
from gradlex.callbacks import LOGGERS, Progress
from gradlex.callbacks.progress import counted, measured, shown
from gradlex.cli.flags import Command, Group
from gradlex.cli.torchrun import leads, run_processes, under_torchrun
from gradlex.errors import InputError
from gradlex.recipe import Recipe

if TYPE_CHECKING:
    from gradlex.runs import Run
    from gradlex.tasks import Measure

DATA = (
    *("dataset", "target", "train_size", "test_fraction", "validation_fraction"),
    *("image_size", "augment", "task"),
)
MODEL = ("model", "init_from")
OPTIMIZATION = (
    *("epochs", "batch_size", "lr", "optimizer", "momentum", "weight_decay"),
    *("schedule", "patience", "precision"),
)
POPULATION = ("momentum_state", "branch_at", "tail", "tail_mean", "recalibrate")


class Train(Command):
    """Train a network by gradient lexicase selection.

    The other commands take the run folder that it writes.
    """

    groups: ClassVar[Mapping[str, Group]] = {
        "Data": DATA,
        "Model": MODEL,
        "Optimization": (*OPTIMIZATION, "seed"),
        "Population": ("selection", "population", "promotion", "preset", *POPULATION),
        "Run": ("out", "device", "workers", "log", "compile", "deterministic"),
    }
    examples: ClassVar[str] = """
        gradlex train
        gradlex train --dataset cifar10 --model resnet18 --epochs 100 --workers 4
        gradlex train --dataset homes.csv --target price --validation-fraction 0.1
        gradlex train --selection 'epsilon-lexicase(epsilon=0.1)' --population 8
    """

    preset: Literal["paper", "branched"] | None = None
    """Named settings, which other flags override: paper (the same as without a preset), or branched (one network,
    then the average of several)."""
    out: Path | None = None
    """The run folder (default: a new one in runs/)."""
    device: str = "auto"
    """cpu, cuda, cuda:1, mps, ... (default: the accelerator if there is one)."""
    workers: int = 1
    """Processes that train candidates at the same time; the result is the same."""
    log: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Loggers; each is an extra to install."""
    compile: bool = False
    """Compile the model by torch.compile."""
    deterministic: bool = False
    """Use deterministic algorithms only; makes GPU runs repeatable."""

    def __call__(self) -> None:
        """Train, and print what the run reached."""
        recipe = Recipe.preset(self.preset, **self.recipe) if self.preset else Recipe(**self.recipe)
        workers, out = check("workers", Count, self.workers), self.out or new_folder(recipe)
        loggers = [LOGGERS[name]() for name in dict.fromkeys(self.log)]
        if workers > 1 and not under_torchrun():
            run_processes(workers, [*self.words, "--out", str(out)])
            return
        from gradlex.runs import train

        run = train(
            None,
            None,
            recipe,
            out=out,
            device=self.device,
            compile=self.compile,
            deterministic=self.deterministic,
            callbacks=[Progress(), *loggers],
            progress=False,
        )
        print_outcome(run)


def new_folder(recipe: Recipe) -> Path:
    """A folder in runs/ that isn't there yet, named after the data, the method and the seed."""
    if under_torchrun():
        raise InputError("under torchrun every process needs the same run folder: name it by --out.")
    method = parse_text(str(recipe.selection or "lexicase"))[0].rpartition(":")[2]
    name = f"{Path(recipe.dataset).stem}-{method}-seed{recipe.seed}"
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(path for path in (Path("runs") / each for each in names) if not path.exists())


def print_outcome(run: Run) -> None:
    """Print the final metrics by part, how long it took, and what to do next."""
    if not leads():
        return
    print()
    for part in ("test", "validation", "train"):
        if part in run.metrics:
            print(metrics_text(part, run.metrics[part], run.task.measures))
    stopped = f": {run.result['stopped']}" if run.result.get("stopped") else ""
    print(f"{counted(len(run.history), 'generation')} in {run.result['seconds']:,.1f} s{stopped}")
    if run.path is not None:
        print(f"\nNext: gradlex report {shlex.quote(shown(run.path))}")


def metrics_text(title: str, metrics: Mapping[str, float], measures: Sequence[Measure]) -> str:
    """Every metric of a task, after a title: test accuracy 97.5%, loss 0.0921"""
    found = [
        f"{each.name.replace('_', ' ')} {measured(each, metrics[each.name])}".replace(" ", "\xa0")
        for each in measures
        if each.name in metrics
    ]
    return textwrap.fill(f"{title:10} {', '.join(found)}", 80, subsequent_indent=" " * max(11, len(title) + 1)).replace(
        "\xa0", " "
    )
