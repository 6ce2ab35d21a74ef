"""--freeze: parameters by patterns of their names stay as they are, and so do the statistics of a frozen batch norm."""

from __future__ import annotations

import pytest
import torch

import gradlex
from gradlex import InputError, Recipe
from gradlex.cli import main

BASE = Recipe(population=2, generations=2, batch_size=8, precision="float32", threads=1)


def changed(before, after):
    return {name for name, tensor in after.state_dict().items() if not torch.equal(tensor, before[name])}


def test_what_matches_a_pattern_stays_as_it_is(images, tiny_cnn):
    before = tiny_cnn().state_dict()
    statistics = {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    whole = gradlex.train(tiny_cnn(), images, BASE)
    assert changed(before, whole.model) == set(before)
    body = gradlex.train(tiny_cnn(), images, BASE.replace(freeze="0.*, 1.*"))
    assert changed(before, body.model) == {"4.weight", "4.bias"}
    biases = gradlex.train(tiny_cnn(), images, BASE.replace(freeze="*.bias"))
    assert changed(before, biases.model) == {"0.weight", "1.weight", "4.weight", *statistics}


def test_a_network_in_evaluation_mode_is_trained_but_for_its_frozen_batch_norm(images, tiny_cnn):
    before = tiny_cnn().state_dict()
    run = gradlex.train(tiny_cnn().eval(), images, BASE.replace(freeze="1.*", recalibrate_final=2))
    assert changed(before, run.model) == {"0.weight", "0.bias", "4.weight", "4.bias"}


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        (
            "5.*",
            r"freeze '5\.\*' matches none of the model's 6 parameters, 0.weight, 0.bias, 1.weight, ..., 4.bias",
        ),
        ("0.*,4.wieght", r"freeze '4\.wieght' matches none.*Did you mean '4.weight'"),
        ("*", r"freeze '\*' leaves no parameter to train"),
    ],
)
def test_patterns_that_make_no_sense_are_refused(pattern, told, images, tiny_cnn, tmp_path):
    with pytest.raises(InputError, match=told):
        gradlex.train(tiny_cnn(), images, BASE.replace(freeze=pattern), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_frozen_run_is_evaluated_and_resumed_by_the_command(tmp_path, capsys, quick):
    run = str(tmp_path / "run")
    for words in (
        [*quick, "--freeze", "1.*", "--out", run],
        ["resume", run],
        ["evaluate", run, "--device", "cpu"],
    ):
        main(words)
    assert "all 3 generations are done" in capsys.readouterr().out
