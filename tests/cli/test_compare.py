from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import gradlex as library

Command = Any
LOOP = """
import numpy as np
import torch

x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
y = (x[:, 0] > 0).long()

def experiment(method, seed):
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    population = method.population(model, optimizer)
    for epoch in range(method.epochs):
        for candidate in population.candidates(40):
            for batch in torch.from_numpy(candidate.indices).split(5):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
                optimizer.step()
        population.select(lambda cases: model(x[cases]).argmax(dim=1) != y[cases], 40)
    return float((model(x[40:]).argmax(dim=1) == y[40:]).float().mean())
"""
OWN = ("--experiment", "loop:experiment", "--epochs", "1", "--backend", "serial", "--methods", "sgd", "lexicase")


@pytest.fixture
def loop(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)


@pytest.mark.usefixtures("loop")
def test_an_own_loop_is_compared_and_finished_runs_are_kept(gradlex: Command, tmp_path: Path) -> None:
    found = gradlex("compare", *OWN, "--seeds", "4", "7")
    assert found.code == 0, found.err
    assert found.err.count("of 4") == 4
    assert re.search(r"lexicase \d+\.\d%, SGD \d+\.\d%", found.out)
    folder = tmp_path / "runs" / "compare-experiment"
    assert sorted(path.parent.name for path in folder.rglob("result.json")) == ["seed4", "seed4", "seed7", "seed7"]
    again = gradlex("compare", *OWN, "--seeds", "4", "7")
    assert (again.code, again.out) == (0, found.out)
    assert again.err == "All 4 runs are finished: nothing was trained.\n"


@pytest.mark.usefixtures("loop")
def test_num_seeds_counts_from_zero(gradlex: Command, tmp_path: Path) -> None:
    assert gradlex("compare", *OWN, "--num-seeds", "2", "--out", "mine").code == 0
    assert json.loads((tmp_path / "mine" / "experiment.json").read_text())["seeds"] == [0, 1]


@pytest.mark.usefixtures("loop")
def test_commands_are_printed_one_a_run_and_each_does_its_run(gradlex: Command, tmp_path: Path) -> None:
    listed = gradlex("compare", *OWN, "--seeds", "0", "1", "--out", "mine", "--commands").out.splitlines()
    assert len(listed) == 4
    program, *words = shlex.split(listed[0])
    assert program == "gradlex"
    found = gradlex(*words, "--backend", "serial")
    assert found.code == 0, found.err
    assert len(list((tmp_path / "mine").rglob("result.json"))) == 1
    rest = gradlex("compare", *OWN, "--seeds", "0", "1", "--out", "mine", "--commands").out.splitlines()
    assert rest == listed[1:]


@pytest.mark.usefixtures("loop")
def test_a_run_that_fails_ends_with_code_1_and_is_named(gradlex: Command, tmp_path: Path) -> None:
    text = (tmp_path / "loop.py").read_text()
    (tmp_path / "broken.py").write_text(text.replace("    return", "    assert seed != 1, 'out of luck'\n    return"))
    words = ("compare", "--experiment", "broken:experiment", *OWN[2:], "--num-seeds", "2")
    found = gradlex(*words)
    assert found.code == 1
    assert "2 runs failed" in found.err
    assert "out of luck" in found.out


def test_the_trainer_is_compared_on_a_dataset_by_name(gradlex: Command, tmp_path: Path) -> None:
    data = ("--train-size", "60", "--model", "mlp", "--epochs", "1", "--population", "2", "--seeds", "0")
    found = gradlex("compare", *data, "--methods", "sgd", "lexicase", "--backend", "serial", "--title", "mine")
    assert found.code == 0, found.err
    assert "One seed cannot decide" in found.out
    assert max(map(len, found.out.partition("\n\n")[2].splitlines())) <= 80
    folder = tmp_path / "runs" / "compare-digits"
    epochs = {
        path.parent.parent.name: json.loads(path.read_text())["recipe"]["epochs"] for path in folder.rglob("run.json")
    }
    assert epochs == {"sgd": 1, "lexicase": 3}
    report = gradlex("report", str(folder))
    assert report.code == 0
    assert report.out.startswith("mine\n")


def test_recipe_fields_do_not_fit_an_own_loop(gradlex: Command, tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    found = gradlex("compare", *OWN, "--lr", "0.5")
    assert found.code == 2
    assert "takes no data, recipe" in found.err


@pytest.mark.slow
def test_the_papers_table_is_printed_beside_the_published_one(gradlex: Command) -> None:
    found = gradlex("paper", "table2", "--backend", "serial")
    assert found.code == 0, found.err
    assert "published" in found.out
    assert "93.4" in found.out


def test_the_papers_runs_are_listed_as_commands(gradlex: Command, tmp_path: Path) -> None:
    found = gradlex("paper", "table2", "--commands")
    assert found.code == 0, found.err
    assert len(found.out.splitlines()) == 4
    assert all(line.startswith("gradlex compare ") for line in found.out.splitlines())
    assert not list(tmp_path.rglob("run.json"))


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("models", library.models.MODELS),
        ("data", library.data.DATASETS),
        ("selections", library.selection.SELECTIONS),
        ("methods", library.experiments.METHODS),
    ],
)
def test_everything_with_a_name_is_listed(gradlex: Command, what: str, names: Any) -> None:
    found = gradlex("list", what)
    first = [line.split()[0] for line in found.out.splitlines() if line.strip()]
    assert set(names) <= set(first)
    assert max(map(len, found.out.splitlines())) <= 80
