"""A damaged checkpoint: never a wrong resume, never a traceback; the one before it is used where it is good."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import safetensors.torch
import torch

from gradlex.runs._checkpoint import DamagedError, load_checkpoint

ALONE = ("--workers", 1)

FILES = ("tensors.safetensors", "memory.safetensors", "progress.json")


@pytest.fixture(scope="module")
def interrupted(forks, train, fault, tmp_path_factory):
    """A run of five generations that died in its fourth: checkpoints 2 and 3 are there."""
    folder = tmp_path_factory.mktemp("interrupted") / "run"
    selection = ("--selection", "informed-lexicase", "--refresh", "2")
    forks.start(*train, *selection, "--out", folder, faults=[fault(folder, "train", 10)]).wait()
    assert [path.name for path in sorted((folder / "checkpoint").iterdir())] == ["00000002", "00000003"]
    return folder


@pytest.fixture(scope="module")
def whole(forks, interrupted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    shutil.copytree(interrupted, folder)
    forks.run("resume", folder, *ALONE)
    return folder


def flipped(data, place, bit=0):
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


def damages(data, regions):
    """Every region of the file in turn with a flipped bit or zeros; the file cut short, too long, empty."""
    size = len(data)
    for region in np.array_split(np.arange(size), min(regions, size)):
        middle = int(region[len(region) // 2])
        yield f"bit at {middle}", flipped(data, middle, middle % 8)
        zeroed = data[: region[0]] + bytes(len(region)) + data[region[-1] + 1 :]
        if zeroed != data:
            yield f"zeros at {region[0]}", zeroed
    for length in (0, 1, 7, 8, size // 2, size - 1):
        yield f"{length} bytes left", data[: min(length, size - 1)]
    yield "one byte more", data + b"\0"


def refuses_or_equals(folder, like, expected):
    """Whether the damage was found and named; None where it has no meaning, a blank in the JSON."""
    try:
        parent, progress = load_checkpoint(folder, like, inherits=True)
    except DamagedError as damage:
        return str(folder) in str(damage)
    state, optimizer, memory, known = expected
    assert all(torch.equal(parent.state[name], tensor) for name, tensor in state.items())
    assert all(
        torch.equal(parent.optimizer[n]["momentum_buffer"], v["momentum_buffer"])
        for n, v in optimizer.items()
    )
    assert all(np.array_equal(parent.memory[name], array) for name, array in memory.items())
    assert progress == known
    return None


@pytest.mark.parametrize("regions", [8, pytest.param(400, marks=pytest.mark.slow)])
def test_every_damaged_region_of_a_checkpoint_is_found(regions, interrupted, parent_of, tmp_path):
    like = parent_of(interrupted)
    good = interrupted / "checkpoint" / "00000003"
    parent, progress = load_checkpoint(good, like, inherits=True)
    expected = parent.state, parent.optimizer, parent.memory, progress
    assert parent.memory
    assert parent.optimizer
    folder = tmp_path / "00000003"
    shutil.copytree(good, folder)
    found = harmless = 0
    for name in FILES:
        data = (good / name).read_bytes()
        for what, damaged in damages(data, regions):
            (folder / name).write_bytes(damaged)
            told = refuses_or_equals(folder, like, expected)
            assert told or (told is None and name == "progress.json"), what
            found, harmless = found + bool(told), harmless + (told is None)
        (folder / name).write_bytes(data)
    assert refuses_or_equals(folder, like, expected) is None
    print(f"\n{found} damages found, {harmless} without meaning (blanks between JSON)")
    assert found > 10 * harmless


@pytest.fixture(scope="module")
def parent_of():
    """The first parent of a run folder's own model."""
    from gradlex.engine import Worker
    from gradlex.runs import RunFolder, named_problem, stored_recipe

    def make(folder):
        recipe, _ = stored_recipe(RunFolder(folder))
        problem = named_problem(recipe, device=torch.device("cpu"))
        return Worker(
            problem.model, problem.train, problem.task, problem.recipe, problem.device
        ).first_parent()

    return make


def truncated(path):
    path.write_bytes(path.read_bytes()[:-5])


def emptied(path):
    path.write_bytes(b"")


def with_a_flipped_bit(path):
    data = path.read_bytes()
    path.write_bytes(flipped(data, len(data) // 2, 3))


def removed(path):
    path.unlink()


DAMAGES = [
    (truncated, "tensors.safetensors"),
    (with_a_flipped_bit, "tensors.safetensors"),
    (emptied, "progress.json"),
    (removed, "memory.safetensors"),
]


@pytest.mark.parametrize(("damage", "name"), DAMAGES)
def test_the_checkpoint_before_a_damaged_one_is_used_and_the_message_says_so(
    damage, name, interrupted, whole, forks, outcome, tmp_path
):
    folder = tmp_path / "run"
    shutil.copytree(interrupted, folder)
    damaged = folder / "checkpoint" / "00000003"
    damage(damaged / name)
    kept = {path.name: path.read_bytes() for path in damaged.iterdir()}
    done = forks.run("resume", folder, *ALONE)
    assert f"{damaged / name} " in done.out
    assert "it is set aside, and the sound checkpoint 00000002 is used" in done.out
    assert outcome(folder) == outcome(whole)
    aside = folder / "checkpoint" / "00000003.damaged"
    assert {path.name: path.read_bytes() for path in aside.iterdir()} == kept


@pytest.mark.parametrize(("damage", "name"), DAMAGES[1:3])
def test_without_a_sound_checkpoint_the_run_is_refused_and_left_alone(
    damage, name, interrupted, forks, contents, tmp_path
):
    folder = tmp_path / "run"
    shutil.copytree(interrupted, folder)
    for generation in ("00000002", "00000003"):
        damage(folder / "checkpoint" / generation / name)
    before = contents(folder)
    done = forks.run("resume", folder, *ALONE, expect=2)
    for generation in ("00000002", "00000003"):
        assert f"{folder / 'checkpoint' / generation / name} " in done.err
    assert "this run cannot go on here" in done.err
    assert contents(folder) == before


def rewritten(folder, change):
    """The checkpoint with other tensors and sums that fit them."""
    import hashlib

    from gradlex.runs._checkpoint import _checksum

    path = folder / "tensors.safetensors"
    tensors = safetensors.torch.load_file(path)
    change(tensors)
    path.write_bytes(safetensors.torch.save(tensors))
    content = json.loads((folder / "progress.json").read_text())
    del content["checksum"]
    content["sha256"]["tensors.safetensors"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "progress.json").write_text(json.dumps({**content, "checksum": _checksum(content)}))


def another_shape(tensors):
    tensors["state/1.weight"] = tensors["state/1.weight"][:, :5].contiguous()


def another_type(tensors):
    tensors["state/1.weight"] = tensors["state/1.weight"].double()


def another_name(tensors):
    tensors["state/9.weight"] = tensors.pop("state/1.weight")


def optimizer_of_another(tensors):
    tensors["optimizer/momentum_buffer/9.weight"] = torch.zeros(2)


@pytest.mark.parametrize("change", [another_shape, another_type, another_name, optimizer_of_another])
def test_the_checkpoint_of_another_model_is_passed_over(change, interrupted, whole, forks, outcome, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(interrupted, folder)
    rewritten(folder / "checkpoint" / "00000003", change)
    done = forks.run("resume", folder, *ALONE)
    assert str(folder / "checkpoint" / "00000003") in done.out
    assert "the sound checkpoint 00000002 is used" in done.out
    assert outcome(folder) == outcome(whole)


def test_a_checkpoint_under_another_number_is_passed_over(interrupted, whole, forks, outcome, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(interrupted, folder)
    shutil.copytree(folder / "checkpoint" / "00000002", folder / "checkpoint" / "00000005")
    done = forks.run("resume", folder, *ALONE)
    assert "00000005 holds the checkpoint of generation 2" in done.out
    assert outcome(folder) == outcome(whole)


def test_a_damaged_checkpoint_is_not_counted_among_the_two_that_are_kept(interrupted, forks, fault, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(interrupted, folder)
    emptied(folder / "checkpoint" / "00000003" / "progress.json")
    # Dies once generation 3 is done again: 2 and the new 3 are both sound.
    forks.start("resume", folder, *ALONE, faults=[fault(folder, "train", 4)]).wait()
    emptied(folder / "checkpoint" / "00000003" / "progress.json")
    done = forks.run("resume", folder, *ALONE)
    assert "the sound checkpoint 00000002 is used" in done.out
