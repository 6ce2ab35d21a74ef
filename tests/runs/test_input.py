"""Bad input to the library: refused where it enters, with nothing on disk changed."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import gradlex
from gradlex import InputError, Recipe
from gradlex.tasks import Classification

X, Y = torch.zeros(20, 2, 4, 4), torch.arange(20) % 3


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(X, Y, strict=True))


class HalfLabels(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        return X[index], 0.5


def broken(value):
    x = X.clone()
    x[7, 1, 2, 3] = value
    return x


def net(width=3):
    return nn.Sequential(nn.Flatten(), nn.Linear(32, width))


DATA = {
    "fractions as labels": (
        (X, Y + 0.5),
        r"regression of 1 number a sample needs a model that returns \(samples, 1\).*\(2, 3\).* or name another task",
    ),
    "one-hot labels": (
        (X, nn.functional.one_hot(Y)),
        r"each sample has one label.*y.argmax\(1\) for classification, or task='multi-label'",
    ),
    "NaN as a label": (
        (X, torch.where(Y == 1, torch.nan, Y.float())),
        "the target of sample 1 is NaN or infinite",
    ),
    "a negative label": ((X, Y - 1), "from 0 to classes - 1, got -1"),
    "a label beyond the outputs": (
        (X, torch.where(Y == 2, 3, Y)),
        "the model has 3 outputs, the labels go from 0 to 3: give its last layer 4 outputs",
    ),
    "labels from 1": (
        (X, Y + 1),
        r"the labels go from 1 to 3: number the classes from 0 \(labels - 1\), or give its last layer 4 outputs",
    ),
    "labels of another length": ((X, Y[:19]), "20 samples but 19 targets"),
    "an empty set": ((X[:0], Y[:0]), "the set is empty"),
    "NaN images": ((broken(torch.nan), Y), "NaN or infinity"),
    "infinite images": ((broken(torch.inf), Y), "NaN or infinity"),
    "NaN in NumPy": ((broken(torch.nan).numpy(), Y.numpy()), "NaN or infinity"),
    "three arrays": ((X, Y, Y), r"the pair \(x, y\), got 3"),
    "images of another shape": (
        (X[..., :3], Y),
        r"cannot take inputs of shape and type \(2, 2, 4, 3\) torch.float32",
    ),
    "images of another type": ((X.double(), Y), r"shape and type \(2, 2, 4, 4\) torch.float64"),
    "an iterable dataset": (Stream(), "iterable dataset.*disjoint subsets.*map-style.*Stream"),
    "an empty dataset": (TensorDataset(X[:0], Y[:0]), "TensorDataset is empty"),
    "a dataset of fractions": (HalfLabels(), "regression of 1 number a sample needs"),
    "words": ((["a", "b"], [0, 1]), "x cannot be made a tensor"),
    "a single number": ((3.0, 1), "samples"),
}


@pytest.mark.parametrize("what", DATA)
def test_data_that_cannot_be_learnt_from_is_refused(what, tmp_path):
    data, told = DATA[what]
    with pytest.raises(InputError, match=told):
        gradlex.train(net(), data, Recipe(generations=1, population=2), out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "what", ["a negative label", "a label beyond the outputs", "NaN images", "an empty set"]
)
def test_test_samples_are_checked_as_well(what, tmp_path):
    data, told = DATA[what]
    with pytest.raises(InputError, match=told):
        gradlex.train(net(), (X, Y), Recipe(generations=1, population=2), test=data, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


class Answering(nn.Module):
    """Answers in some form."""

    def __init__(self, form):
        super().__init__()
        self.head, self.form = nn.Linear(32, 3), form

    def forward(self, x):
        return self.form(self.head(x.flatten(1)))


MODELS = {
    "too few outputs": (net(2), "the model has 2 outputs, the labels go from 0 to 2: give its last layer 3"),
    "no class axis": (
        Answering(lambda outputs: outputs[:, 0]),
        r"needs a model that returns a tensor \(samples, classes\), got torch.float32 of shape \(2,\)",
    ),
    "text": (
        Answering(str),
        "must return a tensor, a tuple that begins with one, or an object with logits, got str",
    ),
    "one answer for all": (Answering(lambda outputs: outputs.mean(0)), "one output per sample"),
    "nothing to train": (net().requires_grad_(False), "no trainable parameter"),
    "no parameter at all": (nn.Flatten(), "no trainable parameter"),
}


@pytest.mark.parametrize("what", MODELS)
def test_a_model_that_does_not_fit_is_refused(what, tmp_path):
    model, told = MODELS[what]
    with pytest.raises(InputError, match=told):
        gradlex.train(model, (X, Y), Recipe(generations=1, population=2), out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


RECIPES = {
    "population over half the samples": (
        {"population": 11},
        "population 11 is more than half of the 20 samples",
    ),
    "an unknown selection": ({"selection": "lexicse"}, "unknown selection 'lexicse'.*'lexicase'"),
    "an unknown optimizer": ({"optimizer": "adamww"}, "'adamw'"),
    "a closure": ({"optimizer": "LBFGS"}, "LBFGS.*closure"),
    "none for adamw": ({"optimizer": "adamw", "momentum": "none"}, "'adamw' has none"),
    "sgd with a population": ({"selection": "sgd", "population": 4}, "trains one network, got population 4"),
    "sgd with reset": ({"selection": "sgd", "momentum": "reset"}, "keeps its momentum, got momentum 'reset'"),
    "on_all_fail for tournament": (
        {"selection": "tournament", "selection_options": {"on_all_fail": "random"}},
        "'tournament' has no option 'on_all_fail': it takes tournament_size",
    ),
    "a tournament over the population": (
        {"selection": "tournament", "selection_options": {"tournament_size": 3}, "population": 2},
        "tournament_size 3 is more than the population of 2",
    ),
    "an option's value": (
        {"selection": "downsampled-lexicase", "selection_options": {"share": 1.5}},
        "share must be a number above 0 and at most 1, got 1.5",
    ),
    "graded errors never fail": (
        {"task_options": {"case_error": "loss"}, "selection_options": {"on_all_fail": "random"}},
        "needs 0/1 errors",
    ),
    "an unknown task": ({"task": "clasification"}, "unknown task 'clasification'.*'classification'"),
    "an option of the task": ({"task_options": {"case_eror": "loss"}}, "no option 'case_eror'.*'case_error'"),
    "an option's word": (
        {"task_options": {"case_error": "losses"}},
        "case_error must be 'correct' or 'loss'",
    ),
    "a schedule of nonsense": (
        {"schedule": lambda generation: -1.0},
        "factor of generation 0 must be a number",
    ),
    "an optimizer's value": ({"optimizer_options": {"momentum": -1}}, "refused its settings.*momentum"),
    "nesterov without momentum": (
        {"optimizer_options": {"nesterov": True, "momentum": 0}},
        "refused its settings.*[Nn]esterov",
    ),
    "an optimizer's word": ({"optimizer_options": {"momentum": "much"}}, "refused its settings"),
    "an augmentation": ({"augment": "crop4,rotate"}, "unknown augmentation 'rotate'"),
    "a part of given data": ({"train_size": 10}, "train_size"),
    "a share of given data": ({"test_fraction": 0.5}, "test_fraction"),
    "a size for given data": ({"image_size": 8}, "image_size"),
    "a width for a given model": ({"width": 0.5}, "width"),
}


@pytest.mark.parametrize("what", RECIPES)
def test_a_recipe_that_contradicts_itself_or_the_data_is_refused(what, tmp_path):
    fields, told = RECIPES[what]
    recipe = Recipe(**{"generations": 1, **fields})
    with pytest.raises(InputError, match=told):
        gradlex.train(net(), (X, Y), recipe, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(34, 3)

    def forward(self, image, extra):
        return self.head(torch.cat([image.flatten(1), extra], dim=1))


def test_augmentation_of_images_by_name_is_refused_for_several_inputs(tmp_path):
    data = ({"image": X, "extra": torch.zeros(20, 2)}, Y)
    with pytest.raises(InputError, match="augment 'flip' needs images"):
        gradlex.train(TwoInputs(), data, Recipe(augment="flip", generations=1), out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "labels", [Y.float(), Y.double(), Y > 0, Y.to(torch.int8)], ids=lambda y: str(y.dtype)
)
def test_whole_labels_of_any_type_are_taken_as_classes(labels):
    recipe = Recipe(generations=2, population=2, precision="float32", threads=1)
    x = torch.randn(20, 32, generator=torch.Generator().manual_seed(0))
    model = nn.Linear(32, 3)
    run = gradlex.train(model, (x, labels), recipe, test=(x, labels.numpy()))
    expected = gradlex.train(model, (x, labels.long()), recipe, test=(x, labels.long()))
    assert run.test == expected.test
    assert [record.losses for record in run.generations] == [record.losses for record in expected.generations]


@pytest.mark.parametrize("form", ["tensor", "array"])
def test_images_that_lie_channels_last_get_a_hint(form):
    x = torch.zeros(20, 28, 28, 3)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 26 * 26, 3))
    with pytest.raises(InputError, match=r"cannot take .*x looks like NHWC .*: x\.permute\(0, 3, 1, 2\)"):
        gradlex.train(model, (x if form == "tensor" else x.numpy(), Y), Recipe(generations=1))


@pytest.mark.parametrize(
    ("augment", "told"),
    [
        (lambda batch: batch, r"must take \(batch, rng\), but its parameters are \(batch\)"),
        (lambda batch, rng, strength: batch, r"must take \(batch, rng\), but its parameters are .*strength"),
        ("flip", r"must be a function \(batch, rng\) -> batch, .* got str"),
    ],
)
def test_an_augmentation_of_another_signature_is_refused(augment, told, tmp_path):
    recipe = Recipe(generations=1, population=2, precision="bfloat16")
    with pytest.raises(InputError, match=told) as caught:
        gradlex.train(net(), (X, Y), recipe, augment=augment, out=tmp_path / "run")
    assert "bfloat16" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def faulty(batch, rng):
    raise KeyError("strength")


@pytest.mark.parametrize(
    ("augment", "told"),
    [
        (faulty, "the augmentation 'faulty' failed: KeyError: 'strength' .*test_input"),
        (lambda batch, rng: batch[:1], "must return a batch like the one it gets"),
    ],
)
@pytest.mark.parametrize("good", [0, 1], ids=["at once", "later"])
def test_a_failure_of_the_augmentation_is_not_blamed_on_bfloat16(augment, told, good, tmp_path):
    calls = []

    @functools.wraps(augment)
    def failing(batch, rng):
        calls.append(len(batch))
        return batch if len(calls) <= good else augment(batch, rng)

    recipe = Recipe(generations=1, population=2, precision="bfloat16")
    with pytest.raises(gradlex.RunError if good else InputError, match=told) as caught:
        gradlex.train(net(), (X, Y), recipe, augment=failing, out=tmp_path / "run")
    assert "bfloat16" not in str(caught.value)
    assert (tmp_path / "run").exists() == bool(good)


class Odd(Classification):
    """A task with something wrong about it."""


class Unreduced(Odd):
    def loss(self, outputs, targets):
        return nn.functional.cross_entropy(outputs, targets, reduction="none")


class OneError(Odd):
    def errors(self, outputs, targets):
        return super().errors(outputs, targets).mean()


class OtherMetrics(Odd):
    def metrics(self, batches):
        return {"recall": 1.0}


TASKS = {
    "a loss": (
        nn.CrossEntropyLoss(),
        "the task CrossEntropyLoss lacks measures, graded, check, loss, errors, metrics",
    ),
    "a class": (Classification, r"must be an object, got the class Classification: give Classification\(\)"),
    "an unknown name": ("regresion", "unknown task 'regresion'"),
    "a loss of each sample": (
        Unreduced(),
        r"the task's loss must be one number, the mean of the batch, got \(2,\)",
    ),
    "one error for all": (OneError(), r"the task's errors must be one number per case, \(2,\), got \(\)"),
    "metrics of other names": (OtherMetrics(), r"those its measures name \(accuracy, loss, .*\), got recall"),
}


@pytest.mark.parametrize("what", TASKS)
def test_a_task_that_cannot_be_learnt_is_refused(what, tmp_path):
    task, told = TASKS[what]
    with pytest.raises(InputError, match=told):
        gradlex.train(net(), (X, Y), Recipe(generations=1), task=task, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_task_given_twice_is_refused():
    with pytest.raises(InputError, match="the task is given twice"):
        gradlex.train(net(), (X, Y), Recipe(task="mine:Task"), task=Classification())
    with pytest.raises(InputError, match="task_options are for a task by name"):
        gradlex.train(net(), (X, Y), Recipe(task_options={"case_error": "loss"}), task=Classification())


def test_augmentation_given_twice_is_refused():
    with pytest.raises(InputError, match="augment is given twice"):
        gradlex.train(net(), (X, Y), Recipe(augment="flip"), augment=lambda batch, rng: batch)


def test_augmentation_of_pictures_is_refused_for_plain_features(tmp_path):
    with pytest.raises(InputError, match="augment 'flip' needs images"):
        gradlex.train(net(), (X.flatten(1), Y), Recipe(augment="flip", generations=1), out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("every", [0, -1])
def test_an_interval_of_less_than_a_generation_is_refused(every, tmp_path):
    with pytest.raises(InputError, match=f"evaluate_every must be .*at least 1.*, got {every}"):
        gradlex.train(net(), (X, Y), Recipe(generations=1), evaluate_every=every, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("device", ["gpu", "cpu:x", "nonsense:0", "hpu"])
def test_an_unknown_device_is_refused(device):
    with pytest.raises(InputError, match=f"device '{device}' cannot be used"):
        gradlex.train(net(), (X, Y), Recipe(generations=1), device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device")
def test_a_device_that_the_machine_lacks_is_refused():
    with pytest.raises(InputError, match="device 'cuda' cannot be used"):
        gradlex.train(net(), (X, Y), Recipe(generations=1), device="cuda")


def test_bytes_tested_on_floats_are_refused_and_the_other_way_round():
    x = X.to(torch.uint8)
    for train, test in ((x, X), (X, x)):
        with pytest.raises(
            InputError,
            match=r"test samples are .* of torch\.uint8 are normalized",
        ):
            gradlex.train(net(), (train, Y), Recipe(generations=1), test=(test, Y))


@pytest.mark.parametrize("existing", ["recipe.json", "model.safetensors", "generations.jsonl"])
def test_a_folder_that_already_holds_a_run_is_refused_and_left_alone(existing, tmp_path):
    (tmp_path / existing).write_text("mine")
    with pytest.raises(InputError, match=f"already holds a run .{existing}"):
        gradlex.train(net(), (X, Y), Recipe(generations=1), out=tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(existing, "mine")]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("a file, not a folder")
    for out in (tmp_path / "file", tmp_path / "file" / "below" / "run"):
        with pytest.raises(InputError, match="cannot be written"):
            gradlex.train(net(), (X, Y), Recipe(generations=1), out=out)
    assert (tmp_path / "file").read_text() == "a file, not a folder"


def test_a_folder_whose_name_is_too_long_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be"):
        gradlex.train(net(), (X, Y), Recipe(generations=1), out=tmp_path / ("n" * 300))


def test_an_empty_folder_is_taken(tmp_path):
    recipe = Recipe(generations=1, population=2)
    assert (
        gradlex.train(net(), (np.zeros((20, 32), np.float32), Y.numpy()), recipe, out=tmp_path).path
        == tmp_path
    )
    assert (tmp_path / "result.json").exists()
