"""Candidates trained together (--placement stacked) against one by one: seconds of a generation, and kernels of a step.

A kernel is an operation that torch hands to the device; on a GPU each costs a launch of some microseconds, which small
networks wait for. They are counted for a step of all candidates, as the difference between a generation of two steps
and one of one. On a CPU launches cost little, so that the ratio there is no forecast.

    python benchmarks/stacked.py [--models small-cnn resnet20] [--population 4]
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

from _common import archive, arguments, in_turns, machine, problem, ratio
from torch.utils._python_dispatch import TorchDispatchMode

from gradlex.engine import PopulationEngine, Worker
from gradlex.population import Parent, split
from gradlex.randomness import stream
from gradlex.runs import Problem


class Counted(TorchDispatchMode):
    """Counts the operations inside that compute: neither views nor new memory."""

    launched = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.launched += (
            operation.namespace == "aten" and not operation.is_view and "empty" not in str(operation)
        )
        return operation(*args, **(kwargs or {}))


def main() -> int:
    parser = arguments(__doc__, clock=True)
    parser.add_argument("--models", nargs="+", default=["small-cnn", "resnet20"])
    parser.add_argument("--population", type=int, default=4)
    parser.add_argument("--batches", type=int, default=2, help="a candidate's training steps")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3, help="turns")
    given = parser.parse_args()
    print(machine(), f"; {given.clock} clock", sep="")
    samples = given.population * max(2, given.batches) * given.batch_size
    print(f"{'model':12}{'one by one':>12}{'stacked':>10}{'ratio':>7}{'kernels':>10}{'stacked':>10}")
    with archive(given.dataset, samples) as path:
        for model in given.models:
            ours = problem(
                path,
                samples,
                model=model,
                population=given.population,
                batch_size=given.batch_size,
                threads=1,
                precision="float32",
            )
            compare(ours, samples, given)
    return 0


def compare(ours: Problem, samples: int, given: Any) -> None:
    sides, kernels = {}, {}
    subsets = split(samples, given.population, stream(0, "split"))
    for name, stacked in (("plain", False), ("stacked", True)):
        worker = Worker(ours.model, ours.train, ours.task, ours.recipe, ours.device, stacked=stacked)
        engine, parent = PopulationEngine(worker), worker.first_parent()
        sides[name] = lambda engine=engine, parent=parent: engine.train(parent, subsets, lr=0.01)
        kernels[name] = launched(engine, parent, given, 2) - launched(engine, parent, given, 1)
    times = in_turns(sides, given.repeats, given.clock)
    print(
        f"{ours.recipe.model:12}{statistics.median(times['plain']):>12.3f}{statistics.median(times['stacked']):>10.3f}"
        f"{ratio(times['plain'], times['stacked']):>7.2f}{kernels['plain']:>10,}{kernels['stacked']:>10,}",
        flush=True,
    )


def launched(engine: PopulationEngine, parent: Parent, given: Any, steps: int) -> int:
    """Kernels of a generation in which each candidate takes so many steps."""
    subsets = split(given.population * steps * given.batch_size, given.population, stream(0, "split"))
    with Counted() as counted:
        engine.train(parent, subsets, lr=0.01)
    return counted.launched


if __name__ == "__main__":
    sys.exit(main())
