"""What the documentation says is true: its code and commands run, and its links lead somewhere."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import io
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image

import gradlex
from gradlex.cli import COMMANDS, find_command, main
from gradlex.cli._arguments import parse

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!`)\]\(([^)\s]+)\)")


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def blocks(path):
    """The code blocks of a page: their language, and their text with continued lines joined."""
    return [(kind, text.replace("\\\n", " ")) for kind, text in BLOCK.findall(path.read_text("utf-8"))]


def commands(text):
    """The words of each line of a block that calls gradlex."""
    lines = (shlex.split(line.partition(" > ")[0], comments=True) for line in text.splitlines())
    return [words[1:] for words in lines if words[:1] == ["gradlex"] and len(words) > 1]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_that_exist(page):
    text = BLOCK.sub("", page.read_text("utf-8"))
    targets = [link.partition("#")[0] for link in LINK.findall(text) if "://" not in link]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


WRITTEN = [page for page in PAGES if page.name not in ("RESULTS.md", "CHANGELOG.md")]


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_every_command_is_one_that_the_program_understands(page):
    for kind, text in blocks(page):
        for words in commands(text) if kind == "" else []:
            assert words[0] in COMMANDS, words
            parse(find_command(words[0]), "gradlex", words[1:])  # exits where a flag or a value is wrong


CODE = [page for page in WRITTEN if any(kind in ("", "python") for kind, _ in blocks(page))]
SHORT = {"--generations": 8, "--seeds": 1, "--patience": 1}


NETWORK = """from torch import nn


def net(num_classes):
    return nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(48, num_classes))
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with what the pages take for granted: somebody's archive, photos, table, network, runs, results."""
    folder = tmp_path_factory.mktemp("desk")
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (80, 32, 32, 3), dtype=np.uint8), np.arange(80) % 4
    np.savez(folder / "mine.npz", x_train=images, y_train=labels, x_test=images[:20], y_test=labels[:20])
    for part, number in (("train", 8), ("test", 4)):
        for kind in ("cat", "dog"):
            (folder / "photos" / part / kind).mkdir(parents=True)
            for index in range(number):
                Image.fromarray(images[index]).save(folder / "photos" / part / kind / f"{index}.png")
    shutil.copytree(folder / "photos" / "test" / "cat", folder / "new")
    rows = [f"{area},{area % 7},{3 * area}" for area in range(60)]
    (folder / "homes.csv").write_text("\n".join(["area,age,price", *rows]))
    (folder / "mynets.py").write_text(NETWORK)
    short = ["--generations", "1", "--threads", "1", "--workers", "1"]
    for seed, name in enumerate(("mine", "a", "b", "c")):
        main(["train", *short, "--seed", str(seed), "--out", str(folder / "runs" / name)])
    main(["train", "--dataset", str(folder / "photos"), *short, "--out", str(folder / "runs" / "photos")])
    methods = ["--methods", "sgd", "lexicase", "--generations", "1", "--seeds", "1", "--jobs", "1"]
    main(["compare", *methods, "--out", str(folder / "results")])
    for name in ("one", "two"):
        shutil.copy(folder / "runs" / "mine" / "model.safetensors", folder / f"{name}.safetensors")
    return folder


def network():
    return torch.nn.Sequential(torch.nn.AvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(48, 4))


def reader():
    """What a page may take for granted in Python: a reader's own networks, data and, of DEAP, individuals."""
    x, y = torch.rand(80, 3, 32, 32), torch.arange(80) % 4
    own = {"net": network(), "net_a": network(), "net_b": network(), "x": x, "y": y, "train": (x, y)}
    own |= {"x_val": x, "y_val": y, "x_test": x, "y_test": y, "group": y, "group_test": y}
    own |= {"recipe": gradlex.Recipe(generations=2, batch_size=16)}
    try:
        from deap import base, creator
    except ImportError:
        return own
    creator.create("Errors", base.Fitness, weights=(-1.0, -1.0))
    creator.create("Individual", list, fitness=creator.Errors)
    individuals = [creator.Individual([place]) for place in range(4)]
    for individual in individuals:
        individual.fitness.values = (individual[0] % 2, individual[0] // 2)
    return own | {"toolbox": base.Toolbox(), "population": individuals}


def shortened(words):
    """The command of a page, on data that is here and for seconds; None where it is for other tests."""
    name, rest = words[0], " ".join(map(shlex.quote, words[1:]))
    if name in ("paper", "completion") or "ray" in words or "RUN" in words:
        return None
    for large, small in (
        ("cifar10", "digits" if name == "soup" else "mine.npz"),
        ("torchvision.models:resnet18", "mynets:net"),
        ("resnet18", "small-cnn" if name == "soup" else "resnet18"),
        ("../dev16.npz", "mine.npz"),
        ("networks:four_layers", "mynets:net"),
        ("resnet20", "small-cnn"),
        ("'timm:resnet18?pretrained'", "small-cnn"),
        ("conv1.*,bn1.*,layer*", "features.0.*"),
        ("--image-size 224", "--image-size 16"),
        ("'*.safetensors'", "one.safetensors two.safetensors"),
        ("--device cuda", "--device cpu"),
        ("--open", ""),
    ):
        rest = rest.replace(large, small)
    rest = shlex.split(rest)
    for flag, most in SHORT.items():
        if flag in rest:
            rest[rest.index(flag) + 1] = str(min(most, int(rest[rest.index(flag) + 1])))
    if name == "compare":
        rest += ["--list"]  # tests/cli runs whole ones
    elif name == "train":
        for flag, value in (("--generations", "2"), ("--threads", "1"), ("--workers", "1")):
            rest += [] if flag in rest else [flag, value]
    return [name, *rest]


@pytest.mark.slow  # .ci/run calls it
@pytest.mark.filterwarnings("ignore")  # of other libraries, which a page may use
@pytest.mark.parametrize("page", CODE, ids=name_of)
def test_the_code_and_commands_of_a_page_run_from_top_to_bottom(page, desk, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(shutil.copytree(desk, tmp_path / "desk"))
    safetensors.torch.save_file(network().state_dict(), "c.safetensors")
    namespace = {"__name__": "page", **reader()}
    for kind, text in blocks(page):
        if kind == "python":
            if "toolbox" in text and "toolbox" not in namespace:
                continue
            exec(compile(text, page, "exec"), namespace)  # the page's own
        for line in text.splitlines() if kind == "" else []:
            if line.startswith("cp -r "):
                shutil.copytree(*line.split()[2:4])
            for words in commands(line):
                asked = shortened(words)
                if asked is not None:
                    if asked[0] == "train" and "--out" in asked:  # on the desk for the pages that look at it
                        shutil.rmtree(asked[asked.index("--out") + 1], ignore_errors=True)
                    main(asked)


@pytest.mark.parametrize("figure", ["generation", "chances"])
def test_a_figure_is_what_its_script_draws(figure, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "figures"))
    drawn = runpy.run_path(str(ROOT / "docs" / "figures" / f"{figure}.py"))["draw"]()
    drawn.save(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text() == (ROOT / "docs" / "figures" / f"{figure}.svg").read_text()


REFERENCE = SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "reference.py")))
SHOWN = [(module, name) for module, names in REFERENCE.NAMES.items() for name in names]
WITH_EXAMPLE = [f"{module}.{name}" for module, name in SHOWN if REFERENCE.registry(module, name) is None]
LIBRARIES = {
    **{f"gradlex.callbacks.{kind.__name__}": name for name, kind in gradlex.callbacks.LOGGERS.items()},
    **{f"{module}.{name}": module.rpartition(".")[2] for module, name in SHOWN if ".integrations." in module},
    "gradlex.integrations.tpot.lexicase_selection": "numpy",  # it imports no TPOT
}
"""What the example of a name needs."""


def named(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def reads_results(path):
    return path not in LIBRARIES and '"results' in (inspect.getdoc(named(path)) or "")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A folder with what the examples of docstrings take for granted: finished runs."""
    folder = tmp_path_factory.mktemp("shelf")
    mine = folder / "runs" / "mine"
    main(["train", "--generations", "1", "--threads", "1", "--workers", "1", "--out", str(mine)])
    for name in ("a", "b"):
        shutil.copytree(mine, mine.with_name(name))
    return folder


@pytest.fixture(scope="module")
def shelf_with_results(shelf, desk):
    return shutil.copytree(desk / "results", shelf / "results").parent


def check_example(path, folder, monkeypatch):
    """Run the example of a name, which brings its own imports; it is there, and it is true."""
    if importlib.util.find_spec(LIBRARIES.get(path, "gradlex")) is None:
        pytest.skip(f"{LIBRARIES[path]} is not installed")
    monkeypatch.chdir(folder)
    own, *others = doctest.DocTestFinder(exclude_empty=False).find(named(path), path, globs={})
    assert own.examples
    for found in (own, *others):
        text = io.StringIO()
        failed, _ = doctest.DocTestRunner().run(found, out=text.write)
        assert not failed, text.getvalue()


@pytest.mark.filterwarnings("ignore")  # of other libraries, which an example may use
@pytest.mark.parametrize("path", [path for path in WITH_EXAMPLE if not reads_results(path)])
def test_the_docstring_of_a_public_name_has_an_example_and_it_is_true(path, shelf, monkeypatch):
    check_example(path, shelf, monkeypatch)


@pytest.mark.slow  # a comparison has processes of its own; .ci/run calls it
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", [path for path in WITH_EXAMPLE if reads_results(path)])
def test_the_docstring_of_a_name_for_experiments_has_an_example_and_it_is_true(
    path, shelf_with_results, monkeypatch
):
    check_example(path, shelf_with_results, monkeypatch)


def test_every_example_of_a_docstring_is_one_of_a_public_name():
    sources = [source.read_text("utf-8") for source in (ROOT / "src" / "gradlex").rglob("*.py")]
    written = sum(len(re.findall(r"^ +Examples?:$", text, re.MULTILINE)) for text in sources)
    assert written == len(WITH_EXAMPLE)


def test_the_reference_shows_every_public_name_once():
    assert len(set(SHOWN)) == len(SHOWN)
    front = {name for name in gradlex.__all__ if not isinstance(getattr(gradlex, name), ModuleType)}
    rest = {name for module, name in SHOWN if module == "gradlex.evolve"}
    assert front - {"__version__"} == {*REFERENCE.NAMES["gradlex"], *rest}
    for module, names in REFERENCE.NAMES.items():
        text = REFERENCE.page(module)
        for name in names:
            assert f"::: {module}.{name}\n" in text or f"## {name} {{ #{module}.{name} }}\n" in text


def test_the_reference_shows_a_registry_by_what_it_holds():
    text = REFERENCE.page("gradlex.selection")
    for name, info in gradlex.selection.SELECTIONS.items():
        assert f"| `{name}` | {info.paper} |" in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_and_flags(capsys, tmp_path):
    with pytest.raises(SystemExit) as caught:
        main(["completion", "bash"])
    assert caught.value.code in (0, None)
    (tmp_path / "gradlex.bash").write_text(capsys.readouterr().out)
    asked = "source gradlex.bash; COMP_WORDS=({}); COMP_CWORD={}; _tyro_gradlex; echo ${{COMPREPLY[@]}}"
    for words, expected in (
        ("gradlex rep", "replay report"),
        ("gradlex train --tail-m", "--tail-mean"),
    ):
        done = subprocess.run(
            ["bash", "-c", asked.format(words, len(words.split()) - 1)],
            cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert done.stdout.split() == expected.split()


def test_zsh_has_a_script_too(capsys):
    with pytest.raises(SystemExit):
        main(["completion", "zsh"])
    assert "--selection-options" in capsys.readouterr().out
