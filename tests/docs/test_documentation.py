"""What the documentation says is true: its code and commands run, and its links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

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


RUN = ["README", "docs/own-model", "docs/own-data", "docs/how-it-works", "docs/resume"]
LONG = {"compare", "paper", "completion"}


def small(words):
    """Whether a command trains for seconds, on data that is here."""
    if words[0] != "train":
        return words[0] not in LONG
    dataset = words[words.index("--dataset") + 1] if "--dataset" in words else "digits"
    generations = int(words[words.index("--generations") + 1]) if "--generations" in words else 1000
    return generations <= 20 and (dataset == "digits" or Path(dataset).exists())


@pytest.mark.filterwarnings("ignore")  # of other libraries, which a page may use
@pytest.mark.parametrize("page", RUN)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    ran = 0
    for kind, text in blocks(ROOT / f"{page}.md"):
        if kind == "python":
            exec(compile(text, page, "exec"), namespace)  # the page's own
            ran += 1
        for line in text.splitlines() if kind == "" else []:
            if line.startswith("cp -r "):
                shutil.copytree(*line.split()[2:4])
            for words in commands(line):
                if small(words) and (words[0] not in ("resume", "evaluate") or Path(words[1]).exists()):
                    main([*words, *(["--threads", "1"] if words[0] == "train" else [])])
                    ran += 1
    assert ran


@pytest.mark.parametrize("figure", ["generation", "chances"])
def test_a_figure_is_what_its_script_draws(figure, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "figures"))
    drawn = runpy.run_path(str(ROOT / "docs" / "figures" / f"{figure}.py"))["draw"]()
    drawn.save(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text() == (ROOT / "docs" / "figures" / f"{figure}.svg").read_text()


def modules_with_examples():
    for found in pkgutil.walk_packages(gradlex.__path__, "gradlex."):
        source = importlib.util.find_spec(found.name).origin
        if ">>> " in Path(source).read_text("utf-8"):
            yield found.name


@pytest.mark.parametrize("module", list(modules_with_examples()))
def test_the_examples_of_a_docstring_are_true(module):
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert tried
    assert not failed


def test_the_reference_has_every_public_name(monkeypatch):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    reference = importlib.import_module("reference")
    assert "::: gradlex.train\n" in reference.page("gradlex")
    assert "selection" in reference.MODULES
    for room in reference.MODULES[1:]:
        module = importlib.import_module(f"gradlex.{room}")
        page = reference.page(room)
        for name in getattr(module, "__all__", ()):
            if type(getattr(module, name)).__name__ != "module":
                assert f"::: gradlex.{room}.{name}\n" in page


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
