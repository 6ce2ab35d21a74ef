"""The published numbers, computed again by nothing but json, NumPy and SciPy: this file imports nothing of gradlex."""

from __future__ import annotations

import itertools
import json
import re
import statistics
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

ROOT = Path(__file__).parents[2]
EXPERIMENTS = sorted((ROOT / "results").glob("*/experiment.json"))
TITLES = {
    "sgd": "SGD",
    "sgd-matched": "SGD with as many samples",
    "swa": "SWA",
    "lexicase-survive": "lexicase, survive",
    "expected": "lexicase, expected",
    **{f"branched-{name}": f"branched {name}" for name in ("average", "expected", "lexicase", "random")},
}


def each_experiment(test):
    return pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.parent.name)(test)


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def title(method):
    return TITLES.get(method, method)


def finals(path, part="test"):
    """Final accuracy in per cent, by method and seed."""
    found = {}
    for result in sorted(path.parent.glob("*/seed*/result.json")):
        method, seed = result.parent.parent.name, int(result.parent.name.removeprefix("seed"))
        found.setdefault(method, {})[seed] = 100 * read(result)["metrics"][part]["accuracy"]
    return found


def rows(text, heading):
    """The rows of a Markdown table, as their cells."""
    found = re.search(rf"\*\*{heading}\*\*\n\n\|.*\n\|.*\n((?:\|.*\n)+)", text)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found[1].splitlines()]


def section(path):
    """The part of the appendix on one experiment."""
    text = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    (found,) = [part for part in text.split("\n## ")[1:] if part.splitlines()[0] == read(path)["title"]]
    return found


def closed_test(ps, index):
    """Holm's adjusted p by the closed testing procedure."""
    others = [place for place in range(len(ps)) if place != index]
    sets = itertools.chain.from_iterable(itertools.combinations(others, size) for size in range(len(ps)))
    return max(min(1.0, (len(rest) + 1) * min([ps[index], *(ps[place] for place in rest)])) for rest in sets)


def compared(path):
    """Each declared pair with its differences by seed, mean, interval, p, adjusted p and answer."""
    declared, found = read(path), finals(path)
    tests = []
    for first, second in declared["pairs"]:
        seeds = sorted(found.get(first, {}).keys() & found.get(second, {}).keys())
        ours, theirs = (np.array([found[name][seed] for seed in seeds]) for name in (first, second))
        if len(seeds) < 2:
            tests.append((ours - theirs, None, None, 1.0))
            continue
        reach = stats.t.ppf(0.975, len(seeds) - 1) * stats.sem(ours - theirs)
        mean, p = (ours - theirs).mean(), float(stats.ttest_rel(ours, theirs).pvalue)
        tests.append((ours - theirs, mean - reach, mean + reach, p))
    for index, (pair, (gaps, low, high, p)) in enumerate(zip(declared["pairs"], tests, strict=True)):
        adjusted = closed_test([each[3] for each in tests], index)
        answer = "equivalent" if low is not None and low > -0.3 and high < 0.3 else "open"
        if adjusted < 0.05:
            answer = "better" if gaps.mean() > 0 else "worse"
        if len(gaps) < len(declared["seeds"]):
            answer = "under way"
        yield tuple(pair), gaps, low, high, p, adjusted, answer


def p_cell(p):
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def power(true, gaps, tests):
    """The chance that as many seeds with this scatter find a true difference at 0.05 over the number of tests."""
    n = len(gaps)
    return float(stats.nct.sf(stats.t.isf(0.025 / tests, n - 1), n - 1, true / stats.sem(gaps)))


def assert_rounded(text, *numbers):
    """The numbers in a text are these, rounded to two digits: up or down where one lies halfway between."""
    shown = [float(number) for number in re.findall(r"[+-]?\d+\.\d\d\b", text)]
    assert shown == pytest.approx(numbers, abs=0.005 + 1e-9)


def test_there_are_the_experiments_that_were_published():
    assert {path.parent.name for path in EXPERIMENTS} >= {"paper", "paper-decay-1e-4", "branched", "branched-5000"}


@each_experiment
def test_means_and_deviations_are_those_of_the_records(path):
    found = {row[0]: row[1:4] for row in rows(section(path), "Results and cost")}
    assert list(found) == [title(method) for method in read(path)["methods"]]
    for method in read(path)["methods"]:
        seeds, *cells = found[title(method)]
        values = [list(finals(path, part).get(method, {}).values()) for part in ("test", "train")]
        assert seeds == str(len(values[0]))
        for cell, each in zip(cells, values, strict=True):
            deviation = [statistics.stdev(each)] if len(each) > 1 else []
            assert_rounded(cell, *([statistics.fmean(each), *deviation] if each else []))


@each_experiment
def test_comparisons_are_paired_t_tests_adjusted_by_holm_s_method(path):
    table = rows(section(path), "Comparisons")
    found = list(compared(path))
    assert len(table) == len(found)
    for row, ((first, second), gaps, low, high, p, adjusted, answer) in zip(table, found, strict=True):
        assert row[:2] == [f"{title(first)} minus {title(second)}", answer]
        assert row[5] == str(len(gaps))
        if low is not None:
            assert_rounded(row[2], gaps.mean())
            assert_rounded(row[3], low, high)
            assert [row[4], row[6]] == [p_cell(adjusted), p_cell(p)]
            below, above = (power(float(row[7]) + rounding, gaps, len(found)) for rounding in (-0.00501, 0.00501))
            assert below < 0.8 < above


def test_the_answers_on_the_page_are_those_of_the_comparisons():
    expected = []
    for path in sorted(EXPERIMENTS, key=lambda path: read(path).get("order", 1e9)):
        found = {pair: each for pair, *each in compared(path)}
        questions, decided = read(path).get("questions", ()), [answer for *_, answer in found.values()]
        for question in questions if set(decided) != {"under way"} else questions[:1]:
            gaps, low, high, _, _, answer = found[tuple(question["pair"])]
            bold = f"**{answer}**" if answer in ("better", "worse") else answer
            numbers = [] if answer == "under way" else [gaps.mean(), low, high]
            planned = len(read(path)["seeds"])
            seeds = str(planned) if len(gaps) == planned else f"{len(gaps)} of {planned}"
            expected.append(([question["question"], read(path)["setting"], bold, seeds], numbers))
    text = (ROOT / "RESULTS.md").read_text(encoding="utf-8")
    table = [line for line in text.splitlines() if line.startswith("| ")][2:]
    for line, (cells, numbers) in zip(table, expected, strict=True):
        *first, gap, seeds = (cell.strip() for cell in line.strip("|").split("|"))
        assert [*first, seeds] == cells
        assert_rounded(gap, *numbers)


PUBLISHED = {  # by 0.2.0, at commit 9b37087
    ("paper", "lexicase", "sgd"): "-0.21 -1.76 +1.35",
    ("paper", "lexicase", "sgd-matched"): "-2.42 -3.75 -1.10",
    ("paper", "lexicase", "random"): "-0.49 -1.48 +0.50",
    ("paper", "lexicase", "tournament"): "-0.06 -0.86 +0.75",
    ("paper", "lexicase-survive", "lexicase"): "+0.16 -1.27 +1.58",
    ("paper", "average", "lexicase"): "+1.09 +0.06 +2.12",
    ("paper-decay-1e-4", "lexicase", "sgd"): "+0.18 -1.06 +1.41",
    ("branched", "branched-average", "sgd"): "-2.68 -3.35 -2.01",
    ("branched", "branched-average", "swa"): "+0.27 -0.12 +0.66",
    ("branched", "branched-expected", "branched-average"): "+0.00 -0.23 +0.24",
    ("branched", "branched-lexicase", "branched-random"): "+0.17 -0.60 +0.94",
    ("branched-5000", "branched-average", "sgd"): "+1.25 +0.93 +1.57",
    ("branched-5000", "branched-average", "swa"): "+0.47 +0.06 +0.89",
    ("branched-5000", "branched-expected", "branched-average"): "-0.05 -0.31 +0.22",
    ("branched-5000", "branched-lexicase", "branched-random"): "+0.24 -0.16 +0.64",
}


def test_the_numbers_of_0_2_are_unchanged():
    found = {}
    for path in EXPERIMENTS:
        for (first, second), gaps, low, high, *_ in compared(path):
            if low is not None:
                found[path.parent.name, first, second] = f"{gaps.mean():+.2f} {low:+.2f} {high:+.2f}"
    assert {key: found[key] for key in PUBLISHED} == PUBLISHED


def test_the_headline_is_the_answer_on_equal_samples():
    path = ROOT / "results" / "paper" / "experiment.json"
    (answer,) = [answer for pair, *_, answer in compared(path) if pair == ("lexicase", "sgd-matched")]
    text = (ROOT / "RESULTS.md").read_text(encoding="utf-8")
    assert answer == "worse"
    assert "**Lexicase is worse than SGD on equal samples.**" in text


@each_experiment
def test_how_selection_went_is_that_of_the_records(path):
    expected = {}
    for method in read(path)["methods"]:
        records = [
            json.loads(line)
            for result in sorted(path.parent.glob(f"{method}/seed*/result.json"))  # of finished runs
            for line in (result.parent / "generations.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        records = [record for record in records if record["cases_used"]]
        if records:
            shares = [
                f"{np.mean([record['reason'] == reason for record in records]):.0%}"
                for reason in ("sole_survivor", "all_failed", "exhausted")
            ]
            known = [record["disagreement"] for record in records if record.get("disagreement") is not None]
            used = f"{statistics.median(record['cases_used'] for record in records):,.0f}"
            expected[title(method)] = [used, *shares, f"{np.mean(known):.1%}"]
    text = section(path)
    found = rows(text, "How selection went") if "**How selection went**" in text else []
    assert {row[0]: row[1:] for row in found} == expected


def test_only_pages_of_unfinished_experiments_say_that_they_are_under_way():
    missing = [
        path
        for path in ROOT.glob("results/*/experiment.json")
        for method in read(path)["methods"]
        for seed in read(path)["seeds"]
        if not (path.parent / method / f"seed{seed}" / "result.json").exists()
    ]
    for page in (ROOT / "README.md", ROOT / "docs" / "questions.md"):
        assert ("under way" in page.read_text(encoding="utf-8").lower()) == bool(missing), page
    for path in ROOT.glob("results/*/experiment.json"):
        assert ("under way" in read(path).get("note", "").lower()) == (path in missing), path


def test_figure_2_is_paired_t_tests_of_its_numbers():
    text = (ROOT / "results" / "paper" / "figure2.md").read_text(encoding="utf-8")
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    layers = read(ROOT / "results" / "paper" / "figure2.json")["layers"]
    tests = []
    for methods in layers.values():
        for measure in ("zeros", "entropy", "effective_rank"):
            ours, theirs = ([*methods[name][measure].values()] for name in ("lexicase", "sgd"))
            tests.append((np.mean(theirs), np.mean(ours), stats.ttest_rel(ours, theirs)))
    for index, (row, (sgd, lexicase, test)) in enumerate(zip(table[2:], tests, strict=True)):
        low, high = test.confidence_interval(0.95)
        digits = 3 if "entropy" in row[1] else 2
        assert row[2:4] == [f"{sgd:.{digits}f}", f"{lexicase:.{digits}f}"]
        assert row[4] == f"{lexicase - sgd:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"
        assert row[5] == p_cell(closed_test([float(each.pvalue) for *_, each in tests], index))


def test_results_are_below_15_mb():
    kept = [path for path in (ROOT / "results").rglob("*") if path.is_file() and "checkpoint" not in path.name]
    assert sum(path.stat().st_size for path in kept) < 15e6
