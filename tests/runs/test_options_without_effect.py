"""An option that would do nothing is refused, before anything is written."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gradlex
from gradlex import InputError, Recipe

REFUSED = {
    "settings of one network": (
        {"selection": "sgd", "vary": {"lr": "1|2"}},
        "vary tells several candidates apart",
    ),
    "settings of one candidate": (
        {"population": 1, "vary": {"lr": "1|2"}},
        "vary tells several candidates apart",
    ),
    "parts of one network": (
        {"selection": "sgd", "parts": "all"},
        "parts tells several candidates apart.* got 'all'",
    ),
    "held-out cases of sgd": ({"selection": "sgd", "cases": "held-out"}, "selection 'sgd' .*looks at none"),
    "held-out cases of a random choice": (
        {"selection": "random", "cases": "held-out"},
        "'random' looks at none",
    ),
    "held-out cases of an average": (
        {"promotion": "average", "cases": "held-out", "held_out": 0.2},
        "cases 'held-out' are for selection, and promotion 'average' looks at none",
    ),
    "held-out cases of one candidate": (
        {"population": 1, "cases": "held-out"},
        "selection 'lexicase' of one candidate looks at none",
    ),
    "augmented cases of an average": ({"promotion": "average", "cases": "augmented"}, "looks at none"),
    "augmented cases without augmentation": (
        {"cases": "augmented"},
        "cases 'augmented' need an augmentation, and there is none",
    ),
    "augmented cases with augmentations that only candidates have": (
        {"cases": "augmented", "augment": "none", "vary": {"augment": "flip|none"}},
        "need an augmentation, and there is none",
    ),
    "a share of cases that are not held out": ({"held_out": 0.2}, "held_out belongs to cases 'held-out'"),
    "the mean of a tail without a branch": (
        {"tail_mean": True},
        "tail_mean averages .* since the branch: set branch_at",
    ),
    "a tail without a branch": (None, "tail 'linear' begins where a run branches"),
    "an augmentation that there is not": (
        {"vary": {"augment": "flip|rotate"}},
        "unknown augmentation 'rotate'",
    ),
    "a weight decay that the optimizer has not": (
        {"optimizer": "rprop", "weight_decay": 0.0, "vary": {"weight_decay": "0|1e-4"}},
        "optimizer 'rprop' has no weight decay, got 0.0001",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused(what, tmp_path):
    fields, said = REFUSED[what]
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    data = torch.zeros(20, 1, 2, 2), torch.arange(20) % 3
    with pytest.raises(InputError, match=said):
        gradlex.train(
            net, data, Recipe(generations=2, **(fields or {"tail": "linear"})), out=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


def test_features_have_no_augmentations_to_differ_in(tmp_path):
    recipe = Recipe(generations=2, vary={"augment": "none|flip"})
    with pytest.raises(InputError, match="vary augment 'flip' needs images"):
        gradlex.train(
            nn.Linear(4, 3), (torch.zeros(20, 4), torch.arange(20) % 3), recipe, out=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("keep", [0, -1, 5])
def test_a_checkpoint_that_the_run_will_not_have_cannot_be_kept(keep, tmp_path):
    data = torch.zeros(20, 1, 2, 2), torch.arange(20) % 3
    source = gradlex.runs.Given(model=nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), data=data)
    with pytest.raises(InputError, match="keep_checkpoints"):
        gradlex.runs.start(
            source,
            Recipe(generations=4),
            gradlex.runs.Execution(workers=1, keep_checkpoints=(keep,)),
            out=tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()
