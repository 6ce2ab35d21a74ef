from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from gradlex.data import ArraySamples, DatasetSamples, Normalization, crop_flip
from gradlex.errors import InputError

PLACES = np.array([4, 0, 9, 9])


def stream(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture
def pictures():
    return torch.from_numpy(stream(5).integers(1, 256, (10, 3, 8, 8), dtype=np.uint8))


@pytest.fixture
def labels():
    return torch.arange(10) % 3


def test_clean_batches_are_the_normalised_pictures_and_their_labels(pictures, labels):
    normalization = Normalization.of(pictures.permute(0, 2, 3, 1).numpy())
    samples = ArraySamples(pictures, labels, normalization=normalization, augment=crop_flip(4))
    inputs, targets = samples.clean(PLACES)
    mean, std = (torch.tensor(part).view(3, 1, 1) for part in (normalization.mean, normalization.std))
    torch.testing.assert_close(inputs, (pictures[PLACES] / 255 - mean) / std)
    assert inputs.is_contiguous(memory_format=torch.channels_last)
    assert targets.tolist() == labels[PLACES].tolist()
    assert len(samples) == 10


def test_augmented_batches_are_augmented_before_they_are_normalised(pictures, labels):
    normalization = Normalization.of(pictures.permute(0, 2, 3, 1).numpy())
    samples = ArraySamples(pictures, labels, normalization=normalization, augment=crop_flip(4))
    inputs, targets = samples.augmented(PLACES, stream())
    torch.testing.assert_close(inputs, normalization.apply(crop_flip(4)(pictures[PLACES], stream())))
    assert targets.tolist() == labels[PLACES].tolist()


def test_the_same_stream_gives_the_same_batch_and_the_stored_pictures_never_change(pictures, labels):
    before = pictures.clone()
    samples = ArraySamples(pictures, labels, augment=crop_flip(2))
    first, again, other = (samples.augmented(np.arange(10), stream(seed))[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(samples.clean(np.arange(10))[0], before)
    assert torch.equal(pictures, before)


def test_an_augmentation_that_writes_into_its_batch_leaves_the_stored_pictures_alone(pictures, labels):
    before = pictures.clone()
    samples = ArraySamples(pictures, labels, augment=lambda batch, _: batch.zero_())
    assert samples.augmented(np.arange(10), stream())[0].count_nonzero() == 0
    assert torch.equal(samples.clean(np.arange(10))[0], before)


def test_without_augmentation_both_views_are_the_same(pictures, labels):
    samples = ArraySamples(pictures, labels)
    assert torch.equal(samples.augmented(PLACES, stream())[0], samples.clean(PLACES)[0])


def test_a_users_own_augmentation_gets_the_data_as_it_is_and_the_stream(pictures, labels):
    def darken(batch, rng):
        assert batch.dtype == torch.uint8
        assert batch.shape == (4, 3, 8, 8)
        return batch // int(rng.integers(2, 5))

    found = ArraySamples(pictures, labels, augment=darken).augmented(PLACES, stream())[0]
    assert torch.equal(found, pictures[PLACES] // int(stream().integers(2, 5)))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda batch, _: batch / 255,
        lambda batch, _: batch[1:],
        lambda batch, _: batch.numpy(),
        lambda *_: None,
    ],
)
def test_an_augmentation_that_returns_something_else_is_refused(pictures, labels, wrong):
    with pytest.raises(
        InputError, match=r"must return a batch like the one it gets, torch.uint8 of shape \(4, 3"
    ):
        ArraySamples(pictures, labels, augment=wrong).augmented(PLACES, stream())


def test_features_and_floats_reach_the_model_as_they_are(labels):
    x = torch.randn(10, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.equal(ArraySamples(x, labels).clean(PLACES)[0], x[PLACES])


class Noisy(Dataset):
    """Adds noise from all three global generators, as transforms do."""

    def __init__(self, noise=True):
        self.noise = noise

    def __len__(self):
        return 10

    def __getitem__(self, place):
        x = torch.full((2,), float(place))
        if self.noise:
            x = x + random.random() + np.random.rand() + torch.rand(2)
        return x, place % 3


def test_a_datasets_noise_depends_on_the_stream_alone():
    samples = DatasetSamples(Noisy(), clean_view=Noisy(noise=False), num_classes=3)
    first = samples.augmented(PLACES, stream(1))[0]
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    assert torch.equal(samples.augmented(PLACES, stream(1))[0], first)
    assert not torch.equal(samples.augmented(PLACES, stream(2))[0], first)
    assert torch.equal(samples.clean(PLACES)[0], torch.tensor([[4.0] * 2, [0.0] * 2, [9.0] * 2, [9.0] * 2]))


@pytest.mark.parametrize("view", ["augmented", "clean"])
@pytest.mark.parametrize("fails", [False, True])
def test_the_global_generators_are_put_back(view, fails):
    class Failing(Noisy):
        def __getitem__(self, place):
            super().__getitem__(place)
            raise OSError

    samples = DatasetSamples(Failing() if fails else Noisy(), num_classes=3)
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    expected = random.random(), np.random.rand(), torch.rand(1)
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    try:
        samples.clean(PLACES) if view == "clean" else samples.augmented(PLACES, stream())
    except OSError:
        assert fails
    assert (random.random(), np.random.rand(), torch.rand(1)) == expected


def test_a_dataset_without_a_clean_view_gives_the_same_clean_batch_each_time():
    samples = DatasetSamples(Noisy(), num_classes=3)
    assert torch.equal(samples.clean(PLACES)[0], samples.clean(PLACES)[0])


def test_a_case_is_the_same_in_whatever_batch_it_is_asked():
    samples = DatasetSamples(Noisy(), num_classes=3)
    together = samples.clean(np.arange(10))[0]
    for place in range(10):
        assert torch.equal(samples.clean(np.array([place]))[0][0], together[place])
    assert len({round(float(row[0]) - place, 6) for place, row in enumerate(together)}) == 10


@pytest.mark.parametrize(("noise", "varies"), [(True, True), (False, False)])
def test_random_transforms_are_found(noise, varies):
    assert DatasetSamples(Noisy(noise=noise), num_classes=3).clean_varies is varies
    assert not DatasetSamples(Noisy(), clean_view=Noisy(noise=False), num_classes=3).clean_varies


def test_a_datasets_batch_is_augmented_after_its_own_transform(pictures, labels):
    samples = DatasetSamples(TensorDataset(pictures, labels), augment=crop_flip(2), num_classes=3)
    rng = stream()
    rng.integers(0, 2**32, 3)
    inputs, targets = samples.augmented(PLACES, stream())
    assert torch.equal(inputs, crop_flip(2)(pictures[PLACES], rng))
    assert targets.tolist() == labels[PLACES].tolist()


def test_views_of_different_lengths_are_refused(pictures, labels):
    whole, part = TensorDataset(pictures, labels), TensorDataset(pictures[:9], labels[:9])
    with pytest.raises(InputError, match="the clean view has 9 samples and the data 10"):
        DatasetSamples(whole, clean_view=part, num_classes=3)


class Listed(Dataset):
    def __init__(self, *samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, place):
        return self.samples[place]


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        (((torch.zeros(2), 0), (torch.zeros(2), 3)), "sample 1 has the label 3; .* 0 to 2"),
        (((torch.zeros(2), 0), (torch.zeros(2), -1)), "sample 1 has the label -1"),
        (((torch.zeros(2), 0), (torch.zeros(3), 1)), "do not form a batch.*Return tensors of one shape"),
        (((object(), 0), (object(), 1)), "do not form a batch"),
        (((torch.zeros(2), 0.5), (torch.zeros(2), 1.0)), r"a label must be one whole number, got 0\.5"),
        (((torch.zeros(2), "cat"), (torch.zeros(2), "dog")), "a label must be one whole number, got 'cat'"),
        ((torch.zeros(2), torch.zeros(2)), r"a sample must be the pair \(input, label\), got Tensor"),
    ],
)
def test_a_datasets_wrong_samples_are_refused(samples, told):
    with pytest.raises(InputError, match=told):
        DatasetSamples(Listed(*samples), num_classes=3).clean(np.arange(2))
