"""gradlex.train(workers=2): the run of one worker, on one copy of the data; what cannot be sent is refused."""

from __future__ import annotations

import json

import pytest
import safetensors.torch
import torch.distributed as dist

import gradlex
from gradlex import InputError


@pytest.fixture(scope="module")
def folder(start, tmp_path_factory):
    """What library.py leaves behind."""
    path = tmp_path_factory.mktemp("library")
    group = start("-W", "error", "library.py", path)
    assert group.wait() == 0, group.err
    assert group.err == ""
    assert group.is_gone()
    return path


@pytest.mark.parametrize("name", ["two", "offload"])
def test_two_workers_and_candidates_on_the_host_write_the_run_of_one_worker(name, folder, same):
    for file in ("generations.jsonl", "evaluations.jsonl"):
        first, other = (
            [json.loads(line) for line in (folder / run / file).read_text().splitlines()]
            for run in ("alone", name)
        )
        timed = {"train_seconds": 0, "select_seconds": 0}
        assert len(first) == 3
        assert [{**line, **timed} for line in other] == [{**line, **timed} for line in first]
    assert same(*(safetensors.torch.load_file(folder / run / "model.safetensors") for run in ("alone", name)))
    recipes = [(folder / run / "recipe.json").read_bytes() for run in ("alone", name)]
    assert recipes[0] == recipes[1]
    assert json.loads((folder / name / "environment.json").read_text())["workers"] == (
        2 if name == "two" else 1
    )


def test_workers_on_one_machine_share_one_copy_of_the_data(folder):
    notes = [json.loads(path.read_text()) for path in folder.glob("samples-*.json")]
    assert len(notes) == 2
    for shared in notes:
        assert len(shared) >= 4  # inputs and targets, for training and for testing
        assert all(shared)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("lambda", "several workers need a model, data, task and functions that can be pickled"),
        ("local class", "several workers need a model, data, task and functions that can be pickled"),
        ("uneven", "4 processes cannot be shared out evenly among 3 candidates"),
    ],
)
def test_what_several_workers_cannot_have_is_refused(name, told, folder):
    refused = json.loads((folder / "refused.json").read_text())
    assert refused[name] is not None
    assert refused[name].startswith(told)
    assert "use workers=1" in refused[name] or "use a multiple of 3" in refused[name]
    assert not (folder / "refused").exists()


def test_training_leaves_the_environment_as_it_was(folder):
    before, after = json.loads((folder / "environment-variables.json").read_text())
    assert after == before


def test_a_process_group_of_the_callers_that_knows_accelerators_only_is_refused(images, tiny_cnn, small):
    dist.init_process_group("cuda:gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(InputError, match=r"cuda:gloo, has no backend .*'cpu:gloo,cuda:nccl'"):
            gradlex.train(tiny_cnn(), images, small)
    finally:
        dist.destroy_process_group()
