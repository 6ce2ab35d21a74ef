from __future__ import annotations

import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

import gradlex as library
from gradlex.cli.flags import COMMANDS, parse

Command = Any


def flags(text: str) -> set[str]:
    """The flags that a help has, apart from those of the help itself."""
    return set(re.findall(r"^│ (--[a-z-]+)", text, re.MULTILINE)) - {"--help"}


def examples(text: str) -> list[str]:
    return [line.strip() for line in text.partition("examples:\n")[2].splitlines()]


def test_the_overview_lists_the_eight_commands(gradlex: Command) -> None:
    found = gradlex("--help")
    assert found.code == 0
    assert re.findall(r"• (\w+)", found.out) == list(COMMANDS)
    assert len(COMMANDS) == 8
    assert "Start with: gradlex train" in found.out


def test_no_word_at_all_is_a_question_for_help(gradlex: Command) -> None:
    assert gradlex() == gradlex("--help")


def test_the_short_help_of_train_has_20_flags(gradlex: Command) -> None:
    found = gradlex("train", "--help")
    assert len(flags(found.out)) == 20
    assert {"--dataset", "--epochs", "--lr", "--selection", "--population", "--out", "--workers"} <= flags(found.out)
    assert "gradlex train --help-all shows every flag." in found.out


def test_all_flags_of_train_are_at_most_35_and_hold_every_field_of_a_recipe(gradlex: Command) -> None:
    found = flags(gradlex("train", "--help-all").out)
    assert len(found) <= 35
    assert found > flags(gradlex("train", "--help").out)
    assert found >= {f"--{name.replace('_', '-')}" for name in library.Recipe.model_fields}


def test_compare_leaves_to_its_methods_what_they_decide(gradlex: Command) -> None:
    found = flags(gradlex("compare", "--help-all").out)
    decided = {"--selection", "--promotion", "--seed"}
    assert not decided & found
    assert found >= {f"--{name.replace('_', '-')}" for name in library.Recipe.model_fields} - decided


@pytest.mark.parametrize(
    "words", [(), *((name,) for name in COMMANDS), ("train", "--help-all"), ("compare", "--help-all")]
)
def test_every_help_fits_80_columns(gradlex: Command, words: tuple[str, ...]) -> None:
    found = gradlex(*words, "--help")
    assert found.code == 0
    assert max(map(len, found.out.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_examples_that_parse(gradlex: Command, name: str) -> None:
    found = examples(gradlex(name, "--help").out)
    assert found
    for example in found:
        program, *words = shlex.split(example)
        assert (program, words[0]) == ("gradlex", name)
        assert type(parse(words)).__name__ == name.capitalize()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_flag_has_one_sentence_and_one_default(gradlex: Command, name: str) -> None:
    text = re.sub(r"[│\s]+", " ", gradlex(name, "--help-all").out)
    assert "None" not in text
    for entry in re.split(r" --(?=[a-z])", text)[1:]:
        assert entry.count("(default") <= 1, entry


def test_help_imports_no_torch() -> None:
    program = """
import sys
from gradlex.cli import main
for words in (["--help"], ["train", "--help-all"], ["compare", "--help"]):
    try:
        main(words)
    except SystemExit as ended:
        assert not ended.code
print([name for name in ("torch", "pandas", "sklearn", "matplotlib") if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.strip() == "[]"


def test_the_version_is_the_librarys(gradlex: Command) -> None:
    assert gradlex("--version").out == f"gradlex {library.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_flags(gradlex: Command, shell: str) -> None:
    found = gradlex("--tyro-print-completion", shell)
    assert found.code == 0
    assert "evaluate" in found.out
    assert "weight-decay" in found.out
