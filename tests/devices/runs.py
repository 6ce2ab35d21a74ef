"""`python runs.py FOLDER [NAME ...]`: whole runs on the CPU and on the pretend accelerator; FOLDER/found.json compares.

For every setting: whether weights, records and metrics are the same, and what crossed between host and device.
"""

from __future__ import annotations

import io
import json
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pretend
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from torch.utils.data import TensorDataset

import gradlex
from gradlex import _devices
from gradlex.data import crop_flip, parse_augment
from gradlex.engine import PopulationEngine
from gradlex.errors import InterruptedRun
from gradlex.runs import Execution, Given, Named, evaluate, make_problem, start
from gradlex.runs._member import placed
from gradlex.tasks import Classification, Measure
from gradlex.tasks import Regression as RegressionTask

RECIPE = gradlex.Recipe(
    population=3, generations=2, batch_size=8, lr=0.05, precision="float32", threads=1, seed=3
)
SAMPLES = 60


def network(outputs: int = 3) -> nn.Module:
    """A convolution, batch norm and dropout."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(4)
        return nn.Sequential(
            nn.Conv2d(2, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.5),
            nn.Linear(16, outputs),
        )


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    """A network with the same weights each time."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(4)
        return make()


def data() -> tuple[Tensor, Tensor]:
    """60 images (2, 4, 4) of 3 classes."""
    rng = np.random.default_rng(9)
    y = torch.from_numpy(rng.integers(0, 3, SAMPLES))
    noise = torch.from_numpy(rng.normal(size=(SAMPLES, 2, 4, 4)))
    return (noise + y.view(-1, 1, 1, 1)).float(), y


class Regression:
    """A task of one's own: one number per sample."""

    measures = (Measure(name="mae", higher_is_better=False),)
    graded = True

    def check(self, inputs: Any, targets: Any, outputs: Any) -> None:
        assert outputs.shape[1:] == (1,)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(outputs[:, 0], targets)

    def errors(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs[:, 0] - targets).abs()

    def metrics(self, batches: Any) -> dict[str, float]:
        return {"mae": torch.cat([self.errors(*batch) for batch in batches]).mean().item()}


class Halves(nn.Module):
    """Takes its inputs as a dict of two tensors."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(4)
            self.left, self.right = nn.Linear(16, 3), nn.Linear(16, 3)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.left(left.flatten(1)) + self.right(right.flatten(1))


class Watched(PopulationEngine):
    """The default engine, with what crosses while it trains and while it answers a slice of cases."""

    def __init__(self, worker: Any, team: Any, steps: Any) -> None:
        super().__init__(worker, team, steps)
        self.training: list[dict[str, Any]] = []
        self.slices: list[dict[str, Any]] = []
        answer = worker.errors

        def errors(states: Any, cases: Any, generation: int = 0) -> Any:
            with pretend.counted() as crossed:
                table = answer(states, cases, generation)
            self.slices.append({**_counts(crossed), "batches": -(-len(cases) // 128)})
            return table

        worker.errors = errors
        WATCHED.append(self)

    def train(self, parent: Any, subsets: Any, lr: float) -> Any:
        size = self.worker.recipe.batch_size
        with pretend.counted() as crossed:
            found = super().train(parent, subsets, lr)
        steps = sum(-(-len(subset) // size) for subset in subsets)
        self.training.append({**_counts(crossed), "steps": steps, "candidates": len(subsets)})
        return found


WATCHED: list[Watched] = []


def _counts(crossed: list[pretend.Crossing]) -> dict[str, Any]:
    ways = {way: [c for c in crossed if c.way == way] for way in ("in", "out", "wait")}
    return {
        **{way: len(found) for way, found in ways.items()},
        "blocking": sum(not c.asynchronous for c in ways["in"]),
        "largest": max((c.nbytes for c in ways["in"]), default=0),
    }


PLAIN: dict[str, Any] = {"augment": crop_flip(1)}
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "lexicase": ({}, PLAIN),
    "momentum inherited": ({"momentum": "inherit"}, PLAIN),
    "momentum none, cutout": ({"momentum": "none"}, {"augment": parse_augment("crop1,flip,cutout2")}),
    "plain sgd": ({"selection": "sgd", "population": None}, PLAIN),
    "offload": ({"momentum": "inherit"}, {**PLAIN, "placement": "offload"}),
    "average, offload": ({"promotion": "average"}, {**PLAIN, "placement": "offload"}),
    "average": ({"promotion": "average", "momentum": "inherit"}, PLAIN),
    "expected": ({"promotion": "expected", "promotion_cases": 40}, PLAIN),
    "survivors": ({"promotion": "survivors"}, PLAIN),
    "outer step, moving average, recalibration": (
        {"outer_lr": 0.7, "outer_momentum": 0.5, "ema": 0.9, "recalibrate": 2, "recalibrate_final": 2},
        PLAIN,
    ),
    "branch, mean of the tail": (
        {"branch_at": 0.34, "tail": "linear", "tail_mean": True, "generations": 3},
        PLAIN,
    ),
    "variation inherited": (
        {"vary": {"lr": [0.5, 1.0], "weight_decay": [0, 1e-3]}, "inherit_variation": True},
        PLAIN,
    ),
    "augmented cases": ({"cases": "augmented"}, PLAIN),
    "held-out cases": ({"cases": "held-out", "held_out": 0.3}, PLAIN),
    "adamw inherited": ({"optimizer": "adamw", "lr": 0.01, "momentum": "inherit"}, PLAIN),
    "clipped, in two parts a step": ({"clip_norm": 0.5, "accumulate": 2}, PLAIN),
    "rmsprop": ({"optimizer": "rmsprop", "lr": 0.01}, PLAIN),
    "tournament": ({"selection": "tournament"}, PLAIN),
    "loss as the error": (
        {"selection": "epsilon-lexicase", "task_options": {"case_error": "loss"}},
        PLAIN,
    ),
    "a Dataset": ({}, {"data": lambda: TensorDataset(*data())}),
    "a dict of tensors": (
        {},
        {
            "model": Halves,
            "data": lambda: ({"left": data()[0][:, :1], "right": data()[0][:, 1:]}, data()[1]),
        },
    ),
    "bytes, normalized": (
        {},
        {**PLAIN, "data": lambda: ((data()[0] * 40 + 100).clamp(0, 255).byte(), data()[1])},
    ),
    "weighted classes": ({"task_options": {"class_weights": [1.0, 2.0, 0.5]}}, PLAIN),
    "regression": (
        {"task": "regression", "lr": 0.01},
        {**PLAIN, "model": lambda: network(1), "data": lambda: (data()[0], data()[1] + 0.5)},
    ),
    "multi-label": (
        {"task": "multi-label"},
        {**PLAIN, "data": lambda: (data()[0], F.one_hot(data()[1], 3).float())},
    ),
    "segmentation": (
        {"task": "segmentation"},
        {
            "model": lambda: seeded(lambda: nn.Sequential(nn.Conv2d(2, 3, 3, padding=1))),
            "data": lambda: (data()[0], (data()[0][:, 0] > 1).long() + 1),
        },
    ),
    "tokens": (
        {"task": "tokens"},
        {
            "model": lambda: seeded(lambda: nn.Sequential(nn.Embedding(5, 8), nn.Linear(8, 5))),
            "data": lambda: (
                (data()[0].flatten(1)[:, :6] > 1).long(),
                data()[1][:, None].expand(-1, 6).contiguous(),
            ),
        },
    ),
    "a task of one's own": (
        {"selection": "epsilon-lexicase", "lr": 0.01},
        {
            **PLAIN,
            "model": lambda: network(1),
            "data": lambda: (data()[0], data()[1].float()),
            "task": Regression(),
        },
    ),
}


def train(name: str, device: str, **more: Any) -> gradlex.Run:
    """The run of this setting."""
    fields, given = SETTINGS[name]
    given = dict(given)
    model, samples = given.pop("model", network)(), given.pop("data", data)()
    return gradlex.train(
        model, samples, RECIPE.replace(**fields), test=first(samples), device=device, **given, **more
    )


def first(samples: Any, count: int = 20) -> Any:
    """The first of the samples, to test on."""
    if isinstance(samples, TensorDataset):
        return TensorDataset(*(tensor[:count] for tensor in samples.tensors))
    return tree_map(lambda tensor: tensor[:count], samples)


def states(run: gradlex.Run) -> dict[str, Tensor]:
    """The network's tensors on the host, and those of its moving average."""
    networks = {"model": run.model, **({"ema": run.ema} if run.ema is not None else {})}
    return {
        f"{part} {name}": t.cpu() for part, net in networks.items() for name, t in net.state_dict().items()
    }


def compared(one: gradlex.Run, other: gradlex.Run) -> dict[str, Any]:
    """Whether two runs are the same, bit for bit."""
    own, its = states(one), states(other)
    records = [
        [(r.selected, r.cases_used, r.losses, r.metrics) for r in run.generations] for run in (one, other)
    ]
    return {
        "weights": [name for name in own if not torch.equal(own[name], its[name])],
        "records": records[0] == records[1],
        "metrics": one.result["metrics"] == other.result["metrics"],
    }


def whole(name: str) -> dict[str, Any]:
    """A setting on both devices, and what crossed on the pretend one."""
    cpu = train(name, "cpu")
    WATCHED.clear()
    with pretend.counted() as crossed:
        run = train(name, "pretend", engine=Watched)
    (engine,) = WATCHED
    devices = {str(parameter.device) for parameter in run.model.parameters()}
    images = sum(c.shape[:1] == (SAMPLES,) and len(c.shape) == 4 and c.way == "in" for c in crossed)
    return {
        **compared(cpu, run),
        "devices": sorted(devices),
        "images": images,
        "training": engine.training,
        "slices": engine.slices,
    }


class Stop(gradlex.Callback):
    """Interrupts the run after its first generation, as a signal does."""

    def on_generation(self, run: Any, record: Any) -> None:
        if record.generation == 0:
            raise InterruptedRun(15, "")


def resumed(name: str, folder: Path) -> dict[str, Any]:
    """A setting that is interrupted and resumed on the pretend device, and begun on the other kind of device."""
    cpu, found = train(name, "cpu"), {}
    for begun, ended in (("pretend", "pretend"), ("cpu", "pretend"), ("pretend", "cpu")):
        out = folder / f"{name}, {begun} then {ended}".replace(" ", "-")
        with suppress(InterruptedRun):
            train(name, begun, out=out, callbacks=[Stop()])
        found[f"{begun} then {ended}"] = compared(cpu, train(name, ended, out=out, resume=True))
    return found


def stored(folder: Path) -> dict[str, Any]:
    """A run by name, and its evaluation on both devices."""
    recipe = RECIPE.replace(dataset="digits", train_size=100, model="small-cnn", width=0.25, generations=2)
    metrics = {}
    for device in ("cpu", "pretend"):
        out = folder / f"stored-{device}"
        start(Named(), recipe, Execution(workers=1, device=device), out=out)
        metrics[device] = [evaluate(out, device=where) for where in ("cpu", "pretend")]
        metrics[f"{device} weights"] = (out / "model.safetensors").read_bytes().hex()
    return {
        "metrics": metrics["cpu"] == metrics["pretend"] and metrics["cpu"][0] == metrics["cpu"][1],
        "weights": metrics["cpu weights"] == metrics["pretend weights"],
    }


def narrow(folder: Path) -> dict[str, Any]:
    """Promotion on a device without double precision, also of a resumed run: only the sums of metrics may differ."""
    found = {}
    pretend.has_float64 = False
    _devices.has_float64.cache_clear()
    try:
        for name in ("average", "outer step, moving average, recalibration"):
            out = folder / f"narrow-{name}".replace(" ", "-")
            with suppress(InterruptedRun):
                train(name, "pretend", out=out, callbacks=[Stop()])
            found[name] = compared(train(name, "cpu"), train(name, "pretend", out=out, resume=True))[
                "weights"
            ]
    finally:
        pretend.has_float64 = True
        _devices.has_float64.cache_clear()
    return found


class Sent(ForkingPickler):
    """Packs a problem as it is sent to a worker, and notes where its tensors lie."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.places: list[str] = []

    def persistent_id(self, value: Any) -> None:
        if isinstance(value, Tensor):
            self.places.append(value.device.type)


def spawned(folder: Path) -> dict[str, Any]:
    """What a worker for the second of two devices gets, and what it does before it allocates anything."""
    recipe = RECIPE.replace(validation_fraction=0.1, cases="held-out", freeze="0.*")
    sources = {
        "arrays": Given(model=network(), data=data(), test=data(), augment=crop_flip(1)),
        "Dataset": Given(model=network(), data=TensorDataset(*data())),
        "fitted task": Given(
            model=network(1), data=(data()[0], data()[1].float()), own_task=RegressionTask()
        ),
        "weights of classes": Given(
            model=network(), data=data(), own_task=Classification(class_weights="balanced")
        ),
    }
    found: dict[str, Any] = {}
    pretend.devices = 2
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        for name, source in sources.items():
            asked = source.marked(recipe)
            problem = make_problem(source, asked, execution=Execution(), device=torch.device("pretend"))
            packed = io.BytesIO()
            sent = Sent(packed)
            sent.dump(problem)
            before = len(pretend.crossings)
            pretend.made_current.clear()
            arrived = pickle.loads(packed.getvalue())
            unpacked = len(pretend.crossings) - before
            member = placed(arrived, local_rank=1, workers=2)
            found[name] = {
                "tensors": len(sent.places) > 5,
                "lie": sorted(set(sent.places)),
                "copied while unpacking": unpacked,
                "made current": [(device, count - before) for device, count in pretend.made_current],
                "computes on": str(member.problem.device),
                "copied then": len(pretend.crossings) > before,
            }
    finally:
        dist.destroy_process_group()
        pretend.devices = 1
    return found


def main(folder: Path, names: list[str]) -> None:
    """Every setting, or those that are named."""
    found: dict[str, Any] = {}
    work: dict[str, Callable[[], dict[str, Any]]] = {
        **{name: lambda name=name: whole(name) for name in SETTINGS},  # type: ignore[misc]
        "resumed": lambda: {
            name: resumed(name, folder)
            for name in ("adamw inherited", "outer step, moving average, recalibration")
        },
        "stored": lambda: stored(folder),
        "narrow": lambda: narrow(folder),
        "spawned": lambda: spawned(folder),
    }
    for name in names or work:
        found[name] = work[name]()
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
