"""Recipe: every setting that decides the outcome of one run, checked where it is given."""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError

from gradlex._checks import Count, Fraction, Natural, NonNegative, Positive, Share, bad_value, plain
from gradlex._text import parse, write
from gradlex.errors import InputError, did_you_mean, unknown_name
from gradlex.schedules import find_schedule, find_tail

GIVEN = "given"
"""Stands for an object that no text can hold, such as a function, in a stored recipe."""

Precision: TypeAlias = Literal["float32", "bfloat16"]
Promotion: TypeAlias = Literal["winner", "average", "expected"]
MomentumState: TypeAlias = Literal["reset", "inherit"]

OPTIMIZERS: Mapping[str, tuple[str, float]] = {
    "sgd": ("SGD", 0.1),  # the paper's; torch's own is 0.001
    "adadelta": ("Adadelta", 1.0),
    "adafactor": ("Adafactor", 0.01),
    "adagrad": ("Adagrad", 0.01),
    "adam": ("Adam", 0.001),
    "adamax": ("Adamax", 0.002),
    "adamw": ("AdamW", 0.001),
    "asgd": ("ASGD", 0.01),
    "nadam": ("NAdam", 0.002),
    "radam": ("RAdam", 0.001),
    "rmsprop": ("RMSprop", 0.01),
}
"""The class in torch.optim and the default learning rate of each optimizer."""

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # Ding & Spector 2022, section 4. Population and momentum stay open, so that selection="sgd" is their baseline.
    "paper": {"weight_decay": 1e-4, "momentum": 0.9, "schedule": "cosine", "selection": "lexicase"},
    # One network for three quarters of the epochs, then the average of the candidates at a high rate. Where a cosine
    # schedule is at three quarters, a factor of 7 is about the initial learning rate.
    "branched": {
        "branch_at": 0.75,
        "tail": "constant(factor=7)",
        "tail_mean": True,
        "promotion": "average",
        "momentum_state": "inherit",
    },
}

_OTHER_NAMES = {
    "generations": "epochs",
    "num_epochs": "epochs",
    "n_epochs": "epochs",
    "learning_rate": "lr",
    "size": "population",
    "population_size": "population",
    "random_state": "seed",
}


class Recipe(BaseModel):
    """Every setting that decides the outcome of one run; where it runs, such as the device, is separate.

    A field that is None (or auto) gets its value when the run starts; the run folder holds the resolved recipe.

    Examples:
        >>> from gradlex import Recipe
        >>> recipe = Recipe(selection="epsilon-lexicase", population=8, epochs=100)
        >>> recipe.replace(seed=1).seed
        1
        >>> [round(recipe.lr_at(generation), 3) for generation in (0, 50, 99)]
        [0.1, 0.05, 0.0]
        >>> Recipe(generations=100)
        Traceback (most recent call last):
        gradlex.errors.InputError: unknown recipe field 'generations'. Did you mean 'epochs'?
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        arbitrary_types_allowed=True,
    )

    dataset: str = "digits"
    """Name (see `gradlex list data`), .npz archive, folder of images, or table (.csv, .parquet)."""
    target: str | None = None
    """Column of a table to predict from the others."""
    train_size: Count | None = None
    """Train on a stratified part of this many samples, the same for every seed (default: all)."""
    test_fraction: Fraction | None = None
    """Share of the samples kept for testing if the data has no test part (default: 0.2)."""
    validation_fraction: Fraction | None = None
    """Share of the training samples kept apart as a validation part (default: none)."""
    image_size: Count | None = None
    """Height and width to resize a folder's images to (default: 32)."""
    augment: str | None = None
    """Augmentation of training batches: none, or crop4 (any padding), flip, module:function, joined by
    commas (default: the dataset's)."""
    task: str | None = None
    """What to learn: classification, regression, multi-label, or module:Class, with options as in
    classification(case_error=loss) (default: inferred from the targets)."""
    model: str = "auto"
    """Name (see `gradlex list models`), such as resnet20(width=0.5), or module:factory, or timm:NAME (auto: a small
    CNN for images, an MLP for tables)."""
    init_from: str | None = None
    """File of initial weights (.safetensors), or a run folder (default: random weights)."""
    epochs: Count | None = None
    """Number of generations, each of one pass over the training samples (default: the dataset's, times p + 1 with a
    population)."""
    batch_size: Count | None = None
    """Samples per gradient step (default: the dataset's)."""
    optimizer: str = "sgd"
    """A torch.optim optimizer, with options as in adamw(betas=(0.9, 0.95))."""
    lr: Positive | None = None
    """Initial learning rate (default: 0.1 for sgd, 0.001 for adam and adamw, torch's own for others)."""
    weight_decay: NonNegative = 1e-4
    """Weight decay."""
    momentum: Share = 0.9
    """Momentum of sgd. Other optimizers take theirs as an option, as in rmsprop(momentum=0.9)."""
    schedule: str | Callable[[int, int], float] = "cosine"
    """Learning rate over generations: cosine or linear (to 0), or constant, with options as in cosine(warmup=5); or
    module:function."""
    population: Count | None = None
    """Number of candidates p (default: 4, or 1 for sgd)."""
    selection: str | Annotated[Callable[..., Any], "a strategy", "a function"] | None = None
    """Selection method (see `gradlex list selections`), with options as in epsilon-lexicase(epsilon=0.1), or
    module:function; sgd is the plain baseline (default: lexicase, or epsilon-lexicase for graded errors)."""
    promotion: Promotion = "winner"
    """What becomes the parent: the winner, the average of all candidates, or their average weighted by the chances of
    winning (expected)."""
    momentum_state: MomentumState | None = None
    """Optimizer state between generations (default: reset, or inherit for sgd)."""
    branch_at: Share = 0.0
    """Train one network for this share of the epochs, then branch into the population."""
    tail: str | None = None
    """Learning rate after the branch: constant(factor=7) or constant(lr=0.05) (default: the schedule continues)."""
    tail_mean: bool = False
    """The final model is the mean of the parents since the branch, with batch norm recalibrated."""
    recalibrate: Natural = 0
    """Recompute batch-norm statistics after each promotion of an average, on this many training batches."""
    patience: Count | None = None
    """Stop after this many epochs without a better primary metric on the validation part (default: never)."""
    seed: Natural = 0
    """Random seed."""
    precision: Precision = "float32"
    """float32, or bfloat16 autocast, which is faster on GPUs and on CPUs that compute it natively."""

    if not TYPE_CHECKING:  # type checkers take the keywords from the fields

        def __init__(self, **fields: Any) -> None:
            _check_names(fields)
            try:
                super().__init__(**{name: _read(name, value) for name, value in fields.items()})
            except ValidationError as error:
                name = str(error.errors()[0]["loc"][0])
                raise bad_value(name, _ANNOTATIONS[name], fields[name]) from error
            self._check()

    def _check(self) -> None:
        """Raise an error for combinations that mean nothing; what depends on data or model is checked with those."""
        name, options = parse(self.optimizer)
        if name not in OPTIMIZERS:
            raise unknown_name("optimizer", name, OPTIMIZERS)
        for field in {"lr", "weight_decay", *(["momentum"] if name == "sgd" else [])} & set(options):
            raise InputError(f"optimizer {self.optimizer!r} sets {field}: use the recipe's field {field}.")
        if name != "sgd" and self.momentum != 0.9:
            raise InputError(f"momentum={self.momentum:g} is for sgd: write an option, such as rmsprop(momentum=0.9).")
        if isinstance(self.schedule, str) and self.schedule != GIVEN and ":" not in parse(self.schedule)[0]:
            find_schedule(self.schedule)  # a stored recipe must not import a module
        if self.tail is not None:
            find_tail(self.tail)
        if self.branch_at == 0 and (self.tail or self.tail_mean):
            field = "tail" if self.tail else "tail_mean"
            raise InputError(f"{field} needs a run that branches: set branch_at, such as branch_at=0.75.")
        if self.is_baseline and self.population not in (None, 1):
            raise InputError(f"selection 'sgd' trains one network, got population {self.population}.")
        if self.is_baseline and self.momentum_state == "reset":
            raise InputError("selection 'sgd' keeps its optimizer state: leave momentum_state out.")

    @property
    def is_baseline(self) -> bool:
        """Whether this is plain SGD: one network that keeps its optimizer state."""
        return bool(self.selection == "sgd")

    @property
    def initial_lr(self) -> float:
        """The learning rate that the schedule scales: `lr`, or the optimizer's default."""
        return OPTIMIZERS[parse(self.optimizer)[0]][1] if self.lr is None else self.lr

    @property
    def branch(self) -> int:
        """The generation, counted from 0, where one network becomes a population: at the latest the last."""
        return min(round(self.branch_at * self._length), self._length - 1) if self.branch_at else 0

    def lr_at(self, generation: int) -> float:
        """The learning rate of a generation, counted from 0."""
        if self.tail is None or generation < self.branch:
            return self._scheduled(generation)
        return find_tail(self.tail)(self._scheduled(self.branch))

    def population_at(self, generation: int) -> int:
        """The number of candidates of a generation, counted from 0: one before the branch."""
        return 1 if generation < self.branch or self.is_baseline else self.population or 4

    def with_method(self, selection: str = "lexicase") -> Recipe:
        """This recipe with the method's open fields filled in, and `selection` if it names none."""
        named = self if self.selection is not None else self.replace(selection=selection)
        return named.replace(
            population=1 if named.is_baseline else named.population or 4,
            momentum_state=named.momentum_state or ("inherit" if named.is_baseline else "reset"),
            lr=named.initial_lr,
        )

    def optimizer_options(self) -> dict[str, Any]:
        """The keywords of the torch.optim class, except lr."""
        name, options = parse(self.optimizer)
        own = {"momentum": self.momentum} if name == "sgd" else {}
        return {"weight_decay": self.weight_decay, **own, **options}

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Recipe:
        """The recipe of this name, "paper" or "branched", with some fields changed.

        Examples:
            >>> from gradlex import Recipe
            >>> Recipe.preset("branched", epochs=100).branch
            75
        """
        if name not in PRESETS:
            raise unknown_name("preset", name, PRESETS)
        return cls(**{**PRESETS[name], **changes})

    def replace(self, **changes: Any) -> Recipe:
        """A copy with some fields changed, checked again."""
        return type(self)(**{name: getattr(self, name) for name in self.model_fields_set} | changes)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values for JSON, as `Recipe(**fields)` takes them; objects are "given"."""
        return {name: _stored(value) for name, value in self}

    @property
    def _length(self) -> int:
        if self.epochs is None:
            raise InputError("this recipe leaves its number of epochs open: set Recipe(epochs=...).")
        return self.epochs

    def _scheduled(self, generation: int) -> float:
        if self.schedule == GIVEN:
            raise InputError("the schedule was a function, which isn't stored: give it again as schedule=.")
        schedule = find_schedule(self.schedule) if isinstance(self.schedule, str) else self.schedule
        factor = schedule(generation, self._length)
        if not 0 <= factor < math.inf:
            raise InputError(f"the schedule returned {factor!r:.80} for generation {generation + 1}, not a factor.")
        return float(self.initial_lr * factor)


# help(Recipe) shows neither docstrings of fields nor annotations that can be read.
Recipe.__doc__ = f"{Recipe.__doc__}\n    Attributes:\n" + "\n".join(
    f"        {name}: {' '.join((field.description or '').split())}" for name, field in Recipe.model_fields.items()
)
_keyword = functools.partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
Recipe.__signature__ = inspect.Signature([_keyword(k, default=v.default) for k, v in Recipe.model_fields.items()])
_ANNOTATIONS = get_type_hints(Recipe, include_extras=True)


def _read(name: str, value: Any) -> Any:
    """A value as the recipe holds it: one spelling of a text, so that equal recipes compare as equal."""
    if isinstance(value, str) and name in ("model", "optimizer", "schedule", "selection", "tail", "task"):
        return write(*parse(value))
    return os.fspath(value) if isinstance(value, os.PathLike) else plain(value)


def _check_names(fields: Mapping[str, Any]) -> None:
    """Raise an error for names that are no fields, with the field that was probably meant."""
    for name in fields:
        if name not in Recipe.model_fields:
            meant = _OTHER_NAMES.get(name, name)
            hint = f" Did you mean {meant!r}?" if meant != name else did_you_mean(name, Recipe.model_fields)
            raise InputError(f"unknown recipe field {name!r}.{hint or ' See help(gradlex.Recipe).'}")
    if (given := fields.get("momentum")) in ("none", "reset", "inherit"):
        cure = "momentum=0" if given == "none" else f"momentum_state={given!r}"
        raise InputError(f"momentum must be a number of at least 0 and below 1, got {given!r}: set {cure}.")


def _stored(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value) if type(value).__module__.startswith("gradlex.selection") else GIVEN
