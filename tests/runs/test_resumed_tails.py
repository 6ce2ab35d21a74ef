"""Runs that branch, average their tail or inherit settings continue exactly where they stopped."""

from __future__ import annotations

import json
import shutil

import pytest
import safetensors.torch

import gradlex
from gradlex import Recipe

BASE = Recipe(
    population=3, generations=6, batch_size=8, precision="float32", threads=1, branch_at=0.5, seed=5, lr=0.05
)
RECIPES = {
    "tail mean": {"tail": "cyclic", "tail_options": {"cycles": 2}, "tail_mean": True, "promotion": "average"},
    "outer step since the branch": {
        "outer_momentum": 0.5,
        "recalibrate": 2,
        "momentum": "inherit",
        "ema": 0.9,
    },
    "inherited settings": {
        "vary": {"lr": "0.5|1|2", "weight_decay": "0|1e-3", "augment": "none|flip"},
        "inherit_variation": True,
    },
    "steps across passes": {"steps_per_generation": 3, "parts": "disjoint"},
    "cases": {"cases": "held-out", "held_out": 0.3, "parts": "all", "steps_per_generation": 9},
    "heritability": {"cases": "augmented", "augment": "flip", "branch_at": 0.0, "lr": 0.003},
    "a strategy that remembers": {
        "selection": "informed-lexicase",
        "selection_options": {"share": 0.5, "refresh": 2},
    },
    "clipping, parts of steps and groups": {
        "clip_norm": 0.5,
        "accumulate": 2,
        "parameter_groups": "no-decay",
        "schedule": "one-cycle",
        "momentum": "inherit",
    },
    "swa": {"selection": "sgd", "population": 1, "tail": "constant", "tail_mean": True},
}


class Stop(gradlex.Callback):
    def __init__(self, generation):
        self.generation = generation

    def on_generation(self, run, record):
        if record.generation == self.generation:
            raise gradlex.errors.InterruptedRun(2, "")


def lines(path):
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.endswith("seconds")} for line in found]


@pytest.mark.parametrize("name", RECIPES)
def test_an_interruption_anywhere_changes_no_bit(name, images, tiny_cnn, tmp_path):
    recipe = BASE.replace(**RECIPES[name])
    whole = gradlex.train(tiny_cnn(), images, recipe, test=images, out=tmp_path / "whole")
    if name == "heritability":
        assert sum(record.heritability is not None for record in whole.generations) >= 4
    for stop in (1, 2, 3, 4):  # before the branch, just there, and after it
        with pytest.raises(gradlex.errors.InterruptedRun):
            gradlex.train(
                tiny_cnn(), images, recipe, test=images, out=tmp_path / "run", callbacks=[Stop(stop)]
            )
        gradlex.train(tiny_cnn(), images, recipe, test=images, out=tmp_path / "run", resume=True)
        for file in ("generations.jsonl", "evaluations.jsonl"):
            assert lines(tmp_path / "run" / file) == lines(tmp_path / "whole" / file)
        weights = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("run", "whole")]
        assert weights[0] == weights[1]
        shutil.rmtree(tmp_path / "run")


def test_a_checkpoint_keeps_the_parent_and_not_the_mean(images, tiny_cnn, tmp_path):
    recipe = BASE.replace(**RECIPES["tail mean"])
    parents = []

    class Notes(gradlex.Callback):
        def on_generation(self, run, record):
            parents.append({name: tensor.clone() for name, tensor in run.parent.state.items()})

    run = gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run", callbacks=[Notes()])
    (path,) = (tmp_path / "run" / "checkpoint").glob("00000006-*")
    stored = safetensors.torch.load_file(path)
    final = safetensors.torch.load_file(tmp_path / "run" / "model.safetensors")
    for name, tensor in run.model.state_dict().items():
        assert (stored[f"state/{name}"] == parents[-1][name]).all()
        assert (final[name] == tensor).all()
    assert not (final["0.weight"] == stored["state/0.weight"]).all()
    mean = sum(parent["0.weight"].double() for parent in parents[3:]) / 3
    assert final["0.weight"].double().numpy() == pytest.approx(mean.numpy(), rel=1e-5, abs=1e-7)


def test_a_run_that_a_callback_stops_in_its_tail_ends_with_the_mean_so_far(images, tiny_cnn, tmp_path):
    class End(gradlex.Callback):
        def on_generation(self, run, record):
            if record.generation == 4:
                run.stop("enough")

    recipe = BASE.replace(**RECIPES["tail mean"])
    run = gradlex.train(tiny_cnn(), images, recipe, test=images, out=tmp_path / "run", callbacks=[End()])
    assert run.result["generations"] == 5
    (path,) = (tmp_path / "run" / "checkpoint").glob("00000005-*")
    stored = safetensors.torch.load_file(path)
    assert int(stored["slot/tail_count/parents"]) == 2
    assert (run.model.state_dict()["0.weight"] == stored["slot/tail/0.weight"]).all()
    assert run.test != run.generations[-1].test  # that was the parent's


def test_a_run_that_is_stopped_before_its_branch_ends_with_its_parent(images, tiny_cnn):
    class End(gradlex.Callback):
        def on_generation(self, run, record):
            self.parent = {name: tensor.clone() for name, tensor in run.parent.state.items()}
            run.stop("enough")

    end = End()
    run = gradlex.train(
        tiny_cnn(), images, BASE.replace(**RECIPES["tail mean"]), test=images, callbacks=[end]
    )
    assert (run.model.state_dict()["0.weight"] == end.parent["0.weight"]).all()
