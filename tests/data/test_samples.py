"""Batches: from arrays and from Datasets."""

from __future__ import annotations

import contextlib
import random
from collections import UserDict
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from gradlex import InputError
from gradlex.data import crop_flip
from gradlex.data.inputs import call
from gradlex.data.normalization import Normalization, Normalize, normalized
from gradlex.data.samples import ArraySamples, DatasetSamples

PLACES = np.array([4, 0, 9, 9])
IMAGES = torch.from_numpy(np.random.default_rng(5).integers(1, 256, (10, 3, 8, 8), dtype=np.uint8))
LABELS = torch.arange(10) % 3


def stream(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("samples", [ArraySamples(IMAGES, LABELS), DatasetSamples(TensorDataset(IMAGES, LABELS))])
def test_batches_are_the_samples_of_these_numbers(samples):
    inputs, targets = samples.clean(PLACES)
    assert torch.equal(inputs, IMAGES[PLACES])
    assert targets.tolist() == LABELS[PLACES].tolist()
    assert torch.equal(samples.take(PLACES).clean(np.array([1, 2]))[0], IMAGES[[0, 9]])
    assert len(samples.take(PLACES)) == 4
    assert torch.equal(samples.augmented(PLACES, stream())[0], inputs)
    moved = samples.replace(augment=crop_flip(2)).to(torch.device("cpu"))
    assert not torch.equal(moved.augmented(PLACES, stream())[0], inputs)
    assert torch.equal(moved.clean(PLACES)[0], inputs)


def test_images_lie_channels_last_unless_a_network_cannot_take_them_so():
    samples = ArraySamples(IMAGES, LABELS)
    assert samples.clean(PLACES)[0].is_contiguous(memory_format=torch.channels_last)
    assert samples.replace(channels_last=False).clean(PLACES)[0].is_contiguous()
    assert samples.channels_last


class Noisy(Dataset):
    """Adds noise from all three global generators, as transforms do."""

    def __init__(self, noise=True):
        self.noise = noise

    def __len__(self):
        return 10

    def __getitem__(self, place):
        noise = random.random() + np.random.rand() + torch.rand(2) if self.noise else 0
        return torch.full((2,), float(place)) + noise, place % 3


def test_a_datasets_noise_depends_on_the_stream_alone():
    samples = DatasetSamples(Noisy(), Noisy(noise=False))
    first = samples.augmented(PLACES, stream(1))[0]
    random.seed(5)
    torch.manual_seed(5)
    assert torch.equal(samples.augmented(PLACES, stream(1))[0], first)
    assert not torch.equal(samples.augmented(PLACES, stream(2))[0], first)
    assert samples.clean(PLACES)[0][:, 0].tolist() == [4, 0, 9, 9]


def test_the_global_generators_are_put_back_even_after_an_error():
    class Failing(Noisy):
        def __getitem__(self, place):
            raise OSError(super().__getitem__(place))

    def drawn():
        return random.random(), np.random.rand(), float(torch.rand(1))

    for data in (Noisy(), Failing()):
        samples = DatasetSamples(data)
        for draw in (samples.clean, lambda places, own=samples: own.augmented(places, stream())):
            found = []
            for _ in range(2):
                for seed in (random.seed, np.random.seed, torch.manual_seed):
                    seed(5)
                if found:
                    with contextlib.suppress(OSError):
                        draw(PLACES)
                found.append(drawn())
            assert found[0] == found[1]


def test_a_case_is_the_same_in_whatever_batch_it_is_drawn():
    samples = DatasetSamples(Noisy())
    together = samples.clean(np.arange(10))[0]
    for place in range(10):
        assert torch.equal(samples.clean(np.array([place]))[0][0], together[place])


class Listed(Dataset):
    def __init__(self, *samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, place):
        return self.samples[place]


ZERO = torch.zeros(2)


@pytest.mark.parametrize(
    ("samples", "collate", "message"),
    [
        (((ZERO, 0), (torch.zeros(3), 1)), default_collate, "don't form a batch.*Return pairs of tensors of one shape"),
        (((object(), 0), (object(), 1)), default_collate, "don't form a batch"),
        (((ZERO, "cat"), (ZERO, "dog")), default_collate, "must hold tensors of 2.*targets x.0. str"),
        (((ZERO, 1j),) * 2, default_collate, "complex"),
        (({"x": 1.0, "y": 0},) * 2, default_collate, "got str and targets str"),
        ((("text", 0), ("more", 1)), default_collate, "must hold tensors of 2"),
        ((((), 0), ((), 1)), default_collate, "must hold tensors of 2"),
        (((ZERO, 0),) * 2, lambda _: ZERO, "must hold tensors of 2"),
        (((ZERO, 0),) * 2, lambda _: (ZERO[:1], ZERO), "must hold tensors of 2"),
        (((ZERO, 0),) * 2, lambda _: 1 // 0, "don't form a batch"),
    ],
)
def test_samples_that_form_no_batch_are_an_error(samples, collate, message):
    with pytest.raises(InputError, match=message):
        DatasetSamples(DataLoader(Listed(*samples), collate_fn=collate)).clean(np.arange(2))


def test_a_collate_function_may_make_inputs_of_any_structure():
    def padded(samples):
        tokens = nn.utils.rnn.pad_sequence([torch.arange(1, n + 2) for n, _ in samples], batch_first=True)
        return UserDict(tokens=tokens, mask=tokens > 0), torch.tensor([label for _, label in samples])

    samples = DatasetSamples(DataLoader(Listed(*((n, n % 3) for n in range(10))), collate_fn=padded))
    inputs, targets = samples.augmented(PLACES, stream())
    assert type(inputs) is dict
    assert inputs["mask"].sum(dim=1).tolist() == [5, 1, 10, 10]
    assert targets.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("given", "dtype"),
    [(np.uint16(3), torch.int64), (True, torch.bool), (0.5, torch.float32), (np.int8(2), torch.int64)],
)
def test_a_datasets_targets_are_numbers_that_a_task_can_compute_with(given, dtype):
    inputs, targets = DatasetSamples(Listed((0.5, given), (0.5, given))).clean(np.arange(2))
    assert (inputs.dtype, targets.dtype) == (torch.float32, dtype)


def test_two_views_must_be_as_long():
    with pytest.raises(InputError, match="the data has 10 samples, its clean view 9"):
        DatasetSamples(TensorDataset(IMAGES, LABELS), TensorDataset(IMAGES[:9], LABELS[:9]))


@pytest.mark.parametrize(
    "x", [IMAGES, IMAGES.contiguous(memory_format=torch.channels_last), IMAGES / 255, IMAGES[:, :, 0, 0]]
)
def test_a_normalized_network_takes_what_the_data_holds(x):
    normalization = Normalization(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    layer = Normalize(normalization)
    values = x.double() / 255 if x.dtype == torch.uint8 else x.double()
    shape = (1, 3, *(1 for _ in x.shape[2:]))
    mean, std = (
        torch.tensor(each, dtype=torch.float64).view(shape) for each in (normalization.mean, normalization.std)
    )
    torch.testing.assert_close(layer(x).double(), (values - mean) / std, atol=1e-5, rtol=1e-5)
    assert layer(x).dtype == torch.float32
    if x.ndim == 4:
        last = torch.channels_last
        assert layer(x).is_contiguous(memory_format=last) == x.is_contiguous(memory_format=last)
    net = normalized(nn.Flatten(), normalization)
    assert torch.equal(net(x), layer(x).flatten(1))
    with pytest.raises(InputError, match="trained on 3 channels or features"):
        net(x[:, :2])


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_normalization_is_that_of_numpy(dtype):
    x = stream().integers(0, 256, (2100, 3, 2, 3)).astype(dtype)
    found, values = Normalization.of(x), x / (255 if dtype == np.uint8 else 1)
    np.testing.assert_allclose(found.mean, values.mean(axis=(0, 1, 2), dtype=float), rtol=1e-6)
    np.testing.assert_allclose(found.std, values.std(axis=(0, 1, 2), dtype=float), rtol=1e-6)
    constant = np.full((50, 1), 0.1, np.float32)
    assert Normalization.of(constant).std == (1.0,)


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (lambda x: x, torch.ones(2)),
        (lambda x, y: (x * y, None), (torch.ones(2), torch.ones(2))),
        (lambda a, b: [a + b], {"a": torch.ones(2), "b": torch.zeros(2)}),
        (lambda x: SimpleNamespace(logits=1 + x), torch.zeros(2)),
    ],
)
def test_a_model_is_called_with_what_the_data_holds(model, inputs):
    assert torch.equal(call(model, inputs), torch.ones(2))


@pytest.mark.parametrize("output", [None, (), {"a": torch.ones(2)}, "text"])
def test_a_model_must_return_a_tensor(output):
    with pytest.raises(InputError, match="must return a tensor"):
        call(lambda _: output, torch.ones(2))
