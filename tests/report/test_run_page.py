"""The page of one run: what it says, what it says was not recorded, and that everything in it is text."""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import gradlex
from gradlex.cli import COMMANDS, main
from gradlex.cli._arguments import parse
from gradlex.cli._train import Train
from gradlex.report import write_run_page
from gradlex.report._decisions import decisions, decisive
from gradlex.report._run_words import train_command
from gradlex.runs import stored_run
from gradlex.tasks import Measure

_spec = importlib.util.spec_from_file_location("pages", Path(__file__).with_name("pages.py"))
pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pages)

HOSTILE = "<script>alert(1)</script> | & _x_ \x1b[31m"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return pages.train(tmp_path_factory.mktemp("run") / "digits")


@pytest.fixture
def run(original, tmp_path):
    """A copy of the run that a test may change."""
    return Path(shutil.copytree(original, tmp_path / "digits"))


def written(path):
    return pages.read(write_run_page(path).read_text(encoding="utf-8"))


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_page_answers_first_and_has_every_part(run):
    text, tags = written(run)
    accuracy = stored_run(run).result["metrics"]["test"]["accuracy"]
    assert text.index(f"{100 * accuracy:.2f} %") < text.index("Finished: all 6 generations done.")
    for part in (
        "Test accuracy", "Training loss of each candidate", "Learning rate", "Cases used, and why selection ended",
        "Who was eliminated by which case", "The decisive cases", "Hardest training samples", "Worst test errors",
        "Confusion matrix", "Which candidate became the parent", "Make it again",
    ):  # fmt: skip
        assert part in text, part
    images = [attributes["src"] for tag, attributes in tags if tag == "img"]
    assert len(images) > 20
    assert all(image.startswith("data:image/png;base64,") for image in images)
    assert (run / "report.html").stat().st_size < 1_000_000


def test_a_page_can_reach_nothing_outside_of_it(run):
    _, tags = written(run)
    addresses = [a[name] for _, a in tags for name in ("src", "href") if name in a]
    assert [a for a in addresses if not a.startswith(("data:", "#"))] == []
    (policy,) = (a["content"] for tag, a in tags if tag == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none';")
    assert "script-src 'sha256-" in policy


def test_the_decisive_cases_are_those_of_the_records(run):
    records = stored_run(run).generations
    found = decisions(records)
    for record, decision in zip(records, found, strict=True):
        gone = [candidate for step in decision.steps for candidate in step.eliminated]
        assert sorted([*gone, *decision.left]) == list(range(len(record.losses)))
        assert record.selected in decision.left
        ended = [step.case for step in decision.steps if not step.eliminated]
        assert len(ended) == (record.reason == "all_failed")
    most = decisive(found)
    assert sum(each.eliminated for each in most) == sum(4 - len(each.left) for each in found)
    text, _ = written(run)
    first = next(each for each in most if each.eliminated)
    assert f"#{first.case}" in text


def test_the_confusion_matrix_counts_every_test_sample(run):
    _, tags = written(run)
    cells = [a for tag, a in tags if tag == "td" and a.get("class") in ("right", "wrong")]
    assert len(cells) == 100
    found = gradlex.runs.stored_predictions(run, stored_run(run).result)["test"]
    accuracy = stored_run(run).result["metrics"]["test"]["accuracy"]
    assert np.isclose((found.predicted == found.targets).mean(), accuracy)


def test_a_run_of_an_older_gradlex_says_what_was_not_recorded(run):
    (run / "predictions.safetensors").unlink()
    lines = [json.loads(line) for line in (run / "generations.jsonl").read_text().splitlines()]
    for line in lines:
        del line["deciding"]
    (run / "generations.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    text, _ = written(run)
    assert "Which cases decided was not recorded: the run is from an older gradlex." in text
    assert "predicts for single samples was not recorded" in text


def test_a_page_without_the_data_shows_numbers_and_says_why(run, tmp_path):
    edit(run / "recipe.json", lambda content: content["recipe"].update(dataset=str(tmp_path / "gone.npz")))
    text, tags = written(run)
    assert "The data could not be read again" in text
    assert "gone.npz" in text
    assert [tag for tag, _ in tags if tag == "img"] == []
    assert "Confusion matrix" in text


def test_changed_data_is_not_shown(run):
    edit(run / "recipe.json", lambda content: content["data"].update(fingerprint="0" * 64))
    text, tags = written(run)
    assert "digits has changed since the run was trained on it" in text
    assert [tag for tag, _ in tags if tag == "img"] == []


def test_an_unfinished_run_has_a_page_that_says_how_to_continue(run):
    for name in ("result.json", "model.safetensors", "predictions.safetensors"):
        (run / name).unlink()
    lines = (run / "generations.jsonl").read_text().splitlines(keepends=True)
    (run / "generations.jsonl").write_text("".join(lines[:4]))
    text, _ = written(run)
    assert "Not finished: 4 of 6 generations done." in text
    assert f"gradlex resume {shlex.quote(str(run))}" in text
    (run / "generations.jsonl").write_text("")
    (run / "evaluations.jsonl").write_text("")
    assert "no metric yet" in written(run)[0]


def test_hostile_names_are_text(run, tmp_path):
    def change(content):
        content["recipe"]["dataset"] = content["recipe"]["model"] = HOSTILE
        content["data"]["class_names"] = [f"{HOSTILE}{number}" for number in range(10)]

    edit(run / "recipe.json", change)
    edit(run / "result.json", lambda content: content.update(stopped=HOSTILE))
    hostile = run.rename(tmp_path / "<b>&|_run_")
    page = write_run_page(hostile).read_text(encoding="utf-8")
    text, tags = pages.read(page)
    assert "<script>alert(1)</script> | & _x_ \\x1b[31m" in text
    assert "\x1b" not in page
    scripts = [attributes for tag, attributes in tags if tag == "script"]
    assert [a for a in scripts if a.get("type") != "application/json"] == [{}]
    assert "<script>alert" not in page


def test_the_command_on_a_page_gives_the_recipe_again(run):
    recipe = stored_run(run).recipe
    words = shlex.split(train_command(recipe))
    assert parse(Train, "gradlex train", words[2:]).recipe == recipe
    odd = gradlex.Recipe(
        dataset="a b.npz", selection="epsilon-lexicase", selection_options={"epsilon": 0.5}, vary={"lr": [0.5, 2.0]},
        compile=True, ema=0.9, promotion="average",
    )  # fmt: skip
    words = shlex.split(train_command(odd))
    assert parse(Train, "gradlex train", words[2:]).recipe == odd


class Distance:
    """A task that is no classification: lower is better."""

    measures = (Measure(name="distance <b>", higher_is_better=False),)
    graded = True

    def check(self, inputs, targets, outputs):
        pass

    def loss(self, outputs, targets):
        return (outputs[:, 0] - targets).square().mean()

    def errors(self, outputs, targets):
        return (outputs[:, 0] - targets).abs()

    def metrics(self, batches):
        return {"distance <b>": torch.cat([self.errors(*batch) for batch in batches]).mean().item()}


def test_a_run_of_another_task_has_a_page(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(60, 5)
    data = (x, x.sum(dim=1))
    recipe = gradlex.Recipe(generations=3, batch_size=8, lr=0.01, threads=1)
    net = torch.nn.Linear(5, 1)
    gradlex.train(net, data, recipe, test=data, task=Distance(), out=tmp_path / "run", progress=False)
    text, _ = written(tmp_path / "run")
    assert "test distance <b> (lower is better)" in text
    assert "Hardest training samples" in text
    assert "The run was started from Python with data of its own" in text
    assert "Confusion matrix" not in text
    assert "accuracy" not in text


@pytest.mark.parametrize("promotion", ["average", "expected"])
def test_a_mean_of_candidates_shows_its_shares(tmp_path, promotion):
    folder = pages.train(tmp_path / "run", "--promotion", promotion, "--generations", "2")
    text, _ = written(folder)
    assert "Entropy of the candidates' shares" in text
    assert "Each candidate's share of the parent" in text
    assert "The parent is a mean of the candidates, so no single case decided." in text


def test_sgd_has_a_page_without_selection(tmp_path):
    text, _ = written(pages.train(tmp_path / "run", "--selection", "sgd", "--generations", "2"))
    assert "plain SGD, and nothing to select" in text


def test_held_out_cases_are_shown_by_their_numbers_in_the_data(tmp_path):
    folder = pages.train(tmp_path / "run", "--cases", "held-out", "--held-out", "0.3")
    text, _ = written(folder)
    held = gradlex.runs.case_samples(stored_run(folder).recipe, 200)
    most = decisive(decisions(stored_run(folder).generations))[0]
    assert f"#{held[most.case]} " in text


def test_the_command_writes_the_page_of_a_run_and_opens_it(run, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    main(["report", str(run), "--open"])
    assert opened == [(run / "report.html").resolve().as_uri()]
    assert f"page: {run / 'report.html'}" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["report", str(run), "--page", str(run.parent / "RESULTS.md")])
    assert caught.value.code == 2
    assert {"report", "show", "runs"} <= set(COMMANDS)
