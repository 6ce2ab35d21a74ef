"""The estimators in scikit-learn: its own checks, its tools, and the inputs that people have."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import gradlex
from gradlex.errors import InputError
from gradlex.integrations.sklearn import LexicaseClassifier, LexicaseRegressor

QUICK = {"hidden_layer_sizes": (16,), "epochs": 10, "population": 2}


def classifier(**changes):
    return LexicaseClassifier(**{"random_state": 0, **QUICK, **changes})


def regressor(**changes):
    return LexicaseRegressor(**{"random_state": 0, **QUICK, **changes})


# scikit-learn skips one check of each, on arrays of other libraries, unless SCIPY_ARRAY_API is set.
@pytest.mark.filterwarnings("ignore:2 candidates get only")  # some checks give few samples
@parametrize_with_checks([LexicaseClassifier(**QUICK), LexicaseRegressor(**QUICK)])
def test_scikit_learns_own_checks_pass(estimator, check) -> None:
    check(estimator)


@pytest.fixture
def iris():
    """Measures of 150 flowers, and their names."""
    data = load_iris()
    return data.data, data.target_names[data.target]


@pytest.fixture
def diabetes():
    return load_diabetes(return_X_y=True)


def test_a_grid_search_over_a_pipeline_finds_the_better_setting_for_text_labels(iris) -> None:
    x, y = iris
    pipeline = make_pipeline(StandardScaler(), classifier(population=None))
    grid = {"lexicaseclassifier__epochs": [1, 20], "lexicaseclassifier__selection": ["lexicase", "sgd"]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(x, y)
    assert search.best_params_["lexicaseclassifier__epochs"] == 20
    assert search.best_score_ > 0.9
    assert set(search.predict(x)) == set(search.classes_) == {"setosa", "versicolor", "virginica"}
    assert np.array_equal(search.classes_[search.predict_proba(x).argmax(axis=1)], search.predict(x))


def test_it_trains_the_network_that_gradlex_train_does(diabetes) -> None:
    x, y = diabetes
    torch.manual_seed(0)
    network = nn.Linear(10, 1)
    estimator = regressor(module=network, recipe=gradlex.Recipe(optimizer="adam"), lr=0.01).fit(x, y)
    fields = {"optimizer": "adam", "lr": 0.01, "epochs": 10, "batch_size": 32, "population": 2}
    run = gradlex.train(network, (x, y), task="regression", **fields)
    assert torch.equal(estimator.run_.model.weight, run.model.weight)
    assert estimator.score(x, y) == pytest.approx(run.metrics["train"]["r2"], abs=1e-5)


def test_a_random_state_decides_the_result(iris) -> None:
    x, y = iris
    chances = classifier().fit(x, y).predict_proba(x)
    assert np.array_equal(classifier().fit(x, y).predict_proba(x), chances)
    assert not np.array_equal(classifier(random_state=1).fit(x, y).predict_proba(x), chances)
    drawn = [classifier(random_state=np.random.RandomState(3)).fit(x, y).run_.recipe.seed for _ in range(2)]
    assert drawn[0] == drawn[1] != 0


def test_a_regressor_reaches_what_can_be_predicted(diabetes) -> None:
    scores = cross_val_score(regressor(epochs=20), *diabetes, cv=3)
    assert scores.mean() > 0.35  # a linear model has 0.49


def test_several_outputs_come_back_in_their_units(diabetes) -> None:
    x, y = diabetes
    both = np.column_stack([y, 1000 - 3 * y])
    found = regressor(epochs=20).fit(x, both).predict(x)
    assert found.shape == both.shape
    assert np.abs(found.mean(axis=0) - both.mean(axis=0)).max() < 20


def test_a_data_frame_gives_what_its_array_gives(iris) -> None:
    x, y = iris
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    frame = pd.DataFrame(x, columns=names)
    found = classifier().fit(frame, pd.Series(y))
    assert list(found.feature_names_in_) == names
    assert np.array_equal(found.predict_proba(frame), classifier().fit(x, y).predict_proba(x))
    with pytest.raises(ValueError, match="feature names"):
        found.predict(frame[names[::-1]])


def test_a_sparse_matrix_is_an_error_in_scikit_learns_words(iris) -> None:
    x, y = iris
    with pytest.raises(TypeError, match="dense data is required"):
        classifier().fit(csr_array(x), y)


def one_output(features, outputs):
    return nn.Linear(features, 1)


def test_a_factory_makes_a_network_of_one_output_for_two_classes(iris) -> None:
    x, y = iris[0][:100], iris[1][:100]
    found = clone(classifier(module=one_output)).fit(x, y)
    assert found.score(x, y) > 0.9
    chances = found.predict_proba(x)
    assert chances.shape == (100, 2)
    assert np.allclose(chances.sum(axis=1), 1)
    assert np.array_equal(found.classes_[chances.argmax(axis=1)], found.predict(x))


def test_a_module_takes_images_and_stays_as_it_is() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = rng.normal(size=(60, 1, 4, 4)) + 2 * y[:, None, None, None]
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))
    before = module[0].weight.clone()
    assert classifier(module=module, batch_size=8).fit(x, y).score(x, y) > 0.9
    assert torch.equal(module[0].weight, before)


def test_a_pickled_estimator_predicts_the_same(iris) -> None:
    x, y = iris
    found = classifier().fit(x, y)
    again = pickle.loads(pickle.dumps(found))
    assert np.array_equal(again.predict_proba(x), found.predict_proba(x))
    assert len(again.run_.history) == 10


def test_features_of_any_scale_are_learned_from(iris) -> None:
    x, y = iris
    moved = 1e9 + x * np.array([1e3, 1, 1, 1])
    assert classifier(epochs=20, batch_size=8).fit(moved, y).score(moved, y) > 0.9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipe": gradlex.Recipe(lr=0.3)}, "the recipe has lr: use the estimator's parameter"),
        ({"recipe": gradlex.Recipe(seed=3)}, "random_state for seed"),
        ({"recipe": {"lr": 0.3}}, "must be a gradlex.Recipe, got dict"),
        ({"hidden_layer_sizes": (16, 0)}, "hidden_layer_sizes must be a whole number of at least 1, got 0"),
        ({"hidden_layer_sizes": "16"}, "hidden_layer_sizes must be a whole number"),
        ({"module": "mlp"}, "must be an nn.Module, or a function"),
        ({"module": lambda features, outputs: None}, "that returns one, got None"),
        ({"module": nn.Linear(4, 5)}, "outputs for 5 classes"),
        ({"population": 200}, "200"),
        ({"random_state": -1}, "seed"),
    ],
)
def test_a_bad_value_is_an_error(changes, message, iris) -> None:
    with pytest.raises(InputError, match=message):
        classifier(**changes).fit(*iris)


def test_a_single_class_is_an_error(iris) -> None:
    with pytest.raises(InputError, match="at least two classes, got one class: setosa"):
        classifier().fit(iris[0][:50], iris[1][:50])


@pytest.mark.parametrize("around", [torch.float64, torch.bfloat16, "meta"])
def test_torchs_defaults_do_not_reach_an_estimator(around, iris) -> None:
    expected = classifier(epochs=2).fit(*iris).predict_proba(iris[0])
    before = torch.get_default_dtype()
    try:
        if around == "meta":
            torch.set_default_device("meta")
        else:
            torch.set_default_dtype(around)
        found = classifier(epochs=2).fit(*iris)
    finally:
        torch.set_default_dtype(before)
        torch.set_default_device(None)
    np.testing.assert_array_equal(found.predict_proba(iris[0]), expected)
