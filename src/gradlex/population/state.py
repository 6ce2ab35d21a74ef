"""A network's state as a snapshot that is swapped in and out of one module without copying.

The module's parameters stay the same objects, so tied weights stay tied, and an optimizer or a compiled graph that
holds them stays valid; only the storage behind them changes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.utils._pytree import tree_map_only

from gradlex.errors import InputError

Snapshot: TypeAlias = dict[str, Any]
"""`{"tensors": {name: Tensor or None}, "extra": {module: its get_extra_state()}}`; None is a buffer that is not set."""


def unwrapped(model: nn.Module) -> nn.Module:
    """The module inside torch.compile and DistributedDataParallel, so that names don't depend on the wrappers."""
    while True:
        inner = model.module if isinstance(model, DistributedDataParallel) else getattr(model, "_orig_mod", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def remember_modes(model: nn.Module) -> Callable[[], None]:
    """A function that puts each layer back into the training or evaluation mode that it is in now."""
    modes = [(layer, layer.training) for layer in model.modules()]

    def put_back() -> None:
        for layer, training in modes:
            if layer.training != training:  # a module's attributes are slow to set
                layer.training = training

    return put_back


def cloned(state: Any) -> Any:
    """A copy of its own of a snapshot or an optimizer's state; tensors keep their memory format."""
    if isinstance(state, Tensor):
        return state.clone()
    if type(state) is dict:  # pytree's own walk takes longer than the copies
        return {name: cloned(value) for name, value in state.items()}
    if type(state) is list:
        return [cloned(value) for value in state]
    return tree_map_only(Tensor, torch.clone, state)


class Network:
    """One module whose state is taken out and put in.

    A snapshot shares the storage that the module computed with; the next `install` gives the module other storage.
    """

    def __init__(self, model: nn.Module) -> None:
        self.module = unwrapped(model)
        if isinstance(self.module, torch.jit.ScriptModule):
            raise InputError(
                "a Population can't swap the weights of a scripted model: give it before torch.jit.script."
            )
        live = (*self.module.named_parameters(), *self.module.named_buffers())
        lazy = [name for name, tensor in live if nn.parameter.is_lazy(tensor)]
        if lazy:
            raise InputError(
                f"the model's tensors {_first(lazy)} have no shape yet: pass one batch through the model first."
            )
        self._layers = dict(self.module.named_modules())
        self._parameters = _named(self._layers, "_parameters")
        self._extra = [
            (name, layer)
            for name, layer in self.module.named_modules()
            if type(layer).get_extra_state is not nn.Module.get_extra_state
        ]
        # Attention biases of LeViT, merged weights of LoRA: what `train` is overridden for.
        self._caching = [layer for layer in self.module.modules() if type(layer).train is not nn.Module.train]
        # A pass may change buffers even in evaluation mode, and rescales embeddings that have a max_norm.
        self._rescaled = {
            f"{name}.weight".lstrip(".")
            for name, layer in self.module.named_modules()
            if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.max_norm is not None
        }

    @property
    def device(self) -> torch.device:
        """Where the first tensor lies."""
        for tensor in self._parameters.values():
            found: torch.device = tensor.device
            return found
        return next((buffer.device for buffer in self.module.buffers()), torch.device("cpu"))

    def capture(self) -> Snapshot:
        """The module's present state, sharing its storage."""
        tensors = {name: None if t is None else t.detach() for name, t in self._tensors().items()}
        extra = {name: copy.deepcopy(layer.get_extra_state()) for name, layer in self._extra}
        return {"tensors": tensors, "extra": extra}

    def install(self, snapshot: Snapshot) -> None:
        """Make the module compute with this state from now on, sharing its storage."""
        torch.clear_autocast_cache()  # which knows parameters by their object, not by their storage
        for name, tensor in snapshot["tensors"].items():
            owner, _, own = name.rpartition(".")
            layer = self._layers[owner]
            live = layer._parameters.get(own, layer._buffers.get(own))
            if own in layer._parameters:
                live.data = tensor.to(live.device)
            elif live is None or tensor is None or (live.dtype, live.device) != (tensor.dtype, tensor.device):
                layer._buffers[own] = tensor
            else:
                live.data = tensor
        for name, layer in self._extra:
            layer.set_extra_state(copy.deepcopy(snapshot["extra"][name]))
        for layer in self._caching:
            if not layer.training:
                layer.train()  # an own one may return nothing
                layer.eval()

    def forget(self) -> None:
        """Empty the caches of layers that keep what they compute from the weights until they are trained again."""
        for layer in self._caching:
            layer.train()

    def shielded(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot for an evaluation, which may change buffers: copies of these, the rest shared."""
        parameters = self._parameters.keys() - self._rescaled
        tensors = {
            name: tensor if tensor is None or name in parameters else tensor.clone()
            for name, tensor in snapshot["tensors"].items()
        }
        return {"tensors": tensors, "extra": snapshot["extra"]}

    def check(self, parent: Snapshot | None = None) -> None:
        """Raise an error if the parameters are other objects now; a new layer is found between generations."""
        layers = dict(self.module.named_modules())
        if parent is None:
            self._layers = layers
        now = _named(layers, "_parameters")
        replaced = [name for name, p in self._parameters.items() if now.get(name) is not p] + [
            name for name in now if name not in self._parameters
        ]
        if replaced:
            raise InputError(
                f"the model's parameters {_first(replaced)} were replaced after the Population was made: "
                "make it after changing the model (weight norm, pruning, new layers), and the optimizer too."
            )
        moved = [
            name
            for name, tensor in (parent or {"tensors": {}})["tensors"].items()
            if name in now and (now[name].device, now[name].dtype) != (tensor.device, tensor.dtype)
        ]
        if moved:
            raise InputError(
                f"the model's parameters {_first(moved)} changed their device or dtype during a generation: "
                "move or cast the model before the loop over candidates."
            )

    def _tensors(self) -> dict[str, Tensor | None]:
        """Every parameter and buffer by name, live, tied ones once."""
        return {**_named(self._layers, "_parameters"), **_named(self._layers, "_buffers")}


def _named(layers: Mapping[str, nn.Module], kind: str) -> dict[str, Any]:
    """The parameters or buffers by name, as torch names them: tied ones once. A buffer may be None."""
    found: dict[str, Any] = {}
    seen = set()
    for owner, layer in layers.items():
        for name, tensor in getattr(layer, kind).items():
            if id(tensor) in seen or (tensor is None and kind == "_parameters"):
                continue
            found[f"{owner}.{name}" if owner else name] = tensor
            if tensor is not None:
                seen.add(id(tensor))
    return found


class OptimizerState:
    """The state of one or several optimizers; their options (learning rate, decay) stay the caller's."""

    def __init__(self, optimizers: list[Optimizer], network: Network) -> None:
        self._optimizers = optimizers
        owned = {id(p) for p in network.module.parameters()}
        for optimizer in optimizers:
            if not isinstance(optimizer, Optimizer):
                raise InputError(f"optimizer must be a torch.optim.Optimizer or a list of some, got {optimizer!r:.80}.")
            foreign = [p for p in self._parameters(optimizer) if id(p) not in owned]
            if foreign:
                raise InputError(
                    f"{type(optimizer).__name__} holds {len(foreign)} parameters that the model doesn't have: make "
                    "the optimizer from this model's parameters, after compiling or wrapping it."
                )
        present = self.capture()
        # Adagrad keeps state from the start; another optimizer that has state has stepped before.
        fresh = all(float(values.get("step", 1)) == 0 for state in present for values in state.values())
        self.blank = cloned(present) if fresh else [{} for _ in optimizers]
        """The state that "reset" returns to."""

    def capture(self) -> list[dict[int, dict[str, Any]]]:
        """The present state of each optimizer by the number of the parameter, sharing its storage."""
        return [
            {
                number: dict(optimizer.state[p])
                for number, p in enumerate(self._parameters(optimizer))
                if optimizer.state.get(p)
            }
            for optimizer in self._optimizers
        ]

    def install(self, state: list[dict[int, dict[str, Any]]]) -> None:
        """Give each optimizer this state, sharing its storage."""
        for optimizer, own in zip(self._optimizers, state, strict=True):
            parameters = self._parameters(optimizer)
            optimizer.state.clear()
            for number, values in own.items():
                optimizer.state[parameters[int(number)]] = dict(values)

    def options(self) -> list[list[dict[str, Any]]]:
        """The options of each parameter group of each optimizer, and how many parameters it has."""
        return [
            [{k: len(v) if k == "params" else cloned(v) for k, v in group.items()} for group in each.param_groups]
            for each in self._optimizers
        ]

    def rates(self) -> list[float]:
        """The learning rate of each parameter group."""
        return [
            float(group["lr"])
            for each in self._optimizers
            for group in each.param_groups
            if group.get("lr") is not None
        ]

    def fit(self, options: list[list[dict[str, Any]]]) -> bool:
        """Whether options are from optimizers like these; a scheduler adds some."""
        return [[len(group["params"]) for group in each.param_groups] for each in self._optimizers] == [
            [group["params"] for group in groups] for groups in options
        ] and all(
            each.defaults.keys() <= group.keys()
            for each, groups in zip(self._optimizers, options, strict=True)
            for group in groups
        )

    def set_options(self, options: list[list[dict[str, Any]]]) -> None:
        """Set the options of each parameter group."""
        for optimizer, groups in zip(self._optimizers, options, strict=True):
            for group, values in zip(optimizer.param_groups, groups, strict=True):
                group.update({key: cloned(value) for key, value in values.items() if key != "params"})

    @staticmethod
    def _parameters(optimizer: Optimizer) -> list[Tensor]:
        return [p for group in optimizer.param_groups for p in group["params"]]


def checksum(snapshot: Snapshot, parameters: Collection[str]) -> float:
    """The sum of all parameters, which differs for parameters that differ."""
    return sum(float(_wide(snapshot["tensors"][name]).abs().sum()) for name in parameters)


def finite(snapshot: Snapshot, parent: Snapshot) -> bool:
    """Whether every tensor that is finite in the parent is finite in the snapshot too (a mask may be infinite)."""
    places = [name for name, t in snapshot["tensors"].items() if t is not None and _fractional(t)]
    tensors = [snapshot["tensors"][name] for name in places]
    # A sum is finite only if all its numbers are (or it overflows), and takes a thirtieth of isfinite's time.
    sums = [(t.sum().abs() if t.is_complex() else t.sum()).float().to(tensors[0].device) for t in tensors]
    if not sums or bool(torch.stack(sums).sum().isfinite()):
        return True
    before = [parent["tensors"].get(name) for name in places]
    return all(
        old is None or bool(new.isfinite().all()) or not bool(old.isfinite().all())
        for new, old in zip(tensors, before, strict=True)
    )


def move_to_mean(reference: Tensor, others: list[tuple[float, Tensor]]) -> None:
    """Make `reference` the weighted mean of itself and `others`, given as weight and tensor; weights sum to 1.

    Computed as reference + sum of weight x (other - reference) in double precision, so that identical tensors give
    themselves, bit for bit.
    """
    start = _wide(reference)
    shift = torch.zeros_like(start)
    for weight, other in others:
        given = _wide(other)
        # What is equal adds nothing: a mask of -inf minus itself would be NaN.
        shift.add_((given - start).masked_fill_(given == start, 0).mul_(weight))
    reference.copy_(torch.where(shift == 0, start, start + shift))


def mean_places(snapshot: Snapshot, optimizer: list[dict[int, dict[str, Any]]]) -> dict[tuple[Any, ...], Tensor]:
    """Every tensor that a mean is taken of, by its place: fractions, but not what an optimizer counts."""
    found: dict[tuple[Any, ...], Tensor] = {
        ("model", name): tensor
        for name, tensor in snapshot["tensors"].items()
        if tensor is not None and _fractional(tensor) and tensor.numel()
    }
    for place, state in enumerate(optimizer):
        for number, values in state.items():
            for key, value in values.items():
                if isinstance(value, Tensor) and key != "step" and _fractional(value) and value.numel():
                    found[("optimizer", place, number, key)] = value
    return found


def _fractional(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _wide(tensor: Tensor) -> Tensor:
    """The tensor in double precision; on the host where its device has none."""
    dtype = torch.complex128 if tensor.is_complex() else torch.float64
    return tensor.to("cpu" if tensor.device.type == "mps" else tensor.device, dtype)


def _first(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > 3 else shown
