"""The results that are published with the project are made from their records, and from nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gradlex.experiments import run_name, stored_plans
from gradlex.report import results_page, write_report
from gradlex.runs import stored_run

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def test_the_published_page_and_tables_are_made_again_from_the_records(tmp_path):
    kept = shutil.ignore_patterns("checkpoint", "*.safetensors", ".lock")
    copied = Path(shutil.copytree(RESULTS, tmp_path / "results", ignore=kept))
    made = []
    for plan in stored_plans(copied):
        for suffix in (".txt", ".md", ".tex", ".svg", ".png"):
            for path in plan.root.glob(f"{plan.name}*{suffix}"):
                path.unlink()
        made += [path for path in write_report(plan) if path.suffix in (".txt", ".md", ".tex")]
    names = [path.relative_to(copied) for path in made]
    assert [path.read_text(encoding="utf-8") for path in made] == [
        (RESULTS / name).read_text(encoding="utf-8") for name in names
    ]
    page = tmp_path / "RESULTS.md"
    assert results_page(copied, page) == (ROOT / "RESULTS.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", sorted(RESULTS.glob("**/runs/*/recipe.json")), ids=lambda path: path.parent.name
)
def test_a_published_run_is_whole_and_named_by_what_it_is(path):
    run = stored_run(path.parent)
    assert run_name(run.recipe, run.data["fingerprint"], run.revision) == path.parent.name
    if run.result is not None:
        assert run.generations[-1].test == run.result["metrics"]["test"]
    assert "/" not in run.recipe.dataset
    assert run.revision == (1 if path.parents[2] == RESULTS else 2)
