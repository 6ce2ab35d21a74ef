"""Any torch.optim optimizer by name, and its state by parameter name so that it can be inherited."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import torch
from annotated_types import Ge
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._foreach_utils import _get_fused_kernels_supported_devices

from gradlex._checks import check
from gradlex._objects import load_object
from gradlex.errors import InputError, unknown_name
from gradlex.population._parent import OptimizerState
from gradlex.recipe import GIVEN, Momentum, Recipe

_CLASSES = {
    name.lower(): value
    for name, value in vars(torch.optim).items()
    if inspect.isclass(value) and issubclass(value, Optimizer) and value is not Optimizer
}


def find_optimizer(name: str) -> type[Optimizer]:
    """The torch.optim class of this name; one whose step needs a closure is refused."""
    if name.lower() not in _CLASSES:
        raise unknown_name("optimizer", name, _CLASSES)
    found = _CLASSES[name.lower()]
    if inspect.signature(found.step).parameters["closure"].default is inspect.Parameter.empty:
        raise InputError(
            f"optimizer {name!r} calls the loss several times a step (a closure), which SubGD does not do: "
            "use one that steps from one gradient, sgd or adamw for example."
        )
    return found


def optimizer_keywords(recipe: Recipe, momentum: Momentum | None = None) -> dict[str, Any]:
    """The optimizer's keywords except the learning rate; refused where they do not fit.

    `momentum` None: the recipe's own, which holds from the branch on.
    """
    accepted = inspect.signature(find_optimizer(recipe.optimizer)).parameters
    options: dict[str, Any] = dict(recipe.optimizer_options)
    for key in options:
        if key in ("lr", "weight_decay"):
            raise InputError(f"optimizer_options sets {key!r}: use the recipe's own field {key} instead.")
        if key in ("params", "maximize", "differentiable", "capturable") or key not in accepted:
            raise unknown_name(f"option of optimizer {recipe.optimizer}", key, set(accepted) - {"params"})
    if "weight_decay" in accepted:
        options["weight_decay"] = recipe.weight_decay
    elif recipe.weight_decay != 0:
        raise InputError(
            f"optimizer {recipe.optimizer!r} has no weight decay, got {recipe.weight_decay}: set weight_decay to 0."
        )
    if (momentum or recipe.momentum) == "none":
        if "momentum" not in accepted:
            raise InputError(
                f"momentum 'none' needs an optimizer with a momentum keyword, and {recipe.optimizer!r} has none: "
                "use 'reset' or 'inherit'."
            )
        if options.get("momentum"):
            raise InputError(
                f"momentum 'none' contradicts momentum={options['momentum']} in optimizer_options."
            )
        options["momentum"] = 0.0
    elif recipe.optimizer.lower() == "sgd":
        options.setdefault("momentum", 0.9)
    return options


def make_optimizer(
    recipe: Recipe, model: nn.Module, lr: float, device_type: str, momentum: Momentum | None = None
) -> Optimizer:
    """A fresh optimizer over the model's trainable parameters, in the recipe's groups."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    found, options = find_optimizer(recipe.optimizer), optimizer_keywords(recipe, momentum)
    if _can_be_fused(found, model, options, device_type):
        options.setdefault("fused", True)
    groups = parameter_groups(recipe, model, lr)
    optimizer = found(groups, lr=lr, **options)  # type: ignore[call-arg]  # lr is a keyword of every subclass
    if found is torch.optim.SGD and options.get("fused") and options.get("momentum"):
        # torch begins a fused momentum only for all parameters at once; some may have their first gradient later.
        for parameter in trainable:
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def parameter_groups(recipe: Recipe, model: nn.Module, lr: float) -> list[dict[str, Any]]:
    """The model's trainable parameters, those of the same options together; a group's `lr` is a factor of `lr`."""
    options_of = _options_of(recipe)
    taken = inspect.signature(find_optimizer(recipe.optimizer)).parameters
    groups: list[dict[str, Any]] = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        options = options_of(name, parameter)
        if not isinstance(options, Mapping):
            raise InputError(
                f"parameter_groups must return the options of {name!r} as a mapping, {{}} for the recipe's own, got "
                f"{options!r:.80}."
            )
        for key in options:
            if key not in taken or key in _WHOLE:
                raise unknown_name(
                    f"option of optimizer {recipe.optimizer} for {name!r}", str(key), set(taken) - set(_WHOLE)
                )
        if "lr" in options:
            check(f"the factor lr of {name!r}", Annotated[float, Ge(0)], options["lr"])
            options = {**options, "lr": lr * options["lr"]}
        group = next((each for each in groups if each["options"] == dict(options)), None)
        if group is None:
            group = {"options": dict(options), "params": []}
            groups.append(group)
        group["params"].append(parameter)
    return [{"params": group["params"], **group["options"]} for group in groups]


def _options_of(recipe: Recipe) -> Callable[[str, Tensor], Any]:
    """The function from a parameter's name and tensor to the options that it does not share with the others."""
    given = recipe.parameter_groups
    if not isinstance(given, str):
        return given
    if given == GIVEN:
        raise InputError(
            "this run's parameter_groups was a function, which is not stored: give it again as "
            "Recipe(parameter_groups=...)."
        )
    if ":" in given:
        own: Callable[[str, Tensor], Any] = load_object(given, "function of parameters")
        return own
    if given not in _GROUPS:
        raise unknown_name("parameter_groups", given, _GROUPS)
    return _GROUPS[given]


def _no_decay(name: str, parameter: Tensor) -> dict[str, Any]:
    """No weight decay for biases and the scales of norms, which have one dimension (He et al. 2019, section 3.1)."""
    return {"weight_decay": 0.0} if parameter.ndim <= 1 or name.endswith("bias") else {}


_GROUPS: Mapping[str, Callable[[str, Tensor], Any]] = {
    "one": lambda name, parameter: {},
    "no-decay": _no_decay,
}
_WHOLE = ("params", "maximize", "differentiable", "capturable", "fused", "foreach")
"""What holds for all parameters."""


def check_optimizer(recipe: Recipe, model: nn.Module, device_type: str) -> None:
    """Refuse settings that the optimizer, or the model, does not take, by one step of one parameter.

    torch checks some settings only then. The model is left as it was.
    """
    optimizer_keywords(recipe)
    smallest = min((p for p in model.parameters() if p.requires_grad), key=Tensor.numel)
    before = smallest.detach().clone()
    try:
        optimizer = make_optimizer(recipe, model, recipe.lr, device_type)
        for parameter in model.parameters():
            parameter.grad = None
        smallest.grad = torch.zeros_like(smallest)
        optimizer.step()
    except InputError:
        raise
    except Exception as error:  # torch raises many kinds
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"optimizer {recipe.optimizer!r} refused its settings (lr {recipe.lr:g}, weight_decay "
            f"{recipe.weight_decay:g}, options {dict(recipe.optimizer_options)}): {type(error).__name__}: {reason}"
        ) from error
    finally:
        smallest.grad = None
        with torch.no_grad():
            smallest.copy_(before)


def _can_be_fused(
    optimizer: type[Optimizer], model: nn.Module, options: Mapping[str, Any], device_type: str
) -> bool:
    """Whether one kernel can take the whole step.

    On a CPU it walks storages side by side, so a parameter, its gradient and its state must have one memory
    format. Autograd sees to the gradient's, and whoever restores a state to the state's. Sparse gradients it does
    not take, and with dampening a momentum does not begin at zero.
    """
    takes = (
        "fused" in inspect.signature(optimizer).parameters
        and device_type in _get_fused_kernels_supported_devices()
    )
    asked_otherwise = "foreach" in options or options.get("dampening")
    sparse = any(getattr(layer, "sparse", False) is True for layer in model.modules())
    dense = all(p.is_floating_point() for p in model.parameters() if p.requires_grad) and not sparse
    return takes and dense and not asked_otherwise


def export_state(optimizer: Optimizer, model: nn.Module, home: torch.device) -> OptimizerState:
    """The optimizer's state by parameter name; what is as large as a parameter waits on the `home` device."""
    return {
        name: {
            key: v.to(home) if isinstance(v, Tensor) and v.ndim else v
            for key, v in optimizer.state[p].items()
        }
        for name, p in model.named_parameters()
        if p in optimizer.state
    }


def import_state(optimizer: Optimizer, model: nn.Module, state: OptimizerState) -> None:
    """Give a fresh optimizer a copy of an exported state.

    Numbers that a step reads on the host stay where they are, but a fused or capturable one counts its steps on the
    parameter's device, and a stored count comes from the host.
    """
    parameters = dict(model.named_parameters())
    counts = {p for g in optimizer.param_groups if g.get("fused") or g.get("capturable") for p in g["params"]}
    for name, values in state.items():
        parameter = parameters[name]
        optimizer.state[parameter] = _copied(values, parameter.device, counts=parameter in counts)


def _copied(values: Mapping[str, Any], device: torch.device, *, counts: bool) -> dict[str, Any]:
    copies = {key: v.clone() if isinstance(v, Tensor) else v for key, v in values.items()}
    return {
        key: v.to(device) if isinstance(v, Tensor) and (v.ndim or (counts and key == "step")) else v
        for key, v in copies.items()
    }
