"""One table in its three forms, character by character."""

from __future__ import annotations

import pytest

from gradlex.report import Table
from gradlex.report._format import duration, listed, memory
from gradlex.report._table import latex_text

TABLE = Table(
    title="Two methods",
    columns=("method", "test, %"),
    rows=(("SGD", "67.94 ± 0.46"), ("a_b|c", "-2.10")),
    notes=("On 5 % of the data.",),
)


def test_text_sets_words_left_and_numbers_right():
    assert TABLE.text() == (
        "Two methods\n"
        "\n"
        "method       test, %\n"
        "--------------------\n"
        "SGD     67.94 ± 0.46\n"
        "a_b|c          -2.10\n"
        "--------------------\n"
        "On 5 % of the data.\n"
    )


def test_markdown_escapes_what_would_end_a_cell():
    assert TABLE.markdown() == (
        "**Two methods**\n"
        "\n"
        "| method | test, % |\n"
        "| :--- | ---: |\n"
        "| SGD | 67.94 ± 0.46 |\n"
        "| a_b\\|c | -2.10 |\n"
        "\n"
        "- On 5 % of the data.\n"
    )


def test_latex_is_a_table_without_packages():
    assert TABLE.latex() == (
        "\\begin{table}\n"
        "\\caption{Two methods}\n"
        "\\begin{tabular}{lr}\n"
        "\\hline\n"
        "method & test, \\% \\\\\n"
        "\\hline\n"
        "SGD & 67.94 $\\pm$ 0.46 \\\\\n"
        "a\\_b$|$c & $-$2.10 \\\\\n"
        "\\hline\n"
        "\\end{tabular}\n"
        "\\par On 5 \\% of the data.\n"
        "\\end{table}\n"
    )


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        (r"50 % & a_b #1 {x} $", r"50 \% \& a\_b \#1 \{x\} \$"),
        (r"C:\data ~ ^", r"C:\textbackslash{}data \textasciitilde{} \textasciicircum{}"),
        ("94.82 ± 0.10", r"94.82 $\pm$ 0.10"),
        ("-0.53 [-1.00, +0.10] p<0.001", r"$-$0.53 [$-$1.00, +0.10] p$<$0.001"),
        ("decay 5e-4, CIFAR-10", "decay 5e-4, CIFAR-10"),
    ],
)
def test_special_characters_of_latex_are_escaped(text, escaped):
    assert latex_text(text) == escaped


def test_a_wide_table_goes_on_below_without_rows_that_say_nothing_there():
    wide = Table(
        title="Wide",
        columns=("who", "one column", "another column"),
        rows=(("ours", "1" * 60, "2" * 60), ("theirs", "3" * 60, "-")),
    )
    lines = wide.text().splitlines()
    assert max(map(len, lines)) <= 120
    assert sum(line.startswith("ours") for line in lines) == 2
    assert sum(line.startswith("theirs") for line in lines) == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(8.26, "8.3 s"), (59.99, "60.0 s"), (725, "12 min 05 s"), (7380, "2 h 03 min"), (3599.7, "1 h 00 min")],
)
def test_durations_are_told_in_two_units(seconds, text):
    assert duration(seconds) == text


def test_memory_is_told_in_mebibytes_or_gibibytes():
    assert [memory(None), memory(400 * 2**20), memory(1.5 * 2**30)] == ["-", "400 MiB", "1.5 GiB"]


def test_lists_end_with_and():
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
