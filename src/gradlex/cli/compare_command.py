"""gradlex compare"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from gradlex._checks import Count, check
from gradlex._objects import load_object
from gradlex.callbacks.progress import counted, shown
from gradlex.cli.flags import Command, Group
from gradlex.cli.train_command import DATA, MODEL, OPTIMIZATION, POPULATION
from gradlex.errors import InputError, RunError
from gradlex.recipe import Recipe


class Compare(Command):
    """Does it help? Compare SGD and selection on your data.

    Run the command again to continue; finished runs are kept.
    """

    groups: ClassVar[Mapping[str, Group]] = {
        "Comparison": ("methods", "seeds", "num_seeds", "pairs", "title", "experiment"),
        "Data": DATA,
        "Model": MODEL,
        "Optimization": OPTIMIZATION,
        "Population": ("population", *POPULATION),
        "Run": ("out", "jobs", "backend", "device", "commands"),
    }
    examples: ClassVar[str] = """
        gradlex compare --num-seeds 1
        gradlex compare --dataset photos/ --model resnet20 --epochs 40 --jobs 2
        gradlex compare --methods sgd lexicase --pairs lexicase:sgd --seeds 0 1 2 3 4
        gradlex compare --experiment module:function --epochs 20 --commands
    """

    methods: tuple[str, ...] = ()
    """Methods, see gradlex list methods (default: sgd, sgd-matched, random and lexicase)."""
    seeds: tuple[int, ...] = ()
    """Random seeds (default: 0 1 2)."""
    num_seeds: int | None = None
    """The number of seeds, counted from 0, instead of a list."""
    pairs: tuple[str, ...] = ()
    """Comparisons to decide, as METHOD:METHOD, the primary one first (default: each method against SGD with as many
    samples). Declare them before the runs."""
    title: str = ""
    """What the comparison is called."""
    experiment: str | None = None
    """Your own training loop, module:function, instead of data and a model."""
    epochs: int | None = None
    """Epochs of plain SGD; populations of p, and SGD with as many samples, train for p + 1 times as many (default: the
    dataset's)."""
    population: int | None = None
    """Number of candidates p (default: 4)."""
    out: Path | None = None
    """The folder for the runs (default: one in runs/)."""
    jobs: int = 1
    """Runs at the same time, with one thread each."""
    backend: str = "processes"
    """Where they run: processes, serial, or ray, with options as in ray(num_gpus=1)."""
    device: str | None = None
    """cpu, cuda, cuda:1, ... (default: the accelerator if there is one)."""
    commands: bool = False
    """Only print a command for each run that isn't finished, for a scheduler's array job."""

    def __call__(self) -> None:
        """Run what is missing, and print the verdict and the tables."""
        if self.seeds and self.num_seeds is not None:
            raise InputError("give --seeds or --num-seeds, not both.")
        seeds = self.seeds or range(3 if self.num_seeds is None else check("num_seeds", Count, self.num_seeds))
        recipe = Recipe(**self.recipe)
        from gradlex.report import compare

        own: dict[str, Any] = {"methods": self.methods} if self.methods else {}
        own |= {"device": self.device} if self.device else {}
        found = compare(
            load_object(self.experiment, "experiment") if self.experiment else None,
            recipe=recipe,
            seeds=tuple(seeds),
            epochs=self.epochs,
            population=self.population,
            out=self.out or Path("runs") / self._name(recipe),
            jobs=self.jobs,
            backend=self.backend,
            pairs=self.pairs,
            title=self.title,
            commands_only=self.commands,
            **own,
        )
        where = f"Folder: {shown(found.path)}\n\nNext: gradlex report {shown(found.path)} --page"
        print("\n".join(found.commands) if self.commands else f"{str(found).strip()}\n\n{where}")
        if found.failures:
            raise RunError(f"{counted(len(found.failures), 'run')} failed: run the command again to retry.")

    def _name(self, recipe: Recipe) -> str:
        what = self.experiment.rpartition(":")[2] if self.experiment else Path(recipe.dataset).stem
        return f"compare-{what}"
