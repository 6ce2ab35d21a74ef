"""Networks and data as people have them: what plain PyTorch trains is trained, what cannot be is refused."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import gradlex
from gradlex import InputError, Recipe


def seeded(make, *arguments):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        return make(*arguments)


class Flat(nn.Module):
    """A flat network with something odd about it."""

    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(32, 16), nn.Linear(16, 16), nn.Linear(16, 3)

    def odd(self, hidden):
        return self.middle(hidden).relu()

    def forward(self, x):
        return self.last(self.odd(self.first(x.flatten(1)).relu()))


class NeverThird(Flat):
    """Rules a class out, as masks over actions and vocabularies do."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(16, 4)

    def forward(self, x):
        outputs = super().forward(x)
        return outputs.masked_fill(torch.tensor([False, False, False, True]), -math.inf)


class Skipping(Flat):
    """A branch that training sometimes skips (LayerDrop), by whichever generator."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def odd(self, hidden):
        return hidden if self.training and self.draw() < 0.5 else super().odd(hidden)


class Viewing(nn.Module):
    """As tutorials write it."""

    def __init__(self, channels):
        super().__init__()
        self.conv, self.head = nn.Conv2d(channels, 6, 3, padding=1), nn.Linear(96, 3)

    def forward(self, x):
        return self.head(self.conv(x).relu().view(-1, 96))


class Pooling(nn.Module):
    """Adds up in a tensor of float32, which autocast does not know of."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(16, 8), nn.Linear(8, 3)

    def forward(self, x):
        nodes = self.embed(x.flatten(2)).flatten(0, 1)
        whose = torch.arange(len(x)).repeat_interleave(x.shape[1])
        return self.head(torch.zeros(len(x), 8).index_add(0, whose, nodes))


class Keeping(Flat):
    """Computes a table once for each size of batch and keeps it."""

    table = None

    def odd(self, hidden):
        if self.table is None or len(self.table) != len(hidden):
            self.table = torch.linspace(0.5, 1.5, len(hidden))[:, None]
        return super().odd(hidden) * self.table


class Words(nn.Module):
    """Embeddings whose norm every pass may scale down."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(9, 8, max_norm=1.0), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.words(x).mean(dim=1))


def test_a_class_that_is_ruled_out_makes_no_answer_wrong(images, small):
    run = gradlex.train(seeded(NeverThird), images, small.replace(generations=15), test=images)
    with torch.no_grad():
        right = (run.model(images[0]).argmax(dim=1) == images[1]).double().mean().item()
    assert run.test["accuracy"] == pytest.approx(right)
    assert right > 0.5
    assert {record.reason for record in run.generations} != {"all_failed"}


@pytest.mark.parametrize("momentum", ["reset", "inherit"])
@pytest.mark.parametrize(
    "draw", [lambda: torch.rand(()).item(), random.random, np.random.rand], ids=["torch", "random", "numpy"]
)
def test_branches_that_training_skips_at_random_are_trained_and_drawn_alike_again(
    draw, momentum, images, small, same
):
    before = random.getstate(), np.random.get_state()[1].tolist()
    recipe = small.replace(momentum=momentum, generations=5)
    one, other = (gradlex.train(seeded(Skipping, draw), images, recipe) for _ in range(2))
    assert same(one.model.state_dict(), other.model.state_dict())
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    assert not torch.equal(one.model.middle.weight, seeded(Skipping, draw).middle.weight)


def test_sparse_gradients_are_trained(small):
    x, y = torch.randint(0, 9, (40, 5)), torch.arange(40) % 3
    net = seeded(lambda: nn.Sequential(nn.EmbeddingBag(9, 8, sparse=True), nn.Linear(8, 3)))
    run = gradlex.train(net, (x, y), small.replace(momentum="none", weight_decay=0.0))
    assert not torch.equal(run.model[0].weight, net[0].weight)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("form", ["arrays", "dataset"])
def test_a_network_that_views_its_maps_is_trained(form, channels, images, small):
    x, y = images[0][:, :channels], images[1]
    data = (x, y) if form == "arrays" else TensorDataset(x, y)
    run = gradlex.train(seeded(Viewing, channels), data, small.replace(recalibrate=1), test=data)
    with torch.no_grad():
        right = (run.model(x).argmax(dim=1) == y).double().mean().item()
    assert run.test["accuracy"] == pytest.approx(right)


def test_the_command_trains_and_evaluates_a_network_that_views_its_maps(tmp_path, monkeypatch, capsys):
    from gradlex.cli import main

    (tmp_path / "viewing.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, num_classes):\n"
        "        super().__init__()\n"
        "        self.conv, self.head = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(256, num_classes)\n"
        "    def forward(self, x):\n"
        "        return self.head(self.conv(x).relu().view(-1, 256))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ["--model", "viewing:Net", "--train-size", "60", "--generations", "1", "--workers", "1"]
    main(["train", *words, "--out", "run"])
    main(["evaluate", "run"])
    assert "test: accuracy " in capsys.readouterr().out


def test_what_came_in_evaluation_mode_stays_in_it(images, small):
    net = nn.Sequential(
        nn.Flatten(), nn.BatchNorm1d(32), nn.Dropout(0.9), nn.Linear(32, 3), nn.BatchNorm1d(3)
    )
    net[1].requires_grad_(False)
    net[1].eval(), net[2].eval()
    seen = []
    net[2].register_forward_hook(lambda layer, *_: seen.append(layer.training))
    run = gradlex.train(net, images, small.replace(recalibrate=1), test=images)
    assert set(run.model[1].running_mean.tolist()) == {0.0}
    assert run.model[4].running_mean.abs().sum() > 0
    assert (net.training, net[1].training, net[3].training) == (True, False, True)
    assert not any(seen)


class Backbone(nn.Module):
    """Features that came with their statistics, and a head to be trained on them."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.9))
        self.fc = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(16), nn.Linear(16, 3))

    def forward(self, x):
        return self.fc(self.features(x))


@pytest.mark.parametrize("recalibrate", [0, 1])
def test_the_batch_norm_of_a_frozen_backbone_stays_as_it_is_while_its_head_is_trained(
    recalibrate, images, small, same
):
    net = seeded(Backbone)
    net.features.requires_grad_(False)
    net.eval()
    net.fc.train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    modes = set()
    net.features[2].register_forward_hook(lambda layer, *_: modes.add(layer.training))
    run = gradlex.train(net, images, small.replace(recalibrate=recalibrate), test=images)
    after = run.model.state_dict()
    kept = {name for name in before if name.startswith("features.")}
    assert same({name: after[name] for name in kept}, {name: before[name] for name in kept})
    assert not any(torch.equal(after[name], before[name]) for name in before if name not in kept)
    assert modes == {False}
    assert [layer.training for layer in (net, net.features[1], net.fc[1])] == [False, False, True]


def test_a_network_given_in_evaluation_mode_is_trained_as_a_whole(images, small):
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(32), nn.Linear(32, 3)).eval()
    run = gradlex.train(net, images, small)
    assert run.model[1].running_mean.abs().sum() > 0


def test_asking_scales_no_embedding_of_a_candidate(small, same):
    x, y = torch.randint(0, 9, (40, 5), generator=torch.Generator().manual_seed(0)), torch.arange(40) % 3
    recipe = small.replace(generations=4, lr=1.0)
    one, other = (
        gradlex.train(seeded(Words), (x, y), recipe, test=(x, y), evaluate_every=every) for every in (1, 4)
    )
    assert same(one.model.state_dict(), other.model.state_dict())


def test_what_a_network_keeps_from_an_evaluation_can_be_trained_with(small):
    x, y = torch.randn(384, 32, generator=torch.Generator().manual_seed(0)), torch.arange(384) % 3
    run = gradlex.train(seeded(Keeping), (x, y), small.replace(batch_size=128), test=(x, y))
    assert all(loss is not None for record in run.generations for loss in record.losses)


def test_a_network_that_autocast_breaks_is_trained_in_full_precision(images, monkeypatch):
    for module in ("_probe", "_resolve"):
        monkeypatch.setattr(f"gradlex.runs.{module}.native_bfloat16", lambda device: True)
    recipe = Recipe(population=2, generations=2, batch_size=8, threads=1)
    assert gradlex.train(seeded(Pooling), images, recipe).recipe.precision == "float32"
    assert gradlex.train(seeded(Flat), images, recipe).recipe.precision == "bfloat16"
    with pytest.raises(gradlex.RunError, match="computed in bfloat16; to do without: precision float32"):
        gradlex.train(seeded(Pooling), images, recipe.replace(precision="bfloat16"))


class Drawing(Dataset):
    """Shakes its samples by a generator that nobody seeds."""

    def __init__(self, x, y):
        self.x, self.y, self.rng = x, y, np.random.default_rng()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index] + float(self.rng.normal()), self.y[index]


def test_a_dataset_with_a_generator_of_its_own_is_warned_about(images, small):
    with pytest.warns(UserWarning, match="Drawing draws from a random generator of its own"):
        gradlex.train(seeded(Flat), Drawing(*images), small, clean=TensorDataset(*images))


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


def test_adapters_that_merge_in_evaluation_are_refused(images, small):
    net = nn.Sequential(nn.Flatten(), Merging(32, 3))
    with pytest.raises(InputError, match=r"switching the model to evaluation changes its 1\.weight"):
        gradlex.train(net, images, small)


def test_bytes_and_a_dataset_are_not_mixed(images, small):
    y = images[1]
    x = torch.randint(0, 256, (50, 2, 4, 4), dtype=torch.uint8)
    dataset = TensorDataset(x / 255, y)
    for data, test in (((x, y), dataset), (dataset, (x, y))):
        with pytest.raises(InputError, match="so give both alike"):
            gradlex.train(flat(), data, small, test=test)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_what_cannot_be_copied_or_is_no_network_or_recipe_is_refused(images, small):
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
            gradlex.train(model, images, small)
    with pytest.raises(InputError, match=r"must be a gradlex\.Recipe, got dict"):
        gradlex.train(flat(), images, {"population": 2})
    for field in ({"model": "resnet20"}, {"dataset": "cifar10"}):
        with pytest.raises(InputError, match="in the recipe is for the command"):
            gradlex.train(flat(), images, small.replace(**field))
