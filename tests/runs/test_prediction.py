"""After training: answers for new samples, class by class, tables of predictions, and exported programs."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest
import torch
from PIL import Image

import gradlex
from gradlex import InputError, Recipe
from gradlex.cli import main
from gradlex.cli._evaluate import class_lines
from gradlex.errors import RunError
from gradlex.runs import Named, evaluation, export, load_network, load_predictor, start
from gradlex.tasks import ClassTable


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A finished run on 8 x 8 digits."""
    path = tmp_path_factory.mktemp("predict") / "run"
    recipe = Recipe(
        model="mlp", width=0.1, train_size=100, selection="sgd", generations=2, precision="float32", threads=1
    )
    return start(Named(), recipe, out=path)


def test_a_run_predicts_inputs_as_the_data_has_them(images, tiny_cnn):
    x, y = images
    bytes_in = ((x - x.min()) / (x.max() - x.min()) * 255).to(torch.uint8)
    recipe = Recipe(population=2, generations=2, batch_size=8, precision="float32", threads=1)
    run = gradlex.train(tiny_cnn(), (bytes_in, y), recipe, test=(bytes_in, y))
    assert run.normalization is not None
    right = (run.predict(bytes_in) == y).float().mean().item()
    assert right == pytest.approx(run.test["accuracy"])
    assert torch.equal(run.predict(bytes_in.numpy()), run.predict(bytes_in))
    assert torch.equal(run.predict(bytes_in.float() / 255), run.predict(bytes_in))
    chances = run.predictor.probabilities(bytes_in)
    assert chances.sum(1).tolist() == pytest.approx([1.0] * 50)
    assert torch.equal(chances.argmax(1), run.predict(bytes_in))


def test_a_regression_answers_in_the_units_of_its_targets():
    x = torch.rand(60, 3, generator=torch.Generator().manual_seed(0))
    y = 1000 + 500 * x.sum(1)
    recipe = Recipe(selection="sgd", generations=20, batch_size=10, precision="float32", threads=1, lr=0.05)
    torch.manual_seed(0)
    run = gradlex.train(torch.nn.Linear(3, 1), (x, y), recipe, task="regression")
    assert (run.predict(x).flatten() - y).abs().mean() < 100


def test_a_stored_run_predicts_as_it_was_evaluated(digits):
    found = evaluation(digits.path, device="cpu")
    assert found.metrics == pytest.approx(digits.test, rel=1e-5)
    assert (found.predicted == found.targets).float().mean().item() == pytest.approx(digits.test["accuracy"])
    assert found.classes.counts.sum() == len(found.targets)
    assert np.trace(found.classes.counts) == (found.predicted == found.targets).sum()
    predictor = load_predictor(digits.path)
    test = gradlex.runs.load_data(digits.path).x_test
    x = torch.from_numpy(np.moveaxis(test, -1, 1).copy())
    assert torch.equal(predictor(x), found.predicted)
    with pytest.raises(InputError, match=r"trained on samples of shape \(1, 8, 8\), got \(1, 9, 9\)"):
        predictor(torch.rand(2, 1, 9, 9))
    with pytest.raises(InputError, match="no sample to predict"):
        predictor(torch.rand(0, 1, 8, 8))


def test_evaluate_writes_every_prediction_and_prints_every_class(digits, tmp_path, capsys):
    file = tmp_path / "predictions.csv"
    main(["evaluate", str(digits.path), "--device", "cpu", "--predictions", str(file)])
    printed = capsys.readouterr().out
    assert "most often mistaken for" in printed
    assert "is / taken for" in printed
    with file.open() as opened:
        rows = list(csv.DictReader(opened))
    right = sum(row["target"] == row["predicted"] for row in rows) / len(rows)
    assert right == pytest.approx(digits.test["accuracy"])
    assert sum(float(row["error"]) for row in rows) == pytest.approx(len(rows) * (1 - right))


def test_of_many_classes_the_worst_are_shown_within_80_columns():
    rng = np.random.default_rng(0)
    targets, names = (
        torch.from_numpy(rng.integers(0, 100, 4000)),
        [f"a long name of class {n}" for n in range(100)],
    )
    predicted = torch.where(targets == 7, torch.tensor(3), targets)
    lines = class_lines(ClassTable.of(predicted, targets, 100), names)
    assert max(map(len, lines)) <= 80
    assert len(lines) < 30
    assert "a long name o…" in lines[2]
    assert "0.0%" in lines[2]
    mistakes = lines[lines.index("most frequent mistakes") + 1 :]
    assert len(mistakes) == 1
    count = int((targets == 7).sum())
    assert " ".join(mistakes[0].split()) == f"a long name of class 7 taken for a long name of class 3 {count}"


def test_a_confusion_matrix_of_ten_classes_fits_80_columns():
    targets = torch.arange(10).repeat(9000)
    lines = class_lines(ClassTable.of(targets.flip(0), targets, 10), ["automobile-of-any-kind"] * 10)
    assert max(map(len, lines)) <= 80
    assert lines[-10].endswith("9000")
    table = ClassTable.of(torch.tensor([0, 0, 2]), torch.tensor([0, 1, 2]), 4)
    assert [(row.recall, row.taken_for) for row in table.rows()[:3]] == [(1.0, None), (0.0, 0), (1.0, None)]
    assert np.isnan(table.rows()[3].recall)


def test_predict_reads_archives_and_writes_tables(digits, tmp_path, capsys):
    x = gradlex.runs.load_data(digits.path).x_test[:5]
    np.savez(tmp_path / "in.npz", x=x[..., 0], other=np.zeros(3))
    main(["predict", str(digits.path), str(tmp_path / "in.npz"), "--device", "cpu"])
    printed = capsys.readouterr().out.splitlines()
    wanted = evaluation(digits.path, device="cpu").predicted[:5].tolist()
    assert [line.split()[1] for line in printed] == [str(number) for number in wanted]
    for kind in ("csv", "npz"):
        main(["predict", str(digits.path), str(tmp_path / "in.npz"), "--out", str(tmp_path / f"out.{kind}")])
    with (tmp_path / "out.csv").open() as opened:
        assert [int(row["predicted"]) for row in csv.DictReader(opened)] == wanted
    with np.load(tmp_path / "out.npz") as found:
        assert found["predicted"].tolist() == wanted
        assert found["probabilities"].shape == (5, 10)


def test_predictions_can_be_parquet(digits, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is an extra")
    main(["evaluate", str(digits.path), "--device", "cpu", "--predictions", str(tmp_path / "p.parquet")])
    table = parquet.read_table(tmp_path / "p.parquet")
    assert table.column("predicted").to_pylist() == evaluation(digits.path, device="cpu").predicted.tolist()


def test_images_are_read_as_those_of_a_dataset(tmp_path, capsys):
    rng = np.random.default_rng(0)
    for name, tone in (("dark", 40), ("light", 200)):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(12):
            pixels = (tone + rng.integers(-30, 30, (10, 12, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "data" / name / f"{number}.png")
    run = tmp_path / "run"
    recipe = Recipe(dataset=str(tmp_path / "data"), image_size=8, model="mlp", width=0.1, selection="sgd")
    start(Named(), recipe.replace(generations=6, batch_size=4, augment="none", threads=1), out=run)
    main(["predict", str(run), str(tmp_path / "data"), "--device", "cpu"])
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 24
    assert all(line.split("/")[0] == line.split()[1] for line in printed)
    main(["predict", str(run), str(tmp_path / "data" / "light" / "3.png"), "--device", "cpu"])
    assert capsys.readouterr().out.startswith("3.png: light (")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["predict", "RUN", "nothing.npz"], "there is no file nothing.npz"),
        (["predict", "RUN", "here.txt"], "here.txt is neither an image, nor a folder of images"),
        (
            ["predict", "RUN", "."],
            r"images are read as \(3, size, size\), and this run was trained on \(1, 8, 8\)",
        ),
        (["predict", "RUN", "x.csv"], "x.csv is a table, and this run was not trained on one"),
        (
            ["predict", "RUN", "x.npz", "--out", "out.txt"],
            "a table is written as .csv, .parquet or .npz, got 'out.txt'",
        ),
        (
            ["evaluate", "RUN", "--predictions", "p.npz"],
            "a table is written as .csv or .parquet, got 'p.npz'",
        ),
        (
            ["evaluate", "RUN", "--predictions", "absent/p.csv"],
            "there is no folder .*absent to write p.csv to",
        ),
        (
            ["export", "RUN", "--out", "model.onnx"],
            "torch-export is written to a .pt2 file, got 'model.onnx'",
        ),
        (["export", "RUN", "--out", "absent/m.pt2"], "there is no folder .*absent to write m.pt2 to"),
    ],
)
def test_what_cannot_be_read_or_written_is_refused_first(words, told, digits, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main([str(digits.path) if word == "RUN" else word for word in words])
    assert ended.value.code == 2
    assert re.search(told, capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


def test_an_exported_program_normalizes_and_answers_as_the_network(digits, tmp_path):
    file = export(digits.path, tmp_path / "model.pt2")
    x = torch.rand(7, 1, 8, 8)
    found = torch.export.load(file).module()(x)
    scale = gradlex.runs.load_normalization(digits.path)
    assert torch.allclose(found, load_network(digits.path)(scale.apply(x)), atol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt2"]


def test_an_exported_onnx_file_answers_as_the_network(digits, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="ONNX is an extra")
    pytest.importorskip("onnxscript", reason="ONNX is an extra")
    file = export(digits.path, tmp_path / "model.onnx", format="onnx")
    x = torch.rand(7, 1, 8, 8)
    (found,) = runtime.InferenceSession(str(file)).run(None, {"inputs": x.numpy()})
    scale = gradlex.runs.load_normalization(digits.path)
    assert np.allclose(found, load_network(digits.path)(scale.apply(x)).detach().numpy(), atol=1e-4)


def test_a_program_that_answers_otherwise_is_not_written(digits, tmp_path, monkeypatch):
    def damaged(file):
        program = torch.export.load(file).module()
        return lambda inputs: program(inputs) + 0.1

    monkeypatch.setattr("gradlex.runs._export._read_program", damaged)
    with pytest.raises(
        RunError, match=r"torch-export program answers otherwise than the network, by up to 0\.1"
    ):
        export(digits.path, tmp_path / "model.pt2")
    assert list(tmp_path.iterdir()) == []
