"""Whatever one asks for, and whatever a run folder holds, runs or is refused with a clear message, exit code 2."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import warnings

import pytest
import torch
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from torch import nn

import gradlex
from gradlex import InputError, Recipe, RunError
from gradlex.selection import SELECTIONS

NUMBERS = st.one_of(
    st.integers(-3, 12),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.1, 0.5, 0.9, 1.0, 1e-30, 1e30, 1e300, 10**18, 2**31, 2**63, 10**400, -1, 0]),
)
WORDS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6),
    st.sampled_from(
        ["none", "auto", "None", "nan", "inf", "true", "-", "--", "=", "../..", "[1]", "{}", "a:b"]
    ),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, WORDS),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
OPTIONS = st.dictionaries(
    st.sampled_from(
        ["momentum", "nesterov", "dampening", "betas", "eps", "foreach", "fused", "amsgrad", "lr", "x"]
    ),
    JSON,
    max_size=2,
)


def mostly(*good):
    """A value that fits, more often than anything."""
    return st.integers(0, 11).flatmap(lambda n: st.sampled_from(good) if n else NUMBERS | WORDS)


FIELDS = {
    "selection": mostly(*SELECTIONS),
    "population": mostly(1, 2, 3, 4),
    "momentum": mostly("none", "reset", "inherit"),
    "optimizer": mostly(
        "sgd", "adamw", "adam", "rmsprop", "adagrad", "nadam", "rprop", "asgd", "muon", "adafactor"
    ),
    "optimizer_options": st.just({}) | st.just({}) | OPTIONS,
    "lr": mostly(0.1, 0.01),
    "schedule": mostly("cosine", "constant"),
    "weight_decay": mostly(0, 1e-4),
    "batch_size": mostly(1, 7, 16, 100),
    "augment": mostly("none", "flip", "crop1", "crop2,flip", "crop999", "crop99999999999"),
    "promotion": mostly("winner", "average", "expected", "survivors"),
    "promotion_cases": mostly(1, 5),
    "task_options": st.fixed_dictionaries({}, optional={"case_error": mostly("correct", "loss")}),
    "recalibrate": mostly(0, 2),
    "recalibrate_final": mostly(0, 2),
    "outer_lr": mostly(0.5, 1),
    "outer_momentum": mostly(0, 0.9),
    "outer_nesterov": st.booleans(),
    "ema": mostly(0.5, 0.99),
    "seed": mostly(0, 1, 10**30),
    "threads": mostly(1, "auto"),
    "precision": mostly("auto", "float32", "bfloat16"),
    "deterministic": st.booleans(),
    "init_from": st.none() | WORDS,
}
OF_METHODS = {
    "on_all_fail": mostly("random", "survive"),
    "tournament_size": mostly(1, 2),
    "epsilon": mostly(0, 0.5),
    "epsilon_mode": mostly("static", "semi-dynamic", "dynamic"),
    "case_batch": mostly(1, 5, 1000),
    "share": mostly(0.1, 1),
    "refresh": mostly(1, 3),
    "sigma": mostly(0, 20, 200),
    "alpha": mostly(0, 1, 2.5),
    "depth": mostly(1, 5),
}
OF_NAMES = {
    "dataset": mostly("digits", "nothing.npz", "."),
    "model": mostly("mlp", "small-cnn", "resnet20", "os:getcwd"),
    "width": mostly(0.05, 0.1, 1e-9),
    "train_size": mostly(40, 60),
    "test_fraction": mostly(0.2, 0.5),
    "image_size": mostly(8),
}
HOW = {
    "workers": mostly(1),
    "device": mostly("auto", "cpu", "cuda:99", "meta"),
    "evaluate-every": mostly(1, 2),
    "checkpoint-every": mostly(1, 2),
    "placement": mostly("resident", "offload"),
}


def chosen(known):
    """Some of the known fields, and a method, mostly with options that it takes."""
    plain = st.lists(st.sampled_from(sorted(known)), max_size=5, unique=True)
    fields = plain.flatmap(lambda names: st.fixed_dictionaries({name: known[name] for name in names}))
    methods = st.sampled_from(sorted(SELECTIONS)).flatmap(
        lambda name: st.fixed_dictionaries(
            {
                "selection": st.just(name),
                "selection_options": st.fixed_dictionaries(
                    {}, optional={option: OF_METHODS[option] for option in SELECTIONS[name].options}
                ),
            }
        )
    )
    strange = st.sampled_from(sorted(OF_METHODS)).flatmap(
        lambda name: st.fixed_dictionaries({name: OF_METHODS[name]})
    )
    other = st.integers(0, 5).flatmap(
        lambda n: st.just({}) if n else st.builds(lambda options: {"selection_options": options}, strange)
    )
    return st.tuples(fields, methods, other).map(lambda parts: {**parts[0], **parts[1], **parts[2]})


MANY = 10_000
QUIET = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": list(HealthCheck),
    "database": None,
    "phases": [
        Phase.explicit,
        Phase.generate,
    ],  # to shrink what fails would take minutes; it is small already
}
DIVERGED = re.compile(r"every candidate of generation \d+ diverged|the outer step after generation \d+ made")


def runs_or_is_refused(fields, images, counts):
    try:
        recipe = Recipe.from_dict({"generations": 1, "population": 2, **fields})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, of unusual settings
            gradlex.train(net(), images, recipe, test=images)
        counts["ran"] += 1
    except InputError as error:
        counts["refused"] += len(str(error)) > 15
    except RunError as error:
        if not DIVERGED.search(str(error)):
            raise
        counts["diverged"] += 1


def net():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(2, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))


@pytest.mark.parametrize("inputs", [300, pytest.param(MANY, marks=pytest.mark.slow)])
def test_a_recipe_runs_or_is_refused(inputs, images):
    counts = dict.fromkeys(("ran", "refused", "diverged"), 0)

    @settings(max_examples=inputs, **QUIET)
    @given(fields=chosen(FIELDS))
    @example(fields={"lr": 10**400})
    @example(fields={"lr": 1e300})
    @example(fields={"weight_decay": 1e300})
    @example(fields={"threads": 10**9})
    @example(fields={"optimizer_options": {"nesterov": {"a": [1]}}})
    def check(fields):
        runs_or_is_refused(fields, images, counts)

    check()
    print(f"\nrecipes: {counts}")
    assert counts["ran"] >= inputs // 6
    assert counts["refused"] >= inputs // 5


def as_words(fields, how):
    words = []
    for name, value in {**fields, **how}.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words += [flag] if value else []
        elif isinstance(value, dict):
            words += [flag, *(f"{key}={json.dumps(inner)}" for key, inner in value.items())]
        else:
            words += [] if value is None else [f"{flag}={value}"]
    return words


def lines():
    """The fields of a recipe as flags, how to carry it out, and now and then words that mean nothing."""
    odd = st.integers(0, 9).flatmap(lambda n: st.just([]) if n else st.lists(WORDS, max_size=2))
    return st.tuples(chosen({**FIELDS, **OF_NAMES}), st.fixed_dictionaries({}, optional=HOW), odd)


BASE = (
    "train",
    "--model",
    "mlp",
    "--width",
    "0.05",
    "--train-size",
    "60",
    "--generations",
    "1",
    "--workers",
    "1",
)


@pytest.mark.parametrize("inputs", [300, pytest.param(MANY, marks=pytest.mark.slow)])
def test_a_command_line_runs_or_is_refused(inputs, forks, tmp_path):
    counts = {0: 0, 1: 0, 2: 0}

    @settings(max_examples=inputs, **QUIET)
    @given(line=lines())
    @example(line=({}, {"workers": 10**6}, []))
    @example(line=({"width": 1e9}, {}, []))
    @example(line=({"selection": "tournament", "selection_options": {"tournament_size": "m"}}, {}, []))
    def check(line):
        fields, how, odd = line
        words = [*as_words(fields, how), *odd]
        out = tmp_path / str(sum(counts.values()))
        child = forks.start(*BASE, *words, "--out", out, cwd=tmp_path, seconds=100)
        code = child.wait()
        assert code in counts, (code, words, child.err[-500:])
        counts[code] += 1
        assert "Traceback" not in child.err, words
        if code == 2:
            assert len(child.err) > 15, words
            assert not out.exists(), words
        elif code == 1:
            assert DIVERGED.search(child.err), (words, child.err)
        elif "--help" not in words and "-h" not in words:
            assert (out / "result.json").exists(), words

    check()
    print(f"\ncommand lines by exit code: {counts}")
    assert counts[0] >= inputs // 6
    assert counts[2] >= inputs // 5


@pytest.fixture(scope="module")
def folders(forks, train, fault, kept, tmp_path_factory):
    """A finished run with a moving average, and one that died in its fourth generation, with one checkpoint."""
    root = tmp_path_factory.mktemp("folders")
    command = (*train, "--ema", 0.5, "--out")
    forks.run(*command, root / "whole")
    forks.start(*command, root / "cut", faults=[fault(root / "cut", "train", 10)]).wait()
    (older,) = (root / "cut" / "checkpoint").glob("00000002-*")
    older.unlink()
    assert kept(root / "cut") == [3]
    return root


def places(content, above=()):
    """The keys that lead to every value of a JSON document, itself among them."""
    yield above
    inner = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else ()
    )
    for key, value in inner:
        yield from places(value, (*above, key))


def changed(content, place, value):
    """The document with another value at a place; without what is there where the value is ABSENT."""
    if not place:
        return None if value is ABSENT else value
    owner = content
    for key in place[:-1]:
        owner = owner[key]
    if value is ABSENT:
        del owner[place[-1]]
    else:
        owner[place[-1]] = value
    return content


ABSENT = object()
DOCUMENTS = (
    "recipe.json",
    "environment.json",
    "result.json",
    "generations.jsonl",
    "evaluations.jsonl",
    "metadata",
)


class Folder:
    """A run folder in which one JSON document is changed, with checksums that fit it."""

    def __init__(self, path, rewrite):
        self.path, self._rewrite = path, rewrite

    def change(self, document, number, value):
        """What was changed, for a message."""
        checkpoints = list((self.path / "checkpoint").iterdir())
        told = []

        def other(content):
            found = list(places(content))
            told.append(found[number % len(found)])
            return changed(content, told[0], value)

        if document == "metadata":
            self._rewrite(checkpoints[-1], lambda tensors, content: other(content))
        elif document.endswith(".jsonl"):
            path = self.path / document
            lines = path.read_text().splitlines()
            lines[number % len(lines)] = json.dumps(other(json.loads(lines[number % len(lines)])))
            path.write_text("".join(f"{line}\n" for line in lines))
            for checkpoint in checkpoints:
                self._rewrite(checkpoint, lambda tensors, content: self._resum(content["progress"], path))
        else:
            path = self.path / document
            path.write_text(json.dumps(other(json.loads(path.read_text()))))
        return f"{document} {told} {value!r}"

    def _resum(self, progress, path):
        data = path.read_bytes()
        progress["bytes"][path.name] = len(data)
        progress["sha256"][path.name] = hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("inputs", [300, pytest.param(MANY, marks=pytest.mark.slow)])
def test_a_run_folder_is_resumed_and_evaluated_or_refused(inputs, folders, rewrite, forks, tmp_path):
    counts = {0: 0, 1: 0, 2: 0}
    whole = (folders / "whole" / "model.safetensors").read_bytes()
    documents = st.sampled_from(
        [("cut", d) for d in DOCUMENTS if d != "result.json"] + [("whole", d) for d in DOCUMENTS]
    )

    @settings(max_examples=inputs, **QUIET)
    @given(document=documents, number=st.integers(0, 10**6), value=JSON | st.just(ABSENT))
    def check(document, number, value):
        name, document = document
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(folders / name, folder)
        told = Folder(folder, rewrite).change(document, number, value)
        # A checkpoint that says why the run was stopped is taken at its word.
        says_stopped = "'stopped'" in told and isinstance(value, str)
        commands = [("resume", folder, "--workers", 1)] + [("evaluate", folder)] * (name == "whole")
        for command in commands:
            child = forks.start(*command, cwd=tmp_path, seconds=100)
            code = child.wait()
            assert code in counts, (code, told, child.err[-500:])
            assert "Traceback" not in child.err, (told, child.err[-2000:])
            counts[code] += 1
            if code:
                assert child.err.startswith("gradlex: "), told
            elif document != "recipe.json" and not says_stopped:
                assert (folder / "model.safetensors").read_bytes() == whole, told

    check()
    print(f"\nrun folders by exit code: {counts}")
    assert counts[2] >= inputs // 4
    assert counts[0] >= inputs // 4
