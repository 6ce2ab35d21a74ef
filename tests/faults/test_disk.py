"""A disk that is full, or no longer writable: a message that names the file, and what was good stays good."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat

import pytest

import gradlex
from gradlex import RunError
from gradlex.cli import main

ALONE = ("--workers", 1)

OPERATIONS = [
    ("write generations.jsonl", "generations.jsonl"),
    ("open .00000003.safetensors.new", "/.00000003-"),
    ("write .00000003.safetensors.new", "/.00000003-"),
    ("fsync .00000004.safetensors.new", "/.00000004-"),
    ("replace .00000002.safetensors.new", "/.00000002-"),
    ("unlink 00000001.safetensors", "/00000001-"),
    ("fsync checkpoint", "/checkpoint"),
    ("fsync evaluations.jsonl", "evaluations.jsonl"),
    ("write .model.safetensors.new", ".model.safetensors.new"),
    ("replace .result.json.new", ".result.json.new"),
]


def fails_and_resumes(at, action, forks, train, undisturbed, outcome, fault, folder):
    done = forks.run(*train, "--out", folder, faults=[fault(folder, "file", at, action=action)], expect=1)
    assert done.err.startswith("gradlex: ")
    assert "could not be written" in done.err
    assert f"resume with: gradlex resume {folder}" in done.err or "start it again with --resume" in done.err
    assert len(done.err.splitlines()) == 1
    forks.run(*train, "--out", folder, "--resume")
    assert outcome(folder) == outcome(undisturbed)
    return done.err


@pytest.mark.parametrize(("what", "named"), OPERATIONS)
def test_a_full_disk_ends_the_run_with_the_files_name_and_it_resumes(
    what, named, operations, forks, train, undisturbed, outcome, fault, tmp_path
):
    places = [place for place, name in enumerate(operations, 1) if name == what]
    at = places[len(places) // 2]
    told = fails_and_resumes(at, "ENOSPC", forks, train, undisturbed, outcome, fault, tmp_path / "run")
    assert named in told
    assert "No space left on device" in told
    assert re.search(r"its checkpoint of generation \d is kept", told)


@pytest.mark.slow
@pytest.mark.parametrize("action", ["ENOSPC", "EROFS"])
def test_every_single_file_operation_may_fail(
    action, operations, forks, train, undisturbed, outcome, fault, tmp_path
):
    failed = 0
    for at, name in enumerate(operations, 1):
        folder = tmp_path / f"run{at}"
        child = forks.start(*train, "--out", folder, faults=[fault(folder, "file", at, action=action)])
        code = child.wait()
        assert "Traceback" not in child.err, name
        if name == "mkdir run":  # before the run begins: refused, or somebody else has made it
            assert code in (0, 2), child.err
        elif name == "mkdir checkpoint":  # harmless where it is there
            assert code in (0, 1), child.err
        else:
            assert code == 1, (name, child.err)
            assert child.err.startswith("gradlex: ")
        forks.run(*train, "--out", folder, "--resume")
        assert outcome(folder) == outcome(undisturbed), name
        shutil.rmtree(folder)
        failed += code != 0
    print(f"\n{failed} operations failed with {action}, each in its turn")


def test_a_limit_on_the_size_of_files_ends_the_run_and_it_resumes(
    forks, train, undisturbed, outcome, checkpoint, tmp_path
):
    folder = tmp_path / "run"
    largest = checkpoint(undisturbed, 5).stat().st_size - 100  # its header may be some bytes shorter
    assert (undisturbed / "generations.jsonl").stat().st_size < largest
    done = forks.run(*train, "--out", folder, largest_file=largest, expect=1)
    assert re.search(r"/\.00000001-\w+\.safetensors\.new could not be written: File too large", done.err)
    assert "there was no checkpoint yet" in done.err
    forks.run("resume", folder, *ALONE)
    assert outcome(folder) == outcome(undisturbed)


def test_a_folder_that_becomes_read_only_ends_the_run_and_it_resumes(
    operations, forks, train, undisturbed, outcome, fault, tmp_path
):
    first = operations.index("replace .00000001.safetensors.new")
    at = operations.index("open generations.jsonl", first) + 1
    told = fails_and_resumes(at, "EROFS", forks, train, undisturbed, outcome, fault, tmp_path / "run")
    assert "Read-only file system" in told
    assert "its checkpoint of generation 1 is kept" in told


def test_a_lock_that_cannot_be_taken_is_refused(forks, train, undisturbed, contents, tmp_path):
    shutil.copytree(undisturbed, tmp_path / "run")
    (tmp_path / "run" / ".lock").unlink()
    (tmp_path / "run" / ".lock").mkdir()
    before = contents(tmp_path)
    done = forks.run("resume", tmp_path / "run", *ALONE, expect=2)
    assert "cannot be written" in done.err
    assert contents(tmp_path) == before


def test_a_log_on_a_full_disk_is_no_traceback(monkeypatch, capsys, tmp_path):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rich.console.Console.print", full)
    with pytest.raises(SystemExit) as caught:
        main(
            [
                *["train", "--model", "mlp", "--train-size", "60", "--workers", "1", "--out"],
                str(tmp_path / "run"),
            ]
        )
    assert caught.value.code == 1
    err = capsys.readouterr().err
    assert err.startswith("gradlex: the callback Progress.on_start failed: OSError: [Errno 28] No space left")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("number", "goes_on"), [(errno.EINVAL, True), (errno.ENOTSUP, True), (errno.EIO, False)]
)
def test_a_file_system_that_flushes_files_only_is_good_enough(
    number, goes_on, images, tiny_cnn, small, monkeypatch, tmp_path
):
    flush = os.fsync

    def files_only(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        flush(handle)

    monkeypatch.setattr(os, "fsync", files_only)
    if goes_on:
        assert gradlex.train(tiny_cnn(), images, small, out=tmp_path / "run").path == tmp_path / "run"
    else:
        with pytest.raises(RunError, match="could not be written"):
            gradlex.train(tiny_cnn(), images, small, out=tmp_path / "run")
