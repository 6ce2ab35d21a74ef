"""Two thousand generations in one process: memory and open files do not grow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import gradlex
from gradlex import Recipe


def resident():
    """Megabytes of memory that this process has."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.slow
def test_two_thousand_generations_neither_grow_nor_leak(images, tiny_cnn, calls, tmp_path):
    recipe = Recipe(
        population=3,
        generations=2000,
        batch_size=16,
        threads=1,
        momentum="inherit",
        optimizer="adamw",
        lr=1e-4,
        selection="informed-lexicase",
    )
    seen = []

    def note(record):
        if record.generation in (199, 1099, 1999):
            seen.append((resident(), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))))

    gradlex.train(tiny_cnn(), images, recipe, test=images, out=tmp_path, callbacks=[calls(note)])
    memory, files, threads = zip(*seen, strict=True)
    print(f"\nafter 200, 1,100 and 2,000 generations: {memory} MB, {files} open files, {threads} threads")
    assert memory[2] - memory[1] < 15  # a record a generation stays in memory, some kilobytes each
    assert files[0] == files[1] == files[2]
    assert threads[0] == threads[2]
    assert len(list((tmp_path / "checkpoint").iterdir())) == 2
    assert torch.get_num_threads() >= 1
