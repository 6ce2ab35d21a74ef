"""Run by torchrun: writes down which files of shared memory each rank has mapped while it trains, and what not."""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path

import torch
from torch import nn

import gradlex


def note_maps(record: object) -> None:
    maps = Path("/proc/self/maps").read_text().splitlines()
    found = {" ".join(line.split()[4:]) for line in maps if "gradlex-" in line}
    Path(sys.argv[1], f"rank{os.environ['RANK']}").write_text("\n".join(sorted(found)))
    gc.collect()
    # The samples lie channels-last; the pictures given in lie otherwise and are the caller's own.
    alive = [one for one in gc.get_objects() if type(one) is torch.Tensor and one.shape == (64, 16, 16, 3)]
    copies = [one.is_shared() for one in alive]
    Path(sys.argv[1], f"copies{os.environ['RANK']}").write_text(json.dumps(copies))


if __name__ == "__main__":
    torch.manual_seed(0)
    x, y = torch.randn(64, 3, 16, 16), torch.arange(64) % 2
    net = nn.Sequential(nn.Flatten(), nn.Linear(768, 2))
    recipe = gradlex.Recipe(population=2, generations=1, batch_size=8)
    gradlex.train(net, (x, y), recipe, test=(x, y), callback=note_maps)
