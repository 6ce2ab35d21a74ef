"""mixup, cutmix and transforms of torchvision: what a training batch becomes, and what selection never sees."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torchvision.transforms import v2

import gradlex
from gradlex import InputError, Recipe
from gradlex.data import ArraySamples, Mixed, as_augmentation, crop_flip, cutmix, mixup, parse_augment
from gradlex.randomness import stream

ALL = np.arange(8)


def samples(x, augment):
    return ArraySamples(x, torch.arange(len(x)), augment=augment)


@pytest.fixture
def squares():
    return torch.rand(8, 3, 6, 6, generator=torch.Generator().manual_seed(0))


def test_mixup_mixes_each_sample_with_another_by_one_share(squares):
    x, mixed = samples(squares, mixup(0.4)).augmented(ALL, np.random.default_rng(3))
    rng = np.random.default_rng(3)
    share, partners = rng.beta(0.4, 0.4), rng.permutation(8)
    assert torch.allclose(x, share * squares + (1 - share) * squares[partners])
    assert isinstance(mixed, Mixed)
    assert mixed.first.tolist() == list(range(8))
    assert mixed.second.tolist() == partners.tolist()
    assert mixed.share.tolist() == pytest.approx([share] * 8)


def test_cutmix_puts_in_a_box_and_mixes_by_its_area(squares):
    seen = set()
    for seed in range(20):
        x, mixed = samples(squares, cutmix(1.0)).augmented(ALL, np.random.default_rng(seed))
        inside = (x != squares).all(1)[mixed.first != mixed.second]
        share = float(mixed.share[0])
        assert inside.float().mean((1, 2)).tolist() == pytest.approx([1 - share] * len(inside), abs=1e-6)
        assert torch.equal(x, torch.where(x == squares, squares, squares[mixed.second]))
        seen.add(round(share * 36))
    assert len(seen) > 5


def test_bytes_stay_bytes_so_that_they_are_normalized_alike():
    x = torch.randint(0, 256, (8, 1, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    for word in ("mixup0.5", "cutmix"):
        mixed, _ = samples(x, parse_augment(word)).augmented(ALL, np.random.default_rng(0))
        assert mixed.dtype == torch.uint8
        assert not torch.equal(mixed, x)


def test_the_mixed_loss_is_the_cross_entropy_of_mixed_probabilities():
    outputs = torch.randn(6, 4, generator=torch.Generator().manual_seed(2))
    first, second = torch.tensor([0, 1, 2, 3, 0, 1]), torch.tensor([3, 1, 0, 2, 1, 0])
    mixed = Mixed(first, second, torch.full((6,), 0.3))
    soft = 0.3 * F.one_hot(first, 4) + 0.7 * F.one_hot(second, 4)
    loss = gradlex.tasks.Classification().loss
    assert torch.allclose(mixed.loss(loss, outputs), F.cross_entropy(outputs, soft))
    assert torch.allclose(loss(outputs, soft), F.cross_entropy(outputs, soft))


def test_of_two_ways_to_mix_each_batch_gets_one(squares):
    augment, cut = parse_augment("mixup0.4,cutmix1"), 0
    for seed in range(20):
        x, _ = samples(squares, augment).augmented(ALL, np.random.default_rng(seed))
        cut += bool(torch.isin(x, squares).all())
    assert 4 < cut < 16


def test_features_can_be_mixed_and_whole_numbers_cannot():
    x, _ = samples(torch.rand(8, 5), mixup()).augmented(ALL, np.random.default_rng(0))
    assert x.shape == (8, 5)
    with pytest.raises(InputError, match=r"mixup needs inputs of floats or bytes, got torch.int64"):
        samples(torch.ones(8, 5, dtype=torch.int64), mixup()).augmented(ALL, np.random.default_rng(0))


@pytest.mark.parametrize("word", ["mixup0", "mixup0.0", "mixup-1", "mixupx", "cutmix1.5.2"])
def test_what_no_share_can_be_drawn_by_is_refused(word):
    with pytest.raises(InputError, match=r"alpha of mixup must be a number above 0|unknown augmentation"):
        parse_augment(word)


def test_mixing_cannot_be_called_without_targets(squares):
    with pytest.raises(InputError, match="change targets too: give them as augment, alone or in a list"):
        mixup()(squares, np.random.default_rng(0))


def test_transforms_are_drawn_anew_for_each_image_and_the_same_for_the_same_stream(squares):
    row = squares[:1].expand(8, -1, -1, -1).contiguous()
    own = samples(row, as_augmentation(v2.RandomResizedCrop(6, scale=(0.2, 1.0))))
    before = torch.random.get_rng_state()
    first, _ = own.augmented(ALL, np.random.default_rng(5))
    again, _ = own.augmented(ALL, np.random.default_rng(5))
    other, _ = own.augmented(ALL, np.random.default_rng(6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len({image.numpy().tobytes() for image in first}) == 8
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_composition_may_end_with_transforms_that_mix_labels(squares):
    mix = v2.RandomChoice([v2.MixUp(num_classes=8), v2.CutMix(num_classes=8)])
    own = samples(squares, as_augmentation(v2.Compose([v2.RandomHorizontalFlip(), mix])))
    x, y = own.augmented(ALL, np.random.default_rng(1))
    assert x.shape == squares.shape
    assert y.shape == (8, 8)
    assert y.sum(1).tolist() == pytest.approx([1.0] * 8)


def test_a_list_is_applied_in_order(squares):
    listed, _ = samples(squares, as_augmentation([crop_flip(2), mixup(0.3)])).augmented(
        ALL, np.random.default_rng(9)
    )
    named, _ = samples(squares, parse_augment("crop2,flip,mixup0.3")).augmented(ALL, np.random.default_rng(9))
    assert torch.equal(listed, named)


AUGMENT = {
    "by name": {"recipe": "mixup0.4"},
    "functions": {"augment": [crop_flip(1), mixup(0.4)]},
    "transforms": {"augment": v2.Compose([v2.RandomHorizontalFlip(), v2.MixUp(num_classes=3)])},
}


@pytest.mark.parametrize("name", AUGMENT)
def test_a_population_trains_on_mixed_samples_and_is_selected_on_clean_ones(name, images, tiny_cnn, same):
    given = dict(AUGMENT[name])
    recipe = Recipe(population=2, generations=2, batch_size=8, precision="float32", threads=1)
    recipe = recipe.replace(augment=given.pop("recipe", None))
    run, again = (gradlex.train(tiny_cnn(), images, recipe, test=images, **given) for _ in range(2))
    plain = gradlex.train(tiny_cnn(), images, recipe.replace(augment="none"))
    assert same(run.model.state_dict(), again.model.state_dict())
    assert not same(run.model.state_dict(), plain.model.state_dict())
    assert run.generations[0].reason in ("sole_survivor", "all_failed", "exhausted")


def test_mixup_is_a_plain_loop(images, same, one_thread):
    net = lambda: nn.Sequential(nn.Flatten(), nn.Linear(32, 3))  # noqa: E731
    torch.manual_seed(0)
    first = net()
    recipe = Recipe(
        selection="sgd", augment="mixup0.4", generations=2, batch_size=10, precision="float32", threads=1
    )
    run = gradlex.train(first, images, recipe)

    model = net()
    model.load_state_dict(first.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)
    x, y = images
    for generation in range(2):
        optimizer.param_groups[0]["lr"] = recipe.lr_at(generation)
        rng = stream(0, "augmentation", generation, 0)
        for batch in np.array_split(stream(0, "split", generation).permutation(50), 5):
            share, partners = rng.beta(0.4, 0.4), rng.permutation(len(batch))
            outputs = model(torch.lerp(x[batch][partners], x[batch], share))
            one, other = (F.cross_entropy(outputs, y[batch][order]) for order in (np.arange(10), partners))
            weight = torch.tensor(share, dtype=torch.float32)
            optimizer.zero_grad()
            (weight * one + (1 - weight) * other).backward()
            optimizer.step()
    assert same(run.model.state_dict(), model.state_dict())


def test_mixed_cases_are_refused(images, tiny_cnn):
    recipe = Recipe(augment="flip,mixup0.2", cases="augmented", generations=1, batch_size=8)
    with pytest.raises(InputError, match="cases 'augmented' cannot be mixed ones"):
        gradlex.train(tiny_cnn(), images, recipe)
    with pytest.raises(InputError, match="cases 'augmented' cannot be mixed ones"):
        gradlex.train(tiny_cnn(), images, recipe.replace(augment=None), augment=[mixup()])
