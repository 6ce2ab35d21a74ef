"""Run folders as data frames; damaged ones are an error that names the file."""

from __future__ import annotations

import json
import os

import pytest

import gradlex
from gradlex.errors import InputError
from gradlex.report import results, summary, write_experiment_page, write_run_page
from gradlex.report.frames import history


def test_a_folder_of_experiments_is_a_frame_with_a_row_for_each_run(experiment):
    frame = results(experiment.parent)
    assert len(frame) == 12
    assert frame.finished.all()
    row = frame[(frame.method == "lexicase") & (frame.seed == 1)].iloc[0]
    assert (row.experiment, row.test_accuracy, row.train_accuracy) == ("small", 0.621, 1.0)
    assert (row.samples_trained, row.seconds, row.path) == (4000, 90.0, experiment / "lexicase" / "seed1")
    assert frame.groupby("method").test_accuracy.mean().idxmax() == "sgd-matched"


def test_a_single_run_is_named_by_its_selection(tmp_path, make_run):
    make_run(tmp_path / "mine", 0.9, seed=3)
    (row,) = results(tmp_path / "mine").to_dict("records")
    assert (row["experiment"], row["method"], row["seed"], row["epochs"]) == ("", "lexicase", 3, 4)


def test_an_unfinished_run_has_a_row_without_metrics(tmp_path, make_experiment):
    frame = results(make_experiment(tmp_path / "e", {"sgd": [0.6, None]}))
    assert frame.finished.tolist() == [True, False]
    assert frame.test_accuracy.isna().tolist() == [False, True]


def test_the_generations_of_a_run_are_a_frame(experiment):
    frame = history(experiment / "lexicase" / "seed0")
    assert frame.generation.tolist() == [1, 2, 3, 4]
    assert frame.test_accuracy.iloc[-1] == pytest.approx(0.61)
    assert frame.reason.unique() == ["sole_survivor"]


def test_an_own_loop_may_store_anything_under_the_name_experiment(tmp_path, make_run):
    make_run(tmp_path / "run", 0.5, experiment={"width": 8})
    assert results(tmp_path).experiment.tolist() == [""]


def test_a_run_that_has_just_begun_has_an_empty_history(tmp_path, make_run):
    run = make_run(tmp_path / "new", 0.5, lines=[], finished=False)
    assert history(run).empty
    assert "generation" in history(run)


def test_the_package_offers_results():
    assert gradlex.results is results


def test_a_folder_without_runs_is_an_error(tmp_path):
    with pytest.raises(InputError, match="holds no runs"):
        results(tmp_path)


def everything(folder):
    """All that reads the records of an experiment."""
    results(folder)
    summary(folder)
    summary(folder / "lexicase" / "seed0")
    write_run_page(folder / "lexicase" / "seed0")
    write_experiment_page(folder)


DAMAGE = [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"null", b"[]", b'"text"']


FILES = ["experiment.json", *(f"lexicase/seed0/{name}" for name in ("run.json", "result.json", "generations.jsonl"))]


@pytest.mark.parametrize(
    ("name", "content"),
    [(name, content) for name in FILES for content in DAMAGE if content or not name.endswith("jsonl")],
    ids=lambda value: value if isinstance(value, str) else repr(value[:8]),
)
def test_a_damaged_file_is_an_error_that_names_it(experiment, name, content):
    path = experiment / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=path.name):
        everything(experiment)


WRONG = {
    "experiment.json": [
        {"methods": 3},
        {"seeds": ["zero"]},
        {"pairs": [["lexicase"]]},
        {"pairs": [["lexicase", "sgd", "random"]]},
        {"title": {"a": 1}},
        {"order": "first"},
    ],
    "lexicase/seed0/run.json": [{"recipe": []}, {"seed": "x"}, {"model": 3}, {"environment": None}],
    "lexicase/seed0/result.json": [
        {"metrics": None},
        {"metrics": {"test": 1}},
        {"metrics": {"test": {"accuracy": "good"}}},
        {"seconds": "long"},
    ],
}


@pytest.mark.parametrize(("name", "change"), [(name, change) for name in WRONG for change in WRONG[name]])
def test_a_value_of_another_kind_is_an_error_that_names_the_file(experiment, name, change):
    path = experiment / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=path.name):
        everything(experiment)


@pytest.mark.parametrize(
    "change",
    [
        {"generation": None},
        {"losses": "low"},
        {"losses": [[1]]},
        {"cases_used": "many"},
        {"survivors": [[1, 2]]},
        {"metrics": [0.5]},
        {"metrics": {"test": {"accuracy": "x"}}},
        {"disagreement": "often"},
    ],
)
def test_a_record_of_another_kind_is_an_error_that_names_the_line(experiment, make_generation, change):
    path = experiment / "lexicase" / "seed0" / "generations.jsonl"
    path.write_text(json.dumps(make_generation(1)) + "\n" + json.dumps({**make_generation(2), **change}) + "\n")
    with pytest.raises(InputError, match=r"generations\.jsonl: line 2 is damaged"):
        history(path.parent)


def test_a_pipe_in_place_of_a_file_is_an_error_and_does_not_block(experiment):
    path = experiment / "lexicase" / "seed0" / "generations.jsonl"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="not a regular file"):
        history(path.parent)


def test_a_missing_result_is_a_run_under_way(experiment):
    (experiment / "lexicase" / "seed0" / "result.json").unlink()
    assert "Under way: lexicase" in summary(experiment)


def test_missing_records_leave_the_numbers_whole(experiment):
    for path in experiment.rglob("generations.jsonl"):
        path.unlink()
    assert "-2.05" in summary(experiment)
    assert "<svg" in write_experiment_page(experiment).read_text()


def test_records_of_an_own_loop_may_hold_less(tmp_path, make_experiment):
    folder = make_experiment(tmp_path / "own", {"sgd": [0.6, 0.61], "lexicase": [0.62, 0.6]})
    for path in folder.glob("*/*/generations.jsonl"):
        size = 1 if path.parent.parent.name == "sgd" else 4
        lines = [
            {
                "generation": number,
                "lr": None,
                "chosen": 0,
                "reason": "all_failed" if size > 1 else "only_candidate",
                "cases_used": 2 if size > 1 else 0,
                "cases_evaluated": 8,
                "disagreement": None,
                "samples": 100,
                "critical_path": 25,
                "train_seconds": 0.1,
                "select_seconds": 0.1,
            }
            for number in range(1, 4)
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        (path.parent / "run.json").write_text(json.dumps({"method": path.parent.parent.name, "seed": 0, "epochs": 3}))
    assert "all failed" in summary(folder)
    assert "cases used" in write_experiment_page(folder).read_text()
    assert "cases used" in write_run_page(folder / "lexicase" / "seed0").read_text()
    assert "Finished after three generations" in summary(folder / "lexicase" / "seed0")
