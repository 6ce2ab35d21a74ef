"""A slow Dataset is read ahead by worker processes: the same bits for any number of them."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

import gradlex
from gradlex import Recipe

RECIPE = Recipe(
    population=3,
    generations=3,
    batch_size=5,
    threads=1,
    precision="float32",
    momentum="inherit",
    recalibrate=1,
)


class Jittered(Dataset):
    """Samples with noise from torch's generator; notes who read them."""

    def __init__(self, images, notes=None, *, noise=0.5, broken=None):
        self.x, self.y = images
        self.notes, self.noise, self.broken = notes, noise, broken

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        if self.notes is not None:
            (self.notes / str(os.getpid())).touch()
        if index == self.broken:
            raise LookupError(f"sample {index} is gone")
        return self.x[index] + self.noise * torch.randn(self.x.shape[1:]), int(self.y[index])


def shifted(batch, rng):
    return batch + 0.1 * float(rng.normal())


class Killed(BaseException):
    pass


class Kill(gradlex.Callback):
    def on_generation(self, run, record):
        if record.generation == 1:
            raise Killed


def train(net, images, notes, workers, **how):
    return gradlex.train(
        net,
        Jittered(images, notes),
        RECIPE,
        clean=Jittered(images, notes, noise=0),
        test=Jittered(images, noise=0),
        augment=shifted,
        loader_workers=workers,
        **how,
    )


def test_any_number_of_loader_workers_gives_the_same_run_also_after_a_kill(
    images, tiny_dropout, same, tmp_path
):
    runs = {}
    for workers in (0, 1, 2):
        notes = tmp_path / f"readers{workers}"
        notes.mkdir()
        runs[workers] = train(tiny_dropout(), images, notes, workers)
        others = {path.name for path in notes.iterdir()} - {str(os.getpid())}
        assert len(others) >= workers  # they stay from batch to batch
        assert bool(others) == bool(workers)
    assert same(runs[1].model.state_dict(), runs[0].model.state_dict())
    assert same(runs[2].model.state_dict(), runs[0].model.state_dict())
    assert runs[2].test == runs[0].test
    with pytest.raises(Killed):
        train(tiny_dropout(), images, None, 2, out=tmp_path / "run", callbacks=[Kill()])
    resumed = train(tiny_dropout(), images, None, 1, out=tmp_path / "run", resume=True)
    assert same(resumed.model.state_dict(), runs[0].model.state_dict())


def test_what_a_dataset_raises_in_a_worker_is_told_as_if_it_were_here(images, tiny_dropout):
    told = []
    for workers in (0, 1):
        with pytest.raises(gradlex.RunError, match="LookupError: sample 40 is gone") as caught:
            gradlex.train(
                tiny_dropout(), Jittered(images, noise=0, broken=40), RECIPE, loader_workers=workers
            )
        told.append(str(caught.value).partition(" (in")[0])
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("workers", "data", "told"),
    [
        (-1, "dataset", "loader_workers must be a whole number of at least 0, got -1"),
        (2, "arrays", "loader_workers read a Dataset; arrays lie in memory already, got 2"),
    ],
)
def test_loader_workers_without_a_meaning_are_refused(workers, data, told, images):
    given = images if data == "arrays" else Jittered(images, noise=0)
    with pytest.raises(gradlex.InputError, match=told):
        gradlex.train(nn.Linear(2, 2), given, RECIPE, loader_workers=workers)
