"""The estimators in scikit-learn: its own checks, its tools, and the inputs that people have."""

from __future__ import annotations

import pickle

import numpy as np
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
from gradlex.integrations.sklearn import GradlexClassifier, GradlexRegressor

QUICK = {
    "hidden_layer_sizes": (16,),
    "generations": 10,
    "population": 2,
    "recipe": gradlex.Recipe(threads=1),
}


def classifier(**changes):
    return GradlexClassifier(**{"random_state": 0, **QUICK, **changes})


def regressor(**changes):
    return GradlexRegressor(**{"random_state": 0, **QUICK, **changes})


# Of these scikit-learn itself skips one for each, on arrays of other libraries (array API), where SCIPY_ARRAY_API is
# not set: the estimators convert every input to NumPy and do not claim that support.
@parametrize_with_checks([GradlexClassifier(**QUICK), GradlexRegressor(**QUICK)])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


@pytest.fixture
def iris():
    """Measures of 150 flowers, and their names."""
    data = load_iris()
    return data.data, data.target_names[data.target]


@pytest.fixture
def diabetes():
    return load_diabetes(return_X_y=True)


def test_a_grid_search_over_a_pipeline_finds_the_better_setting_for_text_labels(iris):
    x, y = iris
    pipeline = make_pipeline(StandardScaler(), classifier())
    grid = {"gradlexclassifier__generations": [1, 20], "gradlexclassifier__selection": ["lexicase", "sgd"]}
    pipeline.set_params(gradlexclassifier__population=None)
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(x, y)
    assert search.best_params_["gradlexclassifier__generations"] == 20
    assert search.best_score_ > 0.9
    assert set(search.predict(x)) == set(search.classes_) == {"setosa", "versicolor", "virginica"}
    assert np.array_equal(search.classes_[search.predict_proba(x).argmax(axis=1)], search.predict(x))


def test_it_trains_the_network_that_gradlex_train_does(diabetes, same):
    x, y = diabetes
    torch.manual_seed(0)
    network = nn.Linear(10, 1)
    estimator = regressor(module=network, recipe=gradlex.Recipe(threads=1, optimizer="adam"), lr=0.01).fit(
        x, y
    )
    recipe = gradlex.Recipe(
        task="regression", optimizer="adam", lr=0.01, generations=10, batch_size=32, population=2, threads=1
    )
    run = gradlex.train(network, (x.astype(np.float32), y), recipe)
    assert same(estimator.run_.model.state_dict(), run.model.state_dict())
    assert estimator.score(x, y) == pytest.approx(run.train["r2"], abs=1e-6)


def test_a_random_state_decides_the_result(iris):
    x, y = iris
    chances = classifier().fit(x, y).predict_proba(x)
    assert np.array_equal(classifier().fit(x, y).predict_proba(x), chances)
    assert not np.array_equal(classifier(random_state=1).fit(x, y).predict_proba(x), chances)
    drawn = [classifier(random_state=np.random.RandomState(3)).fit(x, y).run_.recipe.seed for _ in range(2)]
    assert drawn[0] == drawn[1] != 0


def test_a_regressor_reaches_what_can_be_predicted(diabetes):
    x, y = diabetes
    scores = cross_val_score(regressor(generations=30), x, y, cv=3)
    assert scores.mean() > 0.35  # a linear model has 0.49


def test_several_outputs_come_back_in_their_units(diabetes):
    x, y = diabetes
    both = np.column_stack([y, 1000 - 3 * y])
    found = regressor(generations=30).fit(x, both).predict(x)
    assert found.shape == both.shape
    assert np.abs(found.mean(axis=0) - both.mean(axis=0)).max() < 20


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_data_frame_gives_what_its_array_gives(library, iris):
    frames = pytest.importorskip(library, reason=f"needs {library}")
    x, y = iris
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    frame = frames.DataFrame({name: x[:, place] for place, name in enumerate(names)})
    found = classifier().fit(frame, frames.Series(list(y)))
    assert list(found.feature_names_in_) == names
    assert np.array_equal(found.predict_proba(frame), classifier().fit(x, y).predict_proba(x))
    assert set(found.predict(frame)) <= set(y)
    with pytest.raises(ValueError, match="feature names"):
        found.predict(frame[names[::-1]])


def test_a_sparse_matrix_is_refused_in_scikit_learns_words(iris):
    x, y = iris
    with pytest.raises(TypeError, match="dense data is required"):
        classifier().fit(csr_array(x), y)


def test_there_is_no_partial_fit():
    assert not hasattr(classifier(), "partial_fit")


class OneOutput(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, 1)

    def forward(self, x):
        return self.linear(x)


def one_output(features, outputs):
    return OneOutput(features)


def test_a_factory_makes_a_network_of_one_output_for_two_classes(iris):
    x, y = iris[0][:100], iris[1][:100]
    found = clone(classifier(module=one_output)).fit(x, y)
    assert isinstance(found.run_.model, OneOutput)
    assert found.score(x, y) > 0.9
    chances = found.predict_proba(x)
    assert chances.shape == (100, 2)
    assert np.allclose(chances.sum(axis=1), 1)
    assert np.array_equal(found.classes_[chances.argmax(axis=1)], found.predict(x))


def test_a_module_takes_images_and_stays_as_it_is(same):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = rng.normal(size=(60, 1, 4, 4)) + 2 * y[:, None, None, None]
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    assert classifier(module=module, batch_size=8).fit(x, y).score(x, y) > 0.9
    assert same(module.state_dict(), before)


def test_a_pickled_estimator_predicts_the_same(iris):
    x, y = iris
    found = classifier(recipe=gradlex.Recipe(threads=1, ema=0.9)).fit(x, y)
    again = pickle.loads(pickle.dumps(found))
    assert np.array_equal(again.predict_proba(x), found.predict_proba(x))
    assert len(again.run_.generations) == 10


def test_features_of_any_scale_are_learned_from(iris):
    x, y = iris
    moved = 1e9 + x * np.array([1e3, 1, 1, 1])
    assert classifier(generations=20, batch_size=8).fit(moved, y).score(moved, y) > 0.9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipe": gradlex.Recipe(lr=0.3)}, r"lr 0.3 in the recipe is a parameter of the estimator"),
        ({"recipe": gradlex.Recipe(seed=3)}, r"GradlexClassifier\(random_state=...\)"),
        ({"recipe": gradlex.Recipe(task="regression")}, "learns classification, got task 'regression'"),
        ({"recipe": {"lr": 0.3}}, "must be a gradlex.Recipe, got dict"),
        ({"hidden_layer_sizes": (16, 0)}, r"numbers of units.*got \(16, 0\)"),
        ({"hidden_layer_sizes": 16}, "numbers of units.*got 16"),
        ({"module": "mlp"}, "must be an nn.Module, or a function"),
        ({"module": lambda features, outputs: None}, r"module\(4, 3\) must return an nn.Module, got None"),
        ({"module": nn.Linear(4, 5)}, "there are 3 classes, and the model tells 5 apart"),
        ({"population": 100}, "population 100 is more than half of the 150 samples"),
        ({"random_state": -1}, "seed"),
    ],
)
def test_a_bad_value_is_refused(changes, message, iris):
    with pytest.raises(InputError, match=message):
        classifier(**changes).fit(*iris)


def test_one_class_is_refused(iris):
    with pytest.raises(InputError, match="at least two classes, got one class: setosa"):
        classifier().fit(iris[0][:50], iris[1][:50])
