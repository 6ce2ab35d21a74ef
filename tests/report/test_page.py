"""RESULTS.md: made from the records alone, the same each time, with every claim in the list where it belongs."""

from __future__ import annotations

import dataclasses
import re
import shutil

import pytest

from gradlex.errors import InputError
from gradlex.report import results_page, write_report
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


def test_a_claim_agrees_only_where_its_interval_is_above_zero(page):
    agrees = section(page, "What agrees with the paper")
    assert agrees.splitlines()[1:] == [
        "- Lexicase (p = 4) better than SGD with 1/5 of the generations, resnet20 on cifar10.npz (table2): +2.33 "
        "points, 95 % interval +2.00 to +2.65, p = 0.001, 3 seeds.",
        "- Tournament selection (p = 4) better than SGD with 1/5 of the generations, resnet20 on cifar10.npz (table2): "
        "+1.88 points, 95 % interval +0.32 to +3.44, p = 0.035, 3 seeds.",
        "- Lexicase (p = 2) better than SGD with 1/3 of the generations, resnet20 on cifar10.npz (table3): +2.33 "
        "points, 95 % interval +2.00 to +2.65, p = 0.001, 3 seeds.",
        "- Lexicase (p = 4) better than SGD with 1/5 of the generations, resnet20 on cifar10.npz (table4): +2.33 "
        "points, 95 % interval +2.00 to +2.65, p = 0.001, 3 seeds.",
        "- Lexicase (p = 4) better than lexicase without momentum, resnet20 on cifar10.npz (table4): +1.67 points, "
        "95 % interval +0.11 to +3.23, p = 0.044, 3 seeds.",
        "",
    ]


def test_a_claim_whose_interval_is_below_zero_does_not_agree(page):
    lines = section(page, "What disagrees with the paper").splitlines()[1:-1]
    assert [line.split(", resnet20")[0] for line in lines] == [
        "- Lexicase (p = 4) better than SGD on equal samples, weight decay 0.0001",
        "- Lexicase (p = 4) better than lexicase with inherited momentum",
    ]


def test_a_claim_whose_interval_has_zero_or_that_has_one_seed_is_inconclusive(page):
    noisy = section(page, "What is inconclusive")
    assert [line.split(",")[0] for line in noisy.splitlines()[1:-1]] == [
        "- Lexicase (p = 4) better than random selection",
        "- Lexicase (p = 4) better than tournament selection",
        "- Random selection (p = 4) better than SGD with 1/5 of the generations",
        "- Lexicase (p = 8) better than SGD with 1/9 of the generations",
    ]
    assert "+0.89 points, 1 seed." in noisy


@pytest.mark.parametrize("first", ["table1", "compare"])
def test_a_claim_that_rests_on_a_part_of_anothers_runs_stands_once_with_all_of_them(first, experiment):
    whole = experiment("table2", {"sgd": SGD, "lexicase": RESET})
    part = [planned for planned in whole.runs if planned.recipe.seed == 0]
    dataclasses.replace(whole, name=first, runs=tuple(part)).save()
    page = results_page(whole.root, whole.root.parent / "RESULTS.md")
    tables = "table1, table2" if first == "table1" else "table2, compare"
    assert f"({tables}): +2.33 points, 95 % interval +2.00 to +2.65, p = 0.001, 3 seeds." in page
    assert page.count("- Lexicase (p = 4) better than SGD") == 1


def test_where_the_paper_has_lexicase_below_that_is_its_claim(experiment):
    below, above = [93.9, 94.0, 93.8], [94.4, 94.6, 94.3]
    for name, lexicase, sgd, heading in (
        ("table1", below, above, "What agrees with the paper"),
        ("table2", above, below, "What disagrees with the paper"),
    ):
        arms = {"sgd": sgd, "lexicase": lexicase}
        plan = experiment(name, arms, dataset="cifar10", model="mobilenetv2")
        page = results_page(plan.root, plan.root.parent / "RESULTS.md")
        assert (
            "- Lexicase (p = 4) worse than SGD with 1/5 of the generations, MobileNetV2 on CIFAR-10, published -0.40"
            in section(page, heading)
        )


def test_what_is_missing_is_told_by_method(page):
    assert section(page, "What is missing").splitlines()[1:-3] == [
        "- table2: 2 of 3 runs of average, outer 0.5 (seed 2 at generation 120 of 200; seed 1 not started).",
        "- table3: 2 of 3 runs of lexicase, p = 8 (seeds 1 and 2 not started).",
        "- table1: not started.",
        "- figure2: not started.",
        "",
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
    assert links == ["results/table2-curves.svg", "results/table2-finals.svg"]
    assert set(links) <= names


def test_it_comes_out_the_same_again_also_after_the_reports_and_from_a_copy(page, table2, tmp_path):
    write_report(table2)
    assert results_page(table2.root, table2.root.parent / "RESULTS.md") == page
    shutil.copytree(table2.root, tmp_path / "elsewhere" / "results")
    assert results_page(tmp_path / "elsewhere" / "results", tmp_path / "elsewhere" / "RESULTS.md") == page
    assert page.endswith("Made by `gradlex report results --page RESULTS.md`.\n")


def test_a_figure_2_that_is_not_drawn_is_not_linked(experiment):
    plan = experiment("figure2", {"sgd": [None]})
    assert write_report(plan) == []
    page = results_page(plan.root, plan.root.parent / "RESULTS.md")
    assert "Figure 2 is not drawn yet." in page
    assert "figure2.svg" not in page


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
