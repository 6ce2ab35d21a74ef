"""What no run can do is an error before anything is written, and what it hardly should do a warning."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gradlex
from gradlex.tasks import Custom

FIELDS: dict[str, Any] = {"epochs": 2, "batch_size": 10, "population": 2}


def points() -> tuple[Tensor, Tensor]:
    x = torch.randn(60, 6, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] > 0).long()


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def cut(module: nn.Module) -> nn.Module:
    return module.requires_grad_(False)


class Single(nn.Module):
    """Returns one number for the whole batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).mean()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"population": 31}, "population 31 is more than half of the 60 training samples"),
        ({"patience": 2}, "patience 2 needs a validation part, and there is none: set validation_fraction"),
        (
            {"patience": 2, "validation_fraction": 0.2, "branch_at": 0.5, "tail_mean": True},
            "patience and tail_mean each say which model is returned",
        ),
        ({"recipe": {"epochs": 3}}, "recipe must be a gradlex.Recipe, got dict"),
        ({"recipe": gradlex.Recipe(model="mlp")}, "model is given twice: as an object and as 'mlp'"),
        ({"dataset": "mnist"}, "data is given twice: as an object and as 'mnist'"),
        ({"device": "meta"}, "device 'meta' holds no numbers: use auto, cpu, cuda"),
        ({"device": "gpu"}, "device 'gpu' cannot be used"),
        ({"evaluate_every": 0}, "evaluate_every must be a whole number of at least 1, got 0"),
        ({"checkpoint_every": 1.5}, "checkpoint_every must be a whole number of at least 1, got 1.5"),
        ({"optimizer": "adamw(betas=3)"}, r"optimizer 'adamw\(betas=3\)' cannot be made"),
        ({"optimizer": "sgd(nesterov=true)", "momentum": 0.0}, "Nesterov momentum requires a momentum"),
        ({"schedule": lambda generation, epochs: math.nan}, "the schedule returned nan for generation 1"),
        ({"selection": "given"}, "the selection was a function, which isn't stored"),
        ({"model": cut(net())}, "the model has no trainable parameter"),
        ({"model": nn.Linear(5, 2)}, r"cannot take the training samples, torch.float32 of shape \(2, 6\)"),
        ({"model": net().double()}, r"Its parameters are torch.float64: convert the model \(model.float\(\)\)"),
        ({"model": Single()}, r"one output for each sample, got shape \(\) for 2 samples"),
        ({"model": 3}, "model must be an nn.Module or a name, got 3"),
        ({"model": "reznet20"}, "unknown model 'reznet20'. Did you mean 'resnet20'"),
        ({"test": (torch.zeros(4, 6), torch.tensor([0, 1, 2, 5]))}, "the test part has the class 2, which"),
        ({"test": (torch.zeros(4, 5), torch.tensor([0, 1, 0, 1]))}, "make them match"),
        (
            {"task": Custom(loss=lambda o, t: o.sum(dim=1), errors=lambda o, t: o[:, 0])},
            r"the loss of Custom must be one number, .* got torch.float32 of shape \(2,\)",
        ),
        (
            {"task": Custom(loss=lambda o, t: o.sum(), errors=lambda o, t: o)},
            r"the errors of Custom must be one number for each case, shape \(2,\), got torch.float32 of shape \(2, 2\)",
        ),
        (
            {"task": Custom(loss=lambda o, t: o.nothing, errors=lambda o, t: o[:, 0], graded=True)},
            r"the task Custom cannot learn from outputs of shape \(2, 2\) .* AttributeError",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else next(iter(value)),
)
def test_bad_input_is_an_error_and_nothing_is_written(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    given = {"model": net(), "data": points(), **FIELDS, **options}
    if "recipe" in options and "model" in options:
        given.pop("model")
    with pytest.raises(gradlex.InputError, match=message):
        gradlex.train(**given, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_batch_norm_with_frozen_parameters_whose_statistics_move_is_a_warning() -> None:
    model = net()
    model[1].requires_grad_(False)
    with pytest.warns(UserWarning, match=r"the parameters of the batch norm '1' are frozen, .* layer.eval\(\)"):
        gradlex.train(model, points(), **FIELDS)
    model[1].eval()
    run = gradlex.train(model, points(), **FIELDS)
    assert torch.equal(run.model[1].running_mean, torch.zeros(8))


def test_a_softmax_at_the_end_of_the_model_is_a_warning_that_points_at_the_call() -> None:
    with pytest.warns(UserWarning, match="seems to end in a softmax") as found:
        gradlex.train(nn.Sequential(net(), nn.Softmax(dim=1)), points(), **FIELDS)
    assert Path(found[0].filename) == Path(__file__)


def test_parts_of_a_few_samples_are_a_warning() -> None:
    with pytest.warns(UserWarning, match="15 candidates get only 4 of 60 training samples each: use fewer candidates"):
        gradlex.train(net(), points(), **{**FIELDS, "population": 15})


def test_candidates_that_all_diverge_are_an_error_that_names_the_cure() -> None:
    with pytest.raises(gradlex.RunError, match=r"every candidate of generation 1 diverged .* smaller learning rate"):
        gradlex.train(nn.Linear(6, 1), (points()[0], points()[0][:, :1] * 1e20), lr=1e30, task="regression", **FIELDS)
