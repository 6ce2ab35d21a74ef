"""Workers started from real scripts: a model in the current folder works, what cannot work ends with advice."""

from __future__ import annotations

import json

import pytest

NETS = """
from multiprocessing import RLock
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes, in_channels):
        super().__init__()
        self.head = nn.Linear(16 * in_channels, num_classes)

    def forward(self, x):
        global lock
        lock = RLock()  # as tqdm does, and so torch.compile: it must be removed when a worker ends
        return self.head(x.flatten(1))
"""


def test_a_model_of_the_current_folder_is_trained_by_two_workers(start, archive, tmp_path):
    (tmp_path / "mynets.py").write_text(NETS)
    words = ("--model", "mynets:Net", "--dataset", archive, "--workers", "2", "--generations", "2")
    group = start("-m", "gradlex", "train", *words, "--out", "run", cwd=tmp_path)
    assert group.wait() == 0, group.err
    assert group.err == ""
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["workers"] == 2


BODY = """
import torch
from torch import nn
import gradlex

class Net(nn.Sequential):
    pass

def train(model):
    x, y = torch.randn(40, 8), torch.arange(40) % 2
    recipe = gradlex.Recipe(population=2, generations=1, batch_size=8)
    gradlex.train(model, (x, y), recipe, workers=2)
"""
OWN, PLAIN = "train(Net(nn.Linear(8, 2)))", "train(nn.Linear(8, 2))"
LARGE = "model = nn.Linear(8, 2); model.notes = 'x' * 10**6; train(model)"  # more than a pipe holds
SCRIPTS = {
    "a script without a main guard": ("file", PLAIN),
    "a script without a main guard, and much to send": ("file", LARGE),
    "a class of an interactive session": ("-c", OWN),
}


@pytest.fixture(scope="module")
def sessions(start, tmp_path_factory):
    """The scripts at work at the same time: most of it is importing torch."""
    found = {}
    for name, (how, last) in SCRIPTS.items():
        folder = tmp_path_factory.mktemp("script")
        (folder / "script.py").write_text(f"{BODY}\n{last}\n")
        words = ("script.py",) if how == "file" else ("-c", f"{BODY}\n{last}\n")
        found[name] = start(*words, cwd=folder)
    return found


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_workers_cannot_import_ends_with_advice(name, sessions):
    group = sessions[name]
    assert group.wait() == 1
    last = group.err.strip().splitlines()[-1]
    assert "WorkerDied: worker 1 ended unexpectedly" in last or "cannot load what it is to compute" in last
    for advice in (
        'needs an `if __name__ == "__main__":` guard',
        "in a module that can be imported",
        "workers=1",
    ):
        assert advice in last
    assert group.is_gone()
