"""Inputs that are a tuple or dict of tensors: trained, selected on, and resumed exactly."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import gradlex


class Killed(BaseException):
    pass


class Kill(gradlex.Callback):
    def on_generation(self, run, record):
        if record.generation == 1:
            raise Killed


class Both(nn.Module):
    """Takes an image and a row of numbers, as model(image, numbers) or by their names."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(16 + 5, 3)

    def forward(self, image, numbers):
        return self.head(torch.cat([self.conv(image), numbers], dim=1))


def network():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return Both()


class Pairs(Dataset):
    """The same samples, one by one."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        one = {name: tensor[index] for name, tensor in self.inputs.items()}
        return one, int(self.targets[index])


@pytest.fixture
def forms(images):
    """The same samples in every form."""
    image, y = images
    numbers = torch.randn(50, 5, generator=torch.Generator().manual_seed(1))
    named = {"numbers": numbers, "image": image}
    return {
        "tuple": ((image, numbers), y),
        "list": ([image, numbers], y),
        "dict": (named, y),
        "arrays": ({name: tensor.numpy() for name, tensor in named.items()}, y.numpy()),
        "dataset": Pairs(named, y),
        "loader": DataLoader(Pairs(named, y), batch_size=3, shuffle=True),
    }


@pytest.fixture
def recipe(small):
    return small.replace(generations=4, momentum="inherit", ema=0.5, recalibrate=1)


@pytest.mark.parametrize("form", ["tuple", "list", "dict", "arrays", "dataset", "loader"])
def test_every_form_of_the_same_samples_is_the_same_run(form, forms, recipe, same):
    expected = gradlex.train(network(), forms["tuple"], recipe, test=forms["tuple"])
    assert not same(expected.model.state_dict(), network().state_dict())
    found = gradlex.train(network(), forms[form], recipe, test=forms[form])
    assert [record.selected for record in found.generations] == [r.selected for r in expected.generations]
    for name, tensor in expected.model.state_dict().items():
        assert torch.allclose(found.model.state_dict()[name], tensor, rtol=1e-4, atol=1e-5), name
    assert found.test["accuracy"] == expected.test["accuracy"] == expected.train["accuracy"]


@pytest.mark.parametrize("form", ["tuple", "dict", "dataset"])
def test_a_run_on_structures_resumes_exactly(form, forms, recipe, tmp_path):
    data = forms[form]
    gradlex.train(network(), data, recipe, out=tmp_path / "whole")
    with pytest.raises(Killed):
        gradlex.train(network(), data, recipe, out=tmp_path / "run", callbacks=[Kill()])
    gradlex.train(network(), data, recipe, out=tmp_path / "run", resume=True)
    for name in ("model.safetensors", "ema.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_augmentation_gets_the_whole_structure(forms, recipe):
    seen = set()

    def augment(batch, rng):
        seen.add(frozenset(batch))
        return {**batch, "image": batch["image"].flip(3)}

    gradlex.train(network(), forms["dict"], recipe, augment=augment)
    assert seen == {frozenset({"image", "numbers"})}


def test_another_fingerprint_where_any_tensor_differs(forms, recipe, tmp_path):
    (image, numbers), y = forms["tuple"]
    gradlex.train(network(), ((image, numbers), y), recipe.replace(generations=1), out=tmp_path / "run")
    moved = numbers.clone()
    moved[7, 2] += 1e-3
    with pytest.raises(gradlex.InputError, match=r"data is not what .* was trained on"):
        gradlex.train(
            network(),
            ((image, moved), y),
            recipe.replace(generations=1),
            out=tmp_path / "run",
            resume=True,
        )


def test_several_outputs_and_logits_are_unwrapped(images, small):
    class Wrapped(nn.Module):
        def __init__(self, form):
            super().__init__()
            torch.manual_seed(3)
            self.head, self.form = nn.Linear(32, 3), form

        def forward(self, x):
            return self.form(self.head(x.flatten(1)))

    class Output:
        def __init__(self, logits):
            self.logits = logits

    with torch.random.fork_rng(devices=[]):
        runs = [
            gradlex.train(Wrapped(form), images, small)
            for form in (lambda x: x, lambda x: (x, x.mean()), lambda x: [x], Output)
        ]
    assert all(torch.equal(run.model.head.weight, runs[0].model.head.weight) for run in runs)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: "text", r"must be a tensor or array, or a tuple or dict of them"),
        (
            lambda: {"a": torch.zeros(3), "b": "text"},
            r"must be a tensor or array, or a tuple or dict of them",
        ),
    ],
)
def test_inputs_that_are_no_tensors_are_refused(make, told, small):
    class Other(Dataset):
        def __len__(self):
            return 12

        def __getitem__(self, index):
            return make(), index % 3

    with pytest.raises(gradlex.InputError, match=told):
        gradlex.train(nn.Linear(3, 3), Other(), small)


def test_names_that_the_model_does_not_take_are_refused(forms, small):
    (image, numbers), y = forms["tuple"]
    with pytest.raises(
        gradlex.InputError, match=r"cannot take inputs .*unexpected keyword argument 'pixels'"
    ):
        gradlex.train(network(), ({"pixels": image, "numbers": numbers}, y), small)


class Several(nn.Module):
    """Returns several outputs, in some form."""

    def __init__(self, form):
        super().__init__()
        self.head, self.form = nn.Sequential(nn.Flatten(), nn.Linear(32, 3)), form

    def forward(self, x):
        return self.form(self.head(x), self.head(x).mean(1))


def second_of(pair):
    return pair[1]


@pytest.mark.parametrize(
    ("form", "output"),
    [
        (lambda scores, mean: {"aux": mean, "scores": scores}, "scores"),
        (lambda scores, mean: (mean, scores), 1),
        (lambda scores, mean: (mean, scores), second_of),
        (lambda scores, mean: SimpleNamespace(mean=mean, scores=scores), "scores"),
        (lambda scores, mean: SimpleNamespace(mean=mean, logits=scores), None),
        (lambda scores, mean: (scores, mean), None),
    ],
    ids=["key", "number", "function", "attribute", "logits", "first"],
)
def test_the_output_that_is_learnt_is_found_by_rule_or_by_name(form, output, images, small, same):
    def made(form):
        torch.manual_seed(0)
        return Several(form)

    expected = gradlex.train(made(lambda scores, mean: scores), images, small, test=images)
    found = gradlex.train(made(form), images, small.replace(recalibrate=1), test=images, output=output)
    assert same(found.model.state_dict(), expected.model.state_dict())
    assert found.test == expected.test


def test_an_output_that_there_is_not_is_refused(images, small):
    with pytest.raises(gradlex.InputError, match=r"has no output 'score'. It has aux"):
        gradlex.train(Several(lambda scores, mean: {"aux": mean}), images, small, output="score")
    with pytest.raises(gradlex.InputError, match="say which of its outputs is learnt with output="):
        gradlex.train(Several(lambda scores, mean: {"aux": mean}), images, small)


class Forgetful(Both):
    """Takes anything by name, and reads what it knows."""

    def forward(self, image, numbers, mask=None, in_training=None, **others):
        numbers = numbers if mask is None else numbers * mask
        if self.training and in_training is not None:
            numbers = numbers + in_training
        return super().forward(image, numbers)


@pytest.mark.parametrize("name", ["wrong_name", "numbers_"])
def test_an_input_that_the_model_never_reads_is_refused(name, forms, small, tmp_path):
    (image, numbers), y = forms["tuple"]
    data = ({"image": image, "numbers": numbers, name: numbers.clone()}, y)
    with pytest.raises(
        gradlex.InputError, match=rf"takes the input '{name}' but never reads it: leave it out of the data"
    ):
        gradlex.train(Forgetful(), data, small, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["mask", "in_training"])
def test_an_input_that_changes_nothing_for_a_sample_is_taken(name, forms, small):
    (image, numbers), y = forms["tuple"]
    neutral = torch.ones(50, 1) if name == "mask" else torch.zeros(50, 1)
    model = Forgetful()
    gradlex.train(model, ({"image": image, "numbers": numbers, name: neutral}, y), small)
    assert model.conv[1].num_batches_tracked == 0


def test_a_metric_that_two_samples_are_too_few_for_is_taken(images, small):
    def spread(outputs, targets):
        return outputs.std(0).mean() if len(targets) > 2 else torch.nan

    def distance(outputs, targets):
        return (outputs.argmax(1) != targets).float()

    def loss(outputs, targets):
        return nn.functional.cross_entropy(outputs, targets)

    task = gradlex.tasks.Custom(loss=loss, errors=distance, metrics={"spread": spread})
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 3))
    assert gradlex.train(model, images, small, test=images, task=task).test["spread"] > 0
    never = gradlex.tasks.Custom(loss=loss, errors=distance, metrics={"never": lambda *given: torch.inf})
    with pytest.raises(gradlex.InputError, match="metric 'never' of Custom must be a finite number, got inf"):
        gradlex.train(model, images, small, task=never)
