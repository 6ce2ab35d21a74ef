"""Branching, variation, kinds of cases and diversity: the same for any number of workers, and resumed."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest


@pytest.fixture(scope="module")
def folder(start, tmp_path_factory):
    """What variation.py leaves behind."""
    path = tmp_path_factory.mktemp("variation")
    group = start("-W", "error", "variation.py", path)
    assert group.wait() == 0, group.err
    assert group.is_gone()
    return path


def lines(path):
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.endswith("seconds")} for line in found]


@pytest.mark.parametrize("other", ["two", "resumed"])
@pytest.mark.parametrize("name", ["winner", "expected"])
def test_workers_and_interruptions_change_no_bit(name, other, folder):
    alone, there = folder / f"{name}-alone", folder / f"{name}-{other}"
    for file in ("generations.jsonl", "evaluations.jsonl"):
        assert lines(there / file) == lines(alone / file)
        assert len(lines(alone / file)) == 6
    for file in ("model.safetensors", *(["ema.safetensors"] if name == "expected" else [])):
        assert (there / file).read_bytes() == (alone / file).read_bytes()
    results = [json.loads((run / "result.json").read_text()) for run in (alone, there)]
    assert results[0]["metrics"] == results[1]["metrics"]
    assert results[0]["samples_trained"] == results[1]["samples_trained"]


def test_workers_stop_together_when_patience_ends_and_keep_the_same_best_network(folder):
    alone, there = folder / "patient-alone", folder / "patient-two"
    records = lines(alone / "generations.jsonl")
    assert 2 < len(records) < 30
    assert lines(there / "generations.jsonl") == records
    assert (there / "model.safetensors").read_bytes() == (alone / "model.safetensors").read_bytes()
    results = [json.loads((run / "result.json").read_text()) for run in (alone, there)]
    for name in ("stopped", "best_generation", "metrics"):
        assert results[0][name]
        assert results[0][name] == results[1][name]


@pytest.mark.parametrize("name", ["winner", "expected"])
def test_settings_and_diversity_are_recorded_since_the_branch(name, folder):
    records = lines(folder / f"{name}-alone" / "generations.jsonl")
    assert ["settings" in record for record in records] == [False] * 2 + [True] * 4
    assert [record["spread"] is None for record in records] == [True] * 2 + [False] * 4
    assert all(record["movement"] > 0 for record in records)
    assert [record["disagreement"] is None for record in records] == [True] * 2 + [False] * 4
    for record, later in pairwise(records[2:]):
        handed_on, first = record["settings"], later["settings"][0]
        if name == "winner":
            assert first["lr"] == pytest.approx(handed_on[record["selected"]]["lr"], rel=1e-12)
            assert first["augment"] == handed_on[record["selected"]]["augment"]
        else:
            low, *_, high = sorted(setting["lr"] for setting in handed_on)
            assert low <= first["lr"] * (1 + 1e-12)
            assert first["lr"] <= high * (1 + 1e-12)


def test_more_workers_than_candidates_share_the_one_there_is_before_the_branch(folder):
    records, alone = (lines(folder / f"winner-{run}" / "generations.jsonl") for run in ("four", "alone"))
    assert [len(record["losses"]) for record in records] == [1, 1, 2, 2, 2, 2]
    assert [record["lr"] for record in records] == [record["lr"] for record in alone]
    assert records[0]["losses"] == pytest.approx(alone[0]["losses"], rel=0.5)  # batch norm sees half a batch
