"""What a finished run's folder holds, and what can be done with it."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import gradlex
from gradlex.tasks import Custom

FIELDS: dict[str, Any] = {"epochs": 2, "batch_size": 20, "population": 2, "precision": "float32"}


def points(seed: int = 0) -> tuple[Tensor, Tensor]:
    x = torch.randn(90, 6, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, 0] > 0).long()


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> gradlex.Run:
    """A run by names, with a folder."""
    out = tmp_path_factory.mktemp("runs") / "digits"
    return gradlex.train(out=out, threads=1, train_size=300, validation_fraction=0.1, **FIELDS)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> gradlex.Run:
    """A run of a module and arrays, with a folder."""
    out = tmp_path_factory.mktemp("runs") / "python"
    return gradlex.train(net(), points(), test=points(1), out=out, threads=1, **FIELDS)


def folder(run: gradlex.Run) -> Path:
    assert run.path is not None
    return run.path


def test_run_json_and_result_json_say_what_was_run_and_how_it_ended(digits: gradlex.Run) -> None:
    described = json.loads((folder(digits) / "run.json").read_text())
    assert list(described) == ["gradlex", "recipe", "data", "model", "environment"]
    assert described["recipe"] == digits.recipe.to_dict()
    assert described["recipe"]["model"] == "small-cnn"
    assert described["data"]["samples"] == {"train": 270, "validation": 30, "test": 359}
    assert described["data"]["task"] == {"classes": 10}
    assert described["model"]["parameters"] == sum(p.numel() for p in digits.model.parameters())
    assert described["environment"]["threads"] == 1
    result = json.loads((folder(digits) / "result.json").read_text())
    assert set(result) == {
        *("metrics", "stopped", "seconds", "samples_trained", "critical_path", "cases_evaluated", "generations"),
    }
    assert list(result["metrics"]) == ["test", "validation", "train"]
    lines = (folder(digits) / "generations.jsonl").read_text().splitlines()
    assert [json.loads(line)["generation"] for line in lines] == [1, 2]
    assert gradlex.results(folder(digits)).test_accuracy[0] == digits.metrics["test"]["accuracy"]


def test_a_run_by_names_is_loaded_with_nothing_but_its_folder(digits: gradlex.Run) -> None:
    loaded = gradlex.load(folder(digits))
    assert loaded.history == digits.history
    assert loaded.metrics == digits.metrics
    assert loaded.recipe == digits.recipe
    images = torch.rand(5, 1, 8, 8)
    assert torch.equal(loaded.model(images), digits.model(images))
    assert loaded.evaluate() == digits.metrics["test"]


def test_a_run_from_python_is_loaded_evaluated_and_predicts_with_a_module_like_its_own(python: gradlex.Run) -> None:
    model = net()
    before = model[0].weight.clone()
    loaded = gradlex.load(folder(python), model)
    assert torch.equal(model[0].weight, before)
    assert loaded.evaluate(points(1)) == python.metrics["test"]
    x = points(2)[0]
    assert torch.equal(loaded.predict(x), python.predict(x))
    torch.testing.assert_close(loaded.probabilities(x).sum(dim=1), torch.ones(90))
    with pytest.raises(gradlex.InputError, match=r"trained a module from Python, .* gradlex.load\('"):
        gradlex.load(folder(python))
    with pytest.raises(gradlex.InputError, match="the run's data was passed in from Python"):
        loaded.evaluate()


def test_a_module_that_differs_is_an_error_that_names_the_differences(python: gradlex.Run) -> None:
    other = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2, bias=False))
    with pytest.raises(
        gradlex.InputError,
        match=r"don't fit the model: 3.bias is not in the model; 0.weight has the shape \(8, 6\) there and \(4, 6\)",
    ):
        gradlex.load(folder(python), other)


def test_an_examination_has_an_answer_for_each_sample(digits: gradlex.Run) -> None:
    found = digits.examine()
    assert found.metrics == digits.metrics["test"]
    assert found.measures[0].name == "accuracy"
    assert float(found.errors.mean()) == pytest.approx(1 - found.metrics["accuracy"])
    columns = found.columns()
    assert list(columns) == ["sample", "target", "target_name", "predicted", "predicted_name", "error"]
    assert {len(column) for column in columns.values()} == {359}
    assert found.classes is not None


def test_predictions_are_in_the_units_of_the_targets_and_do_not_depend_on_the_mode_of_the_model() -> None:
    x, _ = points()
    run = gradlex.train(nn.Sequential(nn.Linear(6, 1), nn.Dropout(0.5)), (x, 1000 + 5 * x[:, :1]), **FIELDS)
    run.model.train()
    first, second = run.predict(x), run.predict(x)
    assert torch.equal(first, second)
    assert 900 < float(first.mean()) < 1100
    assert run.model.training
    with pytest.raises(gradlex.InputError, match="has no probabilities: use predict"):
        run.probabilities(x)


def test_inputs_of_another_shape_and_none_are_errors(digits: gradlex.Run) -> None:
    with pytest.raises(gradlex.InputError, match=r"trained on samples of shape \(1, 8, 8\), got \(64,\)"):
        digits.predict(np.zeros((3, 64), dtype=np.float32))
    with pytest.raises(gradlex.InputError, match="x is empty"):
        digits.predict(torch.zeros(0, 1, 8, 8))


def test_a_task_from_python_is_given_again(tmp_path: Path) -> None:
    def far(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs[:, 0] - targets).abs() > 0.5

    def squared(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs[:, 0] - targets).square().mean()

    x, _ = points()
    task, model = Custom(loss=squared, errors=far), nn.Linear(6, 1)
    run = gradlex.train(model, (x, x[:, 0]), task=task, out=tmp_path / "run", **FIELDS)
    assert run.recipe.selection == "lexicase"
    with pytest.raises(gradlex.InputError, match="was an object from Python, which isn't stored: give it as task="):
        gradlex.load(tmp_path / "run", model)
    assert gradlex.load(tmp_path / "run", model, task=task).evaluate((x, x[:, 0])) == run.metrics["train"]


def test_a_run_begins_with_the_weights_of_a_file_or_of_another_run(digits: gradlex.Run, python: gradlex.Run) -> None:
    for path in (folder(python), folder(python) / "model.safetensors"):
        run = gradlex.train(net(), points(), init_from=path, lr=1e-12, weight_decay=0.0, **FIELDS)
        torch.testing.assert_close(run.model[0].weight, python.model[0].weight)
    # The other run's normalization stays there.
    run = gradlex.train(init_from=folder(digits), lr=1e-12, weight_decay=0.0, train_size=100, **FIELDS)
    for name, tensor in dict(run.model.network.named_parameters()).items():
        torch.testing.assert_close(tensor, digits.model.network.get_parameter(name))
    assert not torch.equal(run.model.normalize.mean, digits.model.normalize.mean)
    with pytest.raises(gradlex.InputError, match="don't fit the model"):
        gradlex.train(nn.Linear(6, 2), points(), init_from=folder(python), **FIELDS)
    with pytest.raises(gradlex.InputError, match="cannot be read"):
        gradlex.train(net(), points(), init_from="nowhere.safetensors", **FIELDS)


def test_tied_weights_are_stored_once_and_loaded(tmp_path: Path) -> None:
    def tied() -> nn.Module:
        model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.Linear(6, 2))
        model[2].weight = model[0].weight
        return model

    run = gradlex.train(tied(), points(), out=tmp_path / "run", **FIELDS)
    loaded = gradlex.load(tmp_path / "run", tied())
    assert torch.equal(loaded.model[2].weight, run.model[0].weight)
    assert loaded.model[2].weight is loaded.model[0].weight


@pytest.mark.parametrize("name", ["run.json", "result.json", "generations.jsonl", "model.safetensors"])
@pytest.mark.parametrize("content", ["", "{}", "[1, 2]", '{"metrics": 3, "recipe": 5}\n', None])
def test_a_damaged_file_is_an_error_that_names_it(
    python: gradlex.Run, tmp_path: Path, name: str, content: str | None
) -> None:
    for path in folder(python).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / name).unlink()
    if content is None:
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).write_text(content)
    with pytest.raises(gradlex.InputError, match=name):
        gradlex.load(tmp_path, net())


def test_a_huge_file_is_not_read(python: gradlex.Run, tmp_path: Path) -> None:
    for path in folder(python).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    os.truncate(tmp_path / "run.json", 2**40)  # sparse
    with pytest.raises(gradlex.InputError, match=r"run.json has 1,099,511,627,776 bytes, more than"):
        gradlex.load(tmp_path, net())


def test_weights_that_memory_cannot_hold_are_not_read(python: gradlex.Run, tmp_path: Path) -> None:
    for path in folder(python).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    os.truncate(tmp_path / "model.safetensors", 2**40)  # sparse
    with pytest.raises(gradlex.InputError, match="bytes don't fit into memory"):
        gradlex.load(tmp_path, net())


def test_a_folder_without_a_run_and_one_of_an_unfinished_run_say_so(tmp_path: Path, python: gradlex.Run) -> None:
    with pytest.raises(gradlex.InputError, match="holds no run"):
        gradlex.load(tmp_path)
    with pytest.raises(gradlex.InputError, match="holds no run"):
        gradlex.resume(tmp_path)
    (tmp_path / "run.json").write_bytes((folder(python) / "run.json").read_bytes())
    with pytest.raises(gradlex.InputError, match="is not finished: continue it with gradlex resume"):
        gradlex.load(tmp_path, net())


def test_a_file_in_place_of_the_folder_is_an_error_before_anything_is_trained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(gradlex.InputError, match="cannot be written"):
        gradlex.train(net(), points(), out=tmp_path / "file" / "run", **FIELDS)


def test_a_run_on_a_file_is_resumed_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stops(gradlex.Callback):
        def on_generation(self, record: Any, run: Any) -> None:
            raise RuntimeError("power cut")

    x, y = points()
    monkeypatch.chdir(tmp_path)
    np.savez("own.npz", x_train=x.numpy(), y_train=y.numpy())
    with pytest.raises(RuntimeError, match="power cut"):
        gradlex.train(data="own.npz", out="run", callbacks=[Stops()], **FIELDS)
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    assert len(gradlex.resume("../run").history) == 2
    assert gradlex.load("../run").evaluate(str(tmp_path / "own.npz"))["accuracy"] > 0


@pytest.mark.parametrize(
    ("loss", "outputs", "targets"),
    [
        (nn.SmoothL1Loss(), 1, points()[0][:, 0]),
        (nn.MultiMarginLoss(), 2, points()[1]),
        (nn.BCEWithLogitsLoss(), 2, (points()[0][:, :2] > 0).float()),
    ],
    ids=["regression", "classification", "multi-label"],
)
def test_a_run_with_a_loss_from_python_is_loaded_and_found_finished(
    loss: nn.Module, outputs: int, targets: Tensor, tmp_path: Path
) -> None:
    model, data = nn.Linear(6, outputs), (points()[0], targets)
    options = {"task": loss, "out": tmp_path / "run", "lr": 0.01, "resume": True, **FIELDS}
    run = gradlex.train(model, data, **options)
    assert gradlex.train(model, data, **options).metrics == run.metrics
    assert gradlex.load(tmp_path / "run", model, task=loss).evaluate(data) == run.metrics["train"]


def test_the_test_part_is_found_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = points()
    monkeypatch.chdir(tmp_path)
    np.savez("own.npz", x_train=x.numpy(), y_train=y.numpy())
    run = gradlex.train(data="own.npz", out="run", **FIELDS)
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    assert gradlex.load("../run").evaluate() == run.metrics["test"]


def test_a_callback_that_finds_bad_input_leaves_the_folder_free(tmp_path: Path) -> None:
    class Picky(gradlex.Callback):
        def on_start(self, run: Any) -> None:
            raise gradlex.InputError("not this one")

    with pytest.raises(gradlex.InputError, match="not this one"):
        gradlex.train(net(), points(), callbacks=[Picky()], out=tmp_path / "run", **FIELDS)
    assert gradlex.train(net(), points(), out=tmp_path / "run", **FIELDS).history
