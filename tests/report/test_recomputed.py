"""The published numbers, computed again by nothing but json, NumPy and SciPy: this file imports nothing of gradlex."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import linalg, stats

ROOT = Path(__file__).parents[2]
PLANS = sorted(
    path
    for path in [*(ROOT / "results").glob("*.json"), *(ROOT / "results").glob("*/*.json")]
    if path.stem in ("compare", "table2")
)


TITLES = {
    "sgd": "SGD",
    "sgd-matched": "SGD, equal samples",
    "sgd-matched-5e-4": "SGD, equal samples, decay 5e-4",
    "swa": "SWA",
    "lexicase-survive": "lexicase, survive",
    "expected": "lexicase, expected",
    "survivors": "lexicase, survivors",
    "average-outer-0.5": "average, outer 0.5",
    "average-outer-0.9": "average, outer 0.9",
    "expected-outer-0.5": "lexicase, expected, outer 0.5",
    "expected-outer-0.9": "lexicase, expected, outer 0.9",
    **{name: name for name in ("random", "tournament", "lexicase", "average")},
    **{f"branched-{name}": f"branched {name}" for name in ("average", "expected", "lexicase", "random")},
}
"""What tables call a method."""


def planned(plan: Path) -> dict[str, Any]:
    return json.loads(plan.read_text(encoding="utf-8"))


def finals(plan: Path) -> dict[str, dict[int, float]]:
    """Final test accuracy in per cent, by method and seed."""
    found: dict[str, dict[int, float]] = {}
    for run in planned(plan)["runs"]:
        path = plan.parent / "runs" / run["run"] / "result.json"
        if path.exists():
            result = json.loads(path.read_text(encoding="utf-8"))
            value = result["metrics"]["test"]["accuracy"] if "metrics" in result else result["test_accuracy"]
            found.setdefault(run["method"], {})[run["recipe"].get("seed", 0)] = 100 * value
    return found


def table(plan: Path, title: str) -> list[list[str]]:
    """The rows of a Markdown table of the report, as their cells."""
    text = plan.with_suffix(".md").read_text(encoding="utf-8")
    (rows,) = re.findall(rf"^\*\*{title}.*?\*\*\n\n\|.*\n\|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]


def holm(ps: list[float]) -> list[float]:
    """p adjusted for the number of tests, in the order given."""
    adjusted, least = [1.0] * len(ps), 0.0
    for place, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        least = max(least, min(1.0, (len(ps) - place) * ps[index]))
        adjusted[index] = least
    return adjusted


def p_cell(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def is_detectable(cell: str, gaps: list[float], tests: int) -> bool:
    """Whether a cell is, rounded, the true difference that is found four times out of five."""
    low, high = (power(float(cell) + rounding, gaps, tests) for rounding in (-0.00501, 0.00501))
    return low < 0.8 < high


def power(true: float, gaps: list[float], tests: int) -> float:
    """The chance that as many seeds with this scatter find a true difference at 0.05 over the number of tests."""
    n = len(gaps)
    shift = true / (statistics.stdev(gaps) / n**0.5)
    return float(stats.nct.sf(stats.t.isf(0.025 / tests, n - 1), n - 1, shift))


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_means_and_deviations_of_the_published_tables_are_those_of_the_records(plan):
    expected = {}
    for method, values in finals(plan).items():
        seeds = list(values.values())
        deviation = f" ± {statistics.stdev(seeds):.2f}" if len(seeds) > 1 else ""
        expected[TITLES[method]] = [str(len(seeds)), f"{statistics.fmean(seeds):.2f}{deviation}"]
    assert {row[0]: row[1:3] for row in table(plan, "Results and cost")} == expected


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_differences_from_sgd_are_paired_t_tests_of_the_records(plan):
    found = finals(plan)
    told = {row[0]: row[1] for row in table(plan, "Difference in test accuracy from each baseline")}
    for method in found.keys() - {"sgd"}:
        seeds = sorted(found[method].keys() & found["sgd"].keys())
        ours, theirs = ([found[name][seed] for seed in seeds] for name in (method, "sgd"))
        mean = f"{statistics.fmean(ours) - statistics.fmean(theirs):+.2f}"
        if len(seeds) > 1:
            test = stats.ttest_rel(ours, theirs)
            low, high = test.confidence_interval(0.95)
            p = "p<0.001" if test.pvalue < 0.001 else f"p={test.pvalue:.3f}"
            mean += f" [{low:+.2f}, {high:+.2f}] {p}"
        assert told[TITLES[method]].split(" (")[0] == mean


@pytest.mark.parametrize(
    "plan", [plan for plan in PLANS if planned(plan).get("pairs")], ids=lambda path: path.parent.name
)
def test_declared_comparisons_are_paired_t_tests_adjusted_by_holms_method(plan):
    """Of all that were declared, also those without runs; no conclusion before all planned seeds are finished."""
    found, pairs = finals(plan), planned(plan)["pairs"]
    seeds = {run["recipe"].get("seed", 0) for run in planned(plan)["runs"]}
    tests = []
    for names in pairs:
        shared = sorted(set.intersection(*(set(found.get(name, ())) for name in names)))
        values = [[found[name][seed] for seed in shared] for name in names]
        tests.append((len(shared), values, stats.ttest_rel(*values) if len(shared) > 1 else None))
    adjusted = holm([1.0 if test is None else float(test.pvalue) for *_, test in tests])
    rows = table(plan, "Declared comparisons")
    assert [row[0].removesuffix(" (primary)") for row in rows] == [
        f"{TITLES[first]} minus {TITLES[second]}" for first, second in pairs
    ]
    for index, (row, (n, values, test)) in enumerate(zip(rows, tests, strict=True)):
        assert row[6] == str(n)
        if test is None:
            assert row[1] == "under way"
            assert row[3:6] == ["-", "-", "-"]
            continue
        low, high = test.confidence_interval(0.95)
        assert row[2:6] == [
            f"{(low + high) / 2:+.2f}",
            f"{low:+.2f} to {high:+.2f}",
            *(p_cell(p) for p in (test.pvalue, adjusted[index])),
        ]
        better = "better" if low + high > 0 else "worse"
        within = "equivalent" if low > -0.3 and high < 0.3 else "open"
        decided = better if adjusted[index] < 0.05 else within
        assert row[1] == (decided if n == len(seeds) else "under way")
        gaps = [one - other for one, other in zip(*values, strict=True)]
        assert is_detectable(row[7], gaps, len(pairs))


CLAIM = re.compile(
    r"(Lexicase|Random selection|Tournament selection) \(p = 4\) better than (.+?), networks.* \((.+)\)"
)
ARMS = {
    "Lexicase": "lexicase",
    "Random selection": "random",
    "Tournament selection": "tournament",
    "random selection": "random",
    "tournament selection": "tournament",
    "SGD with 1/5 of the generations": "sgd",
    "SGD on equal samples, weight decay 0.0005": "sgd-matched",
}


def claim_rows() -> list[list[str]]:
    """The table of the paper's claims, without what the earlier results say of them."""
    text = (ROOT / "RESULTS.md").read_text(encoding="utf-8")
    (rows,) = re.findall(r"^## The paper's claims\n\n\|.*\n\|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]


def check_claims(rows: list[list[str]], gaps: list[list[float]], sides: list[int], seeds: int) -> None:
    """All claims of one family, by the differences of their seeds."""
    tests = [stats.ttest_1samp(each, 0) for each in gaps]
    adjusted = holm([float(test.pvalue) for test in tests])
    for row, each, side, test, p in zip(rows, gaps, sides, tests, adjusted, strict=True):
        low, high = test.confidence_interval(0.95)
        mean = statistics.fmean(each)
        decided = "cannot tell" if p >= 0.05 else "agrees" if mean * side > 0 else "disagrees"
        assert row[1] == (decided if len(each) == seeds else "under way")
        assert row[2].split()[0] == f"{mean:+.2f}"
        assert row[3:6] == [f"{low:+.2f} to {high:+.2f}", p_cell(p), str(len(each))]
        assert is_detectable(row[6], each, len(rows))


def test_claims_about_test_results_are_judged_by_the_differences_of_their_seeds():
    rows = [row for row in claim_rows() if not row[0].startswith("Layer ")]
    gaps = []
    for row in rows:
        match = CLAIM.fullmatch(row[0])
        assert match is not None, row[0]
        (plan,) = [
            each for each in PLANS if planned(each).get("title") and planned(each)["title"] in match[3]
        ]
        ours, theirs = (finals(plan)[ARMS[name]] for name in match.groups()[:2])
        gaps.append([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())])
    assert len(rows) >= 6
    check_claims(rows, gaps, [1] * len(rows), seeds=5)


def test_claims_about_representations_are_judged_by_the_activations_of_each_seed():
    plan = ROOT / "results" / "paper" / "figure2.json"
    features: dict[str, dict[int, dict[str, Any]]] = {}
    for run in planned(plan)["runs"]:
        path = plan.parent / "runs" / run["run"] / "activations.npz"
        features.setdefault(run["method"], {})[run["recipe"].get("seed", 0)] = dict(np.load(path))
    gaps, sides = [], []
    for layer in planned(plan)["layers"]:
        found = {name: {seed: each[layer] for seed, each in runs.items()} for name, runs in features.items()}
        everything = np.concatenate([each.ravel() for runs in found.values() for each in runs.values()])
        edges = np.linspace(everything.min(), everything.max(), 51)
        for measure, side in (
            (lambda values: 100 * np.mean(values == 0), -1),
            (lambda values: stats.entropy(np.histogram(values, edges)[0]), 1),  # noqa: B023 (called at once)
            (lambda values: np.exp(stats.entropy(linalg.svdvals(values.astype(np.float64)))), 1),
        ):
            gaps.append(
                [float(measure(found["lexicase"][seed]) - measure(found["sgd"][seed])) for seed in range(5)]
            )
            sides.append(side)
    rows = [row for row in claim_rows() if row[0].startswith("Layer ")]
    check_claims(rows, gaps, sides, seeds=5)


def test_the_numbers_of_the_readme_are_those_of_the_tables():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| (.+?) \| ([+-]\d\.\d\d) \((.+?) to (.+?)\)", text, re.MULTILINE)
    assert len(rows) >= 4
    for where, comparison, mean, low, high in rows:
        (plan,) = [plan for plan in PLANS if planned(plan).get("title", "").split(", where")[0] == where]
        told = {row[0].removesuffix(" (primary)"): row[2:4] for row in table(plan, "Declared comparisons")}
        assert told[comparison] == [mean, f"{low} to {high}"]
