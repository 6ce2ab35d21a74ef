"""scikit-learn: `GradlexClassifier().fit(X, y)`, and `GradlexRegressor`, with all that takes an estimator.

They start a run as `gradlex.train` does. The default network is a multilayer perceptron on features that are
standardised by the training part; a module of one's own gets them as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from gradlex.data import Normalization, call
from gradlex.engine import seeded
from gradlex.errors import InputError
from gradlex.randomness import torch_seed
from gradlex.recipe import Recipe
from gradlex.runs import Run, find_device, train

Factory: TypeAlias = Callable[[int, int], nn.Module]
"""(features, outputs) -> a network."""

_OWN = ("generations", "batch_size", "lr", "weight_decay", "population", "selection")
_BLOCK = 1024  # samples that are predicted at once


class _Estimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators are: from parameters and arrays to a run, and from that to outputs."""

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (128, 128),
        *,
        module: nn.Module | Factory | None = None,
        generations: int = 100,
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
        self.generations = generations
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
        """X, and y where it is given, as arrays, by scikit-learn's own checks and with its messages."""
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

    def _train(self, x: npt.NDArray[Any], y: npt.NDArray[Any], outputs: int, task: dict[str, Any]) -> None:
        """Train a network with so many outputs; `task` are fields of the recipe."""
        recipe = self._recipe(task)
        with seeded(torch_seed(recipe.seed, "initialisation"), torch.device("cpu")):
            network = self._network(x.shape[1], outputs)
        self.normalization_ = Normalization.of(x) if self.module is None else None
        run = train(
            network,
            (self._inputs(x).float(), y),
            recipe,
            device=self.device,
            progress=bool(self.verbose),
        )
        for each in (run.model, run.ema):  # so that it can be unpickled where there is no such device
            if each is not None:
                each.cpu()
        self.run_: Run = run

    def _recipe(self, task: dict[str, Any]) -> Recipe:
        given = Recipe() if self.recipe is None else self.recipe
        if not isinstance(given, Recipe):
            raise InputError(f"recipe must be a gradlex.Recipe, got {type(given).__name__}.")
        for name, parameter in {**{name: name for name in _OWN}, "seed": "random_state"}.items():
            if name in given.changed():
                raise InputError(
                    f"{name} {getattr(given, name)!r} in the recipe is a parameter of the estimator: set "
                    f"{type(self).__name__}({parameter}=...), and leave it out of the recipe."
                )
        if given.task not in (None, task["task"]):
            raise InputError(
                f"{type(self).__name__} learns {task['task']}, got task {given.task!r} in the recipe: leave it out, or "
                "use gradlex.train."
            )
        if self.module is None and given.precision == "auto":
            given = given.replace(precision="float32")  # so small a network gains nothing from bfloat16
        return given.replace(
            **{name: getattr(self, name) for name in _OWN},
            seed=self._seed(),
            task=task["task"],
            task_options={**given.task_options, **task.get("task_options", {})},
        )

    def _seed(self) -> int:
        state = self.random_state
        if isinstance(state, Integral):
            return int(state)
        return int(check_random_state(state).randint(2**31 - 1))

    def _network(self, features: int, outputs: int) -> nn.Module:
        """A network with its first weights."""
        if isinstance(self.module, nn.Module):
            return self.module  # `train` copies it
        if self.module is None:
            return _perceptron(features, _sizes(self.hidden_layer_sizes), outputs)
        if not callable(self.module):
            raise InputError(
                "module must be an nn.Module, or a function (features, outputs) that returns one, got "
                f"{self.module!r:.80}."
            )
        network = self.module(features, outputs)
        if not isinstance(network, nn.Module):
            raise InputError(f"module({features}, {outputs}) must return an nn.Module, got {network!r:.80}.")
        return network

    def _inputs(self, x: npt.NDArray[Any]) -> Tensor:
        if self.normalization_ is not None:
            x = (x - np.array(self.normalization_.mean)) / np.array(self.normalization_.std)
        return torch.from_numpy(np.require(x, requirements=["C", "W"]))

    def _outputs(self, x: Any) -> Tensor:
        """The network's outputs, on the host.

        The default network computes in float64 on the CPU: then an answer does not depend on its neighbours in a
        batch, which float32 rounds differently for different numbers of samples.
        """
        check_is_fitted(self)
        inputs, network = self._inputs(self._validated(x)), self.run_.model
        device = torch.device("cpu") if self.normalization_ is not None else find_device(self.device)
        if self.normalization_ is not None:
            network = copy.deepcopy(network).double()
        elif device.type != "cpu":
            network = copy.deepcopy(network).to(device)
        with torch.inference_mode():
            parts = [call(network, part.to(device)).cpu() for part in torch.split(inputs, _BLOCK)]
        return torch.cat(parts)


class GradlexClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """A classifier trained by gradient lexicase selection.

    Args:
        hidden_layer_sizes: Units of each hidden layer of the default network, a perceptron with ReLU on standardised
            features.
        module: Another network: an nn.Module, of which a copy is trained, or a function (features, outputs) that
            makes one. It receives X as float32, which may then have more than two axes, and returns an output for
            each class, or a single one for two classes.
        generations: Number of generations, each a pass over the samples.
        batch_size: Samples per gradient step.
        lr: Initial learning rate.
        weight_decay: Weight decay.
        population: Population size p (default: 4; 1 for sgd).
        selection: Selection method; sgd is the plain baseline (default: lexicase).
        recipe: A `gradlex.Recipe` for everything else: optimizer, schedule, task_options, ...
        device: Any torch device (default: the accelerator if there is one).
        random_state: Random seed; None draws one from NumPy's global generator.
        verbose: Show progress.

    Attributes:
        classes_: The class labels, in the order of the columns of `predict_proba`.
        run_: What `gradlex.train` returned: `run_.model`, `run_.generations`, ...
        normalization_: What the features of the default network are standardised by; None with a module.
        n_features_in_: The number of features.
        feature_names_in_: Their names, where X was a data frame.

    Examples:
        >>> from sklearn.datasets import load_iris
        >>> from gradlex.integrations.sklearn import GradlexClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = GradlexClassifier((16,), generations=20, population=2, random_state=0).fit(X, y)
        >>> model.score(X, y) > 0.8
        True
        >>> model.predict_proba(X[:2]).shape
        (2, 3)
    """

    def fit(self, X: Any, y: Any) -> GradlexClassifier:  # noqa: N803  # scikit-learn's name
        """Train on (samples, features) and one label a sample, numbers or text."""
        x, labels = self._validated(X, y=y)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        classes = len(self.classes_)
        if classes == 1:
            raise InputError(f"a classifier needs at least two classes, got one class: {self.classes_[0]}.")
        self._train(x, numbers, classes, {"task": "classification", "task_options": {"classes": classes}})
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """The (samples,) labels."""
        outputs = self._outputs(X)
        found: npt.NDArray[Any] = self.classes_[self.run_.task.predict(outputs).numpy()]  # type: ignore[attr-defined]
        return found

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """The (samples, classes) probabilities, in the order of `classes_`."""
        outputs = self._outputs(X).double()
        outputs = outputs.reshape(len(outputs), -1)
        if outputs.shape[1] == 1:  # of two classes: a network with one output says yes above 0
            outputs = torch.cat([torch.zeros_like(outputs), outputs], dim=1)
        found: npt.NDArray[np.float64] = outputs.softmax(dim=1).numpy()
        return found


class GradlexRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """A regressor trained by gradient epsilon-lexicase selection.

    Targets are standardised by the training part; predictions are in their units.

    Args:
        hidden_layer_sizes: Units of each hidden layer of the default network, a perceptron with ReLU on standardised
            features.
        module: Another network: an nn.Module, of which a copy is trained, or a function (features, outputs) that
            makes one. It receives X as float32, which may then have more than two axes.
        generations: Number of generations, each a pass over the samples.
        batch_size: Samples per gradient step.
        lr: Initial learning rate.
        weight_decay: Weight decay.
        population: Population size p (default: 4; 1 for sgd).
        selection: Selection method; sgd is the plain baseline (default: epsilon-lexicase).
        recipe: A `gradlex.Recipe` for everything else: optimizer, schedule, task_options, ...
        device: Any torch device (default: the accelerator if there is one).
        random_state: Random seed; None draws one from NumPy's global generator.
        verbose: Show progress.

    Attributes:
        run_: What `gradlex.train` returned: `run_.model`, `run_.generations`, ...
        normalization_: What the features of the default network are standardised by; None with a module.
        n_features_in_: The number of features.
        feature_names_in_: Their names, where X was a data frame.

    Examples:
        >>> import numpy as np
        >>> from gradlex.integrations.sklearn import GradlexRegressor
        >>> X = np.linspace(-1, 1, 80).reshape(80, 1)
        >>> model = GradlexRegressor((16,), generations=10, population=2, random_state=0).fit(X, 3 * X[:, 0] + 10)
        >>> model.score(X, 3 * X[:, 0] + 10) > 0.9
        True
    """

    def fit(self, X: Any, y: Any) -> GradlexRegressor:  # noqa: N803  # scikit-learn's name
        """Train on (samples, features) and (samples,) or (samples, outputs) numbers."""
        x, targets = self._validated(X, y=y, multi_output=True, y_numeric=True)
        self._train(x, targets, 1 if targets.ndim == 1 else targets.shape[1], {"task": "regression"})
        return self

    def predict(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """The (samples,) or (samples, outputs) values, in the units of y."""
        outputs = self._outputs(X)
        found: npt.NDArray[np.float64] = self.run_.task.predict(outputs).numpy()  # type: ignore[attr-defined]
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _perceptron(features: int, hidden: tuple[int, ...], outputs: int) -> nn.Module:
    layers: list[nn.Module] = []
    for units in hidden:
        layers += [nn.Linear(features, units), nn.ReLU()]
        features = units
    return nn.Sequential(*layers, nn.Linear(features, outputs))


def _sizes(given: Any) -> tuple[int, ...]:
    sizes = tuple(given) if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else None
    if sizes is None or not all(isinstance(size, Integral) and int(size) >= 1 for size in sizes):
        raise InputError(
            "hidden_layer_sizes must be numbers of units, one for each hidden layer, such as (128, 128), got "
            f"{given!r:.80}."
        )
    return tuple(int(size) for size in sizes)
