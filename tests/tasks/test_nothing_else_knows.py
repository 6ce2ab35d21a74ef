"""Only tasks know what they measure and how outputs become answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gradlex

SOURCE = Path(gradlex.__file__).parent
ROOMS = ("engine", "population", "evolve.py", "runs/_start.py", "runs/_problem.py", "runs/_probe.py")
WORDS = re.compile(r"cross_entropy|argmax|accuracy|num_classes|\bClassification\b|\br2\b|mse_loss")


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_of_the_loop_knows_classes_or_accuracy(room):
    place = SOURCE / room
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    assert files
    found = [
        f"{file.relative_to(SOURCE)}:{number}: {line.strip()}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if WORDS.search(line)
    ]
    assert found == []
