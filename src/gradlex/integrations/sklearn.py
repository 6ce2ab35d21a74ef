"""scikit-learn: `LexicaseClassifier().fit(X, y)` and `LexicaseRegressor`, for pipelines, grid searches and the like.

They train as `gradlex.train` does. The default network is a multilayer perceptron on standardized features; a network
of your own gets the features as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from gradlex._checks import Count, check
from gradlex.data.inputs import call
from gradlex.errors import InputError
from gradlex.randomness import torch_seed
from gradlex.recipe import Recipe
from gradlex.runs import Run, train
from gradlex.runs.surroundings import surroundings
from gradlex.seeding import seeded

_OWN = ("epochs", "batch_size", "lr", "weight_decay", "population", "selection")


class _Estimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """From parameters and arrays to a run, and from a run to outputs."""

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] | int = (128, 128),
        *,
        module: nn.Module | Callable[[int, int], nn.Module] | None = None,
        epochs: int = 100,
        batch_size: int = 32,
        lr: float = 0.05,
        weight_decay: float = 1e-4,
        population: int | None = None,
        selection: str | Callable[..., Any] | None = None,
        recipe: Recipe | None = None,
        device: str | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.module = module
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.population = population
        self.selection = selection
        self.recipe = recipe
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _validated(self, x: Any, **keywords: Any) -> Any:
        """X, and y if given, as arrays, checked by scikit-learn with its messages."""
        own = self.module is not None
        return validate_data(
            self,
            x,
            dtype=np.float32 if own else np.float64,
            order="C",  # a data frame's columns would be summed in another order than an array's rows
            allow_nd=own,
            reset="y" in keywords,
            ensure_min_samples=2 if "y" in keywords else 1,
            **keywords,
        )

    def _train(self, x: npt.NDArray[Any], y: npt.NDArray[Any], outputs: int, task: str) -> None:
        recipe = self._recipe()
        self.scaler_ = StandardScaler().fit(x) if self.module is None else None
        with surroundings(device=torch.device("cpu"), threads=torch.get_num_threads(), deterministic=False):
            with seeded(torch_seed(recipe.seed, "initialization"), torch.device("cpu")):
                network = self._network(x.shape[1], outputs)
            data = (self._inputs(x).float(), torch.tensor(y))
            self.run_: Run = train(network, data, recipe, task=task, device=self.device, progress=bool(self.verbose))
        self.run_.model.cpu()  # so that it can be unpickled where there is no such device

    def _recipe(self) -> Recipe:
        recipe = Recipe() if self.recipe is None else self.recipe
        if not isinstance(recipe, Recipe):
            raise InputError(f"recipe must be a gradlex.Recipe, got {type(recipe).__name__}.")
        twice = ", ".join(recipe.model_fields_set & {*_OWN, "seed"})
        if twice:
            raise InputError(f"the recipe has {twice}: use the estimator's parameter (random_state for seed).")
        state = self.random_state
        seed = int(state) if isinstance(state, Integral) else int(check_random_state(state).randint(2**31 - 1))
        return recipe.replace(**{name: getattr(self, name) for name in _OWN}, seed=seed)

    def _network(self, features: int, outputs: int) -> nn.Module:
        if self.module is None:
            return _perceptron(features, self.hidden_layer_sizes, outputs)
        own = isinstance(self.module, nn.Module) or not callable(self.module)
        network = self.module if own else self.module(features, outputs)
        if not isinstance(network, nn.Module):
            raise InputError(
                f"module must be an nn.Module, or a function (features, outputs) that returns one, got {network!r:.80}."
            )
        return network

    def _inputs(self, x: npt.NDArray[Any]) -> Tensor:
        scaled = x if self.scaler_ is None else self.scaler_.transform(x)
        return torch.from_numpy(np.require(scaled, requirements=["C", "W"]))

    def _outputs(self, x: Any) -> Tensor:
        """The network's outputs, computed on the CPU.

        The default network computes in float64: float32 would round differently for other numbers of samples.
        """
        check_is_fitted(self)
        inputs = self._inputs(self._validated(x))
        network = self.run_.model if self.module is not None else copy.deepcopy(self.run_.model).double()
        with torch.inference_mode():
            return torch.cat([call(network.eval(), part) for part in torch.split(inputs, 1024)])


class LexicaseClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """A classifier trained by gradient lexicase selection.

    Args:
        hidden_layer_sizes: Units of each hidden layer of the default network.
        module: Another network: an nn.Module, of which a copy is trained, or a function (features, outputs) that makes
            one. It gets X as float32, which may then have more than two axes, and returns an output for each class, or
            a single one for two classes.
        epochs: Number of generations, each one pass over the samples.
        batch_size: Samples per gradient step.
        lr: Initial learning rate.
        weight_decay: Weight decay.
        population: Number of candidates (default: 4, or 1 for sgd).
        selection: Selection method; sgd is the plain baseline (default: lexicase).
        recipe: A `gradlex.Recipe` with everything else: optimizer, schedule, ...
        device: Any torch device to train on (default: the accelerator if there is one).
        random_state: Random seed; None draws one from NumPy's global generator.
        verbose: Show progress.

    Attributes:
        classes_: The class labels, in the order of the columns of `predict_proba`.
        run_: What `gradlex.train` returned: `run_.model`, `run_.history`, ...
        scaler_: What standardizes the features for the default network; None with a module.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> from gradlex.integrations.sklearn import LexicaseClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = LexicaseClassifier((16,), epochs=20, population=2, random_state=0).fit(X, y)
        >>> model.score(X, y) > 0.8
        True
        >>> model.predict_proba(X[:2]).shape
        (2, 3)
    """

    def fit(self, X: Any, y: Any) -> LexicaseClassifier:  # noqa: N803  # scikit-learn's name
        """Train on (samples, features) and one label per sample, numbers or text."""
        x, labels = self._validated(X, y=y)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) == 1:
            raise InputError(f"a classifier needs at least two classes, got one class: {self.classes_[0]}.")
        self._train(x, numbers, len(self.classes_), f"classification(classes={len(self.classes_)})")
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """The (samples,) labels."""
        outputs = self._outputs(X)
        return np.asarray(self.classes_[self.run_.task.predict(outputs).numpy()])

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """The (samples, classes) probabilities, in the order of `classes_`."""
        outputs = self._outputs(X).double()
        return np.asarray(self.run_.task.probabilities(outputs))  # type: ignore[attr-defined]


class LexicaseRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """A regressor trained by gradient epsilon-lexicase selection; targets are standardized for training.

    Parameters and attributes are as for `LexicaseClassifier`, without `classes_`; selection is epsilon-lexicase by
    default. y may have several columns.

    Examples:
        >>> import numpy as np
        >>> from gradlex.integrations.sklearn import LexicaseRegressor
        >>> X = np.linspace(-1, 1, 80).reshape(80, 1)
        >>> model = LexicaseRegressor((16,), epochs=10, population=2, random_state=0).fit(X, 3 * X[:, 0] + 10)
        >>> model.score(X, 3 * X[:, 0] + 10) > 0.9
        True
    """

    def fit(self, X: Any, y: Any) -> LexicaseRegressor:  # noqa: N803
        """Train on (samples, features) and (samples,) or (samples, outputs) numbers."""
        x, targets = self._validated(X, y=y, multi_output=True, y_numeric=True)
        outputs = 1 if targets.ndim == 1 else targets.shape[1]
        self._train(x, np.asarray(targets, dtype=np.float64), outputs, "regression")
        return self

    def predict(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """The (samples,) or (samples, outputs) values, in the units of y."""
        outputs = self._outputs(X)  # first, since it checks that there is a run
        return np.asarray(self.run_.task.predict(outputs))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _perceptron(features: int, hidden: Any, outputs: int) -> nn.Module:
    layers: list[nn.Module] = []
    for units in np.atleast_1d(hidden).tolist():
        layers += [nn.Linear(features, check("hidden_layer_sizes", Count, units)), nn.ReLU()]
        features = units
    return nn.Sequential(*layers, nn.Linear(features, outputs))
