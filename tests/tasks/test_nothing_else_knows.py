"""Only tasks know what they measure and how outputs become answers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import gradlex

SOURCE = Path(gradlex.__file__).parent
ROOMS = ("engine", "population", "evolve.py", "runs/_start.py", "runs/_problem.py", "runs/_probe.py")
WORDS = re.compile(r"cross_entropy|argmax|accuracy|num_classes|\bClassification\b|\br2\b|mse_loss")


def said(file):
    """The names and texts of a file's code; comments and docstrings say nothing to the program."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            if isinstance(value, str) and id(node) not in prose:
                yield value


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_of_the_loop_knows_classes_or_accuracy(room):
    place = SOURCE / room
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    assert files
    found = [
        (str(file.relative_to(SOURCE)), text) for file in files for text in said(file) if WORDS.search(text)
    ]
    assert found == []


MEASURES = re.compile(
    r"cross_entropy|accuracy|\bClassification\b|\br2\b|\brmse\b|mse_loss|\bmiou\b|perplexity"
)
ELSEWHERE = {
    "callbacks/_record.py": "records of gradlex 0.1.0",
    "runs/_stored_run.py": "results of gradlex 0.1.0",
    "experiments/_published.py": "the paper's numbers are accuracies",
    "report/_claims.py": "the paper's claims are about accuracies",
    "report/_paper_tables.py": "the paper's tables hold accuracies",
    "soups/_measures.py": "calibration and the worst class are measured for classifiers",
    "soups/_soup.py": "checkpoints without a task are taken for classifiers",
}


def test_no_file_outside_tasks_knows_a_metric_but_for_old_files_the_paper_and_soups():
    files = {str(file.relative_to(SOURCE)): file for file in sorted(SOURCE.rglob("*.py"))}
    assert len(files) > 100
    knowing = {
        name
        for name, file in files.items()
        if not name.startswith("tasks/") and any(MEASURES.search(text) for text in said(file))
    }
    assert knowing == set(ELSEWHERE)
