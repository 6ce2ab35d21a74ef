"""RESULTS.md: one screen that is made by one call, the same bytes every time."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from gradlex.errors import InputError

make = runpy.run_path(str(Path(__file__).parents[2] / "results" / "make.py"))["make"]


def ask(first, second, question):
    return {"pair": [first, second], "question": question}


@pytest.fixture
def page(experiment):
    def written(**more):
        path = experiment / "experiment.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **more}))
        make(experiment.parent, experiment.parent.parent / "RESULTS.md")
        return (experiment.parent.parent / "RESULTS.md").read_text()

    return written


def rows(text):
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_answer_to_the_first_question_stands_on_top(page):
    assert page().startswith("# Results\n\n**Lexicase is worse than SGD on equal samples.**\n")


def test_each_question_has_a_row(page):
    both = [
        ask("lexicase", "sgd-matched", "Is lexicase better than SGD on equal samples?"),
        ask("lexicase", "sgd", "Is lexicase better than SGD?"),
    ]
    first, second = rows(page(questions=both))
    assert first[:3] == ["Is lexicase better than SGD on equal samples?", "Small data", "**worse**"]
    assert first[3:] == ["-2.05 points (-2.33 to -1.77)", "4"]
    assert second[2] == "**better**"


def test_an_experiment_under_way_is_marked_and_does_not_stand_on_top(page, experiment, make_experiment):
    question = ask("lexicase", "sgd", "Is lexicase better than SGD on all images?")
    make_experiment(
        experiment.parent / "large",
        {"sgd": [0.9, None], "lexicase": [0.91, None]},
        pairs=[("lexicase", "sgd")],
        questions=[question],
        order=0,
    )
    text = page()
    assert text.startswith("# Results\n\n**Lexicase is worse than SGD on equal samples.**")
    assert rows(text)[0][2:] == ["under way", "-", "1 of 2"]


def test_an_experiment_that_has_not_begun_is_marked_too(page, experiment, make_experiment):
    make_experiment(
        experiment.parent / "new",
        {},
        pairs=[("lexicase", "sgd")],
        methods=["sgd", "lexicase"],
        seeds=[0, 1, 2],
        questions=[ask("lexicase", "sgd", "Is it?")],
    )
    assert ["Is it?", "Does it help?", "under way", "-", "0 of 3"] in rows(page())


def test_the_author_s_words_are_taken_in(page, experiment):
    (experiment.parent / "findings.md").write_text("**What it means.** Little.\n")
    text = page()
    assert text.index("| Is lexicase") < text.index("**What it means.** Little.") < text.index("answers.svg")


def test_experiments_stand_in_their_declared_order(page, experiment, make_experiment):
    for name, order in (("b", 3), ("a", 4), ("c", 2)):
        question = ask("lexicase", "sgd", f"Is {name} better than SGD?")
        make_experiment(
            experiment.parent / name,
            {"sgd": [0.9], "lexicase": [0.91]},
            pairs=[("lexicase", "sgd")],
            questions=[question],
            order=order,
        )
    assert [row[0].split()[1] for row in rows(page())] == ["c", "b", "a", "lexicase"]


def test_the_appendix_has_every_comparison_and_the_plots_it_shows(page, experiment):
    page(command="gradlex compare", note="Made on a Monday.")
    text = (experiment.parent / "README.md").read_text()
    assert "| lexicase minus SGD with as many samples | worse | -2.05 |" in text
    assert "| lexicase minus SGD | better | +1.03 |" in text
    for words in ("## Does it help?", "```\ngradlex compare\n```", "Made on a Monday.", "[RESULTS.md](../RESULTS.md)"):
        assert words in text
    for name in ("comparisons", "curves", "selection"):
        assert f"](small/{name}.svg)" in text
        assert (experiment / f"{name}.svg").read_text().startswith("<svg")


def test_made_again_no_byte_changes(page, experiment):
    page()
    files = [path for path in experiment.parent.parent.rglob("*") if path.suffix in (".md", ".svg")]
    before = {path: path.read_bytes() for path in files}
    page()
    assert len(before) == 6
    assert {path: path.read_bytes() for path in before} == before


def test_a_question_of_another_form_keeps_its_words(page):
    text = page(questions=[ask("lexicase", "sgd", "Does it pay?")])
    assert text.startswith("# Results\n\n**Does it pay? Better.**")


def test_a_question_about_a_comparison_that_was_not_declared_is_an_error(page):
    with pytest.raises(InputError, match="random and sgd, which is not among its pairs"):
        page(questions=[ask("random", "sgd", "Is random better than SGD?")])


def test_results_without_a_question_are_an_error(page):
    with pytest.raises(InputError, match="no experiment with a question"):
        page(questions=[])
