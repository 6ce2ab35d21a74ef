"""Figure 2: its numbers against exact ones, its files, and what is refused."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid

from gradlex.cli import main
from gradlex.errors import InputError
from gradlex.experiments import Plan, Planned, record_activations
from gradlex.report import gather
from gradlex.report._claims import claims
from gradlex.report._diversity import (
    common_edges,
    effective_rank,
    entropy,
    share_of_zeros,
)
from gradlex.report._figure2 import (
    compared,
    density,
    draw_figure2,
    layer_panels,
    planned_groups,
    write_figure2,
)
from gradlex.report._plots import looks
from gradlex.runs import stored_run

ENDINGS = {"png", "svg", "txt", "md", "tex"}


def features(seed, images=40, channels=60):
    values = np.random.default_rng(seed).normal(size=(images, channels)).clip(min=0)
    return values.astype(np.float32)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A root with two runs of SGD and one of lexicase, their activations recorded."""
    root = tmp_path_factory.mktemp("figure2")
    quick = ("train", "--train-size", "60", "--workers", "1", "--generations", "1", "--width", "0.25")
    for name, seed in (("sgd", 0), ("sgd", 1), ("lexicase", 0)):
        run = root / "runs" / f"{name}-{seed}"
        main([*quick, "--selection", name, "--seed", str(seed), "--out", str(run)])
        record_activations(run)
    return root


@pytest.fixture
def plan(trained, tmp_path):
    runs = (("sgd", "sgd-0"), ("lexicase", "lexicase-0"), ("sgd", "sgd-1"))
    root = shutil.copytree(trained, tmp_path / "root")
    return Plan(
        root=root,
        name="figure2",
        scale="smoke",
        command="gradlex paper figure2 --scale smoke",
        runs=tuple(
            Planned(method=method, run=run, recipe=stored_run(root / "runs" / run).recipe)
            for method, run in runs
        ),
    )


def test_the_share_of_zeros_is_exact():
    values = np.array([[0, 1, -0.0], [2, 0, 1e-30], [3, 4, 5], [0, 0, 6]], dtype=np.float32)
    assert share_of_zeros(values) == 5 / 12


def test_the_effective_rank_of_orthogonal_features_is_their_number_and_of_one_direction_1():
    basis, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(30, 30)))
    assert effective_rank(basis[:7]) == pytest.approx(7)
    assert effective_rank(5 * basis[:, :12]) == pytest.approx(12)
    alike = np.outer(np.arange(1, 41), np.arange(25))
    assert effective_rank(alike) == pytest.approx(1)
    assert effective_rank(np.zeros((4, 3))) == 0


def test_the_effective_rank_equals_its_definition_by_singular_values():
    for values in (features(1), features(2, images=60, channels=20)):
        singular = np.linalg.svd(values.astype(np.float64), compute_uv=False)
        parts = singular / singular.sum()
        assert effective_rank(values) == pytest.approx(np.exp(-(parts * np.log(parts)).sum()))


def test_entropy_is_that_of_the_histogram_in_common_bins():
    edges = common_edges([np.array([[0.0, 20.0]]), np.array([[50.0, 5.0]])])
    assert edges == pytest.approx(np.arange(51))
    even = np.arange(50).reshape(10, 5) + 0.5
    assert entropy(even, edges) == pytest.approx(np.log(50))
    assert entropy(np.array([[1.1, 1.9], [1.5, 8.0]]), edges) == pytest.approx(
        -0.75 * np.log(0.75) - 0.25 * np.log(0.25)
    )
    assert entropy(np.full((4, 3), 2.5), edges) == 0
    assert entropy(np.zeros((4, 3)), common_edges([np.zeros((4, 3))])) == 0


def test_sets_are_compared_seed_by_seed_where_they_have_the_same_seeds_and_else_by_welchs_test(plan):
    one, other, lexicase = (plan.root / "runs" / name for name in ("sgd-0", "sgd-1", "lexicase-0"))
    found = compared({"so": [one, other], "not so": [lexicase, other]}, ["features.0"])
    values = {
        title: [effective_rank(each) for each in runs] for title, runs in found.layers["features.0"].items()
    }
    draw_figure2(found.groups, plan.root / "paired", layers=["features.0"])
    draw_figure2({"so": [one, other], "not so": [lexicase, one]}, plan.root / "apart", layers=["features.0"])
    first = stats.ttest_rel(values["not so"], values["so"]).confidence_interval()
    apart = [values["not so"][0], values["so"][0]]
    second = stats.ttest_ind(apart, values["so"], equal_var=False).confidence_interval()
    for name, (low, high) in (("paired", first), ("apart", second)):
        (line,) = [
            line for line in (plan.root / f"{name}.txt").read_text().splitlines() if "minus so" in line
        ]
        assert line.endswith(f"[{low:+.1f}, {high:+.1f}]"), (line, low, high)


def test_one_run_has_no_interval(plan):
    one, other, lexicase = (plan.root / "runs" / name for name in ("sgd-0", "sgd-1", "lexicase-0"))
    for name, sets in (("same seed", [lexicase]), ("another seed", [other])):
        draw_figure2({"so": [one], "too": sets}, plan.root / name)
        lines = [line for line in (plan.root / f"{name}.txt").read_text().splitlines() if "minus so" in line]
        assert lines
        assert not any("[" in line for line in lines)


def test_sets_with_the_same_seeds_are_paired_in_whatever_order_they_are_named(plan):
    one, other = (plan.root / "runs" / name for name in ("sgd-0", "sgd-1"))
    draw_figure2({"so": [one, other], "so too": [other, one]}, plan.root / "same")
    differences = [line for line in (plan.root / "same.txt").read_text().splitlines() if "minus so" in line]
    assert [line.split("difference")[1].split() for line in differences] == 2 * [
        ["+0.0", "+0.000", "+0.0"]  # the same in every seed: no interval
    ]


def test_a_set_that_has_a_seed_twice_is_not_paired(plan):
    one, other = (plan.root / "runs" / name for name in ("sgd-0", "lexicase-0"))
    draw_figure2({"so": [one, other], "so too": [one, other]}, plan.root / "twice")
    (line, *_) = [line for line in (plan.root / "twice.txt").read_text().splitlines() if "minus so" in line]
    assert "[" in line  # two different runs scatter


@pytest.mark.parametrize("least", [0.0, 0.7])
def test_the_density_of_what_is_never_negative_begins_at_its_least_value_and_has_all_its_mass(least):
    values = least + np.abs(np.random.default_rng(3).normal(size=4_000))
    points, heights = density(values)
    assert points[0] == values.min()
    assert trapezoid(heights, points) == pytest.approx(1, abs=0.01)
    # Half a normal distribution: as high at its end as anywhere; a plain kernel estimate has half of it.
    assert heights[0] == pytest.approx(2 / np.sqrt(2 * np.pi), rel=0.1)


def test_a_density_of_positive_and_negative_values_is_not_cut():
    values = np.random.default_rng(3).normal(size=1_000)
    points, heights = density(values)
    assert points[0] < values.min()
    assert trapezoid(heights, points) == pytest.approx(1, abs=0.01)


def test_no_line_of_the_figure_runs_below_the_least_activation(plan):
    evidence = gather(plan)
    found = compared(planned_groups(evidence)[0], None)
    figure = layer_panels(found, looks(evidence), "A caption.")
    for ax, sets in zip(figure.axes, found.layers.values(), strict=True):
        for line, runs in zip(ax.get_lines(), sets.values(), strict=True):
            assert line.get_xdata()[0] == min(run.min() for run in runs) >= 0
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "SGD (n = 2 seeds)",
        "lexicase (n = 1 seed)",
    ]
    assert figure.get_supxlabel() == "A caption."


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_activations_that_are_not_finite_are_refused(plan, broken):
    path = plan.root / "runs" / "sgd-0" / "activations.npz"
    arrays = dict(np.load(path))
    arrays["features.0"][0, 0] = broken
    np.savez(path, **arrays)
    with pytest.raises(InputError, match="empty or not finite"):
        write_figure2(plan)


def test_sgd_is_red_and_lexicase_blue_as_in_the_paper_in_whatever_order_they_are_planned(plan):
    evidence = gather(dataclasses.replace(plan, runs=plan.runs[::-1]))
    assert {title: look.colour for title, look in looks(evidence).items()} == {
        "SGD": "#D55E00",
        "lexicase": "#0072B2",
    }


def test_a_run_without_a_layer_of_the_plan_is_named_and_the_others_are_drawn(plan):
    run = plan.root / "runs" / "sgd-1"
    (run / "activations.npz").unlink()
    record_activations(run, layers=["features.1"])
    write_figure2(dataclasses.replace(plan, layers=("features.0",)))
    text = (plan.root / "figure2.txt").read_text()
    assert "Not drawn: SGD, seed 1" in text
    assert " ".join(text.split()).count("features.0 SGD seed 0") == 1


def test_runs_of_one_set_may_have_as_many_channels_as_they_like(trained, tmp_path):
    wide = tmp_path / "wide"
    main(["train", "--train-size", "60", "--workers", "1", "--generations", "1", "--out", str(wide)])
    record_activations(wide)
    narrow = trained / "runs" / "lexicase-0"
    draw_figure2({"first": [trained / "runs" / "sgd-0"], "second": [narrow, wide]}, tmp_path / "drawn")
    assert (tmp_path / "drawn.svg").exists()


def test_the_papers_claim_of_diverse_representations_is_judged_by_the_runs_seeds(plan):
    (claim, *_) = [
        each for each in claims([gather(plan)]) if each.text.startswith("Layer features.0: higher entropy")
    ]
    # One seed has both.
    assert (claim.difference.n, claim.agreement, claim.unit.word) == (1, 0, "nats")
    write_figure2(plan)
    text = (plan.root / "figure2.txt").read_text()
    row = next(line for line in text.splitlines() if line.startswith("features.0  lexicase  "))
    values = {
        name: np.load(plan.root / "runs" / name / "activations.npz")["features.0"]
        for name in ("lexicase-0", "sgd-0", "sgd-1")
    }
    edges = common_edges(values.values())
    assert f"{entropy(values['lexicase-0'], edges):.3f} " in row
    assert claim.difference.mean == pytest.approx(
        entropy(values["lexicase-0"], edges) - entropy(values["sgd-0"], edges)
    )


def test_the_figure_of_a_plan_is_made_from_the_stored_activations_alone_and_always_alike(plan):
    written = write_figure2(plan)
    assert {path.name for path in written} == {f"figure2.{ending}" for ending in ENDINGS}
    before = {path: path.read_bytes() for path in written}
    for path in written:
        path.unlink()
    for planned in plan.runs:
        (plan.path(planned) / "model.safetensors").unlink()
    assert write_figure2(plan) == written
    assert {path: path.read_bytes() for path in written} == before


def test_the_numbers_stand_beside_the_figure(plan):
    write_figure2(plan)
    lines = (plan.root / "figure2.txt").read_text().splitlines()
    rows = [line.split()[:5] for line in lines if line.startswith("features.2")]
    assert [row[1:-1] for row in rows[:1]] == [["SGD", "mean", "of"]]
    assert [row[1:4] for row in rows[1:]] == [
        ["SGD", "seed", "0"],
        ["SGD", "seed", "1"],
        ["lexicase", "seed", "0"],
        ["lexicase", "minus", "SGD"],
    ]
    values = [
        np.load(plan.root / "runs" / f"sgd-{seed}" / "activations.npz")["features.2"] for seed in (0, 1)
    ]
    assert rows[1][4] == f"{100 * (values[0] == 0).mean():.1f}"
    assert f" {100 * np.mean([v == 0 for v in values]):.1f} [" in next(
        line for line in lines if "mean of" in line and "features.2" in line
    )
    assert "first 100 test images" in "\n".join(lines)


def test_a_run_that_is_not_finished_is_left_out_and_named(plan):
    (plan.root / "runs" / "sgd-1" / "result.json").unlink()
    write_figure2(plan)
    text = (plan.root / "figure2.txt").read_text()
    assert "Not finished: 1 of 2 runs of SGD" in text
    assert "mean of" not in text


def test_layers_can_be_chosen_and_must_be_common(plan):
    one, other = (plan.root / "runs" / name for name in ("sgd-0", "lexicase-0"))
    record_activations(one, layers=["features.1"])
    groups = {"one": [one], "other": [other]}
    draw_figure2(groups, plan.root / "common")
    text = (plan.root / "common.txt").read_text()
    assert ("features.0" in text, "features.1" in text, "features.2" in text) == (True, False, True)
    draw_figure2(groups, plan.root / "chosen", layers=["features.2"])
    assert "features.0" not in (plan.root / "chosen.txt").read_text()
    with pytest.raises(
        InputError, match=r"not all runs have activations of features.1: .*lexicase-0 has features.0"
    ):
        draw_figure2(groups, plan.root / "refused", layers=["features.1"])
    (other / "activations.npz").unlink()
    record_activations(other, layers=["classifier"])
    with pytest.raises(InputError, match="not all runs have activations of a common layer"):
        draw_figure2(groups, plan.root / "refused")
    assert not list(plan.root.glob("refused*"))


def test_what_cannot_be_compared_is_refused(plan):
    one, other = (plan.root / "runs" / name for name in ("sgd-0", "lexicase-0"))
    record_activations(other, samples=50)
    with pytest.raises(InputError, match=r"the same number of images.*sgd-0 has 100; .*lexicase-0 has 50"):
        draw_figure2({"one": [one], "other": [other]}, plan.root / "refused")
    with pytest.raises(InputError, match="at least one run in every set"):
        draw_figure2({"one": [one], "other": []}, plan.root / "refused")
    (other / "activations.npz").unlink()
    write_figure2(plan)
    assert "Not drawn: lexicase, seed 0: run gradlex paper figure2 to record its activations." in (
        plan.root / "figure2.txt"
    ).read_text(encoding="utf-8")
    for planned in plan.runs:
        (plan.path(planned) / "result.json").unlink()
    with pytest.raises(InputError, match="has no finished run"):
        write_figure2(plan)
