"""One extension for each of the six seams, by public names alone.

`python seams.py FOLDER` makes the run that uses all of them with two workers, as a script of a user's would;
`python seams.py FOLDER RANK` is one of two processes that make the run of each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from annotated_types import Ge
from torch import Tensor, nn

import gradlex
from gradlex.engine import PopulationEngine
from gradlex.selection import Choice
from gradlex.tasks import Measure

RECIPE = gradlex.Recipe(
    population=3,
    generations=5,
    batch_size=8,
    lr=0.05,
    momentum="inherit",
    precision="float32",
    threads=1,
    seed=3,
)


def network(outputs: int = 3) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        return nn.Sequential(
            nn.Conv2d(2, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(16, outputs),
        )


def data() -> tuple[Tensor, Tensor]:
    """60 images (2, 4, 4) of 3 classes."""
    rng = np.random.default_rng(9)
    y = torch.from_numpy(rng.integers(0, 3, 60))
    noise = torch.from_numpy(rng.normal(size=(60, 2, 4, 4)))
    return (noise + y.view(-1, 1, 1, 1)).float(), y


@dataclass(frozen=True)
class Regression:
    """Task: one number per sample; a case is solved when the answer is within `tolerance`."""

    tolerance: float = 0.25

    measures = (
        Measure(name="mae", higher_is_better=False),
        Measure(name="within", fraction=True),
    )
    graded = True

    def check(self, inputs: Any, targets: Tensor, outputs: Tensor) -> None:
        if not targets.is_floating_point() or outputs.shape[1:] != (1,):
            raise gradlex.InputError(
                f"regression needs fractional targets and one output per sample, got {targets.dtype} and "
                f"{tuple(outputs.shape)}."
            )

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(outputs[:, 0], targets)

    def errors(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.relu((outputs[:, 0] - targets).abs() - self.tolerance)

    def metrics(self, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
        distances = torch.cat([(outputs[:, 0] - targets).abs() for outputs, targets in batches]).double()
        return {
            "mae": distances.mean().item(),
            "within": (distances <= self.tolerance).double().mean().item(),
        }


@dataclass
class Budget(gradlex.Callback):
    """Callback: stops the run once so many pairs of candidate and case have been evaluated."""

    cases: int

    def on_start(self, run: Any) -> None:
        self._look(run)

    def on_generation(self, run: Any, record: gradlex.Record) -> None:
        self._look(run)

    def _look(self, run: Any) -> None:
        spent = sum(record.cases_evaluated for record in run.records)
        if spent >= self.cases:
            run.stop(f"{spent} cases evaluated")


def second_best(
    cases: np.ndarray, errors: Any, rng: np.random.Generator, *, look: Annotated[int, Ge(1)] = 5
) -> Choice:
    """Selection: the second best mean over `look` cases, or the best where that was chosen a generation ago."""
    means = errors(cases[:look], errors.candidates).mean(axis=1)
    order = errors.candidates[np.argsort(means, kind="stable")]
    last = errors.memory["last"][0] if "last" in errors.memory else -1
    chosen = order[min(1, len(order) - 1)]
    chosen = order[0] if chosen == last else chosen
    memory = {"last": np.array([chosen], dtype=np.int64)}
    return Choice(index=int(chosen), reason="second_best", cases_used=look, memory=memory)


@dataclass(frozen=True)
class Lookahead:
    """Promotion step: every second generation go back half of the way to slow weights (Zhang et al. 2019)."""

    rate: float = 0.5

    def __call__(self, parent: gradlex.Parent, before: gradlex.Parent, candidates: Any) -> gradlex.Parent:
        memory = before.slots.get("lookahead", {**before.state, "steps": torch.tensor(0)})
        steps = memory["steps"] + 1
        slow: dict[str, Tensor] = {name: memory[name] for name in candidates.trainable}
        if steps % 2 == 0:
            slow = {name: tensor + self.rate * (parent.state[name] - tensor) for name, tensor in slow.items()}
            parent = replace(parent, state={**parent.state, **{name: t.clone() for name, t in slow.items()}})
        return parent.with_slot("lookahead", {**slow, "steps": steps})


def warm_up(generation: int) -> float:
    """Schedule: up to the full learning rate in three generations."""
    return min(1.0, (generation + 1) / 3)


class Shaking:
    """Engine: candidates start from a parent that is shaken a little, the same way on every process."""

    def __init__(self, worker: Any, team: Any, steps: Any) -> None:
        self._inner = PopulationEngine(worker, team, steps)
        self._seed = worker.recipe.seed
        self.num_samples, self.num_cases = self._inner.num_samples, self._inner.num_cases

    def train(self, parent: gradlex.Parent, subsets: Sequence[np.ndarray], lr: float) -> Any:
        rng = np.random.default_rng([self._seed, parent.generation])
        state = {
            name: tensor * (1 + 0.05 * float(rng.normal())) if name.endswith("weight") else tensor
            for name, tensor in parent.state.items()
        }
        return self._inner.train(replace(parent, state=state), subsets, lr)


class ByName(nn.Module):
    """Inputs: a model that takes a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, image: Tensor, shift: Tensor) -> Tensor:
        found: Tensor = self.inner(image + shift)
        return found


OPTIONS = {"selection": second_best, "selection_options": {"look": 7}}
SEAMS: Mapping[str, Mapping[str, Any]] = {
    "task": {"task": Regression()},
    "regression": {"task": "regression"},
    "inputs": {"network": ByName},
    "callback": {"callbacks": [Budget(400)]},
    "selection": {"recipe": RECIPE.replace(**OPTIONS)},
    "promotion": {"promotion_steps": [Lookahead()]},
    "schedule": {"recipe": RECIPE.replace(schedule=warm_up)},
    "engine": {"engine": Shaking},
    "all": {
        "task": Regression(),
        "callbacks": [Budget(80)],
        "recipe": RECIPE.replace(**OPTIONS, schedule=warm_up, promotion="winner", ema=0.8),
        "promotion_steps": [Lookahead()],
        "engine": Shaking,
    },
}


def run(name: str, out: Path, **changes: Any) -> gradlex.Run:
    """The run of one seam; `plain` uses none of them."""
    how: dict[str, Any] = {"recipe": RECIPE, **SEAMS.get(name, {})}
    how["callbacks"] = [*how.get("callbacks", ()), *changes.pop("callbacks", ())]
    x, y = data()
    regression = "task" in how
    y = y.float() if regression else y
    own = how.pop("network", None)
    if own is None:
        model, inputs, few = network(1 if regression else 3), x, x[:20]
    else:
        shift = 0.1 * torch.ones(60, 1, 4, 4)
        model, inputs, few = own(), {"image": x, "shift": shift}, {"image": x[:20], "shift": shift[:20]}
    return gradlex.train(model, (inputs, y), test=(few, y[:20]), out=out, **how, **changes)


def main() -> None:
    folder = Path(sys.argv[1])
    if len(sys.argv) == 2:
        run("all", folder / "all", workers=2)
        return
    store = dist.FileStore(str(folder / "store"), 2)
    dist.init_process_group("gloo", store=store, rank=int(sys.argv[2]), world_size=2)
    for name in SEAMS:
        if name != "all":
            run(name, folder / name)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
