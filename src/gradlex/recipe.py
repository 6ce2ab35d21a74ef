"""Recipe: every number of one run, checked where it is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Gt, Le, Lt

from gradlex._checks import check, check_fields, check_options
from gradlex.errors import InputError, unknown_name
from gradlex.presets import find_preset
from gradlex.schedules import check_schedule, find_tail, needs_length, scheduled_factor

Momentum: TypeAlias = Literal["none", "reset", "inherit"]
Precision: TypeAlias = Literal["auto", "float32", "bfloat16"]
Promotion: TypeAlias = Literal["winner", "average", "expected", "survivors"]

REVISION = 2
"""Raised when the same recipe gives another outcome. 2: even batches; 1 (gradlex 0.1.0): the last batch was short."""

FUNCTIONS = ("selection", "schedule", "parameter_groups")
"""The fields that may be functions, which no file holds."""

GIVEN = "given"
"""Stands for a model, data, task, function or augmentation that was passed in as an object rather than by name."""

Count: TypeAlias = Annotated[int, Ge(1)]
Natural: TypeAlias = Annotated[int, Ge(0)]
Positive: TypeAlias = Annotated[float, Gt(0)]
Threads: TypeAlias = Annotated[
    int, Ge(1), Le(1024)
]  # a threads library cannot always start more, and ends the process


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Every number that decides the outcome of one run.

    A field that is None (or auto) is resolved by a rule when the run starts; what is stored with the run is
    the resolved recipe.

    Examples:
        >>> from gradlex import Recipe
        >>> recipe = Recipe(selection="epsilon-lexicase", population=8, generations=100)
        >>> recipe.replace(seed=1).seed
        1
        >>> [round(recipe.lr_at(generation), 3) for generation in (0, 50, 99)]
        [0.1, 0.05, 0.0]
        >>> Recipe(population=0)
        Traceback (most recent call last):
        gradlex.errors.InputError: population must be a whole number of at least 1 or None, got 0.
    """

    dataset: str = "digits"
    """A name (see `gradlex datasets`), a .npz archive, a folder of images, or a table (.csv, .parquet)."""
    target: str | None = None
    """The column of a table that is predicted from the others."""
    train_size: Count | None = None
    """Train on a stratified part of this many samples, the same for every seed (default: all)."""
    test_fraction: Annotated[float, Gt(0), Lt(1)] | None = None
    """Share of the samples kept for testing where the data has no test part (default: 0.2)."""
    validation_fraction: Annotated[float, Gt(0), Lt(1)] | None = None
    """Share of the training samples kept apart as a validation part, evaluated every generation (default: none)."""
    image_size: Count | None = None
    """Height and width that a folder's images are resized to (default: 32)."""
    augment: str | None = None
    """Augmentation of training batches: none, or some of crop4 (any padding), flip, cutout8, mixup0.2, cutmix1 and
    module:function, joined by commas (default: the data's)."""
    task: str | None = None
    """What is learnt: classification, regression, multi-label, segmentation, tokens, or module:Class (default: what
    the targets tell)."""
    task_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the task, as KEY=VALUE: case_error=loss selects on the loss of each case."""
    model: str = "auto"
    """A name (see `gradlex models`), module:factory, timm:NAME, timm:NAME?pretrained, or ?pretrained=FILE (auto:
    small-cnn for images, mlp for tables)."""
    width: Positive = 1.0
    """Scale of the network's hidden layers; 1.0 is the published size."""
    freeze: str | None = None
    """Parameters that are not trained, by patterns such as "layer1.*,*.bias"; a frozen batch norm keeps its
    statistics (default: none)."""
    init_from: str | None = None
    """A .safetensors file with the initial weights, or a run folder to begin with (default: random weights)."""
    generations: Count | None = None
    """Number of generations (default: the dataset's epochs, times p + 1 with a population)."""
    batch_size: Count | None = None
    """Samples per gradient step (default: 128 for cifar10, 32 for digits, otherwise 64)."""
    optimizer: str = "sgd"
    """Any torch.optim optimizer whose step needs no closure."""
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the optimizer, as KEY=VALUE. SGD's momentum is 0.9 unless given here."""
    lr: Positive = 0.1
    """Initial learning rate."""
    schedule: str | Callable[..., float] = "cosine"
    """Learning rate over generations: cosine (to 0), linear (to 0), step, one-cycle, constant, or module:function."""
    schedule_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the schedule, as KEY=VALUE: warmup=5 (generations, or a share below 1), low=0.1, at=[0.5,0.75]
    factor=0.1 (step), start=0.04 end=4e-6 (one-cycle)."""
    weight_decay: Annotated[float, Ge(0)] = 1e-4
    """Weight decay."""
    parameter_groups: str | Callable[..., Mapping[str, Any]] = "one"
    """Options by parameter: no-decay (no weight decay for biases and norms), or module:function from a parameter's
    name and tensor to its options (default: one, the same for all)."""
    clip_norm: Positive | None = None
    """Scale the gradients of a step down to this norm where theirs is larger (default: never)."""
    accumulate: Count = 1
    """Compute each gradient step in this many parts, to save memory; batch norm sees a part at a time."""
    momentum: Momentum | None = None
    """Optimizer state between generations (default: reset; inherit for sgd)."""
    branch_at: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Train one network for this share of the generations, then branch into the population."""
    tail: str = "continue"
    """Learning rate after the branch: continue (the schedule), constant, linear (held, then to 0), or cyclic."""
    tail_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the tail, as KEY=VALUE: factor=3, lr=0.05 (not for continue), hold=0.5, low=0.1 cycles=4."""
    patience: Count | None = None
    """Stop after this many generations without a better primary metric on the validation part (default: never)."""
    keep: Literal["last", "best"] = "last"
    """The final model: the last parent, or the best one on the validation part."""
    tail_mean: bool = False
    """The final model is the mean of the parents since the branch (with sgd this is SWA), batch norm recalibrated."""
    selection: str | Callable[..., Any] | None = None
    """Selection method (see `gradlex selections`) or module:function; sgd is the plain baseline (default: lexicase, or
    epsilon-lexicase for tasks with graded errors such as regression)."""
    selection_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the selection method, as KEY=VALUE: on_all_fail=survive is classic lexicase."""
    population: Count | None = None
    """Population size p (default: 4; 1 for sgd)."""
    parts: Literal["disjoint", "all"] = "disjoint"
    """What a candidate trains on: its own part of the samples (the paper), or as many drawn from all of them."""
    steps_per_generation: Count | None = None
    """Gradient steps of a candidate in one generation (default: one pass over the samples, shared out)."""
    vary: Mapping[str, Any] = field(default_factory=dict)
    """Settings that candidates differ in: augment=A|B weight_decay=1e-4|5e-4 lr=0.5|1|2 (lr: factors)."""
    inherit_variation: bool = False
    """The winner's setting becomes the parent's and is perturbed for the next generation."""
    timeline: Mapping[str, Any] = field(default_factory=dict)
    """Settings of each generation, as gradlex replay takes them from a run with inherited variation."""
    cases: Literal["clean", "augmented", "held-out"] = "clean"
    """What selection looks at: un-augmented training samples (the paper), augmented ones, or a held-out part."""
    held_out: Annotated[float, Gt(0), Lt(1)] | None = None
    """Share of the training samples that are held out as cases, and never trained on (default: 0.1)."""
    promotion: Promotion = "winner"
    """What becomes the parent: the winner, or a mean of all, by exact chances, or of lexicase's survivors."""
    promotion_cases: Count | None = None
    """With --promotion expected: random cases that decide the chances (default: all)."""
    recalibrate: Natural = 0
    """Recompute batch-norm statistics after each promotion on this many clean batches."""
    recalibrate_final: Natural = 0
    """The same once, for the final model before its evaluation."""
    outer_lr: Positive = 1.0
    """How far the parent moves towards what is promoted; 1.0 is all the way."""
    outer_momentum: Annotated[float, Ge(0), Lt(1)] = 0.0
    """Momentum of the parent's movement over generations (SlowMo, DiLoCo)."""
    outer_nesterov: bool = False
    """Use Nesterov's form of the outer momentum."""
    ema: Annotated[float, Gt(0), Lt(1)] | None = None
    """Keep a moving average of the parents with this decay, evaluated and saved beside them (default: none)."""
    seed: Natural = 0
    """Random seed."""
    threads: Threads | Literal["auto"] = "auto"
    """CPU threads per worker. They change a network's last bits, so they are part of the recipe."""
    precision: Precision = "auto"
    """bfloat16 autocast or float32 (auto: bfloat16 where the hardware has it and the network gains)."""
    compile: bool = False
    """Compile the network with torch.compile: slow to start, pays on accelerators."""
    compile_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of torch.compile, as KEY=VALUE: mode=reduce-overhead replays CUDA graphs, fullgraph=true."""
    fold_norm: bool = False
    """Evaluate cases by networks whose batch norm is folded into their convolutions: faster, other last bits."""
    deterministic: bool = False
    """Use deterministic algorithms only. CUDA needs it for identical bits; a CPU has them anyway."""

    def __post_init__(self) -> None:
        """Refuse what no run can have; what depends on the data or the model is checked when those are known."""
        check_fields(self)
        for each in dataclasses.fields(self):  # NumPy's numbers, which JSON does not hold
            value = getattr(self, each.name)
            if isinstance(value, Real) and not isinstance(value, int | float):
                object.__setattr__(
                    self, each.name, int(value) if isinstance(value, Integral) else float(value)
                )
        if self.schedule != GIVEN:
            check_schedule(self.schedule, self.schedule_options)
        check_options(f"tail {self.tail!r}", find_tail(self.tail), self.tail_options)
        if self.vary:
            object.__setattr__(self, "vary", {key: _values(key, given) for key, given in self.vary.items()})
        elif self.inherit_variation:
            raise InputError("inherit_variation needs settings to inherit: give vary.")
        self._check_timeline()
        self._check_compile()
        if self.held_out is not None and self.cases != "held-out":
            raise InputError(f"held_out belongs to cases 'held-out', got cases {self.cases!r}: leave it out.")
        if self.branch_at == 0 and (self.tail != "continue" or self.tail_options):
            raise InputError(
                f"tail {self.tail!r} begins where a run branches: set branch_at, 0.75 for example."
            )

    def _check_compile(self) -> None:
        """Refuse options of a compiler that is not asked, and those that it does not have."""
        if self.compile_options and not self.compile:
            raise InputError(
                "compile_options belong to compile, which is off: set compile, or leave them out."
            )
        for key, value in self.compile_options.items():
            if key not in _COMPILE:
                raise unknown_name("option of compile", str(key), _COMPILE)
            check(f"compile_options {key}", _COMPILE[key], value)

    @property
    def replays_graphs(self) -> bool:
        """Whether the compiled network is recorded as a graph on the device, which holds its weights' addresses."""
        return self.compile_options.get("mode") in ("reduce-overhead", "max-autotune")

    def _check_timeline(self) -> None:
        """Refuse settings that are not one per generation, and those of other fields that they would hide."""
        if self.timeline and self.vary:
            raise InputError("timeline gives every candidate its settings: leave vary out.")
        if "lr" in self.timeline and (self.tail != "continue" or self.tail_options):
            raise InputError("timeline gives the learning rate of every generation: leave tail out.")
        for key, values in self.timeline.items():
            if key not in _TIMELINE:
                raise unknown_name("setting of a timeline", str(key), _TIMELINE)
            if not isinstance(values, list) or len(values) != self.generations:
                raise InputError(
                    f"timeline {key} must be a list of one setting for each of the {self.generations} generations."
                )
            for value in values:
                check(f"timeline {key}", _TIMELINE[key], value)

    def lr_at(self, generation: int) -> float:
        """The learning rate of a generation."""
        if "lr" in self.timeline:
            return float(self.timeline["lr"][generation])
        branch = self.branch
        if generation < branch or (self.tail == "continue" and not self.tail_options):
            return self._scheduled(generation)
        tail, last = find_tail(self.tail), self.require("generations")
        place = (generation - branch) / (last - branch)
        return tail(place, self._scheduled(generation), self._scheduled(branch), **self.tail_options)

    def _scheduled(self, generation: int) -> float:
        """What the schedule says, whatever the tail does."""
        if self.schedule == GIVEN:
            raise InputError(
                "this run's schedule was a function, which is not stored: give it again as Recipe(schedule=...)."
            )
        return self.lr * scheduled_factor(self.schedule, generation, self.generations, self.schedule_options)

    @property
    def branch(self) -> int:
        """The generation in which the run branches into its population: at the latest the last one."""
        if self.branch_at == 0:
            return 0
        generations = self.require("generations")
        return min(round(self.branch_at * generations), generations - 1)

    def population_at(self, generation: int) -> int:
        """How many candidates a generation has: one until the branch."""
        return 1 if generation < self.branch else self.require("population")

    def samples_at(self, generation: int, num_samples: int) -> int:
        """How many samples a generation trains on: by default every one once."""
        if self.steps_per_generation is None:
            return num_samples
        return self.population_at(generation) * self.steps_per_generation * self.require("batch_size")

    def momentum_at(self, generation: int) -> Momentum | None:
        """Where a generation's optimizer state comes from: one network keeps its own until the branch."""
        return "inherit" if generation < self.branch else self.momentum

    def require(self, name: Literal["population", "generations", "batch_size"]) -> int:
        """A number that a running recipe must have; refused while it is still None."""
        value: int | None = getattr(self, name)
        if value is None:
            raise InputError(f"this recipe leaves {name} open: set Recipe({name}=...).")
        return value

    @property
    def method(self) -> str | Callable[..., Any]:
        """The selection of a running recipe; refused while it is still None."""
        if self.selection is None:
            raise InputError("this recipe leaves selection open: set Recipe(selection=...).")
        return self.selection

    @property
    def has_outer_step(self) -> bool:
        """Whether the recipe uses an outer learning rate or momentum."""
        return self.outer_lr != 1 or self.outer_momentum != 0

    @property
    def extendable(self) -> bool:
        """Whether the run can be made longer: only a constant learning rate does not depend on the length."""
        return not needs_length(self.schedule, self.schedule_options) and not self.branch_at

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Recipe:
        """The recipe of this name (see `gradlex.presets`), with some fields changed."""
        return cls(**{**find_preset(name).fields, **changes})

    def replace(self, **changes: Any) -> Recipe:
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, fields in their order; functions are only marked as given."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}

    def changed(self) -> dict[str, Any]:
        """The fields that are not at their defaults, as plain data."""
        defaults = type(self)().to_dict()
        return {name: value for name, value in self.to_dict().items() if value != defaults[name]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Recipe:
        """The recipe that `to_dict` wrote, also in gradlex 0.1.0; unknown fields are refused."""
        known = {f.name for f in dataclasses.fields(cls)}
        fields = dict(plain)
        if "case_error" in fields:  # 0.1.0 knew one task
            fields.setdefault("task", "classification")
        moved: dict[str, dict[str, Any]] = {}
        for old, (owner, option) in _MOVED.items():
            value = fields.pop(old, None)
            if value is not None and (old, value) != ("case_error", "correct"):
                moved.setdefault(owner, {})[option] = value
        for owner, options in moved.items():
            fields[owner] = {**options, **fields.get(owner, {})}
        for name in fields:
            if name not in known:
                raise unknown_name("recipe field", str(name), known)
        return cls(**fields)


_MOVED = {
    **{
        name: ("selection_options", name)
        for name in (
            "on_all_fail",
            "tournament_size",
            "epsilon",
            "epsilon_mode",
            "case_batch",
            "share",
            "refresh",
            "sigma",
            "alpha",
        )
    },
    "promotion_depth": ("selection_options", "depth"),
    "case_error": ("task_options", "case_error"),
}
"""Where the fields of gradlex 0.1.0 that are options now have gone."""


def _values(key: str, given: Any) -> list[Any]:
    """The values that candidates get in turn, from a list or from text such as 0.5|1|2."""
    if key not in _VARIED:
        raise unknown_name("setting to vary", str(key), _VARIED)
    values: list[Any] = list(given) if isinstance(given, list | tuple) else str(given).split("|")
    if key != "augment":
        try:
            values = [float(value) if isinstance(value, str) else value for value in values]
        except ValueError:
            raise InputError(f"vary {key} must be numbers such as 0.5|1|2, got {given!r}.") from None
    for value in values:
        check(f"vary {key}", _VARIED[key], value)
    if not values:
        raise InputError(f"vary {key} must name at least one value.")
    return values if key == "augment" else [float(value) for value in values]


_VARIED = {"augment": str, "weight_decay": Annotated[float, Ge(0)], "lr": Annotated[float, Gt(0)]}
_COMPILE = {
    "mode": Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"],
    "fullgraph": bool,
    "dynamic": bool,
}
_TIMELINE = {"augment": str | None, "weight_decay": Annotated[float, Ge(0)], "lr": Annotated[float, Ge(0)]}
"""An augmentation that is None is the run's own."""


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return GIVEN if callable(value) else value
