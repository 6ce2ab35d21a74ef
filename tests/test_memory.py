"""Memory: the command and its workers keep it between passes; the caller's process is left as it is."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import numpy as np, torch
from torch import nn
from gradlex import Recipe
from gradlex.cli import main
from gradlex.data import ArraySamples
from gradlex.engine import Worker
from gradlex.tasks import Classification

if sys.argv[1:]:
    main(sys.argv[1:])
net = nn.Sequential(*[nn.Conv2d(8, 8, 1) for _ in range(6)], nn.AdaptiveAvgPool2d(1), nn.Flatten())
samples = ArraySamples(torch.zeros(64, 8, 64, 64), torch.zeros(64, dtype=torch.int64))
recipe = Recipe(batch_size=8, threads=1, precision="float32")
worker = Worker(net, samples, Classification(), recipe, torch.device("cpu"))
state, cases = worker.first_parent().state, np.arange(64)
counts = []
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    worker.errors([state], cases)
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(min(counts))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc is set up for glibc alone")
def test_the_command_uses_the_memory_of_the_pass_before_and_the_library_leaves_malloc_as_it_is():
    def faults(*words, **chosen):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
        done = subprocess.run(
            [sys.executable, "-c", FAULTS, *words],
            env=environment | chosen,
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout.split()[-1])

    map_of_one_layer = 64 * 8 * 64 * 64 * 4 // 4096  # pages
    assert faults("models") < map_of_one_layer / 4
    assert faults() > map_of_one_layer
    assert faults("models", MALLOC_TRIM_THRESHOLD_="131072") > map_of_one_layer
