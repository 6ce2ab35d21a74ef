"""Tables: read, encoded by their training part, trained on, and evaluated on other files."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import gradlex
from gradlex import InputError, Recipe
from gradlex.cli import main
from gradlex.data import TableEncoding, load, validation_numbers

pa = pytest.importorskip("pyarrow", reason="tables need pyarrow: pip install 'gradlex[tables]'")

HEADER = ("rooms", "area", "town", "sold", "price")
TOWNS = {"Bern": 0, "Basel": 100, "Zug": 300}


def homes(count, seed=0, towns=tuple(TOWNS)):
    """Homes whose price follows from rooms, area and town; some rows do not tell how many rooms."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        rooms, area, town = (
            int(rng.integers(1, 6)),
            round(float(rng.uniform(30, 150)), 1),
            str(rng.choice(towns)),
        )
        price = 50 * rooms + 3 * area + TOWNS.get(town, 0)
        rows.append(
            [rooms if number % 20 else "", area, town, "yes" if price > 600 else "no", round(price, 2)]
        )
    return rows


def write(path, rows, header=HEADER):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "homes.csv", homes(150))


def test_numbers_are_standardised_and_categories_one_hot_by_the_training_part(table):
    arrays = load(Recipe(dataset=str(table), target="price"))
    assert arrays.x_train.shape == (120, 1 + 1 + 1 + 4 + 3)  # rooms, its indicator, area, town, sold
    assert arrays.x_test.shape == (30, 10)
    rooms, missing, area = arrays.x_train[:, :3].T
    assert area.mean() == pytest.approx(0, abs=1e-6)
    assert area.std() == pytest.approx(1, abs=1e-5)
    assert rooms[missing == 0].mean() == pytest.approx(0, abs=1e-6)
    assert missing.sum() > 0
    assert (rooms[missing == 1] == 0).all()
    assert (arrays.x_train[:, 3:7].sum(axis=1) == 1).all()
    assert not arrays.labelled
    assert arrays.y_train.dtype == np.float64


def test_what_training_has_not_seen_is_other_or_missing(table, tmp_path):
    arrays = load(Recipe(dataset=str(table), target="price"))
    encoding = TableEncoding.from_dict(json.loads(json.dumps(arrays.encoding.to_dict())))
    assert encoding == arrays.encoding
    other = write(tmp_path / "other.csv", [[3, "", "Chur", "yes"], ["", 50, "", "no"]], HEADER[:4])
    found = encoding.features(other)
    assert found.shape == (2, 10)
    assert found[0, 3:7].tolist() == [0, 0, 0, 1]
    assert found[1, 3:7].tolist() == [0, 0, 0, 0]
    assert found[0, 2] == 0  # the mean
    assert found[1, :2].tolist() == [0, 1]
    shuffled = write(
        tmp_path / "shuffled.csv", [["yes", "Chur", "", 3, "extra"]], ("sold", "town", "area", "rooms", "z")
    )
    assert (encoding.features(shuffled) == found[:1]).all()


@pytest.mark.parametrize(
    ("target", "task", "resolved", "outputs"),
    [
        ("price", None, "regression", 1),
        ("sold", None, "classification", 2),
        ("town", None, "classification", 3),
        ("rooms", None, "classification", 5),
        ("rooms", "regression", "regression", 1),
    ],
)
def test_the_target_tells_the_task(target, task, resolved, outputs, tmp_path):
    table = write(tmp_path / "homes.csv", [row for row in homes(150) if row[0] != ""])
    run = gradlex.runs.start(
        gradlex.runs.Named(),
        Recipe(dataset=str(table), target=target, task=task, generations=1, lr=0.01, threads=1),
        gradlex.runs.Execution(workers=1),
    )
    assert run.recipe.task == resolved
    assert run.recipe.model == "mlp"
    assert list(run.model.parameters())[-1].shape == (outputs,)


def _column(path, name):
    from pyarrow import csv as reader
    from pyarrow import parquet

    read = reader.read_csv if path.suffix == ".csv" else parquet.read_table
    return read(path).column(name).to_numpy()


def test_classes_of_a_table_are_predicted_by_name_and_a_file_without_its_columns_is_refused(
    table, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    words = [
        "--dataset",
        "homes.csv",
        "--target",
        "sold",
        "--generations",
        "2",
        "--workers",
        "1",
        "--threads",
        "1",
    ]
    main(["train", *words, "--out", "run"])
    write(tmp_path / "new.csv", [[3, 80.0, "Chur", 500.0]], ("rooms", "area", "town", "price"))
    capsys.readouterr()
    main(["predict", "run", "new.csv"])
    assert capsys.readouterr().out.startswith(("0: yes (", "0: no ("))
    write(tmp_path / "lacking.csv", [[3, 80.0]], ("rooms", "area"))
    with pytest.raises(SystemExit) as caught:
        main(["predict", "run", "lacking.csv", "--out", "found.csv"])
    assert caught.value.code == 2
    assert (
        "lacking.csv lacks the columns town, price, which the run was trained on" in capsys.readouterr().err
    )
    assert not (tmp_path / "found.csv").exists()


def test_a_validation_part_is_unknown_to_the_encoding(table, tmp_path):
    recipe = Recipe(dataset=str(table), target="price", validation_fraction=0.2, seed=3)
    first = load(recipe)
    apart = validation_numbers(recipe, len(first.y_train))
    prices = first.y_train[apart]
    rows = [[9, 1e6, "Chur", row[3], row[4]] if row[4] in prices else row for row in homes(150)]
    other = load(recipe.replace(dataset=str(write(tmp_path / "other.csv", rows))))
    assert other.encoding == first.encoding
    left = np.setdiff1d(np.arange(len(first.y_train)), apart)
    assert (other.x_train[left] == first.x_train[left]).all()
    assert other.x_train[apart].max() > 1000
    whole = load(recipe.replace(dataset=str(tmp_path / "other.csv"), validation_fraction=None))
    assert whole.encoding != first.encoding


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_command_trains_evaluates_and_resumes(suffix, table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if suffix == "parquet":
        from pyarrow import csv as reader
        from pyarrow import parquet

        parquet.write_table(reader.read_csv(table), tmp_path / "homes.parquet")
    words = ["--dataset", f"homes.{suffix}", "--target", "price", "--generations", "25", "--workers", "1"]
    main(["train", *words, "--batch-size", "16", "--lr", "0.05", "--threads", "1", "--out", "run"])
    assert "price is predicted as a number" in capsys.readouterr().out
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["metrics"]["test"]["r2"] > 0.8

    main(["evaluate", "run"])
    assert f"test: r2 {result['metrics']['test']['r2']:.4f}" in capsys.readouterr().out
    write(tmp_path / "more.csv", homes(40, seed=1, towns=("Bern", "Zug", "Chur")))
    found = gradlex.runs.evaluate(tmp_path / "run", dataset=str(tmp_path / "more.csv"))
    assert found["r2"] > 0.5
    without = [
        [cell for name, cell in zip(HEADER, row, strict=True) if name != "price"] for row in homes(40, seed=1)
    ]
    write(tmp_path / "new.csv", without, HEADER[:-1])  # nobody knows the price yet
    main(["predict", "run", "new.csv", "--out", f"prices.{suffix}"])
    assert f"prices.{suffix}: 40 predictions" in capsys.readouterr().out
    found = _column(tmp_path / f"prices.{suffix}", "predicted")
    prices = np.array([row[-1] for row in homes(40, seed=1)])
    assert 1 - ((found - prices) ** 2).sum() / ((prices - prices.mean()) ** 2).sum() > 0.8

    (tmp_path / "run" / "result.json").unlink()
    main(["resume", "run", "--workers", "1"])
    again = json.loads((tmp_path / "run" / "result.json").read_text())
    assert again["metrics"] == result["metrics"]


BAD = {
    "no target": ({}, "name the column to predict.*rooms, area, town, sold, price"),
    "an unknown column": ({"target": "prize"}, "no column 'prize'. Did you mean 'price'"),
    "text to regress": (
        {"target": "town", "task": "regression"},
        "holds text, which regression cannot predict",
    ),
    "an image model": ({"target": "price", "model": "small-cnn"}, "small-cnn needs images"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_target_that_cannot_be_learnt_is_refused(what, table, tmp_path):
    fields, told = BAD[what]
    with pytest.raises(InputError, match=told):
        gradlex.runs.start(gradlex.runs.Named(), Recipe(dataset=str(table), **fields), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


FILES = {
    "no rows": ([], HEADER, "has no rows"),
    "empty targets": (
        [[1, 2.0, "Bern", "no", ""], [1, 2.0, "Bern", "no", 3]],
        HEADER,
        "1 of 2 rows have no price.*row 1",
    ),
    "only the target": ([[1], [2]], ("price",), "nothing to predict it from"),
    "a column twice": ([[1, 2, 3]], ("area", "area", "price"), "several columns called 'area'"),
    "rows of other lengths": ([[1, 2, 3], [1, 2]], ("a", "b", "price"), "cannot be read as a table"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_is_no_table_to_learn_from_is_refused(what, tmp_path):
    rows, header, told = FILES[what]
    path = write(tmp_path / "bad.csv", rows, header)
    with pytest.raises(InputError, match=told):
        load(Recipe(dataset=str(path), target="price"))


def test_one_class_is_nothing_to_learn(tmp_path):
    path = write(tmp_path / "one.csv", [[number, "yes"] for number in range(10)], ("a", "b"))
    with pytest.raises(InputError, match="every row has the b 'yes'; at least two classes"):
        load(Recipe(dataset=str(path), target="b"))


def test_a_target_belongs_to_a_table():
    with pytest.raises(InputError, match=r"target names a column of a table.*digits is none"):
        load(Recipe(dataset="digits", target="price"))


def test_a_file_without_the_runs_columns_is_refused(table, tmp_path):
    encoding = load(Recipe(dataset=str(table), target="sold")).encoding
    lacking = write(tmp_path / "lacking.csv", [[1, 2.0]], ("rooms", "area"))
    with pytest.raises(InputError, match="lacks the columns town, price"):
        encoding.features(lacking)
    text = write(tmp_path / "text.csv", [["many", 2.0, "Bern", 3.0]], ("rooms", "area", "town", "price"))
    with pytest.raises(InputError, match="'rooms' holds text such as 'many'"):
        encoding.features(text)
    unknown = write(tmp_path / "unknown.csv", [[1, 2.0, "Bern", "perhaps", 3.0]])
    with pytest.raises(
        InputError, match="row 1 has the class 'perhaps', which the training part did not have: no, yes"
    ):
        encoding.samples(unknown)
