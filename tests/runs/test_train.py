"""gradlex.train: which models and data it takes, and what it leaves alone."""

from __future__ import annotations

import copy
import random
import warnings

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import gradlex
from gradlex import Recipe
from gradlex.data import crop_flip


def test_tensors_and_numpy_arrays_give_the_same_run(images, tiny_cnn, small, same):
    x, y = images
    one = gradlex.train(tiny_cnn(), (x, y), small, test=(x, y))
    other = gradlex.train(
        tiny_cnn(), (x.numpy(), y.numpy().astype(np.int32)), small, test=[x.numpy(), y.numpy()]
    )
    assert same(one.model.state_dict(), other.model.state_dict())
    assert one.test["accuracy"] == other.test["accuracy"]
    assert one.normalization is other.normalization is None


def test_arrays_that_are_reversed_or_read_only_are_taken_too(images, tiny_cnn, small, same):
    x, y = (part.numpy() for part in images)
    expected = gradlex.train(tiny_cnn(), (x[::-1].copy(), y[::-1].copy()), small)
    found = gradlex.train(tiny_cnn(), (x[::-1], y[::-1]), small)
    assert same(expected.model.state_dict(), found.model.state_dict())
    fixed = x[::-1].copy()
    fixed.flags.writeable = False
    found = gradlex.train(tiny_cnn(), (fixed, y[::-1].copy()), small)
    assert same(expected.model.state_dict(), found.model.state_dict())


def test_a_map_style_dataset_trains_as_its_arrays_do(images, tiny_cnn, small):
    one = gradlex.train(tiny_cnn(), images, small)
    other = gradlex.train(tiny_cnn(), TensorDataset(*images), small, test=TensorDataset(*images))
    for record, twin in zip(one.generations, other.generations, strict=True):
        assert twin.losses == pytest.approx(record.losses, rel=1e-4)
    assert other.test["accuracy"] == other.train["accuracy"]


def test_bytes_are_normalised_by_their_channels_and_the_run_keeps_how(tiny_cnn, small):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    x = (rng.integers(0, 120, (60, 2, 4, 4)) + 60 * y[:, None, None, None]).astype(np.uint8)
    x[:, 1] //= 2
    run = gradlex.train(tiny_cnn(), (x, y), small, test=(x, y))
    scaled = x / 255
    assert run.normalization.mean == pytest.approx(scaled.mean(axis=(0, 2, 3)))
    assert run.normalization.std == pytest.approx(scaled.std(axis=(0, 2, 3)))
    inputs = run.normalization.apply(torch.from_numpy(x))
    assert inputs.mean(dim=(0, 2, 3)).abs().max() < 1e-5
    with torch.inference_mode():
        right = (run.model(inputs).argmax(1).numpy() == y).mean()
    assert right == pytest.approx(run.test["accuracy"], abs=1 / 60)

    by_hand = (
        (scaled - scaled.mean((0, 2, 3), keepdims=True)) / scaled.std((0, 2, 3), keepdims=True)
    ).astype(np.float32)
    twin = gradlex.train(tiny_cnn(), (by_hand, y), small)
    assert twin.generations[0].losses == pytest.approx(run.generations[0].losses, rel=1e-3)


def test_the_callers_model_is_left_as_it_was(images, tiny_cnn, small, same):
    model = tiny_cnn()
    before, modes = copy.deepcopy(model.state_dict()), [module.training for module in model.modules()]
    pointers = [p.data_ptr() for p in model.parameters()]
    run = gradlex.train(model, images, small)
    assert same(before, model.state_dict())
    assert [module.training for module in model.modules()] == modes
    assert [p.data_ptr() for p in model.parameters()] == pointers
    assert all(p.grad is None for p in model.parameters())
    assert run.model is not model
    assert not same(before, run.model.state_dict())


def test_the_returned_model_is_ordinary_in_evaluation_mode_and_can_be_trained_on(images, tiny_cnn, small):
    run = gradlex.train(tiny_cnn(), images, small)
    assert not any(module.training for module in run.model.modules())
    with torch.inference_mode():
        accuracy = (run.model(images[0]).argmax(1) == images[1]).double().mean().item()
    assert accuracy == pytest.approx(run.train["accuracy"])
    run.model(images[0]).sum().backward()
    torch.optim.SGD(run.model.parameters(), lr=0.1).step()
    copy.deepcopy(run.model)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other, self.head = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 3)
        self.other.weight = self.one.weight

    def forward(self, x):
        return self.head(self.other(self.one(x.flatten(1)).relu()))


def test_tied_weights_stay_tied_and_are_stored_once(images, small, tmp_path):
    run = gradlex.train(Tied(), images, small, out=tmp_path / "run")
    assert run.model.one.weight is run.model.other.weight
    stored = safetensors.torch.load_file(tmp_path / "run" / "model.safetensors")
    assert "one.weight" in stored
    assert "other.weight" not in stored
    assert torch.equal(stored["one.weight"], run.model.other.weight)
    again = small.replace(init_from=str(tmp_path / "run" / "model.safetensors"), lr=1e-30, weight_decay=0)
    assert torch.equal(gradlex.train(Tied(), images, again).model.one.weight, run.model.one.weight)


def test_a_lazy_module_takes_its_shape_from_the_data_and_its_weights_from_the_seed(images, small, same):
    def lazy():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says that lazy modules are new
            return nn.Sequential(nn.Flatten(), nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(3))

    one = gradlex.train(lazy(), images, small)
    assert one.model[1].weight.shape == (8, 32)
    assert same(one.model.state_dict(), gradlex.train(lazy(), images, small).model.state_dict())
    other = gradlex.train(lazy(), images, small.replace(seed=2))
    assert not same(one.model.state_dict(), other.model.state_dict())


def test_a_float64_model_trains_in_float64(images, tiny_cnn, small):
    x, y = images
    run = gradlex.train(
        tiny_cnn().double(), (x.double(), y), small.replace(precision="auto"), test=(x.double(), y)
    )
    assert {p.dtype for p in run.model.parameters()} == {torch.float64}
    assert run.recipe.precision == "float32"
    assert run.test["accuracy"] == run.train["accuracy"]


def test_frozen_parameters_stay_as_they_are(images, tiny_cnn, small):
    model = tiny_cnn()
    model[0].requires_grad_(False)
    run = gradlex.train(model, images, small.replace(weight_decay=0.5, momentum="inherit"))
    assert torch.equal(run.model[0].weight, tiny_cnn()[0].weight)
    assert not torch.equal(run.model[4].weight, tiny_cnn()[4].weight)
    assert not run.model[0].weight.requires_grad


class Counts(nn.Module):
    """Counts its training batches in buffers, of which one is not saved."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(32, 3)
        self.register_buffer("batches", torch.zeros(()))
        self.register_buffer("passing", torch.zeros(()), persistent=False)

    def forward(self, x):
        if self.training:
            self.batches += 1
            self.passing += 1
        return self.head(x.flatten(1))


def test_buffers_are_carried_down_the_line_of_parents_and_non_persistent_ones_too(images, small, tmp_path):
    x, y = images
    run = gradlex.train(Counts(), (x[:48], y[:48]), small.replace(generations=4), out=tmp_path / "run")
    # Four parents in a row, each trained on 16 samples in batches of 8: the other candidates do not count.
    assert run.model.batches == run.model.passing == 4 * 2
    assert set(safetensors.torch.load_file(tmp_path / "run" / "model.safetensors")) == {
        "head.weight",
        "head.bias",
        "batches",
    }


def test_a_dataset_with_random_transforms_and_no_clean_view_is_warned_about(images, tiny_dropout, small):
    with pytest.warns(UserWarning, match=r"Jittered transforms its samples at random.* as clean="):
        gradlex.train(tiny_dropout(), Jittered(*images), small.replace(generations=1))


class Jittered(Dataset):
    """Draws from all three global generators, as transforms do."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        noise = random.random() + np.random.random() + torch.rand(()).item()
        return self.x[index] + 0.1 * noise, int(self.y[index])


def test_global_generators_are_left_untouched(images, tiny_dropout, small):
    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(3)
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    gradlex.train(
        tiny_dropout(),
        Jittered(*images),
        small,
        clean=TensorDataset(*images),
        test=TensorDataset(*images),
    )
    gradlex.train(tiny_dropout(), images, small.replace(selection="dalex"), augment=crop_flip(1))
    assert random.getstate() == before[0]
    after = np.random.get_state()
    assert after[0] == before[1][0]
    assert (after[1] == before[1][1]).all()
    assert after[2:] == before[1][2:]
    assert torch.equal(torch.get_rng_state(), before[2])


def test_a_run_does_not_depend_on_the_global_generators(images, tiny_dropout, small, same):
    runs = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        data = Jittered(*images)
        runs.append(gradlex.train(tiny_dropout(), data, small, clean=TensorDataset(*images)))
    assert same(runs[0].model.state_dict(), runs[1].model.state_dict())


def test_the_number_of_threads_is_put_back(images, tiny_cnn, small):
    before = torch.get_num_threads()
    try:
        for given, asked in ((2, 1), (1, 2)):
            torch.set_num_threads(given)
            seen = set()

            def note(batch, rng, seen=seen):
                seen.add(torch.get_num_threads())
                return batch

            gradlex.train(tiny_cnn(), images, small.replace(threads=asked), augment=note)
            assert seen == {asked}
            assert torch.get_num_threads() == given
    finally:
        torch.set_num_threads(before)


def test_the_number_of_threads_is_put_back_after_a_failure(images, tiny_cnn, small):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(gradlex.RunError):
            gradlex.train(tiny_cnn(), images, small.replace(lr=1e30))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_same_seed_gives_the_same_run_and_another_seed_another(images, tiny_dropout, small, same):
    runs = [gradlex.train(tiny_dropout(), images, small.replace(seed=seed)) for seed in (3, 3, 4)]
    assert same(runs[0].model.state_dict(), runs[1].model.state_dict())
    assert not same(runs[0].model.state_dict(), runs[2].model.state_dict())


def test_without_out_nothing_is_written(images, tiny_cnn, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = gradlex.train(tiny_cnn(), images, small)
    assert run.path is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("every", "expected"), [(None, [0, 1, 2, 3, 4]), (2, [1, 3, 4]), (5, [4]), (99, [4])]
)
def test_the_test_samples_are_evaluated_every_so_often_and_always_at_the_end(
    every, expected, images, tiny_cnn, small
):
    run = gradlex.train(tiny_cnn(), images, small.replace(generations=5), test=images, evaluate_every=every)
    assert [record.generation for record in run.generations if record.test] == expected
    assert run.test["accuracy"] == run.generations[-1].test["accuracy"]


def test_the_paper_settings_are_what_an_open_recipe_becomes(images, tiny_cnn):
    run = gradlex.train(tiny_cnn(), images, Recipe(generations=1))
    recipe = run.recipe
    assert (recipe.population, recipe.momentum) == (4, "reset")
    assert recipe.selection_options == {"on_all_fail": "random"}
    assert (recipe.lr, recipe.schedule, recipe.optimizer) == (0.1, "cosine", "sgd")


def test_without_test_samples_there_are_no_test_metrics(images, tiny_cnn, small):
    run = gradlex.train(tiny_cnn(), images, small)
    assert run.test is None
    assert 0 <= run.train["accuracy"] <= 1


def test_what_a_person_should_know_is_logged(images, tiny_cnn, small, tmp_path, caplog):
    for resume in (False, True):
        gradlex.train(tiny_cnn(), images, small, out=tmp_path / "run", resume=resume)
    assert [record.name for record in caplog.records] == ["gradlex"]
    assert "nothing is trained again" in caplog.text
