"""Networks and data that cannot be trained are refused, with why."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import gradlex
from gradlex import InputError


def flat():
    return nn.Sequential(nn.Flatten(), nn.Linear(32, 3))


class Merging(nn.Linear):
    """An adapter that adds itself to the weight in evaluation and takes itself out again."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.adapter, self.merged = nn.Parameter(torch.full((outputs, inputs), 0.1)), False

    def train(self, mode=True):
        if self.merged == mode:
            self.weight.data += self.adapter.data * (-1 if mode else 1)
            self.merged = not mode
        return super().train(mode)


def test_adapters_that_merge_in_evaluation_are_refused(pictures, small):
    net = nn.Sequential(nn.Flatten(), Merging(32, 3))
    with pytest.raises(InputError, match=r"switching the model to evaluation changes its 1\.weight"):
        gradlex.train(net, pictures, small)


def test_bytes_and_a_dataset_are_not_mixed(pictures, small):
    y = pictures[1]
    x = torch.randint(0, 256, (50, 2, 4, 4), dtype=torch.uint8)
    dataset = TensorDataset(x / 255, y)
    for data, test in (((x, y), dataset), (dataset, (x, y))):
        with pytest.raises(InputError, match="so give both alike"):
            gradlex.train(flat(), data, small, test=test)


class Other(Dataset):
    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return self.make(), index % 3


@pytest.mark.parametrize(
    "make", [lambda: {"a": torch.zeros(3)}, lambda: (torch.zeros(3), torch.zeros(3)), lambda: "text"]
)
def test_inputs_that_are_no_tensor_are_refused(make, small):
    with pytest.raises(InputError, match="input must be one tensor or array"):
        gradlex.train(flat(), Other(make), small)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_what_cannot_be_copied_or_is_no_network_or_recipe_is_refused(pictures, small):
    computed = flat()
    computed.weight = computed[1].weight * 2
    for model, told in (
        (computed, "the model cannot be copied"),
        (
            torch.jit.script(flat()),
            "parameters that cannot be trained",
        ),
        ("small-cnn", "must be an nn.Module, got 'small-cnn'"),
        (nn.Linear, "must be an nn.Module"),
    ):
        with pytest.raises(InputError, match=told):
            gradlex.train(model, pictures, small)
    with pytest.raises(InputError, match=r"must be a gradlex\.Recipe, got dict"):
        gradlex.train(flat(), pictures, {"population": 2})
    for field in ({"model": "resnet20"}, {"dataset": "cifar10"}):
        with pytest.raises(InputError, match="in the recipe is for the command"):
            gradlex.train(flat(), pictures, small.replace(**field))
