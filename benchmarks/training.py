"""How fast a candidate is trained, against a plain PyTorch loop, for the seven architectures of the paper.

The plain loop is the way most scripts are written: float32, the default memory format, a DataLoader without
workers whose Dataset applies torchvision's transforms to each image, SGD in its default implementation. gradlex
trains through the engine, with the precision that `auto` resolves to here, and in float32. All with the same
threads, in turns, in one run; ratios are medians over the turns.

    python benchmarks/training.py [--models resnet18 vgg16] [--dataset cifar10.npz]
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from _common import archive, arguments, in_turns, machine, problem, ratio, worker
from _plain import plain_loader

from gradlex.models import build

MODELS = ("vgg16", "resnet18", "resnet50", "densenet121", "mobilenetv2", "senet18", "efficientnetb0")


def main() -> int:
    parser = arguments(__doc__, clock=True)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--width", type=float, default=1.0, help="of the networks' layers")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=8, help="batches a turn")
    parser.add_argument("--repeats", type=int, default=3, help="turns")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    print(machine(), f"; {given.threads} threads, {given.clock} clock, batches of {given.batch_size}", sep="")
    print(
        f"{'samples/s':16}{'plain':>8}{'auto':>8}{'float32':>9}{'auto is':>10}{'x auto':>8}{'x float32':>11}"
    )
    samples = given.steps * given.batch_size
    with archive(given.dataset, samples) as path:
        for model in given.models:
            compare(model, path, samples, given)
    return 0


def compare(model: str, path: str, samples: int, given: Any) -> None:
    sides: dict[str, Callable[[], object]] = {"plain": plain_loop(model, samples, given)}
    used = ""
    for precision in ("auto", "float32"):
        if precision == used:  # measured already
            continue
        ours = problem(
            path,
            samples,
            model=model,
            width=given.width,
            precision=precision,
            batch_size=given.batch_size,
            threads=given.threads,
            lr=0.01,
        )
        used = ours.recipe.precision if precision == "auto" else used
        sides[precision] = generation(ours, samples)
    times = in_turns(sides, given.repeats, given.clock)
    times.setdefault("float32", times["auto"])
    speeds = {name: samples / statistics.median(seconds) for name, seconds in times.items()}
    auto, float32 = ratio(times["plain"], times["auto"]), ratio(times["plain"], times["float32"])
    print(
        f"{model:16}{speeds['plain']:>8.1f}{speeds['auto']:>8.1f}{speeds['float32']:>9.1f}{used:>10}"
        f"{auto:>8.2f}{float32:>11.2f}",
        flush=True,
    )


def generation(ours: Any, samples: int) -> Callable[[], object]:
    trainer = worker(ours)
    parent, subset = trainer.first_parent(), np.arange(samples)
    return lambda: trainer.train(parent, 0, subset, 0.01)


def plain_loop(model: str, samples: int, given: Any) -> Callable[[], object]:
    x = np.random.default_rng(0).integers(0, 256, (samples, 32, 32, 3), dtype=np.uint8)
    loader = plain_loader(x, given.batch_size)
    net = build(model, num_classes=10, width=given.width).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)

    def run() -> None:
        torch.set_num_threads(given.threads)
        for inputs, targets in loader:
            loss = F.cross_entropy(net(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return run


if __name__ == "__main__":
    sys.exit(main())
