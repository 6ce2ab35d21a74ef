"""Every seam takes an extension of one's own: it takes effect, resumes exactly, and is the same with two workers."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch

import gradlex

HERE = Path(__file__).parent


def load():
    """seams.py as a module: tests do not lie on the import path."""
    specification = importlib.util.spec_from_file_location("seams", HERE / "seams.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules["seams"] = module
    specification.loader.exec_module(module)
    return module


seams = load()
every_seam = pytest.mark.parametrize("name", seams.SEAMS)


class Killed(BaseException):
    """Ends a run as the loss of power would."""


class Kill(gradlex.Callback):
    def __init__(self, done):
        self.done = done

    def on_generation(self, run, record):
        if record.generation + 1 == self.done:
            raise Killed


class Watch(gradlex.Callback):
    """Keeps the parents' slots."""

    def __init__(self):
        self.slots = []

    def on_generation(self, run, record):
        self.slots.append(run.parent.slots)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Makes the uninterrupted run of a seam, once."""
    runs = {}

    def make(name):
        if name not in runs:
            watch = Watch()
            runs[name] = seams.run(name, tmp_path_factory.mktemp("whole") / name, callbacks=[watch]), watch
        return runs[name]

    return make


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    """The folder with the runs of all seams by two processes."""
    folder = tmp_path_factory.mktemp("two")
    command = [sys.executable, "-W", "error", str(HERE / "seams.py"), str(folder)]
    for ranks in ([[]], [["0"], ["1"]]):  # local workers, and processes that somebody else has started
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
        started = [
            subprocess.Popen([*command, *rank], env=environment, stderr=subprocess.PIPE, text=True)
            for rank in ranks
        ]
        try:
            for process in started:
                assert process.communicate(timeout=300)[1] == ""
                assert process.returncode == 0
        finally:
            for process in started:
                process.kill()
                process.wait()
    return folder


def lines(path):
    """The records without what depends on the clock."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [{name: value for name, value in line.items() if not name.endswith("_seconds")} for line in found]


def assert_same(one, other):
    assert lines(one / "generations.jsonl") == lines(other / "generations.jsonl")
    for name in ("model.safetensors", "evaluations.jsonl"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    results = [json.loads((folder / "result.json").read_text()) for folder in (one, other)]
    for key in ("metrics", "measures", "generations", "stopped", "cases_evaluated", "sha256"):
        assert results[0][key] == results[1][key], key


@every_seam
@pytest.mark.parametrize("done", [1, 3])
def test_a_run_that_was_killed_and_resumed_is_the_uninterrupted_one(name, done, whole, tmp_path):
    expected, _ = whole(name)
    with pytest.raises(Killed):
        seams.run(name, tmp_path / name, callbacks=[Kill(done)])
    assert not (tmp_path / name / "result.json").exists()
    seams.run(name, tmp_path / name, resume=True)
    assert_same(tmp_path / name, expected.path)


@every_seam
def test_two_workers_make_the_run_of_one(name, whole, two_workers):
    assert json.loads((two_workers / name / "environment.json").read_text())["workers"] == 2
    assert_same(two_workers / name, whole(name)[0].path)


@pytest.mark.parametrize("name", ["selection", "promotion", "schedule", "engine"])
def test_an_extension_makes_another_run(name, whole):
    plain, run = whole("plain")[0], whole(name)[0]
    assert (run.path / "model.safetensors").read_bytes() != (plain.path / "model.safetensors").read_bytes()


def test_a_task_has_metrics_and_errors_of_its_own(whole):
    run, _ = whole("task")
    assert set(run.test) == set(run.train) == {"mae", "within"}
    assert [measure["name"] for measure in run.result["measures"]] == ["mae", "within"]
    assert run.generations[-1].test == run.test
    assert run.generations[-1].test["mae"] < run.generations[0].test["mae"]
    assert run.recipe.task == "given"
    assert run.recipe.selection_options["on_all_fail"] == "survive"  # its errors are graded


def test_a_task_checks_what_it_is_given(tmp_path):
    x, y = seams.data()
    with pytest.raises(
        gradlex.InputError, match=r"fractional targets and one output.*got torch.int64 and \(2, 3\)"
    ):
        gradlex.train(seams.network(), (x, y), task=seams.Regression(), out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_callback_stops_the_run_when_it_says_so(whole):
    run, plain = whole("callback")[0], whole("plain")[0]
    done = run.result["generations"]
    assert 1 < done < 5
    spent = [sum(record.cases_evaluated for record in plain.generations[:end]) for end in (done - 1, done)]
    assert spent[0] < 400 <= spent[1]
    assert run.result["stopped"] == f"{spent[1]} cases evaluated"
    assert lines(run.path / "generations.jsonl") == lines(plain.path / "generations.jsonl")[:done]


def test_a_run_that_was_killed_just_after_it_was_stopped_is_not_trained_on(whole, tmp_path):
    expected, _ = whole("callback")
    with pytest.raises(Killed):
        seams.run("callback", tmp_path / "run", callbacks=[Kill(expected.result["generations"])])
    seams.run("callback", tmp_path / "run", resume=True)
    assert_same(tmp_path / "run", expected.path)


def test_a_selection_decides_with_its_option_and_its_memory(whole):
    run, _ = whole("selection")
    assert {(record.reason, record.cases_used) for record in run.generations} == {("second_best", 7)}
    assert run.recipe.selection_options == {"look": 7}
    chosen = [record.selected for record in run.generations]
    assert all(one != other for one, other in itertools.pairwise(chosen))  # what it remembers
    assert json.loads((run.path / "recipe.json").read_text())["recipe"]["selection"] == "given"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"lok": 7}, "no option 'lok': it takes look.*'look'"),
        ({"look": 0}, "look must be a whole number of at least 1"),
    ],
)
def test_an_option_of_a_selection_is_checked_by_its_signature(options, told):
    recipe = seams.RECIPE.replace(selection=seams.second_best, selection_options=options)
    with pytest.raises(gradlex.InputError, match=told):
        gradlex.train(seams.network(), seams.data(), recipe)


def test_a_promotion_step_finds_its_slot_a_generation_later(whole):
    run, watch = whole("promotion")
    names = {name for name, _ in run.model.named_parameters()}
    assert all(set(slots["lookahead"]) == {*names, "steps"} for slots in watch.slots)
    assert [int(slots["lookahead"]["steps"]) for slots in watch.slots] == [1, 2, 3, 4, 5]
    (path,) = (run.path / "checkpoint").glob("00000005-*.safetensors")
    stored = safetensors.torch.load_file(path)
    assert int(stored["slot/lookahead/steps"]) == 5


def test_a_promotion_step_comes_after_the_recipes_own(whole):
    _, watch = whole("all")
    assert all(list(slots) == ["ema", "lookahead"] for slots in watch.slots)


def test_a_schedule_sets_the_learning_rate_of_every_generation(whole):
    rates = [record.lr for record in whole("schedule")[0].generations]
    assert rates == pytest.approx([0.05 / 3, 0.1 / 3, 0.05, 0.05, 0.05])


@pytest.mark.parametrize("name", ["task", "selection", "schedule"])
def test_a_run_with_a_function_or_task_of_ones_own_needs_it_again(name, whole):
    run, _ = whole(name)
    recipe = gradlex.Recipe.from_dict(json.loads((run.path / "recipe.json").read_text())["recipe"])
    x, y = seams.data()
    with pytest.raises(gradlex.InputError, match="not stored: give it again"):
        gradlex.train(seams.network(), (x, y), recipe)
