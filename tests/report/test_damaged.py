"""Results that were edited or broken are refused with an InputError; no other exception gets out."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gradlex.errors import InputError
from gradlex.experiments import stored_plans
from gradlex.report import gather, results_page, text_report
from gradlex.report._pairs import decisions
from gradlex.report._plots import answers, curves, finals

FILES = (
    "compare.json",
    "recipe.json",
    "result.json",
    "environment.json",
    "generations.jsonl",
    "evaluations.jsonl",
)

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 10**30, 10**400, 1e308, 1e-320, float("nan"), float("inf"), -float("inf")]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["", "12", "sgd", "lexicase", "table2", "\x00", "\udce9", "../..", "'"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


QUIET = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.generate],  # to shrink what fails would take minutes
}

# The machine is only mentioned, and evaluations are only drawn.
STILL_WHOLE = {("environment.json", b"{}"), ("evaluations.jsonl", b"")}


def places(value, path=()):
    """The path of every value inside a JSON value."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield from places(each, (*path, key))


def mutated(draw, content):
    """The content with one value replaced, removed or added."""
    content = copy.deepcopy(content)
    place = draw(st.sampled_from(list(places(content))))
    if not place:
        return draw(VALUES)
    holder = content
    for key in place[:-1]:
        holder = holder[key]
    action = draw(st.sampled_from(["replace", "replace", "replace", "remove", "add"]))
    if action == "remove":
        del holder[place[-1]]
    elif action == "add" and isinstance(holder, dict):
        holder[draw(st.text(max_size=5))] = draw(VALUES)
    else:
        holder[place[-1]] = draw(VALUES)
    return content


def report(root: Path, *, drawn: bool = True) -> None:
    """All that a report is made of, but for writing files."""
    for plan in stored_plans(root):
        text_report(plan).encode("utf-8")
        evidence = gather(plan)
        if evidence.arms and drawn:
            curves(evidence)
            finals(evidence)
            if plan.pairs:
                answers([(str(setting), decisions(evidence, setting)) for setting in evidence.settings])
    results_page(root, root.parent / "RESULTS.md").encode("utf-8")


@pytest.fixture
def results(experiment):
    accuracies = {"sgd": [60.0, 61.5], "sgd-matched": [64.0, 66.5], "lexicase": [62.0, 62.5]}
    plan = replace(
        experiment("compare", accuracies, epochs=2), pairs=(("lexicase", "sgd"),), title="Does it help?"
    )
    plan.save()
    return plan.root


def test_what_is_whole_is_reported(results):
    report(results)


@pytest.mark.parametrize("inputs", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_edited_json_is_reported_or_refused(inputs, results):
    counts = {"reported": 0, "refused": 0}

    @settings(max_examples=inputs, **QUIET)
    @given(data=st.data())
    def check(data):
        name = data.draw(st.sampled_from(FILES))
        folders = sorted((results / "runs").iterdir())
        path = results / name if name == "compare.json" else data.draw(st.sampled_from(folders)) / name
        before = path.read_bytes()
        if name.endswith(".jsonl"):
            lines = before.decode().splitlines()
            number = data.draw(st.integers(0, len(lines) - 1))
            lines[number] = json.dumps(mutated(data.draw, json.loads(lines[number])))
            after = "\n".join(lines) + "\n"
        else:
            after = json.dumps(mutated(data.draw, json.loads(before)))
        try:
            path.write_text(after, encoding="utf-8")
            # Only what plots show is drawn: it takes long.
            report(results, drawn=name in ("result.json", "evaluations.jsonl"))
            counts["reported"] += 1
        except InputError:
            counts["refused"] += 1
        finally:
            path.write_bytes(before)

    check()
    print(f"\nresults: {counts}")
    assert counts["reported"] >= inputs // 10
    assert counts["refused"] >= inputs // 10


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"null", b"[]", b"{}"])
def test_files_that_hold_something_else_are_reported_or_refused(results, name, content):
    path = results / name if name == "compare.json" else sorted((results / "runs").iterdir())[0] / name
    path.write_bytes(content)
    if (name, content) in STILL_WHOLE:
        report(results)
    else:
        with pytest.raises(InputError):
            report(results)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("result.json", {"samples_trained": "many"}, "its samples_trained is"),
        ("result.json", {"seconds": -1}, "seconds must be a number of at least 0"),
        ("compare.json", {"command": ["gradlex"]}, "command must be text"),
        ("compare.json", {"scale": 3}, "scale must be text"),
    ],
)
def test_the_refusal_names_the_file_and_what_is_allowed(results, name, change, words):
    path = results / name if name == "compare.json" else sorted((results / "runs").iterdir())[0] / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=words) as refused:
        report(results)
    assert str(path.parent if name == "result.json" else path) in str(refused.value)
