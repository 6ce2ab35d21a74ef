"""Runs of one experiment that branch off plain SGD begin with its run; the results are those without sharing."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradlex import InputError, Recipe
from gradlex.experiments import METHODS, Cell, Grid, prepare, run_jobs
from gradlex.runs import Execution, Named, RunFolder, start

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (60 * y[:, None, None] + rng.integers(0, 130, (60, 6, 6))).astype(np.uint8)
    path = tmp_path_factory.mktemp("data") / "mine.npz"
    np.savez(path, x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])
    return str(path)


METHODS_HERE = ("branched-average", "sgd", "swa", "lexicase")


@pytest.fixture
def jobs(archive):
    def make(root, methods=METHODS_HERE, seeds=1, **fields):
        grid = Grid(
            datasets=(archive,),
            models=("mlp",),
            methods=methods,
            populations=(2,),
            seeds=seeds,
            epochs=4,
            shared=Recipe(threads=1, width=0.1, batch_size=10, augment="none", **fields),
        )
        return prepare(grid.cells(), root, device=CPU)

    return make


class Listener:
    def __init__(self):
        self.started_jobs = []

    def started(self, job):
        self.started_jobs.append((job.method, job.recipe.seed))

    def moved(self, job, generations):
        pass

    def waiting(self, job):
        pass

    def finished(self, job, *, elsewhere=False):
        pass

    def failed(self, failure):
        raise AssertionError(failure.reason)


def run(prepared, at_once=2):
    listener = Listener()
    assert run_jobs(prepared, at_once=at_once, device=CPU, evaluations=4, watcher=listener) == []
    return listener


def outcome(job):
    lines = [json.loads(line) for line in (job.folder / "generations.jsonl").read_text().splitlines()]
    records = [{k: v for k, v in line.items() if not k.endswith("seconds")} for line in lines]
    return records, (job.folder / "model.safetensors").read_bytes(), job.result["metrics"]


def begun(job):
    return json.loads((job.folder / "environment.json").read_text())["begin_with"]


def test_what_branches_off_sgd_begins_with_it_and_sgd_keeps_that_checkpoint(jobs, tmp_path):
    found = {(job.method, job.recipe.seed): job for job in jobs(tmp_path, seeds=2)}
    for seed in (0, 1):
        sgd = found["sgd", seed]
        assert sgd.keep_checkpoints == (3,)
        assert sgd.begin_with is None
        for method in ("branched-average", "swa"):
            assert found[method, seed].begin_with == sgd.folder
        assert found["lexicase", seed].begin_with is None
        assert found["lexicase", seed].keep_checkpoints == ()


@pytest.mark.parametrize(
    "fields",
    [{"recalibrate": 2}, {"outer_lr": 0.5}],
    ids=["recalibration", "outer step"],
)
def test_sgd_that_does_more_from_the_start_is_not_shared(fields, archive, tmp_path):
    """The branching run does the same only since its branch."""
    plain = Recipe(
        dataset=archive,
        model="mlp",
        width=0.1,
        threads=1,
        generations=4,
        batch_size=10,
        augment="none",
        **fields,
    )
    cells = [
        Cell(method="sgd", recipe=plain.replace(selection="sgd")),
        Cell(method="branched-lexicase", recipe=plain.replace(population=2, branch_at=0.75)),
    ]
    assert [job.begin_with for job in prepare(cells, tmp_path, device=CPU)] == [None, None]


@pytest.mark.parametrize("at_once", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_results_are_those_without_sharing(at_once, jobs, tmp_path):
    sgd, *others = prepared = jobs(tmp_path / "shared", ("sgd", "swa", "branched-lexicase"))
    listener = run(list(reversed(prepared)), at_once)
    assert listener.started_jobs[0] == ("sgd", 0)
    assert [begun(job) for job in others] == [sgd.folder.name] * 2
    for job in others:
        execution = Execution(workers=1, device="cpu", evaluate_every=1)
        out = tmp_path / job.method
        start(Named(), job.recipe, execution, out=out)
        alone = replace(job, folder=out)
        assert begun(alone) is None
        assert outcome(job) == outcome(alone)


@pytest.mark.slow
def test_interrupted_where_it_branches_and_run_again_it_is_the_same(jobs, tmp_path):
    whole = jobs(tmp_path / "whole", ("sgd", "branched-average"))
    run(whole)
    prepared = jobs(tmp_path / "again", ("sgd", "branched-average"))
    sgd, branched = prepared
    for source, target in ((whole[0].folder, sgd.folder), (whole[1].folder, branched.folder)):
        shutil.copytree(source, target)
    # The branching run was killed between the records it took over and its own first checkpoint.
    shutil.rmtree(branched.folder / "checkpoint")
    (branched.folder / "result.json").unlink()
    (branched.folder / "model.safetensors").unlink()
    for name in ("generations.jsonl", "evaluations.jsonl"):
        lines = (branched.folder / name).read_text().splitlines(keepends=True)
        (branched.folder / name).write_text("".join(lines[:3]))
    assert [job.state for job in prepared] == ["done", "interrupted"]
    run(prepared)
    assert outcome(branched) == outcome(whole[1])
    assert begun(branched) == sgd.folder.name


def test_a_finished_sgd_run_without_the_checkpoint_is_no_beginning_and_the_run_computes_its_own(
    jobs, tmp_path
):
    run(jobs(tmp_path, ("sgd",)))
    sgd, branched = jobs(tmp_path, ("sgd", "branched-average"))
    assert branched.begin_with == sgd.folder
    for path in (sgd.folder / "checkpoint").glob("00000003-*"):
        path.unlink()
    assert branched.beginning is None
    run([sgd, branched])
    assert begun(branched) is None


def test_an_option_of_cases_reaches_only_the_methods_that_look_at_some(jobs, tmp_path):
    methods = ("sgd", "branched-average", "branched-lexicase", "lexicase", "random", "swa")
    found = {job.method: job.recipe for job in jobs(tmp_path, methods, cases="held-out", held_out=0.2)}
    held = {name: recipe.held_out for name, recipe in found.items()}
    assert held == dict.fromkeys(methods) | {"branched-lexicase": 0.2, "lexicase": 0.2}
    with pytest.raises(InputError, match="cases is not an option of sgd, random"):
        jobs(tmp_path, ("sgd", "random"), cases="held-out")


def test_promotion_cases_of_a_method_are_at_most_the_held_out_ones(jobs, tmp_path):
    (job,) = jobs(tmp_path, ("branched-expected",), cases="held-out", held_out=0.2)
    assert job.recipe.promotion_cases == 12


@pytest.mark.parametrize(
    "name", [name for name, method in METHODS.items() if method.equal and not method.tries]
)
def test_methods_at_equal_samples_have_as_many_generations_as_sgd_has_epochs(name):
    methods = tuple(dict.fromkeys(["sgd", name]))
    cells = Grid(datasets=("digits",), models=("mlp",), methods=methods, seeds=1, epochs=12).cells()
    sgd, recipe = (cell.recipe for cell in cells)
    assert recipe.generations == sgd.generations == 12
    assert recipe.branch == 9
    resolved = recipe.replace(population=1 if METHODS[name].is_sgd else 4, batch_size=10)
    samples = [
        sum(each.samples_at(g, 1000) for g in range(12)) for each in (sgd.replace(population=1), resolved)
    ]
    assert samples == [12_000, 12_000]


def test_separate_runs_share_the_generations_of_sgd():
    grid = Grid(datasets=("digits",), models=("mlp",), methods=("sgd-best",), seeds=1, epochs=12)
    assert [cell.recipe.generations for cell in grid.cells()] == [3, 3, 3, 3]


def test_what_branches_off_a_run_of_another_process_waits_for_it(jobs, tmp_path):
    prepared = jobs(tmp_path, ("sgd", "swa", "lexicase"))
    sgd, swa, _ = prepared
    with ExitStack() as held:
        held.enter_context(RunFolder(sgd.folder).locked())

        class Ender(Listener):
            def finished(self, job, *, elsewhere=False):
                held.close()  # the other process ends without a result, once lexicase is done here

        listener = Ender()
        assert run_jobs(prepared, at_once=2, device=CPU, evaluations=4, watcher=listener) == []
    assert [method for method, _ in listener.started_jobs] == ["lexicase", "sgd", "swa"]
    assert begun(swa) == sgd.folder.name
