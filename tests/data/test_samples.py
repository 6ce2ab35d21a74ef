from __future__ import annotations

import pickle
import random
from collections import UserDict

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils.data import Dataset, TensorDataset, default_collate

from gradlex.data import ArraySamples, DatasetSamples, Normalization, crop_flip
from gradlex.errors import InputError, RunError

PLACES = np.array([4, 0, 9, 9])


def stream(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture
def images():
    return torch.from_numpy(stream(5).integers(1, 256, (10, 3, 8, 8), dtype=np.uint8))


@pytest.fixture
def labels():
    return torch.arange(10) % 3


def test_clean_batches_are_the_normalised_images_and_their_labels(images, labels):
    normalization = Normalization.of(images.permute(0, 2, 3, 1).numpy())
    samples = ArraySamples(images, labels, normalization=normalization, augment=crop_flip(4))
    inputs, targets = samples.clean(PLACES)
    mean, std = (torch.tensor(part).view(3, 1, 1) for part in (normalization.mean, normalization.std))
    torch.testing.assert_close(inputs, (images[PLACES] / 255 - mean) / std)
    assert inputs.is_contiguous(memory_format=torch.channels_last)
    assert targets.tolist() == labels[PLACES].tolist()
    assert len(samples) == 10


def test_augmented_batches_are_augmented_before_they_are_normalised(images, labels):
    normalization = Normalization.of(images.permute(0, 2, 3, 1).numpy())
    samples = ArraySamples(images, labels, normalization=normalization, augment=crop_flip(4))
    inputs, targets = samples.augmented(PLACES, stream())
    torch.testing.assert_close(inputs, normalization.apply(crop_flip(4)(images[PLACES], stream())))
    assert targets.tolist() == labels[PLACES].tolist()


def test_the_same_stream_gives_the_same_batch_and_the_stored_images_never_change(images, labels):
    before = images.clone()
    samples = ArraySamples(images, labels, augment=crop_flip(2))
    first, again, other = (samples.augmented(np.arange(10), stream(seed))[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(samples.clean(np.arange(10))[0], before)
    assert torch.equal(images, before)


def test_an_augmentation_that_writes_into_its_batch_leaves_the_stored_images_alone(images, labels):
    before = images.clone()
    samples = ArraySamples(images, labels, augment=lambda batch, _: batch.zero_())
    assert samples.augmented(np.arange(10), stream())[0].count_nonzero() == 0
    assert torch.equal(samples.clean(np.arange(10))[0], before)


def test_without_augmentation_both_views_are_the_same(images, labels):
    samples = ArraySamples(images, labels)
    assert torch.equal(samples.augmented(PLACES, stream())[0], samples.clean(PLACES)[0])


def test_a_users_own_augmentation_gets_the_data_as_it_is_and_the_stream(images, labels):
    def darken(batch, rng):
        assert batch.dtype == torch.uint8
        assert batch.shape == (4, 3, 8, 8)
        return batch // int(rng.integers(2, 5))

    found = ArraySamples(images, labels, augment=darken).augmented(PLACES, stream())[0]
    assert torch.equal(found, images[PLACES] // int(stream().integers(2, 5)))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda batch, _: batch / 255,
        lambda batch, _: batch[1:],
        lambda batch, _: batch.numpy(),
        lambda *_: None,
    ],
)
def test_an_augmentation_that_returns_something_else_is_refused(images, labels, wrong):
    told = (
        r"augmentation '.*' failed: it must return a batch like the one it gets, torch.uint8 of shape \(4, 3"
    )
    with pytest.raises(RunError, match=told):
        ArraySamples(images, labels, augment=wrong).augmented(PLACES, stream())


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
    samples = DatasetSamples(Noisy(), clean_view=Noisy(noise=False))
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

    samples = DatasetSamples(Failing() if fails else Noisy())
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    expected = random.random(), np.random.rand(), torch.rand(1)
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    try:
        samples.clean(PLACES) if view == "clean" else samples.augmented(PLACES, stream())
    except OSError:
        assert fails
    assert (random.random(), np.random.rand(), torch.rand(1)) == expected


def test_a_dataset_without_a_clean_view_gives_the_same_clean_batch_each_time():
    samples = DatasetSamples(Noisy())
    assert torch.equal(samples.clean(PLACES)[0], samples.clean(PLACES)[0])


def test_a_case_is_the_same_in_whatever_batch_it_is_asked():
    samples = DatasetSamples(Noisy())
    together = samples.clean(np.arange(10))[0]
    for place in range(10):
        assert torch.equal(samples.clean(np.array([place]))[0][0], together[place])
    assert len({round(float(row[0]) - place, 6) for place, row in enumerate(together)}) == 10


@pytest.mark.parametrize(("noise", "varies"), [(True, True), (False, False)])
def test_random_transforms_are_found(noise, varies):
    assert DatasetSamples(Noisy(noise=noise)).clean_varies is varies
    assert not DatasetSamples(Noisy(), clean_view=Noisy(noise=False)).clean_varies


def test_a_datasets_batch_is_augmented_after_its_own_transform(images, labels):
    samples = DatasetSamples(TensorDataset(images, labels), augment=crop_flip(2))
    rng = stream()
    rng.integers(0, 2**32, 3)
    inputs, targets = samples.augmented(PLACES, stream())
    assert torch.equal(inputs, crop_flip(2)(images[PLACES], rng))
    assert targets.tolist() == labels[PLACES].tolist()


def test_views_of_different_lengths_are_refused(images, labels):
    whole, part = TensorDataset(images, labels), TensorDataset(images[:9], labels[:9])
    with pytest.raises(InputError, match="the clean view has 9 samples and the data 10"):
        DatasetSamples(whole, clean_view=part)


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
        (((torch.zeros(2), 0), (torch.zeros(3), 1)), "do not form a batch.*Return tensors of one shape"),
        (((object(), 0), (object(), 1)), "do not form a batch"),
        ((({"a": 1}, 0), ({"b": 1}, 1)), "do not form a batch: KeyError"),
        (
            ((torch.zeros(2), "cat"), (torch.zeros(2), "dog")),
            "a target must be a number.* got 'cat' from sample 0",
        ),
        (((torch.zeros(2), {"a": 1}),) * 2, "a target must be a number.* got {'a': 1} from sample 0"),
        (((torch.zeros(2), 1j),) * 2, "complex"),
        (
            (torch.zeros(2), torch.zeros(2)),
            r"a sample must be the pair \(input, target\), got Tensor from sample 0",
        ),
        (((1.0, 2.0, 0), (1.0, 2.0, 1)), r"got a tuple of 3 from sample 0: several inputs go into one tuple"),
        (({"x": 1.0, "y": 0},) * 2, r"got dict from sample 0: .* collate_fn"),
        ((("text", 0), ("more", 1)), r"must be a tensor or array, .* inputs\[0\] is str"),
        ((((), 0), ((), 1)), "an empty list"),
    ],
)
def test_a_datasets_wrong_samples_are_refused(samples, told):
    with pytest.raises(InputError, match=told):
        DatasetSamples(Listed(*samples)).clean(np.arange(2))


@pytest.mark.parametrize(
    ("collate", "told"),
    [
        (lambda samples: torch.zeros(len(samples)), r"must return the pair \(inputs, targets\), got Tensor"),
        (lambda samples: (torch.zeros(4, 2), [0] * 4), "must return the targets as one tensor, got list"),
        (
            lambda samples: (torch.zeros(3, 2), torch.zeros(4)),
            r"must hold 4 of each .* got torch.float32 of shape \(3, 2",
        ),
        (
            lambda samples: (torch.zeros(4, 2), torch.zeros(3)),
            r"must hold 4 of each .* targets torch.float32 of shape \(3,",
        ),
        (lambda samples: (torch.zeros(4, 2), torch.tensor(3)), "must hold 4 of each"),
        (lambda samples: ({"x": torch.zeros(4), "m": None}, torch.zeros(4)), r"inputs\['m'\] is NoneType"),
        (lambda samples: samples.sort(key="no"), "do not form a batch: TypeError"),
    ],
)
def test_a_collate_function_that_makes_no_batch_is_refused(collate, told):
    with pytest.raises(InputError, match=told):
        DatasetSamples(Noisy(), collate=collate).clean(PLACES)


class Ragged(Dataset):
    """Sequences of different lengths, which only a collate function makes a batch of."""

    def __len__(self):
        return 10

    def __getitem__(self, place):
        return {"tokens": torch.arange(1, place + 2), "label": place % 3}


def padded(samples):
    tokens = nn.utils.rnn.pad_sequence([sample["tokens"] for sample in samples], batch_first=True)
    return {"tokens": tokens, "mask": tokens > 0}, torch.tensor([sample["label"] for sample in samples])


def test_a_collate_function_may_make_inputs_of_any_structure():
    samples = DatasetSamples(Ragged(), collate=padded)
    for inputs, targets in (samples.clean(PLACES), samples.augmented(PLACES, stream())):
        assert inputs["tokens"].shape == inputs["mask"].shape == (4, 10)
        assert inputs["mask"].sum(dim=1).tolist() == [5, 1, 10, 10]
        assert targets.tolist() == [1, 0, 0, 0]


def test_the_clean_view_may_have_a_collate_function_of_its_own():
    def mixed(samples):
        x, y = default_collate(samples)
        return torch.rand(()) * x + x.flip(0), y

    data = TensorDataset(torch.randn(10, 2), torch.arange(10))
    samples = DatasetSamples(data, collate=mixed, clean_collate=default_collate)
    assert torch.equal(samples.clean(PLACES)[0], data.tensors[0][PLACES])
    assert not torch.equal(samples.augmented(PLACES, stream())[0], data.tensors[0][PLACES])
    assert not samples.clean_varies
    assert DatasetSamples(data, collate=mixed).clean_varies


def test_a_mapping_that_is_no_dict_is_taken_as_one():
    samples = DatasetSamples(
        Noisy(), collate=lambda given: (UserDict(x=torch.zeros(len(given))), torch.zeros(4))
    )
    assert type(samples.clean(PLACES)[0]) is dict


def test_a_check_sees_every_batch_and_its_refusal_names_the_samples():
    seen = []

    def check(inputs, targets):
        seen.append((inputs.shape, targets.tolist()))
        if targets.max() > 1:
            raise InputError("too large.")

    samples = DatasetSamples(Noisy()).with_check(check)
    samples.clean(np.array([3, 1]))
    samples.augmented(np.array([0, 4]), stream())
    assert seen == [((2, 2), [0, 1]), ((2, 2), [0, 1])]
    with pytest.raises(
        InputError, match=r"in a batch of the samples 0, 1, 2, 3, 4, 5, 6, 7, \.\.\.: too large\."
    ):
        samples.clean(np.arange(10))


def test_only_arrays_have_their_targets_at_hand(images, labels):
    samples = ArraySamples(images, labels)
    assert torch.equal(samples.targets, labels)
    assert samples.with_check(lambda *_: pytest.fail("arrays are checked whole")).clean(PLACES)[
        1
    ].tolist() == [1, 0, 0, 0]
    assert DatasetSamples(Noisy()).targets is None


@pytest.mark.parametrize(
    ("given", "dtype"),
    [(np.uint16(3), torch.int64), (True, torch.bool), (0.5, torch.float64), (np.float16(2), torch.float32)],
)
def test_a_datasets_targets_are_numbers_that_a_task_can_compute_with(given, dtype):
    assert DatasetSamples(Listed((0.0, given), (0.0, given))).clean(np.arange(2))[1].dtype == dtype


@pytest.fixture
def several(images):
    """Inputs of every kind of structure: images, numbers of two widths, a flag."""
    rng = torch.Generator().manual_seed(0)
    return {
        "flag": torch.arange(10) % 2 == 0,
        "pair": (images, [torch.randn(10, 3, generator=rng), torch.arange(10, dtype=torch.int16)]),
        "wide": torch.randn(10, 2, generator=rng, dtype=torch.float64),
    }


def assert_same(found, expected):
    found, spec = pytree.tree_flatten(found)
    expected, expected_spec = pytree.tree_flatten(expected)
    assert spec == expected_spec
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_inputs_of_any_structure_are_drawn_leaf_by_leaf(several, labels):
    samples = ArraySamples(several, labels)
    expected = pytree.tree_map(lambda leaf: leaf[PLACES], several)
    for inputs, targets in (samples.clean(PLACES), samples.augmented(PLACES, stream())):
        assert_same(inputs, expected)
        assert targets.tolist() == labels[PLACES].tolist()
    assert inputs["pair"][0].is_contiguous(memory_format=torch.channels_last)
    assert samples.contiguous().clean(PLACES)[0]["pair"][0].is_contiguous()
    assert samples.nbytes == sum(leaf.nbytes for leaf in pytree.tree_leaves(several))


def test_samples_of_any_structure_can_be_moved_sent_and_shared(several, labels, tmp_path):
    samples = ArraySamples(several, labels).to(torch.device("cpu"))
    assert_same(pickle.loads(pickle.dumps(samples)).clean(PLACES)[0], samples.clean(PLACES)[0])
    expected = samples.clean(PLACES)[0]
    other = ArraySamples(pytree.tree_map(torch.zeros_like, several), labels)
    samples.map_into(tmp_path / "shared", write=True)
    assert (tmp_path / "shared").stat().st_size == samples.nbytes
    other.map_into(tmp_path / "shared", write=False)
    assert_same(samples.clean(PLACES)[0], expected)
    assert_same(other.clean(PLACES)[0], expected)


def test_an_augmentation_gets_and_returns_the_whole_structure(several, labels):
    def louder(batch, rng):
        return {**batch, "wide": batch["wide"] * rng.integers(2, 9)}

    samples = ArraySamples(several, labels, augment=louder)
    expected = several["wide"][PLACES] * int(stream().integers(2, 9))
    assert torch.equal(samples.augmented(PLACES, stream())[0]["wide"], expected)
    assert torch.equal(samples.clean(PLACES)[0]["wide"], several["wide"][PLACES])
    short = samples.with_augment(lambda batch, _: {**batch, "wide": batch["wide"][1:]})
    with pytest.raises(
        RunError, match=r"like the one it gets, .*x\['wide'\] torch.float64 of shape \(4, 2\), got "
    ):
        short.augmented(PLACES, stream())
    with pytest.raises(
        InputError, match=r"crop, flip, cutout and cutmix need images .* got x\['flag'\] torch.bool"
    ):
        samples.with_augment(crop_flip(2)).augmented(PLACES, stream())


def test_a_structure_is_not_normalised(several, labels):
    with pytest.raises(InputError, match="a normalization is for inputs of one tensor, got a dict"):
        ArraySamples(several, labels, normalization=Normalization(mean=(0.5,), std=(0.2,)))


def dividing(batch, rng):
    return batch // 0 if batch.sum() else 1 / 0


@pytest.mark.parametrize(
    "view", [ArraySamples, lambda x, y, augment: DatasetSamples(TensorDataset(x, y), augment=augment)]
)
def test_an_augmentation_that_fails_is_named_with_its_place(view, labels):
    x = torch.zeros(10, 3)
    with pytest.raises(
        RunError, match=r"augmentation 'dividing' failed: ZeroDivisionError: .*test_samples\.py, line \d+\)"
    ):
        view(x, labels, augment=dividing).augmented(PLACES, stream())
    with pytest.raises(
        RunError, match=r"augmentation '.*<lambda>' failed: TypeError: .*1 positional argument"
    ):
        view(x, labels, augment=lambda batch: batch).augmented(PLACES, stream())
