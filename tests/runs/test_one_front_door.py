"""Each decision of a run is made once, and the command and the library start it the same way."""

from __future__ import annotations

import functools
import sys
from collections import Counter

import pytest

import gradlex
from gradlex.data import _load
from gradlex.runs import Given, Named, _launch, _probe, _problem, _resolve, _start, _train

ONCE = (
    _start.start,
    _problem.make_problem,
    _resolve.resolve_method,
    _resolve.resolve,
    _probe.probe,
    _launch.choose_processes,
    _launch.members,
)


@pytest.fixture
def calls(monkeypatch):
    """How often each of these was called since, whatever module it is called from."""
    counts = Counter()

    def counting(function, name):
        @functools.wraps(function)
        def call(*arguments, **keywords):
            counts[name] += 1
            return function(*arguments, **keywords)

        return call

    assert _train.start is _start.start
    for package in (gradlex.runs, gradlex.data):  # lazy names, which would keep a wrapper beyond this test
        for name in package.__all__:
            getattr(package, name)
    for function in (*ONCE, _load.load):
        wrapper = counting(function, function.__name__)
        for module in [module for name, module in sys.modules.items() if name.startswith("gradlex.")]:
            for name, value in list(vars(module).items()):
                if value is function:
                    monkeypatch.setattr(module, name, wrapper)
    for source in (Given, Named):
        monkeypatch.setattr(source, "load", counting(source.load, "Source.load"))
    return counts


def test_the_library_makes_each_decision_once(calls, images, tiny_cnn, small, tmp_path):
    gradlex.train(tiny_cnn(), images, small, test=images, out=tmp_path / "run")
    assert calls == {"Source.load": 1, **{function.__name__: 1 for function in ONCE}}


def test_resuming_makes_each_decision_once_too(calls, images, tiny_cnn, small, tmp_path):
    recipe = small.replace(schedule="constant")
    gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run")
    calls.clear()
    longer = recipe.replace(generations=3)
    gradlex.train(tiny_cnn(), images, longer, out=tmp_path / "run", resume=True)
    assert calls == {"Source.load": 1, **{function.__name__: 1 for function in ONCE}}


@pytest.mark.parametrize("command", ["train", "resume"])
def test_the_command_makes_each_decision_once(command, calls, quick, tmp_path, capsys):
    from gradlex.cli import main

    main([*quick, "--out", str(tmp_path / "run")])
    if command == "resume":
        (tmp_path / "run" / "result.json").unlink()
        calls.clear()
        main(["resume", str(tmp_path / "run"), "--workers", "1"])
    assert calls == {"Source.load": 1, "load": 1, **{function.__name__: 1 for function in ONCE}}
    assert capsys.readouterr().err == ""
