"""A method in one run of a comparison: it makes the run's Population, and keeps the run's records."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor, nn
from torch.optim import Optimizer

from gradlex import __version__
from gradlex._files import read_text, write_atomically
from gradlex.errors import InputError, RunError
from gradlex.experiments.methods import Method
from gradlex.population import Candidate, Population
from gradlex.randomness import torch_seed
from gradlex.recipe import Recipe
from gradlex.seeding import seeded
from gradlex.selection import Choice


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A method bound to one run: the `method` that your `experiment(method, seed)` receives.

    Attributes:
        method: The method, with its `name` and `title`.
        seed: The run's seed.
        epochs: How many generations the run has.
        size: The number of candidates p; 1 for SGD.
        folder: Where the run may keep a checkpoint. A run that was interrupted gets the same folder again.
    """

    method: Method
    seed: int
    epochs: int
    size: int
    folder: Path
    _populations: list[Population] = field(default_factory=list)
    _attributes_read: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The method's name."""
        return self.method.name

    @property
    def branch(self) -> int | None:
        """`swa` and branched methods average the parents from this generation on, counted from 0. Others: None.

        Your loop takes this mean, with `torch.optim.swa_utils.AveragedModel` for example.
        """
        self._attributes_read.append("branch")
        return self._recipe.branch if "branch_at" in self.method.changes else None

    @property
    def _recipe(self) -> Recipe:
        return Recipe(**{**self.method.changes, "epochs": self.epochs, "population": self.size})

    def size_at(self, generation: int) -> int:
        """The number of candidates in a generation, counted from 0; before a late branch it is 1.

        Examples:
            >>> from pathlib import Path
            >>> from gradlex.experiments import METHODS, Arm
            >>> arm = Arm(method=METHODS["branched-average"], seed=0, epochs=8, size=4, folder=Path("runs"))
            >>> [arm.size_at(generation) for generation in range(8)]
            [1, 1, 1, 1, 1, 1, 4, 4]
        """
        return self._recipe.population_at(generation)

    def population(
        self,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer] | None = None,
        **options: Any,
    ) -> Population:
        """The `gradlex.Population` of this run. Make it before you load a checkpoint.

        It registers the network: names and shapes must be the same in every run of the comparison, and initial values
        in every run with this seed.

        Args:
            model: The network with its initial weights.
            optimizer: The optimizer of your loop, or several as a list.
            **options: Options of `gradlex.Population`, such as `recalibrate`; they replace the method's.
        """
        wanted = self.method.changes.get("momentum")
        given: list[Any] = list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer] if optimizer else []
        if wanted is not None and any(g.get("momentum", wanted) != wanted for each in given for g in each.param_groups):
            raise InputError(f"{self.name} trains with momentum {wanted:g}: make an optimizer with this momentum.")
        names = ("selection", "promotion", "momentum_state")
        own = {name: value for name, value in self.method.changes.items() if name in names}
        population = _Recorded(model, optimizer, size=self.size, seed=self.seed, **{**own, **options})
        population.arm = self
        self._populations.append(population)
        if population.leads:
            self.register(population.parent_state())
        return population

    def register(self, state: Mapping[str, Tensor], data: str | None = None) -> None:
        """Record the network and the data's fingerprint in run.json; InputError if another run has different ones."""
        digest = hashlib.sha256()
        for name, tensor in sorted(state.items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        shapes = {name: list(tensor.shape) for name, tensor in state.items()}
        found = {"shapes": shapes, "initial_state": digest.hexdigest(), "data": data}
        experiment = self.folder.parent.parent
        with FileLock(experiment / ".lock"):
            others = sorted(experiment.glob("*/seed*/run.json"))
            for path in (each for each in others if not (each.parent / "error.txt").exists()):
                _check_same(found, self.seed, json.loads(read_text(path)))
            self.describe(identity=found)

    def describe(self, **values: Any) -> None:
        """Add values to run.json."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "run.json"
        stored = json.loads(read_text(path)) if path.exists() else {}
        write_json(path, {**stored, "method": self.name, "seed": self.seed, **values})


def run_own(experiment: Callable[[Arm, int], Any], metric: str, arm: Arm) -> None:
    """Call the user's experiment for one run, check it, and write run.json and result.json."""
    environment = {"torch": torch.__version__, "numpy": np.__version__, "platform": platform.platform()}
    arm.describe(gradlex=__version__, epochs=arm.epochs, population=arm.size, environment=environment)
    with seeded(torch_seed(arm.seed, "initialization"), torch.device("cpu")):
        metrics = read_metrics(experiment(arm, arm.seed))
    trained = arm._populations[-1].generation if arm._populations else 0
    if trained != arm.epochs:
        raise InputError(
            f"experiment(method, seed) trained {trained} generations: make a population by method.population(model, "
            f"optimizer), and train it for method.epochs generations, here {arm.epochs}."
        )
    if "branch_at" in arm.method.changes and "branch" not in arm._attributes_read:
        raise InputError(
            f"{arm.name} averages the parents from generation method.branch on, but the experiment never read it: "
            "return the metrics of their mean (examples/mean_of_parents.py)."
        )
    if metric not in metrics.get("test", {}):
        raise InputError(f"the experiment returned no test {metric}, which is compared: return it, or set metric=.")
    lines = _lines(arm.folder)
    result = {
        "metrics": metrics,
        "seconds": round(sum(line["train_seconds"] + line["select_seconds"] for line in lines), 3),
        "samples_trained": sum(line["samples"] for line in lines),
        "critical_path": sum(line["most_samples"] for line in lines),
        "cases_evaluated": sum(line["cases_evaluated"] for line in lines),
        "generations": len(lines),
    }
    write_json(arm.folder / "result.json", result)


def read_metrics(returned: Any) -> dict[str, dict[str, float]]:
    """The metrics that an experiment returned, by part. A number is test accuracy; a name may begin with its part.

    Examples:
        >>> from gradlex.experiments.arm import read_metrics
        >>> read_metrics({"accuracy": 0.9, "train_accuracy": 1.0})
        {'test': {'accuracy': 0.9}, 'train': {'accuracy': 1.0}}
    """
    found: dict[str, dict[str, float]] = {}
    for name, value in (returned if isinstance(returned, Mapping) else {"accuracy": returned}).items():
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"experiment(method, seed) must return a number or {{name: number}}, got {returned!r:.80}."
            ) from error
        if not math.isfinite(number):
            raise RunError(f"the experiment returned {name} = {number}.")
        if name.endswith("accuracy") and not 0 <= number <= 1 + 1e-6:
            raise InputError(f"the experiment returned {name} = {number:g}: return a fraction, such as 0.935.")
        part, _, own = name.partition("_")
        part, own = (part, own) if part in ("train", "validation", "test") and own else ("test", name)
        found.setdefault(part, {})[own] = number
    return found


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON file, whole or not at all."""
    write_atomically(path, (json.dumps(values, indent=1, ensure_ascii=False) + "\n").encode())


class _Recorded(Population):
    """A Population that writes a line for each generation into the run's folder."""

    arm: Arm
    _started: float

    def candidates(
        self, num_samples: int | None = None, size: int | None = None, *, parts: Sequence[Any] | None = None
    ) -> Iterator[Candidate]:
        """As in Population; the default size is the method's for this generation."""
        if parts is None:
            size = size or min(self.size, self.arm.size_at(self.generation))
        found = super().candidates(num_samples, size, parts=parts)
        self._started = time.perf_counter()
        return found

    def select(self, errors: Callable[..., Any], num_cases: int) -> Choice:
        """As in Population."""
        lengths = [len(part) for part in self._trained.parts] if self._trained else []
        lr, middle = self._optimizer.options(), time.perf_counter()
        choice = super().select(errors, num_cases)
        if self.arm.method.on_losses and choice.disagreement:
            raise InputError(f"{self.arm.name} needs the loss of each case as its error, got only 0 and 1.")
        if self.leads:
            line = {
                "generation": self.generation,
                "samples": sum(lengths),
                "most_samples": max(lengths),
                "lr": lr[0][0]["lr"] if lr else None,
                "chosen": choice.index,
                "reason": choice.reason,
                "cases_used": choice.cases_used,
                "disagreement": choice.disagreement,
                "cases_evaluated": choice.evaluated,
                "train_seconds": round(middle - self._started, 3),
                "select_seconds": round(time.perf_counter() - middle, 3),
            }
            folder = self.arm.folder  # after a checkpoint, the lines of the generations before it stay
            lines = [each for each in _lines(folder) if each["generation"] < line["generation"]]
            text = "".join(json.dumps(each) + "\n" for each in [*lines, line])
            write_atomically(folder / _RECORDS, text.encode())
        return choice


_RECORDS = "generations.jsonl"


def _lines(folder: Path) -> list[dict[str, Any]]:
    path = folder / _RECORDS
    return [json.loads(line) for line in read_text(path).splitlines()] if path.exists() else []


def _check_same(found: Mapping[str, Any], seed: int, other: Mapping[str, Any]) -> None:
    """Raise an error that names how this run's network or data differs from another run's."""
    theirs = other.get("identity", found)
    here, there = found["shapes"], theirs["shapes"]
    differing = [
        f"{key}: {here.get(key, 'nothing')} here, {there.get(key, 'nothing')} there"
        for key in {**there, **here}
        if here.get(key) != there.get(key)
    ]
    what, cure = "network", "choose another folder for the new one, or remove the old runs"
    comparable = not differing and seed == other.get("seed")
    if comparable and found["data"] != theirs["data"]:
        what, differing = "training data", ["its fingerprint differs"]
    elif comparable and found["initial_state"] != theirs["initial_state"]:
        what, differing = "network", ["the initial weights differ"]
        cure = "make it from the seed alone, and call method.population() before you load a checkpoint"
    if differing:
        raise InputError(
            f"the {what} differs from that of {other['method']}, seed {other['seed']}: {'; '.join(differing[:3])}"
            f"{', ...' if len(differing) > 3 else ''}. A comparison needs the same in every run: {cure}."
        )
