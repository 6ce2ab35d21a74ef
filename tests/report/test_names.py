"""Names are data: whatever a dataset, a model or a layer is called, it comes out as text."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import PureWindowsPath

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gradlex.errors import InputError
from gradlex.experiments import stored_plan, stored_plans
from gradlex.report import (
    Table,
    draw_figure2,
    gather,
    results_page,
    text_report,
    write_report,
    write_results_page,
)
from gradlex.report._format import plain
from gradlex.report._plots import curves, save_figure
from gradlex.report._table import markdown_text

SGD = [68.11, 67.42, 68.30]
LEXICASE = [70.31, 69.88, 70.62]

NAMES = [
    r"a$b$ c_d_ & e|f <g> \h",
    "_hidden",
    "100% #1 {x} ~ ^",
    "two\nlines\ttab\x1b[31m\x00",
    "caf\udce9.npz",
    "**bold** `code` [link](http://x) ![image](y) &lt; <b>",
    "$x^2$",
    "\\alpha$",
    "--- -- -",
    "]]> <!-- -->",
]


QUIET = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.generate],  # to shrink what fails would take minutes
}


def rendered(markdown):
    """The text that a reader of the page sees."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    inline = [child for token in tokens for child in token.children or ()]
    assert {child.type for child in inline} <= {
        *("text", "softbreak", "strong_open", "strong_close", "text_special", "image", "code_inline")
    }
    return "".join(child.content for child in inline)


@pytest.mark.parametrize("name", NAMES)
def test_every_file_of_a_report_shows_the_name_as_text(experiment, name):
    dataset = name.replace("/", "")
    plan = experiment("compare", {"sgd": SGD, "lexicase": LEXICASE}, dataset=dataset, model=name)
    shown = str(gather(plan).settings[0])
    assert shown.startswith(plain(name))
    for path in write_report(plan):
        if path.suffix == ".svg":
            ET.parse(path)
        elif path.suffix == ".md":
            assert shown in rendered(path.read_text(encoding="utf-8"))
        elif path.suffix == ".txt":
            text = path.read_text(encoding="utf-8")
            assert " ".join(shown.split()) in " ".join(text.split())
            assert all(character.isprintable() or character == "\n" for character in text)
    page = results_page(plan.root, plan.root.parent / "RESULTS.md")
    page.encode("utf-8")
    assert shown in rendered(page)


def test_dollar_signs_are_drawn_as_they_are(experiment, tmp_path):
    plan = experiment("compare", {"sgd": SGD}, dataset="$x^2$", model="$\\frac$")
    figures = []

    def draw():
        figures.append(curves(gather(plan)))
        return figures[0]

    save_figure(draw, tmp_path / "drawn")  # an unknown command of mathematics would raise
    title = figures[0].axes[0]._left_title
    assert title.get_text() == "$\\frac$ on $x^2$, n = 3 seeds"
    assert title.get_parse_math() is False


MARKS = st.text(alphabet=st.sampled_from(r"ab_*`~$<>&#!|[](){}\\: -%^\"'."), min_size=1)
ANY = st.text(max_size=12) | MARKS | st.sampled_from(NAMES)


def examples(default):
    """So many names by default, and ten thousand where there is time."""
    return pytest.mark.parametrize("names", [default, pytest.param(10_000, marks=pytest.mark.slow)])


@examples(300)
def test_a_table_shows_any_name_as_text(names):
    """In Markdown a cell has no markup; LaTeX has nothing but the name once its escapes are taken back."""

    @settings(max_examples=names, **QUIET)
    @given((ANY | MARKS).map(str.strip).filter(bool))
    def check(name):
        table = Table(title=name, columns=("name", "value"), rows=((name, "1"),), notes=(name,))
        tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(table.markdown())
        cells = [token for before, token in itertools.pairwise(tokens) if before.type == "td_open"]
        assert {child.type for child in cells[0].children} <= {"text", "text_special"}
        assert "".join(child.content for child in cells[0].children).strip() == plain(name).strip()
        (row,) = [line for line in table.latex().splitlines() if line.endswith(r" & 1 \\")]
        assert unescaped(row.removesuffix(r" & 1 \\")) == plain(name)
        text = table.text()
        assert all(character.isprintable() or character == "\n" for character in text)
        text.encode("utf-8")

    check()


LATEX = {
    r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^", r"$\pm$": "\u00b1",
    r"$\uparrow$": "\u2191", "$<$": "<", "$>$": ">", "$|$": "|", "-{}-": "--", "$-$": "-", "{[}": "[", "{*}": "*",
    **{f"\\{character}": character for character in "&%$#_{}"},
}  # fmt: skip


def unescaped(latex):
    """The text that LaTeX sets; a special character that is not escaped is none."""
    found = []
    while latex:
        escape = next((each for each in LATEX if latex.startswith(each)), latex[0])
        assert escape in LATEX or escape not in r"\$&%#_{}~^", latex
        found.append(LATEX.get(escape, escape))
        latex = latex[len(escape) :]
    return "".join(found)


SETTINGS = 8
"""In one report, three names each: one report for each would draw for hours."""


@examples(3 * 3 * SETTINGS)
def test_every_file_of_a_report_is_sound_whatever_data_models_and_failures_are_called(
    names, make_experiment, tmp_path
):
    numbers = itertools.count()
    dataset = ANY.filter(lambda name: name.strip("./ ") and "\0" not in name)
    called = st.tuples(dataset, ANY.filter(bool), ANY)

    def shown(setting):
        """Two settings of the same name are one: their runs would be the same seed twice, which is refused."""
        return tuple(plain(name) for name in (PureWindowsPath(setting[0]).name or setting[0], setting[1]))

    @settings(max_examples=names // (3 * SETTINGS), **QUIET)
    @given(st.lists(called, min_size=SETTINGS, max_size=SETTINGS, unique_by=shown), st.booleans())
    def check(settings, declared):
        root = tmp_path / str(next(numbers))
        parts = [
            make_experiment(
                root,
                f"compare{number}",
                {"sgd": [60.0], "lexicase": [62.0, None]},
                failures={f"compare{number}-lexicase-seed1": failure or "it broke"},
                epochs=1,
                dataset=dataset,
                model=model,
            )
            for number, (dataset, model, failure) in enumerate(settings)
        ]
        for part in parts:
            part.file.unlink()
        pairs = (("lexicase", "sgd"), ("sgd", "lexicase")) if declared else ()
        runs = tuple(run for part in parts for run in part.runs)
        plan = replace(parts[0], name="compare", runs=runs, pairs=pairs, title=settings[0][-1])
        plan.save()
        written = write_results_page(root, tmp_path / "RESULTS.md")
        for path in (*write_report(plan), *written):
            if path.suffix == ".svg":
                ET.parse(path)
            elif path.suffix in (".md", ".tex", ".txt"):
                text = path.read_text(encoding="utf-8")
                assert all(character.isprintable() or character == "\n" for character in text)
        assert len(written) == (3 if pairs else 1)
        page = " ".join(rendered((tmp_path / "RESULTS.md").read_text(encoding="utf-8")).split())
        for setting in gather(plan).settings:
            assert " ".join(str(setting).split()) in page
        shutil.rmtree(root)

    check()


@examples(300)
def test_plain_text_is_one_line_that_every_encoding_of_unicode_holds(names):
    @settings(max_examples=names, **QUIET)
    @given(st.text())
    def check(text):
        shown = plain(text)
        assert shown.isprintable()
        shown.encode("utf-8")
        if text.isprintable():
            assert shown == text

    check()


def test_an_error_message_in_markdown_is_text():
    assert markdown_text("<class 'x'> a & b < c &amp; p<0.001") == (
        "&lt;class 'x'> a & b < c &amp;amp; p<0.001"
    )


def test_a_latex_cell_that_begins_with_a_bracket_is_no_option_of_the_row_above():
    table = Table(title="x", columns=("a", "b"), rows=(("one", "1"), ("[2cm]", "2"), ("*", "--first")))
    assert "{[}2cm] & 2" in table.latex()
    assert "{*} & -{}-first" in table.latex()


def test_a_failure_with_lines_and_control_characters_is_one_line(experiment):
    plan = experiment(
        "compare",
        {"sgd": SGD, "lexicase": [70.0, None]},
        failures={"compare-lexicase-seed1": "it broke:\n  here \x1b[31m<b>_x_"},
    )
    text = " ".join(text_report(plan).split())
    assert "failed: it broke: here \\x1b[31m<b>_x_)." in text


def test_folders_whose_names_are_not_utf_8_are_reported(experiment, tmp_path):
    plan = experiment("compare", {"sgd": SGD, "lexicase": LEXICASE})
    root = tmp_path / os.fsdecode(b"caf\xe9 `x`")
    try:
        shutil.copytree(plan.root, root)
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    declared = replace(stored_plan(root / "compare.json"), pairs=(("lexicase", "sgd"),))
    for plan in (declared, replace(declared, pairs=())):
        plan.save()
        page, *_ = write_results_page(root, tmp_path / "RESULTS.md")
        assert "(caf%E9%20%60x%60/compare-curves.svg)" in page.read_text(encoding="utf-8")


def test_figure_2_shows_layers_and_sets_of_any_name(experiment, tmp_path):
    plan = experiment("figure2", {"sgd": [68.0], "lexicase": [70.0]})
    runs = [plan.path(planned) for planned in plan.runs]
    layer = "$a_1$ <b>&|"
    for seed, run in enumerate(runs):
        values = np.random.default_rng(seed).normal(size=(5, 7)).clip(min=0).astype(np.float32)
        np.savez(run / "activations.npz", **{layer: values, "model.safetensors": np.array("")})
    groups = {"_first $x": runs[:1], "second\n\udce9": runs[1:]}
    for path in draw_figure2(groups, tmp_path / "drawn", notes=["by \x1b\udce9"]):
        if path.suffix == ".svg":
            ET.parse(path)
        elif path.suffix == ".md":
            text = rendered(path.read_text(encoding="utf-8"))
            assert layer in text
            assert "_first $x" in text
            assert "second\\n\\udce9 minus _first $x" in text


def test_a_command_that_is_no_command_is_shown_as_it_is(experiment):
    plan = experiment("compare", {"sgd": SGD})
    content = json.loads(plan.file.read_text())
    for command in ("it's open", "```", "a\n```\n# heading", "caf\udce9"):
        plan.file.write_text(json.dumps({**content, "command": command}))
        page = results_page(plan.root, plan.root.parent / "RESULTS.md")
        page.encode("utf-8")
        fences = [token for token in MarkdownIt().parse(page) if token.type == "fence"]
        assert len(fences) == 1
        assert len(fences[0].content.splitlines()) == 1
        assert "# heading" not in [line.strip() for line in page.splitlines()]


def test_a_report_imports_nothing_that_results_name(experiment, tmp_path, monkeypatch):
    """What a stranger's results name must not run where they are only looked at."""
    (tmp_path / "named_by_results.py").write_text("raise SystemExit('it was imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    named = {name: f"named_by_results:{name}" for name in ("model", "schedule", "augment", "task")}
    plan = experiment("compare", {"sgd": SGD, "lexicase": LEXICASE})
    for path in plan.root.glob("runs/*/recipe.json"):
        stored = json.loads(path.read_text())
        stored["recipe"] |= named
        path.write_text(json.dumps(stored))
    content = json.loads(plan.file.read_text())
    for run in content["runs"]:
        run["recipe"] |= named
    plan.file.write_text(json.dumps(content))
    with contextlib.suppress(InputError):
        for each in stored_plans(plan.root):
            text_report(each)
        results_page(plan.root, tmp_path / "RESULTS.md")
    assert "named_by_results" not in sys.modules
