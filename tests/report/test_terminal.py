"""A run, and a folder of runs, in a terminal."""

from __future__ import annotations

import json
import os
import re

import pytest
from filelock import FileLock

from gradlex.cli import main
from gradlex.report import list_runs, show_run, sparkline
from gradlex.runs import stored_run

HOSTILE = "<b> | & _x_ \x1b[31m"


@pytest.fixture
def runs(experiment):
    """Three finished runs and one unfinished, none of which was computed."""
    plan = experiment(
        "compare", {"sgd": [68.0], "lexicase": [70.0], "random": [69.0]}, unfinished=["random-seed7"]
    )
    return plan.root / "runs"


def test_a_sparkline_goes_from_the_lowest_to_the_highest():
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([3.0, None, 3.0]) == "▁ ▁"
    assert sparkline([]) == ""
    assert len(sparkline(list(range(1000)), width=40)) == 40
    assert sparkline([0, 1], blocks="ab") == "ab"


def test_a_summary_fits_80_columns(runs):
    for path in sorted(runs.iterdir()):
        lines = show_run(path).removesuffix(f"page: gradlex report {path} --open").splitlines()
        assert max(map(len, lines)) <= 80
    shown = show_run(runs / "compare-lexicase-seed0")
    assert "accuracy 70.00 %" in shown
    assert re.search(r"^test accuracy +▁.*█ +4[\d.]+ % to 70.00 %$", shown, re.MULTILINE)
    assert "█" not in show_run(runs / "compare-lexicase-seed0", blocks=False)
    assert "Not finished: 120 of 200 generations done." in show_run(runs / "compare-random-seed7")


def test_runs_are_listed_with_state_metric_and_age(runs, capsys):
    main(["runs", str(runs)])
    printed = capsys.readouterr().out
    for words in ("accuracy 70.00 %", "200/200", "finished", "120/200", "interrupted", "4 runs in"):
        assert words in printed


def test_runs_are_sorted(runs):
    best = [line.path.name for line in list_runs(runs, sort="metric")]
    assert best[:3] == ["compare-lexicase-seed0", "compare-random-seed0", "compare-sgd-seed0"]
    for age, path in enumerate(sorted(runs.iterdir())):
        for file in path.iterdir():
            os.utime(file, (1e9 - age, 1e9 - age))
    names = sorted(path.name for path in runs.iterdir())
    assert [line.path.name for line in list_runs(runs, sort="age")] == names
    assert [line.path.name for line in list_runs(runs, sort="name")] == names
    assert list_runs(runs, sort="state")[-1].state == "interrupted"


def test_a_run_that_a_process_holds_is_running_and_a_broken_one_damaged(runs):
    (runs / "compare-sgd-seed0" / "generations.jsonl").write_text("{")
    (runs / "compare-random-seed7" / ".lock").touch()
    assert {line.path.name: line.state for line in list_runs(runs)}["compare-random-seed7"] == "interrupted"
    with FileLock(runs / "compare-random-seed7" / ".lock"):
        states = {line.path.name: line.state for line in list_runs(runs)}
    assert states["compare-random-seed7"] == "running"
    assert states["compare-sgd-seed0"] == "damaged"


def test_hostile_names_cannot_drive_the_terminal(runs, capsys):
    path = runs / "compare-lexicase-seed0"
    content = json.loads((path / "recipe.json").read_text())
    content["recipe"]["dataset"] = content["recipe"]["model"] = HOSTILE
    (path / "recipe.json").write_text(json.dumps(content))
    hostile = path.rename(runs / f"run {HOSTILE}")
    assert stored_run(hostile).recipe.dataset == HOSTILE
    main(["show", str(hostile)])
    main(["runs", str(runs)])
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "<b> | & _x_ \\x1b[31m" in printed


def test_no_folder_and_no_run_are_refused(tmp_path, capsys):
    for words in (["runs", str(tmp_path / "none")], ["show", str(tmp_path)], ["report", str(tmp_path)]):
        with pytest.raises(SystemExit) as caught:
            main(words)
        assert caught.value.code == 2
        assert str(tmp_path) in capsys.readouterr().err
    main(["runs", str(tmp_path)])
    assert "0 runs" in capsys.readouterr().out
