"""Recipe: every number of one run, checked where it is made."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from gradlex._checks import number, plain, whole
from gradlex.errors import InputError, unknown_name

Momentum = Literal["none", "reset", "inherit"]
Schedule = Literal["cosine", "constant"]
Precision = Literal["auto", "float32", "bfloat16"]
OnAllFail = Literal["random", "survive"]
CaseError = Literal["correct", "loss"]
Promotion = Literal["winner", "average", "expected", "survivors"]
EpsilonMode = Literal["static", "semi-dynamic", "dynamic"]

GIVEN = "given"
"""What stands for a model, data or augmentation that was passed in as an object rather than by name."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Every number that decides the outcome of one run.

    A field that is None (or auto) is resolved by a rule when the run starts; what is stored with the run is
    the resolved recipe.
    """

    dataset: str = "digits"
    """A name (`gradlex datasets` lists them), a .npz archive, or a folder of pictures with train/ and test/."""
    model: str = "small-cnn"
    """A name (`gradlex models` lists them), package.module:factory, or timm:NAME."""
    width: float = 1.0
    """Scale of the network's hidden layers; 1.0 is the published size."""
    selection: str = "lexicase"
    """Who becomes the parent (`gradlex selections` lists the methods); sgd is the plain baseline."""
    population: int | None = None
    """Candidates a generation, p in the paper. None: 4, and 1 for sgd."""
    momentum: Momentum | None = None
    """The optimizer's state between generations. None: reset, and inherit for sgd."""
    generations: int | None = None
    """How many generations. None: the dataset's number of baseline epochs, times p + 1 with a population."""
    optimizer: str = "sgd"
    """Any torch.optim optimizer whose step needs no closure, by name."""
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    """Keywords for the optimizer, as KEY=VALUE. SGD's momentum is 0.9 unless given here."""
    lr: float = 0.1
    """Initial learning rate."""
    schedule: Schedule = "cosine"
    """The rate over generations: annealed to 0 along a cosine, or constant. It never changes within one."""
    weight_decay: float = 1e-4
    """Weight decay of the optimizer."""
    batch_size: int | None = None
    """Samples a gradient step. None: the dataset's own (32 for digits, 128 for cifar10, else 64)."""
    augment: str | None = None
    """Augmentation of training batches: none, crop4 (or any padding), flip, or crop4,flip. None: the dataset's own."""
    train_size: int | None = None
    """Train on a stratified part of this many samples, the same part for every seed. None: all."""
    test_fraction: float | None = None
    """Share of the samples kept for testing where the data has no test part. None: 0.2 where needed."""
    image_size: int | None = None
    """Height and width that a folder's pictures are resized to. None: 32 where needed."""
    case_error: CaseError = "correct"
    """The error of one case in selection: 0 or 1 by the predicted class, or the loss."""
    on_all_fail: OnAllFail | None = None
    """Lexicase on 0/1 errors, when all that remain fail a case: pick one (the paper's rule) or let them survive."""
    tournament_size: int | None = None
    """Tournament: entrants. None: the whole population."""
    epsilon: float | None = None
    """Epsilon-lexicase: a fixed tolerance. None: the median absolute deviation of each case."""
    epsilon_mode: EpsilonMode | None = None
    """Epsilon-lexicase: where the best error and epsilon come from. None: semi-dynamic."""
    case_batch: int | None = None
    """Batch lexicase: cases a batch. None: 32."""
    share: float | None = None
    """Down-sampled and informed lexicase: share of the cases a generation looks at. None: 0.1."""
    refresh: int | None = None
    """Informed lexicase: generations between two full evaluations. None: 10."""
    sigma: float | None = None
    """DALex: standard deviation of the case weights before the softmax. None: 200."""
    alpha: float | None = None
    """Plexicase: exponent of the probabilities. None: 1."""
    promotion: Promotion = "winner"
    """What becomes the parent: the winner; or a mean of all, by exact chances (expected), or of lexicase's pool."""
    promotion_cases: int | None = None
    """Promotion expected: random cases a generation that decide the chances. None: all."""
    promotion_depth: int | None = None
    """Promotion survivors: cases that lexicase uses at most before its pool is averaged. None: to its end."""
    recalibrate: int = 0
    """Clean batches that batch norm's statistics are computed anew with after each promotion. 0: none."""
    recalibrate_final: int = 0
    """Clean batches for the same, once, for the final model before its evaluation. 0: none."""
    outer_lr: float = 1.0
    """How far the parent moves towards what is promoted: 1.0 is all the way."""
    outer_momentum: float = 0.0
    """Momentum of the parent's movement over generations (SlowMo, DiLoCo). 0.0: none."""
    outer_nesterov: bool = False
    """Nesterov's form of the outer momentum."""
    ema: float | None = None
    """Decay of a moving average of the parents, evaluated and saved beside them, 0.9 for example. None: none."""
    seed: int = 0
    """Where all randomness of the run is derived from."""
    threads: int | Literal["auto"] = "auto"
    """Threads a worker computes with. It changes a network's last bits, so it is part of the recipe."""
    precision: Precision = "auto"
    """bfloat16 autocast, or float32. auto: bfloat16 where the hardware has it and the network gains."""
    compile: bool = False
    """Compile the network with torch.compile. It takes a while to start and pays on accelerators."""
    deterministic: bool = False
    """Use torch's deterministic algorithms only. CUDA needs it for the same bits; a processor has them anyway."""
    init_from: str | None = None
    """A .safetensors file with weights to start from. None: PyTorch's default initialisation."""

    def __post_init__(self) -> None:
        """Refuse what no run can have; what depends on the data or the model is checked when those are known."""
        for name in _COUNTS:
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), least=1)
        for name in ("seed", "recalibrate", "recalibrate_final"):
            whole(name, getattr(self, name), least=0)
        if self.threads != "auto":
            whole("threads", self.threads, least=1)
            if self.threads > _MOST_THREADS:
                raise InputError(f"threads must be at most {_MOST_THREADS}, got {self.threads}.")
        number("lr", self.lr, above=0)
        number("width", self.width, above=0)
        number("weight_decay", self.weight_decay, least=0)
        number("outer_lr", self.outer_lr, above=0)
        number("outer_momentum", self.outer_momentum, least=0, below=1)
        for name in ("test_fraction", "ema"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), above=0, below=1)
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed and not (value is None and name in _OPEN_CHOICES):
                raise unknown_name(name, str(value), allowed)
        for name, (fits, wanted) in _KINDS.items():
            if not fits(getattr(self, name)):
                raise InputError(f"{name} must be {wanted}, got {getattr(self, name)!r}.")

    def lr_at(self, generation: int) -> float:
        """The learning rate of a generation: cosine annealing to 0 (Loshchilov & Hutter 2017), or constant."""
        if self.schedule == "constant":
            return self.lr
        return 0.5 * self.lr * (1 + math.cos(math.pi * generation / self.require("generations")))

    def require(self, name: Literal["population", "generations", "batch_size"]) -> int:
        """A number that a running recipe must have; refused while it is still None."""
        value: int | None = getattr(self, name)
        if value is None:
            raise InputError(f"this recipe leaves {name} open: set Recipe({name}=...).")
        return value

    @property
    def has_outer_step(self) -> bool:
        """Whether the parent's movement has a rate or a momentum of its own."""
        return self.outer_lr != 1 or self.outer_momentum != 0

    def replace(self, **changes: Any) -> Recipe:
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, fields in their order."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {**plain, "optimizer_options": dict(self.optimizer_options)}

    def changed(self) -> dict[str, Any]:
        """The fields that are not at their defaults, as plain data: what tells this recipe from all others."""
        defaults = type(self)().to_dict()
        return {name: value for name, value in self.to_dict().items() if value != defaults[name]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Recipe:
        """The recipe that `to_dict` wrote; unknown fields are refused."""
        known = {f.name for f in dataclasses.fields(cls)}
        for name in plain:
            if name not in known:
                raise unknown_name("recipe field", name, known)
        return cls(**plain)


_COUNTS = (
    "population",
    "generations",
    "batch_size",
    "train_size",
    "image_size",
    "tournament_size",
    "case_batch",
    "refresh",
    "promotion_cases",
    "promotion_depth",
)
_MOST_THREADS = 1024  # more than that the threads' own library cannot always start, and ends the process

_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(
        ("dataset", "model", "selection", "optimizer"), (lambda v: isinstance(v, str) and v != "", "a name")
    ),
    **dict.fromkeys(("augment", "init_from"), (lambda v: isinstance(v, str | None), "text or None")),
    **dict.fromkeys(
        ("compile", "deterministic", "outer_nesterov"), (lambda v: isinstance(v, bool), "True or False")
    ),
    "optimizer_options": (
        lambda v: isinstance(v, Mapping) and plain(v),
        "a mapping from keywords to plain values",
    ),
}

_CHOICES: dict[str, tuple[str, ...]] = {
    "momentum": get_args(Momentum),
    "schedule": get_args(Schedule),
    "precision": get_args(Precision),
    "on_all_fail": get_args(OnAllFail),
    "case_error": get_args(CaseError),
    "epsilon_mode": get_args(EpsilonMode),
    "promotion": get_args(Promotion),
}
_OPEN_CHOICES = ("momentum", "on_all_fail", "epsilon_mode")
