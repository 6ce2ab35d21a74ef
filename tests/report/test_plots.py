"""What plots show, read from the figures themselves: limits, lines, colours and texts."""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from gradlex.experiments import METHODS
from gradlex.report import gather, write_report
from gradlex.report._pairs import decisions
from gradlex.report._plots import Look, answers, curves, finals, looks
from gradlex.tasks import Measure

SGD = [68.11, 67.42, 68.30]
LEXICASE = [70.31, 69.88, 70.62]


def changed(evidence, change):
    """The evidence with every run changed by a function."""
    arms = tuple(
        dataclasses.replace(arm, runs={seed: change(run) for seed, run in arm.runs.items()})
        for arm in evidence.arms
    )
    return dataclasses.replace(evidence, arms=arms)


@pytest.fixture
def evidence(experiment):
    return gather(experiment("compare", {"sgd": SGD, "lexicase": LEXICASE}))


def drawn_values(ax):
    return np.concatenate([line.get_ydata() for line in ax.get_lines()])


def test_a_curve_that_falls_at_its_end_is_not_cut_at_the_top(evidence):
    def peaked(run):
        peak = {x: value + 9 * (place == 12) for place, (x, value) in enumerate(run.curve.items())}
        return dataclasses.replace(run, curve=peak)

    ax, _ = curves(changed(evidence, peaked)).axes
    assert ax.get_ylim()[1] > drawn_values(ax).max()


def test_of_a_measure_whose_low_values_are_good_nothing_is_cut_at_the_bottom(evidence):
    error = Measure("error", higher_is_better=False)

    def as_error(run):
        falling = {x: 100 - value for x, value in run.curve.items()}
        return dataclasses.replace(run, measure=error, test=100 - run.test, curve=falling)

    ax, _ = curves(changed(evidence, as_error)).axes
    assert ax.get_ylim()[0] < drawn_values(ax).min()
    assert ax.get_ylim()[1] < drawn_values(ax).max()  # the steep first steps are what is cut
    assert ax.get_ylabel() == "test error"


def test_a_population_is_also_drawn_against_its_critical_path(evidence, experiment):
    samples, path = curves(evidence).axes
    # A million samples of lexicase, a quarter of them on each of four devices; 200,000 of SGD on one.
    ends = [{max(line.get_xdata()) for line in ax.get_lines()} for ax in (samples, path)]
    assert ends == [{200_000, 1_000_000}, {200_000, 250_000}]
    assert [ax.get_xlabel().split(",")[0] for ax in (samples, path)] == [
        *("samples trained", "critical path: samples of one device")
    ]
    assert samples.get_ylim() == path.get_ylim()
    assert len(curves(gather(experiment("table2", {"sgd": SGD}))).axes) == 1


def test_the_axis_is_named_by_the_measure(evidence):
    f1 = Measure("F1", fraction=True)
    found = changed(evidence, lambda run: dataclasses.replace(run, measure=f1))
    assert curves(found).axes[0].get_ylabel() == "test F1, %"
    assert finals(found).axes[0].get_xlabel().startswith("test F1, % ")
    assert curves(evidence).axes[0].get_ylabel() == "test accuracy, %"


@pytest.mark.parametrize("seeds", [2, 3, 5, 12])
def test_seeds_with_equal_values_are_all_visible(experiment, seeds):
    figure = finals(gather(experiment("compare", {"sgd": [68.0] * seeds, "lexicase": [70.0] * seeds})))
    FigureCanvasAgg(figure).draw()
    (ax,) = figure.axes
    for line in (line for line in ax.get_lines() if line.get_marker() == "o"):
        centres = ax.transData.transform(np.column_stack(line.get_data()))
        gaps = np.linalg.norm(np.diff(centres, axis=0), axis=1)
        assert len(centres) == seeds
        # At least half of every circle shows, in points of 1/72 inch.
        assert gaps.min() * 72 / figure.dpi > 0.5 * line.get_markersize()


def test_thin_lines_are_explained_where_there_are_any(evidence, experiment):
    def texts(figure):
        return [text.get_text() for text in figure.legends[0].get_texts()]

    assert texts(curves(evidence)) == ["SGD", "lexicase", "thin: single seeds"]
    assert texts(curves(gather(experiment("table2", {"sgd": [68.0]})))) == ["SGD"]


def test_titles_say_how_many_seeds_there_are(experiment):
    for name, accuracies, words in (
        ("compare", {"sgd": SGD, "lexicase": LEXICASE}, "n = 3 seeds"),
        ("table2", {"sgd": [68.0], "lexicase": [69.0]}, "n = 1 seed"),
        ("table1", {"sgd": SGD, "lexicase": [69.0]}, "n = 1 to 3 seeds"),
    ):
        evidence = gather(experiment(name, accuracies))
        for draw in (curves, finals):
            assert draw(evidence).axes[0].get_title(loc="left") == f"resnet20 on cifar10.npz, {words}"


def test_the_title_of_an_experiment_stands_above_its_setting(experiment):
    plan = dataclasses.replace(
        experiment("compare", {"sgd": SGD, "lexicase": LEXICASE}), title="Does it help?"
    )
    (ax,) = finals(gather(plan)).axes
    assert ax.get_title(loc="left") == "Does it help?\nresnet20 on cifar10.npz, n = 3 seeds"


def test_answers_show_the_difference_of_every_seed_and_the_conclusion(experiment):
    plan = dataclasses.replace(
        experiment("compare", {"sgd": SGD, "lexicase": LEXICASE, "average": [None]}),
        pairs=(("lexicase", "sgd"), ("average", "sgd")),
    )
    found = gather(plan)
    made = decisions(found, found.settings[0])
    first, second = answers([("one", made), ("two", made[:1])]).axes
    seeds = [line.get_xdata() for line in first.get_lines() if line.get_marker() == "o"]
    assert [list(each) for each in seeds] == [
        pytest.approx([one - other for one, other in zip(LEXICASE, SGD, strict=True)])
    ]
    assert [text.get_text() for text in first.texts] == ["+2.33  better", "under way"]
    assert [label.get_text() for label in first.get_yticklabels()] == [
        "lexicase minus SGD",
        "average minus SGD",
    ]
    assert (first.get_title(loc="left"), second.get_title(loc="left")) == ("one", "two")
    assert first.get_xlim() == second.get_xlim()
    assert second.get_xlabel().startswith("difference, points")


def test_plots_mark_runs_of_0_1_0(evidence):
    for draw in (curves, finals):
        assert "made by gradlex 0.1.0: short last batches" in draw(evidence).get_supxlabel()
        newer = changed(evidence, lambda run: dataclasses.replace(run, revision=2))
        assert draw(newer).get_supxlabel() == ""


def test_a_method_has_one_colour_in_every_table_and_its_variants_differ_by_their_lines(experiment):
    sizes = {f"lexicase population={p}": LEXICASE for p in (2, 4, 6, 8)}
    momenta = {f"lexicase momentum={m}": LEXICASE for m in ("none", "reset", "inherit")}
    both = {f"{m} population={p}": LEXICASE for m in ("sgd-matched", "sgd-matched-5e-4") for p in (2, 4)}
    colours = {}
    for name, accuracies in (
        ("table1", {"sgd": SGD, "lexicase": LEXICASE}),
        ("table2", {"sgd": SGD, "lexicase": LEXICASE, "average": LEXICASE, "average-outer-0.9": LEXICASE}),
        ("table3", {"sgd": SGD, **sizes}),
        ("table4", {"sgd": SGD, **momenta}),
        ("compare", {"sgd": SGD, **both, **sizes}),
    ):
        evidence = gather(experiment(name, accuracies))
        look = looks(evidence)
        assert len(set(look.values())) == len(look)
        for arm in evidence.arms:
            colours.setdefault(arm.method, set()).add(look[arm.title].colour)
        lexicase = "lexicase" if "lexicase" in look else None
        usual = lexicase or {"table3": "p = 4", "table4": "reset", "compare": "lexicase, p = 4"}[name]
        assert look[usual] == Look("#0072B2", "-")
    assert all(len(found) == 1 for found in colours.values())
    assert colours["sgd"] == {"#D55E00"}
    assert len({*colours["sgd"], *colours["lexicase"], *colours["average"], *colours["sgd-matched"]}) == 4


def test_all_methods_together_can_be_told_apart(experiment):
    methods = [name for name in METHODS if not METHODS[name].tries]  # those need a validation part
    found = looks(gather(experiment("compare", dict.fromkeys(methods, SGD))))
    assert len(found) == len(set(found.values())) == len(methods)


def test_every_title_in_a_plot_names_its_method(experiment):
    arms = {"sgd": SGD, "lexicase momentum=none": LEXICASE, "lexicase momentum=reset": LEXICASE}
    figure = curves(gather(experiment("table4", arms)))
    assert [text.get_text() for text in figure.legends[0].get_texts()][:3] == [
        *("SGD", "lexicase, none", "lexicase, reset")
    ]


def test_runs_that_were_never_evaluated_on_the_way_are_drawn_by_their_end(evidence):
    ends = changed(evidence, lambda run: dataclasses.replace(run, curve={run.generations: run.test}))
    ax, _ = curves(ends).axes
    assert all(map(math.isfinite, ax.get_ylim()))
    assert ax.get_ylim()[1] > max(LEXICASE)


def test_a_name_in_a_script_that_the_font_lacks_is_drawn_without_a_warning(experiment):
    plan = experiment("compare", {"sgd": [60.0], "lexicase": [62.0]}, dataset="\ua9e1.npz", model="\u1780")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert {path.suffix for path in write_report(plan)} >= {".svg", ".png"}
