"""RESULTS.md: made from the records alone, the same each time, with every claim in the list where it belongs."""

from __future__ import annotations

import dataclasses
import re
import shutil

import pytest

from gradlex.errors import InputError
from gradlex.report import results_page, write_report, write_results_page
from gradlex.report._provenance import shown_command

SGD = [68.11, 67.42, 68.30]
RESET = [70.31, 69.88, 70.62]


@pytest.fixture
def page(experiment, table2):
    experiment(
        "table4",
        {
            "sgd": SGD,
            "lexicase momentum=none": [68.1, 68.9, 68.8],
            "lexicase momentum=reset": RESET,
            "lexicase momentum=inherit": [71.0, 70.4, 71.3],
        },
    )
    experiment(
        "table3", {"sgd": SGD, "lexicase population=2": RESET, "lexicase population=8": [69.0, None, None]}
    )
    return results_page(table2.root, table2.root.parent / "RESULTS.md")


def section(page, heading):
    return re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", page, re.DOTALL | re.MULTILINE).group(1)


def judged(page, heading="The paper's claims"):
    """The rows of the table of claims: (claim, word, difference, interval, adjusted p, seeds, detectable)."""
    rows = [line for line in section(page, heading).splitlines() if line.startswith("| ")]
    return [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in rows[2:]]


def words(page, **options):
    return {row[0].split(", resnet20")[0]: row[1] for row in judged(page, **options)}


def test_the_page_begins_with_answers_and_a_plot(page):
    first = page.split("## ")[0]
    assert first.startswith("# Results\n\n- resnet20 on cifar10.npz: Lexicase, which trains on 5 times")
    assert "![Final test accuracy by seed](results/table2-finals.svg)" in first


def test_a_claim_is_judged_by_its_p_adjusted_for_the_number_of_claims(page):
    rows = judged(page)
    found = [float(row[4]) for row in rows if row[4] != "-"]
    plain = {row[0].split(" (table")[0]: row for row in rows}
    claim = "Lexicase (p = 4) better than SGD with 1/5 of the generations, resnet20 on cifar10.npz"
    assert plain[claim][1:4] == ("agrees", "+2.33 points", "+2.00 to +2.65")
    # p = 0.0010 of the test, times the number of claims, of which some are smaller or equal
    assert float(plain[claim][4]) == min(found)
    assert 0.005 < float(plain[claim][4]) < 0.05
    assert plain[claim][5:] == ("3", "1.41")


def test_a_claim_agrees_or_not_where_all_seeds_are_there_and_show_it(page):
    found = words(page)
    assert found["Lexicase (p = 4) better than SGD with 1/5 of the generations"] == "agrees"
    assert found["Lexicase (p = 4) better than random selection"] == "cannot tell"
    assert found["Lexicase (p = 8) better than SGD with 1/9 of the generations"] == "under way"
    # Their intervals lie on one side of zero, but not by enough for so many claims.
    assert found["Tournament selection (p = 4) better than SGD with 1/5 of the generations"] == "cannot tell"
    assert ("+0.89 points", "-", "-", "1", "-") in [row[2:] for row in judged(page)]


def test_a_claim_on_the_other_side_of_zero_disagrees(experiment):
    plan = experiment("table2", {"sgd": RESET, "lexicase": SGD})
    assert list(words(results_page(plan.root, plan.root.parent / "RESULTS.md")).values()) == ["disagrees"]


@pytest.mark.parametrize("first", ["table1", "compare"])
def test_a_claim_that_rests_on_a_part_of_anothers_runs_stands_once_with_all_of_them(first, experiment):
    whole = experiment("table2", {"sgd": SGD, "lexicase": RESET})
    part = [planned for planned in whole.runs if planned.recipe.seed == 0]
    dataclasses.replace(whole, name=first, runs=tuple(part)).save()
    page = results_page(whole.root, whole.root.parent / "RESULTS.md")
    tables = "table1, table2" if first == "table1" else "table2, compare"
    ((claim, *_, seeds, _),) = judged(page)
    assert claim.endswith(f"({tables})")
    assert seeds == "3"


def test_where_the_paper_has_lexicase_below_that_is_its_claim(experiment):
    below, above = [93.9, 94.0, 93.8], [94.4, 94.6, 94.3]
    for name, lexicase, sgd, word in (
        ("table1", below, above, "agrees"),
        ("table2", above, below, "disagrees"),
    ):
        arms = {"sgd": sgd, "lexicase": lexicase}
        plan = experiment(name, arms, dataset="cifar10", model="mobilenetv2")
        page = results_page(plan.root, plan.root.parent / "RESULTS.md")
        claim = "Lexicase (p = 4) worse than SGD with 1/5 of the generations, MobileNetV2 on CIFAR-10, published -0.40"
        assert [row[1] for row in judged(page) if row[0] == f"{claim} ({name})"] == [word]


def test_what_is_missing_is_told_by_method(page):
    assert section(page, "What is missing").splitlines()[1:-1] == [
        "- table2: 2 of 3 runs of average, outer 0.5 (seed 2 at generation 120 of 200; seed 1 not started).",
        "- table3: 2 of 3 runs of lexicase, p = 8 (seeds 1 and 2 not started).",
        "- table1: not started.",
        "- figure2: not started.",
    ]


def test_it_says_how_it_was_made_without_folders_of_a_machine(page, tmp_path):
    made = section(page, "How it was made")
    assert "gradlex paper table2 --scale small --datasets cifar10.npz --out results\n" in made
    assert "5,000 training and 10,000 test samples (data 0123456789ab)" in made
    assert (
        "A processor, 1 thread per worker, float32, gradlex 0.1.0, Python 3.11.7, PyTorch 2.9.0 and NumPy 2.3.0"
        in made
    )
    assert str(tmp_path) not in page


def test_its_plots_are_files_that_the_report_writes(page, table2):
    links = re.findall(r"\]\((results/table2[^)]+)\)", page)
    names = {f"results/{path.name}" for path in write_report(table2)}
    assert set(links) == {"results/table2-curves.svg", "results/table2-finals.svg"}
    assert set(links) <= names


def test_it_comes_out_the_same_again_also_after_the_reports_and_from_a_copy(page, table2, tmp_path):
    write_report(table2)
    assert results_page(table2.root, table2.root.parent / "RESULTS.md") == page
    shutil.copytree(table2.root, tmp_path / "elsewhere" / "results")
    assert results_page(tmp_path / "elsewhere" / "results", tmp_path / "elsewhere" / "RESULTS.md") == page
    assert "by `gradlex report results --page RESULTS.md`." in page


def test_a_figure_2_that_is_not_drawn_is_not_linked(experiment):
    plan = experiment("figure2", {"sgd": [None]})
    assert write_report(plan) == []
    page = results_page(plan.root, plan.root.parent / "RESULTS.md")
    assert "Figure 2 is not drawn yet." in page
    assert "figure2.svg" not in page


def test_experiments_in_subfolders_are_on_the_page_and_earlier_ones_fold_away(experiment, table2, revised):
    own = revised(
        experiment("compare", {"sgd": SGD, "lexicase": RESET}), table2.root / "mine", "Does it help?"
    )
    page = results_page(table2.root, table2.root.parent / "RESULTS.md")
    assert own.root != table2.root
    before, folded = page.split("## Earlier results\n")
    assert "## Does it help?\n" in before
    assert "](results/mine/compare-finals.svg)" in before
    assert "### Table 2\n" in folded
    assert "short last batches" in folded
    assert [row[0].split(" (p")[0] for row in judged(page)] == ["Lexicase"]


def test_declared_comparisons_are_the_first_answers(experiment, table2, revised):
    revised(
        experiment("compare", {"sgd": SGD, "random": [69.8, 69.9, 69.1], "lexicase": RESET}),
        table2.root / "mine",
        "Does it help?",
        pairs=(("lexicase", "random"), ("lexicase", "sgd")),
    )
    page = table2.root.parent / "RESULTS.md"
    written = write_results_page(table2.root, page)
    assert [path.name for path in written] == ["RESULTS.md", "answers.png", "answers.svg"]
    lines = page.read_text(encoding="utf-8").splitlines()[2:8]
    assert lines[0] == "- **Lexicase against random**"
    assert lines[1].startswith("  - Does it help?: not significantly different, +0.67 points, 95 % interval")
    assert re.search(r"adjusted for 2 comparisons, 3 seeds, 80 % power for \d\.\d\d points\.$", lines[1])
    assert lines[2] == "- **Lexicase against SGD**"
    assert lines[3] == (
        "  - Does it help?: better, +2.33 points, 95 % interval +2.00 to +2.65, p = 0.002 adjusted for 2 "
        "comparisons, 3 seeds."
    )
    assert lines[5] == "![Declared comparisons: differences by seed](results/answers.svg)"


def test_a_comparison_of_several_experiments_is_one_answer_with_a_line_for_each(experiment, table2, revised):
    def made(name, **arms):
        revised(
            experiment("compare", {"sgd": SGD, **arms}),
            table2.root / name,
            name,
            pairs=tuple((arm, "sgd") for arm in arms),
        )

    made("one", average=RESET, expected=SGD[::-1])
    made("two", average=SGD[::-1])
    made("three", lexicase=RESET)
    lines = results_page(table2.root, table2.root.parent / "RESULTS.md").split("\n\n")[1].splitlines()
    told = [line.split(",")[0] for line in lines]
    assert told == [
        "- **Lexicase against SGD**",  # the paper's question
        "  - three: better",
        "- **Average against SGD**",
        "  - one: better",
        "  - two: not significantly different",
        "- **Lexicase",
        "  - one: not significantly different",
    ]


def test_a_primary_comparison_that_lacks_seeds_waits_below_the_answers(experiment, table2, revised):
    plan = revised(
        experiment("compare", {"sgd": SGD, "lexicase": [*RESET[:2], None]}),
        table2.root / "mine",
        "Does it help?",
        pairs=(("lexicase", "sgd"),),
    )
    page = results_page(table2.root, plan.root.parent / "RESULTS.md")
    answers, waiting = page.split("## Under way\n")
    assert "Does it help?" not in answers
    assert "## Table 2\n" in answers
    assert "### Does it help?\n" in waiting
    assert "## Earlier results" not in page


def test_a_folder_without_experiments_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no experiment"):
        results_page(tmp_path, tmp_path / "RESULTS.md")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("gradlex compare --dataset /home/me/mine.npz", "gradlex compare --dataset mine.npz"),
        ("gradlex compare --dataset ../data/mine.npz", "gradlex compare --dataset mine.npz"),
        (r"gradlex compare --dataset 'C:\data\mine.npz'", "gradlex compare --dataset mine.npz"),
        ("gradlex compare --dataset=/home/me/mine.npz", "gradlex compare --dataset=mine.npz"),
        ("gradlex paper table2 --out results/a", "gradlex paper table2 --out results/a"),
    ],
)
def test_commands_are_shown_without_folders_elsewhere(command, shown):
    assert shown_command(command) == shown
