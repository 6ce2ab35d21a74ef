"""A damaged checkpoint or file of weights is never used, and never a traceback; the checkpoint before it is."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

from gradlex.runs._checkpoint import DamagedError, load_checkpoint

ALONE = ("--workers", 1)


@pytest.fixture(scope="module")
def interrupted(forks, train, fault, kept, tmp_path_factory):
    """A run of five generations that died in its fourth: checkpoints 2 and 3 are there."""
    folder = tmp_path_factory.mktemp("interrupted") / "run"
    selection = ("--selection", "informed-lexicase", "--selection-options", "refresh=2")
    forks.start(*train, *selection, "--out", folder, faults=[fault(folder, "train", 10)]).wait()
    assert kept(folder) == [2, 3]
    return folder


@pytest.fixture(scope="module")
def whole(forks, interrupted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    shutil.copytree(interrupted, folder)
    forks.run("resume", folder, *ALONE)
    return folder


@pytest.fixture
def run(interrupted, tmp_path):
    shutil.copytree(interrupted, tmp_path / "run")
    return tmp_path / "run"


def flipped(data, place, bit=0):
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


def damages(data, regions):
    """Every region of the file in turn with a flipped bit or zeros; the file cut short, too long, empty."""
    size = len(data)
    for region in np.array_split(np.arange(size), min(regions, size)):
        middle = int(region[len(region) // 2])
        yield flipped(data, middle, middle % 8)
        zeroed = data[: region[0]] + bytes(len(region)) + data[region[-1] + 1 :]
        if zeroed != data:
            yield zeroed
    for length in (0, 1, 7, 8, size // 2, size - 1):
        yield data[: min(length, size - 1)]
    yield data + b"\0"


@pytest.mark.parametrize("regions", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_every_damaged_region_of_a_checkpoint_is_found(regions, run, first_parent, checkpoint):
    path, like = checkpoint(run, 3), first_parent(run)
    parent, _ = load_checkpoint(path, like, inherits=True)
    assert parent.memory
    assert parent.optimizer
    for damaged in damages(path.read_bytes(), regions):
        path.write_bytes(damaged)
        with pytest.raises(DamagedError, match=f"{path} has a wrong checksum"):
            load_checkpoint(path, like, inherits=True)


@pytest.fixture(scope="module")
def first_parent():
    """The first parent of a run folder's own model."""
    from gradlex.engine import Worker
    from gradlex.runs import Execution, Named, RunFolder, make_problem, stored_recipe

    def make(folder):
        recipe, _ = stored_recipe(RunFolder(folder))
        problem = make_problem(Named(), recipe, execution=Execution(), device=torch.device("cpu"))
        return Worker(
            problem.model, problem.train, problem.task, problem.recipe, problem.device
        ).first_parent()

    return make


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-5])


def empty(path):
    path.write_bytes(b"")


def flip_a_bit(path):
    data = path.read_bytes()
    path.write_bytes(flipped(data, len(data) // 2, 3))


def a_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [cut_short, empty, flip_a_bit, a_folder])
def test_the_checkpoint_before_a_damaged_one_is_used_and_the_message_says_so(
    damage, run, whole, forks, outcome, checkpoint
):
    path = checkpoint(run, 3)
    damage(path)
    kept = path.read_bytes() if path.is_file() else None
    done = forks.run("resume", run, *ALONE)
    assert f"{path} {'cannot be read' if damage is a_folder else 'has a wrong checksum'}" in done.out
    assert "it is set aside, and the sound checkpoint of generation 2 is used" in done.out
    assert outcome(run) == outcome(whole)
    aside = path.with_name(f"{path.name}.damaged")
    assert aside.is_dir() if kept is None else aside.read_bytes() == kept


@pytest.mark.parametrize("damage", [empty, flip_a_bit])
def test_without_a_sound_checkpoint_the_run_is_refused_and_left_alone(
    damage, run, forks, contents, checkpoint
):
    paths = [checkpoint(run, generation) for generation in (2, 3)]
    for path in paths:
        damage(path)
    before = contents(run)
    done = forks.run("resume", run, *ALONE, expect=2)
    assert all(f"{path} has a wrong checksum" in done.err for path in paths)
    assert "no checkpoint can be used, so this run cannot be resumed" in done.err
    assert contents(run) == before


def another_shape(tensors, content):
    tensors["state/1.weight"] = tensors["state/1.weight"][:, :5].contiguous()


def another_type(tensors, content):
    tensors["state/1.weight"] = tensors["state/1.weight"].double()


def another_name(tensors, content):
    tensors["state/9.weight"] = tensors.pop("state/1.weight")


def optimizer_of_another(tensors, content):
    tensors["optimizer/momentum_buffer/9.weight"] = torch.zeros(2)


def another_generation(tensors, content):
    content["generation"] = 2


def a_slot_of_another(tensors, content):
    tensors["slot/ema/1.weight"] = torch.zeros(2)


@pytest.mark.parametrize(
    "change",
    [
        another_shape,
        another_type,
        another_name,
        optimizer_of_another,
        another_generation,
        a_slot_of_another,
    ],
)
def test_the_checkpoint_of_another_run_is_passed_over(
    change, run, whole, forks, outcome, checkpoint, rewrite
):
    path = rewrite(checkpoint(run, 3), change)
    done = forks.run("resume", run, *ALONE)
    assert str(path) in done.out
    assert "the sound checkpoint of generation 2 is used" in done.out
    assert outcome(run) == outcome(whole)


def test_a_checkpoint_under_another_number_is_passed_over(run, whole, forks, outcome, checkpoint):
    path = checkpoint(run, 2)
    shutil.copy(path, path.with_name(f"00000005{path.name[8:]}"))
    done = forks.run("resume", run, *ALONE)
    assert "holds the checkpoint of generation 2" in done.out
    assert outcome(run) == outcome(whole)


def test_a_damaged_checkpoint_is_not_counted_among_the_two_that_are_kept(run, forks, fault, checkpoint):
    empty(checkpoint(run, 3))
    # Dies once generation 3 is done again: 2 and the new 3 are both sound.
    forks.start("resume", run, *ALONE, faults=[fault(run, "train", 4)]).wait()
    empty(checkpoint(run, 3))
    done = forks.run("resume", run, *ALONE)
    assert "the sound checkpoint of generation 2 is used" in done.out


@pytest.mark.parametrize("ema", [False, True])
def test_weights_with_a_flipped_bit_are_refused(ema, forks, train, contents, tmp_path):
    forks.run(*train, "--ema", 0.5, "--out", tmp_path / "run")
    name = "ema.safetensors" if ema else "model.safetensors"
    evaluate = ("evaluate", tmp_path / "run", *(["--ema"] if ema else []))
    good = (tmp_path / "run" / name).read_bytes()
    forks.run(*evaluate)
    for place in (len(good) // 3, len(good) - 1):
        (tmp_path / "run" / name).write_bytes(flipped(good, place, 2))
        before = contents(tmp_path / "run")
        done = forks.run(*evaluate, expect=2)
        assert f"{name} is damaged: its checksum is not the one in result.json" in done.err
        for command in (
            ("resume", tmp_path / "run", *ALONE),
            (*train, "--init-from", tmp_path / "run" / name, "--out", tmp_path / "new"),
        ):
            assert f"{name} is damaged" in forks.run(*command, expect=2).err
        assert not (tmp_path / "new").exists()
        assert contents(tmp_path / "run") == before
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(tmp_path / "run", tmp_path / "copy", ignore=lambda *_: ["checkpoint"])
        assert "is damaged" in forks.run("resume", tmp_path / "copy", *ALONE, expect=2).err
