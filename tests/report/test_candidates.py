"""How candidates differed, over the generations of stored runs: the means that tables show."""

from __future__ import annotations

import json

import pytest

from gradlex.errors import InputError
from gradlex.report import gather
from gradlex.report._comparison import comparison_tables

TITLE = "How the candidates differed"


def edit(plan, **columns):
    """Give the generations of every run these values, in turn."""
    for planned in plan.runs:
        path = plan.path(planned) / "generations.jsonl"
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for place, line in enumerate(lines):
            line |= {name: values[place % len(values)] for name, values in columns.items()}
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def tables(plan):
    evidence = gather(plan)
    return comparison_tables(evidence, evidence.settings[0])


def test_a_row_holds_the_means_over_generations_and_the_pooled_heritability(experiment):
    plan = experiment("compare", {"sgd": [68.0, 68.1], "lexicase": [69.0, 69.1]})
    kept = {"cases": 10, "advantage": 0.1, "variance": 0.2, "covariance": 0.05}
    much = {"cases": 30, "advantage": 0.1, "variance": 0.2, "covariance": 0.15}
    edit(
        plan,
        movement=[0.1, 0.3],
        spread=[1.4, None],
        disagreement=[0.02, 0.04],
        heritability=[kept, much],
        reason=["all_failed", "sole_survivor", "sole_survivor", "sole_survivor"],
        cases_used=[1, 3, 5, 7],
    )
    (table,) = [table for table in tables(plan) if table.title.startswith(TITLE)]
    # (10 x 0.05 + 30 x 0.15) / (40 x 0.2)
    assert table.rows == (("lexicase", "0.200", "1.40", "3.0%", "0.62", "4", "25%"),)


def test_runs_that_recorded_nothing_have_no_such_table(experiment):
    found = tables(experiment("compare", {"sgd": [68.0, 68.1], "lexicase": [69.0, 69.1]}))
    assert not [table for table in found if table.title.startswith(TITLE)]


@pytest.mark.parametrize(
    "columns",
    [
        {"movement": ["far"]},
        {"spread": [[1]]},
        {"heritability": ["much"]},
        {"heritability": [{"cases": 3, "variance": None, "covariance": 1.0}]},
        {"heritability": [{"cases": 3}]},
    ],
)
def test_an_edited_record_is_refused(experiment, columns):
    plan = experiment("compare", {"sgd": [68.0, 68.1], "lexicase": [69.0, 69.1]})
    edit(plan, **columns)
    with pytest.raises(InputError, match=next(iter(columns))):
        tables(plan)
