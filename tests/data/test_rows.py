"""CSV and parquet files."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch

from gradlex import InputError, Recipe
from gradlex.data import prepare
from gradlex.data.load import read_inputs, read_samples

HOMES = pd.DataFrame(
    {
        "area": np.linspace(20.0, 200.0, 40).round(1),
        "town": ["Ulm", "Bonn", "Kiel", "Bonn"] * 10,
        "garden": [True, False] * 20,
        "floor": [1.0, None, 3.0, 2.0] * 10,
        "sold": pd.date_range("2024-01-01", periods=40),
        "kind": ["flat", "house"] * 20,
        "price": np.linspace(1e5, 9e5, 40),
    }
)


@pytest.fixture
def homes(tmp_path):
    HOMES.to_csv(tmp_path / "homes.csv", index=False)
    return tmp_path / "homes.csv"


def parts(path, **fields):
    return prepare(None, Recipe(dataset=str(path), **fields))


def test_a_table_is_split_and_encoded_by_its_training_part(homes):
    found = parts(homes, target="price", validation_fraction=0.25)
    assert [len(part) for part in (found.train, found.validation, found.test)] == [24, 8, 8]
    x, y = found.train.clean(np.arange(24))
    assert y.dtype == torch.float32
    assert found.recipe.task == "regression"
    area = found.encoding["columns"][0]
    assert area["name"] == "area"
    torch.testing.assert_close(x[:, 0].mean(), torch.tensor(0.0), atol=1e-6, rtol=0)
    torch.testing.assert_close(x[:, 0].std(correction=0), torch.tensor(1.0))
    assert found.normalization is None
    assert found.recipe.augment == "none"


def test_the_encoding_is_plain_and_gives_the_same_features_again(homes):
    found = parts(homes, target="kind")
    described = json.loads(json.dumps(found.description()))
    assert found.class_names == ("flat", "house")
    samples = read_samples(homes, described)
    assert samples.targets.tolist() == [0, 1] * 20
    names, inputs = read_inputs(homes, described)
    assert torch.equal(inputs, samples.clean(np.arange(40))[0])
    assert len(names) == 40
    own = found.train.clean(np.arange(len(found.train)))[0]
    assert all(bool((inputs == row).all(dim=1).any()) for row in own)


def test_columns_become_numbers_categories_and_what_is_missing(tmp_path):
    frame = pd.DataFrame({"n": [1.0, 3.0, None, 2.0], "c": ["a", "b", "a", None], "y": ["p", "q", "p", "q"]})
    frame = pd.concat([frame] * 5)
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = parts(tmp_path / "t.csv", target="y", test_fraction=0.5)
    described = found.description()
    mean, std = found.encoding["columns"][0]["mean"], found.encoding["columns"][0]["std"]
    new = pd.DataFrame({"c": ["b", "z", None, "a"], "n": [mean + std, None, mean, float("inf")], "more": 1})
    inputs = read_inputs(new, described)[1]
    # n, n is missing, c is a, c is b, c is another, c is missing
    expected = [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1], [0, 1, 1, 0, 0, 0]]
    torch.testing.assert_close(inputs, torch.tensor(expected, dtype=torch.float32))


def test_the_commonest_categories_are_kept(tmp_path):
    frame = pd.DataFrame({"c": [f"v{i % 40:02}" for i in range(60)] + ["v39"] * 9, "y": [0, 1, 0] * 23})
    found = prepare(frame, Recipe(target="y"), test=frame)
    assert found.sample_shape == (33,)
    assert found.encoding["columns"][0]["categories"][0] == "v39"


def test_categories_that_look_like_numbers_are_still_categories(tmp_path):
    frame = pd.DataFrame({"c": ["1", "2", "x", "1"] * 5, "y": [0, 1, 1, 0] * 5})
    described = prepare(frame, Recipe(target="y")).description()
    (tmp_path / "new.csv").write_text("c\n1\n2\n")
    inputs = read_inputs(tmp_path / "new.csv", described)[1]
    assert inputs.sum(dim=1).tolist() == [1, 1]
    assert inputs[:, -1].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("values", "task", "names"),
    [
        ([0, 1], None, ("0", "1")),
        ([10.0, 9.0], None, ("9", "10")),
        ([True, False], None, ("False", "True")),
        (["b", "a"], None, ("a", "b")),
        ([0.5, 1.0], None, None),
        ([0, 1], "regression", None),
        (list(range(40)), None, None),
        (list(range(40)), "classification(case_error=loss)", tuple(map(str, range(40)))),
    ],
)
def test_targets_are_classes_if_they_are_text_or_few_whole_numbers(values, task, names):
    frame = pd.DataFrame({"x": np.arange(80.0), "y": values * (80 // len(values))})
    found = prepare(frame, Recipe(target="y", task=task))
    assert found.class_names == names
    assert found.train.targets.dtype == (torch.float32 if names is None else torch.int64)


def test_parquet_is_read_like_csv(tmp_path, homes):
    pytest.importorskip("pyarrow")
    HOMES.to_parquet(tmp_path / "homes.parquet")
    drop = HOMES.drop(columns="sold")
    drop.to_csv(tmp_path / "less.csv", index=False)
    drop.to_parquet(tmp_path / "less.parquet")
    one, other = (parts(tmp_path / f"less.{kind}", target="price") for kind in ("csv", "parquet"))
    assert one.fingerprint == other.fingerprint
    assert parts(tmp_path / "homes.parquet", target="price").encoding["columns"][4]["mean"] > 1e9  # seconds


def test_wrong_tables_are_errors(tmp_path, homes):
    def written(text):
        (tmp_path / "bad.csv").write_text(text)
        return tmp_path / "bad.csv"

    for target, message in (
        (None, r"name the column .*--target COLUMN.* The table has area, town"),
        ("prize", "got 'prize'. Did you mean 'price'"),
        ("floor", "10 of 40 rows have no floor, the first of them row 2"),
    ):
        with pytest.raises(InputError, match=message):
            parts(homes, target=target)
    for text, message in (
        ("a,b\n", "no rows"),
        ("", "cannot be read as a table"),
        ('a,b\n1,"2\n', "cannot be read as a table"),
        ("b\n1\n2\n", "name the column"),
        ("a,b\n1,x\n2,x\n", "every row has the b 'x'"),
    ):
        with pytest.raises(InputError, match=message):
            parts(written(text), target="b")
    with pytest.raises(InputError, match="holds text"):
        parts(homes, target="town", task="regression")
    described = parts(homes, target="kind").description()
    with pytest.raises(InputError, match="lacks the columns area, town"):
        read_inputs(written("garden,floor\n1,2\n"), described)
    with pytest.raises(InputError, match="'area' holds text, and this run needs numbers"):
        read_inputs(HOMES.assign(area="big"), described)
    with pytest.raises(InputError, match="has the class 'castle', which the training part doesn't have"):
        read_samples(HOMES.assign(kind="castle"), described)


def test_a_target_belongs_to_a_table(archive):
    with pytest.raises(InputError, match="target is for a table"):
        parts(archive(), target="y")
    with pytest.raises(InputError, match="image_size is for a folder"):
        parts(archive(), image_size=8)
