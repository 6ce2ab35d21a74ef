"""The reports of whole experiments, from records, against files that were read and found right."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from gradlex.errors import InputError
from gradlex.experiments import Plan, Planned
from gradlex.recipe import Recipe
from gradlex.report import gather, text_report, write_report
from gradlex.report._provenance import revision_notes

EXPECTED = Path(__file__).parent / "expected"
SGD = [68.11, 67.42, 68.30]
LEXICASE = [70.31, 69.88, 70.62]


@pytest.mark.parametrize("kind", ["txt", "md", "tex"])
def test_the_report_of_table_2_is_byte_for_byte_the_expected_one(table2, kind):
    write_report(table2)
    written = (table2.root / f"table2.{kind}").read_bytes()
    assert written == (EXPECTED / f"table2.{kind}").read_bytes()


def test_what_the_command_prints_is_what_is_written(table2):
    write_report(table2)
    assert text_report(table2) == (table2.root / "table2.txt").read_text(encoding="utf-8")


def test_on_a_narrow_terminal_tables_go_on_below_and_sentences_break_earlier(table2):
    text = text_report(table2, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert max(map(len, text_report(table2, 300).splitlines())) <= 120
    both = [" ".join(each.split()) for each in (text, text_report(table2))]
    assert both[0][-200:] == both[1][-200:]


def test_the_same_records_give_the_same_bytes_twice(table2):
    files = write_report(table2)
    first = {path.name: path.read_bytes() for path in files}
    assert {path.name: path.read_bytes() for path in write_report(table2)} == first
    assert sorted(first) == [
        *(f"table2-curves.{kind}" for kind in ("png", "svg")),
        *(f"table2-finals.{kind}" for kind in ("png", "svg")),
        *(f"table2.{kind}" for kind in ("md", "tex", "txt")),
    ]


def test_plots_carry_no_date_and_no_version(table2):
    for path in write_report(table2):
        if path.suffix in (".png", ".svg"):
            content = path.read_bytes()
            assert b"Software" not in content
            assert b"<dc:date>" not in content
            assert not re.search(rb"Matplotlib v\d", content)


def test_table_3_has_a_column_for_every_population_and_a_dash_where_there_is_no_run(experiment):
    plan = experiment(
        "table3", {"sgd": SGD, "lexicase population=2": [70.1, 69.9], "lexicase population=8": LEXICASE}
    )
    lines = text_report(plan).splitlines()
    assert re.split(r"\s{2,}", lines[2].strip()) == [
        *("source", "dataset", "model", "seeds", "SGD", "p = 2", "p = 4", "p = 6", "p = 8")
    ]
    assert re.split(r"\s{2,}", lines[4].strip()) == [
        *("gradlex, small", "cifar10.npz", "resnet20", "3", "67.94 ± 0.46"),
        *("70.00 ± 0.14 (2 of 3 seeds)", "-", "-", "70.27 ± 0.37"),
    ]


def test_table_4_has_a_column_for_every_momentum(experiment):
    arms = {f"lexicase momentum={momentum}": LEXICASE for momentum in ("inherit", "reset", "none")}
    lines = text_report(experiment("table4", {"sgd": SGD, **arms})).splitlines()
    assert re.split(r"\s{2,}", lines[2].strip())[4:] == ["SGD", "none", "reset", "inherit"]


def test_table_1_has_a_row_for_every_dataset_and_model_in_the_papers_spelling(experiment):
    arms = {
        f"{method} dataset={dataset} model={model}": SGD
        for dataset, model in (("cifar10", "vgg16"), ("svhn", "efficientnetb0"))
        for method in ("sgd", "lexicase")
    }
    text = text_report(experiment("table1", arms))
    ours = [re.split(r"\s{2,}", line)[1:3] for line in text.splitlines() if line.startswith("gradlex, s")]
    assert ours == [["CIFAR-10", "VGG16"], ["SVHN", "EfficientNetB0"]]
    assert sum(line.startswith("published ") for line in text.splitlines()) == 21


def test_table_1_ends_with_the_papers_column_of_gains(experiment):
    plan = experiment(
        "table1", {"sgd": SGD, "lexicase": LEXICASE, "random": [70.0]}, dataset="cifar10", model="resnet50"
    )
    lines = text_report(plan).splitlines()
    assert re.split(r"\s{2,}", lines[2].strip())[4:] == ["SGD", "lexicase", "random", "acc. ↑"]
    ours = next(line for line in lines if line.startswith("gradlex, s"))
    assert ours.split()[-1] == f"{sum(LEXICASE) / 3 - sum(SGD) / 3:+.2f}"
    theirs = next(line for line in lines if re.match(r"published +CIFAR-10 +ResNet50 ", line))
    assert theirs.split()[-1] == "+0.34"  # as printed there, not 94.98 - 94.63


def test_the_papers_gains_are_lexicase_minus_sgd_up_to_its_rounding(experiment):
    text = text_report(experiment("table1", {"sgd": [None]}))
    rows = [line.split() for line in text.splitlines() if line.startswith("published ")]
    assert len(rows) == 21
    for *_, sgd, _, _, lexicase, _, _, gain in rows:
        assert float(gain) == pytest.approx(float(lexicase) - float(sgd), abs=0.0101)


@pytest.mark.parametrize(("name", "inferred"), [("table2", False), ("table3", True), ("table4", True)])
def test_seeds_that_the_paper_does_not_state_are_said_to_be_inferred(experiment, name, inferred):
    text = " ".join(text_report(experiment(name, {"sgd": SGD})).split())
    assert ("the paper does not say how many seeds this table has: 3 is inferred" in text) == inferred


@pytest.mark.parametrize("name", ["table1", "table2", "table3", "table4", "compare"])
def test_runs_of_0_1_0_are_marked_in_every_table(experiment, name):
    plan = experiment(name, {"sgd": SGD, "lexicase": LEXICASE})
    note = "These runs were made by gradlex 0.1.0: short last batches, SGD not saturated."
    assert note in " ".join(text_report(plan).split())
    arms = gather(plan).arms
    saturated = [replace_runs(arm, train=99.8) for arm in arms]
    assert revision_notes(saturated) == ["These runs were made by gradlex 0.1.0: short last batches."]
    newer = [replace_runs(arms[0], revision=2), arms[1]]
    assert revision_notes(newer)[0].startswith("3 of 6 runs were made by gradlex 0.1.0: short last batches")
    assert revision_notes([replace_runs(arm, revision=2) for arm in arms]) == []


def replace_runs(arm, **changes):
    runs = {seed: dataclasses.replace(run, **changes) for seed, run in arm.runs.items()}
    return dataclasses.replace(arm, runs=runs)


def test_our_numbers_say_how_small_they_are(table2):
    text = " ".join(text_report(table2).split())
    assert (
        "5,000 training and 10,000 test samples; 40 generations for SGD; 200 generations for the others; "
        "p = 4, momentum reset" in text
    )


def test_methods_that_branch_off_the_same_run_say_so(experiment):
    arms = {"sgd": SGD, "swa": SGD, "branched-average": LEXICASE, "lexicase": LEXICASE}
    text = " ".join(text_report(experiment("compare", arms, generations=40)).split())
    shared = (
        "Runs with the same seed share their first 30 generations, plain SGD: SGD, SWA and branched average."
    )
    assert text.count(shared) == 1
    assert "share their first" not in text_report(experiment("table2", {"sgd": SGD, "lexicase": LEXICASE}))


def test_unfinished_runs_are_named_and_not_counted(table2):
    text = text_report(table2)
    assert (
        "Not finished: 2 of 3 runs of average, outer 0.5 (seed 2 at generation 120 of 200; seed 1 not started)."
        in text
    )
    assert "72.70 (1 of 3 seeds)" in text


def test_an_experiment_without_a_finished_run_is_reported_as_such(experiment):
    plan = experiment("compare", {"sgd": [None], "lexicase": [None, None]})
    assert text_report(plan) == (
        "No run is finished yet.\n\n"
        "Not finished: 1 of 1 run of SGD (seed 0 not started).\n\n"
        "Not finished: 2 of 2 runs of lexicase (seeds 0 and 1 not started).\n"
    )
    assert [path.name for path in write_report(plan)] == ["compare.txt", "compare.md", "compare.tex"]


def test_a_table_of_the_paper_without_a_finished_run_still_shows_the_published_rows(experiment):
    text = text_report(experiment("table4", {"sgd": [None], "lexicase": [None]}))
    assert "94.77" in text
    assert "Not finished: 1 of 1 run of lexicase, reset (seed 0 not started)." in text


def test_a_failed_run_is_named_with_its_reason_and_counted_beside_the_means(experiment):
    plan = experiment(
        "compare",
        {"sgd": SGD, "lexicase": [70.31, 69.88, None]},
        failures={"compare-lexicase-seed2": "all candidates diverged."},
    )
    text = " ".join(text_report(plan).split())
    assert (
        "Not finished: 1 of 3 runs of lexicase (seed 2 at generation 0 of 200 failed: all candidates diverged)."
        in text
    )
    assert "lexicase 2 (1 failed) 70.09" in text
    assert "Failed runs (lexicase: 1 of 3 seeds) are not part of the means." in text


def test_a_method_that_failed_with_every_seed_stays_in_the_table_and_the_verdict(experiment):
    failures = {f"compare-average-outer-0.9-seed{seed}": "all candidates diverged." for seed in range(3)}
    plan = experiment(
        "compare",
        {"sgd": SGD, "lexicase": LEXICASE, "average-outer-0.9": [None, None, None]},
        failures=failures,
    )
    text = " ".join(text_report(plan).split())
    assert "average, outer 0.9 0 (3 failed) - - - - - - -" in text
    assert "Failed runs (average, outer 0.9: 3 of 3 seeds) are not part of the means." in text


def test_what_is_missing_is_told_by_dataset_model_and_population(experiment):
    two = experiment("table1", {"sgd": SGD, "lexicase dataset=svhn model=resnet50": [None]})
    assert "Not finished: 1 of 1 run of lexicase, ResNet50 on SVHN (seed 0 not started)." in text_report(two)
    sizes = experiment("table3", {"lexicase population=2": SGD, "lexicase population=8": [70.0, None]})
    assert "Not finished: 1 of 2 runs of lexicase, p = 8 (seed 1 not started)." in text_report(sizes)


def test_matched_baselines_stand_apart_before_their_populations_are_finished(experiment):
    plan = experiment(
        "compare",
        {
            "sgd-matched population=2": SGD,
            "sgd-matched population=4": SGD,
            "lexicase population=2": [None],
            "lexicase population=4": LEXICASE,
        },
    )
    text = text_report(plan)
    assert "SGD, equal samples, 120 epochs " in text
    assert "SGD, equal samples, 200 epochs " in text


def test_settings_that_the_paper_does_not_have_are_told(experiment):
    changed = {"optimizer": "adamw", "schedule": "constant", "augment": "none"}
    changed |= {"selection_options": {"on_all_fail": "survive"}}
    text = " ".join(text_report(experiment("compare", {"sgd": SGD, "lexicase": SGD}, **changed)).split())
    assert (
        "p = 4, momentum reset, batch size 32, learning rate 0.05, weight decay 0.0001, augmentation none, "
        "precision float32, optimizer adamw, schedule constant, on_all_fail survive." in text
    )


def test_no_folder_of_the_data_is_shown(experiment):
    plan = experiment("compare", {"sgd": SGD, "lexicase": LEXICASE}, dataset="/some/folder/mine.npz")
    for path in write_report(plan):
        assert b"/some" not in path.read_bytes()
    assert "resnet20 on mine.npz" in text_report(plan)


def test_a_width_other_than_one_is_part_of_the_models_name(experiment):
    plan = experiment("compare", {"sgd": SGD}, model="resnet18", width=0.25)
    assert "ResNet18, width 0.25 on cifar10.npz" in text_report(plan)


def test_several_populations_in_one_comparison_stand_apart(experiment):
    plan = experiment(
        "compare", {"sgd": SGD, "lexicase population=2": SGD, "lexicase population=4": LEXICASE}
    )
    text = text_report(plan)
    assert "lexicase, p = 2 " in text
    assert "lexicase, p = 4 " in text


def test_the_critical_path_is_what_one_device_sees(experiment):
    plan = experiment("compare", {"sgd": SGD, "lexicase population=3": LEXICASE})
    lines = text_report(plan).splitlines()
    line = next(line for line in lines if line.startswith("lexicase"))
    # 160 generations of 5,000 samples; 1,667 of them for the largest of three candidates.
    assert re.split(r"\s{2,}", line)[4:6] == ["800,000", "266,720"]


def test_two_runs_of_the_same_method_and_seed_are_refused(experiment):
    plan = experiment("compare", {"sgd": SGD, "lexicase": LEXICASE})
    twice = Plan(**{**vars(plan), "runs": (*plan.runs, plan.runs[0])})
    with pytest.raises(InputError, match="are both SGD, seed 0"):
        text_report(twice)


def test_an_unknown_experiment_or_method_is_refused(tmp_path):
    runs = (Planned(method="sgdd", run="x", recipe=Recipe()),)
    with pytest.raises(InputError, match="unknown experiment 'table9'"):
        text_report(Plan(root=tmp_path, name="table9", scale="small", command="", runs=()))
    with pytest.raises(InputError, match="unknown method 'sgdd'"):
        text_report(Plan(root=tmp_path, name="table2", scale="small", command="", runs=runs))
