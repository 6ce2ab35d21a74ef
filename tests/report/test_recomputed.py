"""The published numbers, computed again by nothing but json and SciPy: this file imports nothing of gradlex."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import pytest
from scipy import stats

ROOT = Path(__file__).parents[2]
PLANS = sorted(
    path
    for path in [*(ROOT / "results").glob("*.json"), *(ROOT / "results").glob("*/*.json")]
    if path.stem in ("compare", "table2")
)


def finals(plan: Path) -> dict[str, dict[int, float]]:
    """Final test accuracy in per cent, by method and seed."""
    found: dict[str, dict[int, float]] = {}
    for planned in json.loads(plan.read_text(encoding="utf-8"))["runs"]:
        path = plan.parent / "runs" / planned["run"] / "result.json"
        if path.exists():
            result = json.loads(path.read_text(encoding="utf-8"))
            value = result["metrics"]["test"]["accuracy"] if "metrics" in result else result["test_accuracy"]
            found.setdefault(planned["method"], {})[planned["recipe"].get("seed", 0)] = 100 * value
    return found


def table(plan: Path, title: str) -> list[list[str]]:
    """The rows of a Markdown table of the report, as their cells."""
    text = plan.with_suffix(".md").read_text(encoding="utf-8")
    (rows,) = re.findall(rf"^\*\*{title}.*?\*\*\n\n\|.*\n\|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()]


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_means_and_deviations_of_the_published_tables_are_those_of_the_records(plan):
    told = [row[1:3] for row in table(plan, "Results and cost")]
    expected = []
    for values in finals(plan).values():
        seeds = list(values.values())
        deviation = f" ± {statistics.stdev(seeds):.2f}" if len(seeds) > 1 else ""
        expected.append([str(len(seeds)), f"{statistics.fmean(seeds):.2f}{deviation}"])
    assert sorted(told) == sorted(expected)


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_differences_from_sgd_are_paired_t_tests_of_the_records(plan):
    found = finals(plan)
    told = {row[1] for row in table(plan, "Difference in test accuracy from each baseline")}
    for method in found.keys() - {"sgd"}:
        seeds = sorted(found[method].keys() & found["sgd"].keys())
        ours, theirs = ([found[name][seed] for seed in seeds] for name in (method, "sgd"))
        mean = f"{statistics.fmean(ours) - statistics.fmean(theirs):+.2f}"
        if len(seeds) > 1:
            test = stats.ttest_rel(ours, theirs)
            low, high = test.confidence_interval(0.95)
            p = "p<0.001" if test.pvalue < 0.001 else f"p={test.pvalue:.3f}"
            mean += f" [{low:+.2f}, {high:+.2f}] {p}"
        assert any(cell.startswith(mean) for cell in told), (method, mean, told)


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_declared_comparisons_are_paired_t_tests_adjusted_by_holms_method(plan):
    found = finals(plan)
    pairs = json.loads(plan.read_text(encoding="utf-8")).get("pairs", [])
    if not pairs or any(len(found.get(name, ())) < 2 for pair in pairs for name in pair):
        pytest.skip("no comparisons were declared, or some have one seed yet")
    tests = []
    for first, second in pairs:
        seeds = sorted(found[first].keys() & found[second].keys())
        tests.append(stats.ttest_rel(*([found[name][seed] for seed in seeds] for name in (first, second))))
    adjusted, least = dict[int, float](), 0.0
    for place, index in enumerate(sorted(range(len(tests)), key=lambda index: tests[index].pvalue)):
        least = max(least, min(1.0, (len(tests) - place) * tests[index].pvalue))
        adjusted[index] = least
    rows = table(plan, "Declared comparisons")
    assert len(rows) == len(pairs)
    for index, (row, test) in enumerate(zip(rows, tests, strict=True)):
        low, high = test.confidence_interval(0.95)
        assert row[2:6] == [
            f"{(low + high) / 2:+.2f}",
            f"{low:+.2f} to {high:+.2f}",
            *("<0.001" if p < 0.001 else f"{p:.3f}" for p in (test.pvalue, adjusted[index])),
        ]
