"""What a stored run names is not imported to report it: a stranger's results run no code."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest

from gradlex.cli import main

_spec = importlib.util.spec_from_file_location("pages", Path(__file__).with_name("pages.py"))
pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pages)

NAMES = {
    "model": "strange:net",
    "task": "strange:Task",
    "selection": "strange:select",
    "schedule": "strange:rate",
    "augment": "strange:shift",
    "parameter_groups": "strange:groups",
}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    run = pages.train(tmp_path_factory.mktemp("run") / "digits")
    path = run / "recipe.json"
    stored = json.loads(path.read_text())
    fields = stored.get("recipe", stored)
    assert set(NAMES) <= set(fields)
    fields.update(NAMES)
    path.write_text(json.dumps(stored))
    return run


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """The current folder has the module that the runs name; it says so where it is imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "strange.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    yield tmp_path
    sys.modules.pop("strange", None)


@pytest.mark.parametrize("finished", [True, False])
def test_a_run_is_reported_shown_and_listed_without_its_modules(stranger, original, finished, capsys):
    run = Path(shutil.copytree(original, stranger / "runs" / "digits"))
    if not finished:
        (run / "result.json").unlink()
    for words in (["report", run], ["show", run], ["runs", stranger / "runs"]):
        main([str(word) for word in words])
    assert "strange:select" in capsys.readouterr().out
    assert (run / "report.html").exists()
    assert not (stranger / "imported").exists()


def test_experiments_are_reported_without_the_modules_of_their_runs(stranger, experiment, capsys):
    plan = experiment("compare", {"sgd": [60.0, 61.5], "lexicase": [62.0, 62.5]}, model="strange:net")
    main(["report", str(plan.root), "--page", "RESULTS.md"])
    assert "strange:net" in (stranger / "RESULTS.md").read_text()
    assert not (stranger / "imported").exists()


def test_the_module_says_when_it_is_imported(stranger, original):
    with pytest.raises(SystemExit):
        main(["evaluate", str(original)])
    assert (stranger / "imported").exists()
