"""gradlex.soup: mix checkpoints by cases. The validation part chooses, the test part reports, and nothing does both."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import safetensors.torch
import torch
from annotated_types import Ge
from torch import Tensor, nn

from gradlex._checks import check
from gradlex._files import write_whole
from gradlex._version import __version__
from gradlex.data import Samples, as_augmentation, call, make_samples
from gradlex.engine import Worker, recalibrated, seeded
from gradlex.errors import InputError, failing_as, unknown_name
from gradlex.population import State, batches, capture, install
from gradlex.randomness import torch_seed
from gradlex.recipe import Recipe
from gradlex.runs import check_writable, find_device, takes_channels_last
from gradlex.selection import Cases, ErrorTable
from gradlex.soups._checkpoints import Checkpoint, check_alike, open_checkpoint, persistent_names
from gradlex.soups._measures import measured
from gradlex.soups._methods import METHODS, Shares
from gradlex.tasks import Classification, Task, checked_task

_BATCH = 128
ENSEMBLE = "ensemble"


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """What one method has chosen, and how good it is.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> x = torch.randn(50, 4)
        >>> good, bad = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
        >>> mixture = gradlex.soup([good, bad], (x, good(x).argmax(dim=1)), methods=["best"]).mixtures["best"]
        >>> mixture.weights, mixture.validation["accuracy"]
        ({'Linear 1': 1.0}, 1.0)
    """

    method: str
    weights: Mapping[str, float]
    """The checkpoints in the mixture, by label, with their shares above 0."""
    validation: Mapping[str, float]
    """Metrics on the cases that chose: optimistic wherever there was a choice."""
    test: Mapping[str, float] | None
    """Metrics on the test part, which chose nothing; None without one."""


@dataclass(frozen=True, kw_only=True)
class Soup:
    """The mixtures of some checkpoints, and the network of the one that was chosen on the validation part.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> x = torch.randn(50, 4)
        >>> good, bad = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
        >>> soup = gradlex.soup([good, bad], (x, good(x).argmax(dim=1)), methods=["best", "uniform"])
        >>> soup.chosen, soup.mixtures["best"].validation["accuracy"]
        ('best', 1.0)
        >>> soup.errors.shape  # (checkpoints, cases)
        (2, 50)
    """

    mixtures: Mapping[str, Mixture]
    """By method; "ensemble" is the mean of all checkpoints' outputs, a reference that costs as many networks."""
    chosen: str
    """The method whose mixture has the best primary metric on the validation part; the ensemble takes no part."""
    model: nn.Module
    """The chosen mixture, in evaluation mode."""
    labels: tuple[str, ...]
    errors: ErrorTable = field(repr=False)
    """(checkpoints, cases) of the validation part."""
    provenance: Mapping[str, Any] = field(repr=False)
    """What the metadata of the written file says."""

    def save(self, path: str | Path) -> None:
        """Write the chosen mixture as safetensors, with its provenance as metadata."""
        state = {name: tensor.cpu().contiguous() for name, tensor in persistent_names(self.model).items()}
        write_whole(
            Path(path), safetensors.torch.save(state, metadata={"gradlex": json.dumps(self.provenance)})
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: every mixture with its shares and metrics."""
        return {
            "chosen": self.chosen,
            "mixtures": {
                name: {
                    "weights": dict(mixture.weights),
                    "validation": dict(mixture.validation),
                    "test": None if mixture.test is None else dict(mixture.test),
                }
                for name, mixture in self.mixtures.items()
            },
            **self.provenance,
        }


def soup(
    checkpoints: Sequence[nn.Module | Mapping[str, Tensor] | str | Path | Checkpoint],
    validation: Any,
    *,
    model: nn.Module | None = None,
    test: Any = None,
    train: Any = None,
    task: Task | None = None,
    methods: Sequence[str] = tuple(METHODS),
    cases: Cases | None = None,
    recalibrate: int = 50,
    augment: Any = None,
    device: str | None = None,
    seed: int = 0,
    out: str | Path | None = None,
) -> Soup:
    """Find the best of several checkpoints of one network, or the best mixture, by cases of a validation part.

    Args:
        checkpoints: Networks, state dicts, or paths: safetensors, torch.save'd state dicts, run folders of gradlex,
            folders of a Trainer or of timm. Read tensor by tensor: beside the network one mixture is held at a time.
        validation: Samples that choose: (x, y), a Dataset or a DataLoader. None of the checkpoints should have been
            trained on them.
        model: The network that the checkpoints belong to (default: the first checkpoint that is a network).
        test: Samples that report; they choose nothing.
        train: Samples whose statistics batch norm gets in a mixture (default: those of `validation`).
        task: What a case's error is (default: classification).
        methods: Of best, uniform, greedy, lexicase, expected, cases.
        cases: What the cases are: groups, weights, ...; one column a validation sample.
        recalibrate: Batches that batch norm is recalibrated on in a mixture; 0: its statistics are averaged too.
        augment: How those batches are augmented, as in `gradlex.train`: give what the checkpoints were trained with.
        device: Any torch device (default: the accelerator if there is one).
        seed: Of the batches of the recalibration.
        out: A file for the chosen mixture, as safetensors with its provenance.

    Raises:
        InputError: A checkpoint cannot be read or does not fit the model, or a value was refused.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> x = torch.randn(50, 4)
        >>> y = (x[:, 0] > 0).long()
        >>> networks = [torch.nn.Linear(4, 2) for _ in range(2)]
        >>> soup = gradlex.soup(networks, (x, y), methods=["best", "uniform", "greedy"])
        >>> soup.mixtures["uniform"].weights
        {'Linear 1': 0.5, 'Linear 2': 0.5}
        >>> soup.model(x).shape
        torch.Size([50, 2])
    """
    own = (
        model if model is not None else next((one for one in checkpoints if isinstance(one, nn.Module)), None)
    )
    if own is None:
        raise InputError("the checkpoints are weights alone: give the network they belong to as model=...")
    return mix(
        [one if isinstance(one, Checkpoint) else open_checkpoint(one) for one in checkpoints],
        copy.deepcopy(own),
        validation=_samples(validation),
        test=None if test is None else _samples(test),
        train=_samples(validation if train is None else train).with_augment(
            None if augment is None else as_augmentation(augment)
        ),
        task=Classification() if task is None else checked_task(task),
        methods=methods,
        cases=cases,
        recalibrate=recalibrate,
        device=device,
        seed=seed,
        out=out,
    )


def mix(
    checkpoints: Sequence[Checkpoint],
    model: nn.Module,
    *,
    validation: Samples,
    test: Samples | None,
    train: Samples,
    task: Task,
    methods: Sequence[str],
    cases: Cases | None,
    recalibrate: int,
    device: str | None,
    seed: int,
    out: str | Path | None,
) -> Soup:
    """`soup` on samples and opened checkpoints; the model becomes the chosen mixture."""
    check("recalibrate", Annotated[int, Ge(0)], recalibrate)
    for method in methods:
        if method not in METHODS:
            raise unknown_name("method", str(method), METHODS)
    if len(checkpoints) < 2 or not methods:
        raise InputError(
            f"a soup needs at least two checkpoints and a method, got {len(checkpoints)} and {len(methods)}."
        )
    if out is not None:
        check_writable(Path(out).absolute().parent)
    check_alike(checkpoints, model)
    kitchen = _Kitchen(
        model,
        _labelled(checkpoints),
        task=task,
        validation=validation,
        test=test,
        train=train,
        recipe=Recipe(batch_size=_BATCH, seed=seed, threads=torch.get_num_threads(), precision="float32"),
        device=find_device(device),
        recalibrate=recalibrate,
    )
    made = kitchen.cook(methods, cases)
    if out is not None:
        made.save(out)
    return made


class _Kitchen:
    """One network that every checkpoint and mixture is swapped into, and the samples it is evaluated on."""

    def __init__(
        self,
        model: nn.Module,
        checkpoints: list[Checkpoint],
        *,
        task: Task,
        validation: Samples,
        test: Samples | None,
        train: Samples,
        recipe: Recipe,
        device: torch.device,
        recalibrate: int,
    ) -> None:
        self._checkpoints, self._recalibrate, self._task = checkpoints, recalibrate, task
        parts = [part.to(device) for part in (validation, train, *([test] if test else []))]
        if not takes_channels_last(model.to(device), parts[0].clean(np.arange(1))[0]):
            parts = [part.contiguous() for part in parts]
        self._validation, self._train = parts[0], parts[1]
        self._test = parts[2] if test is not None else None
        self._worker = Worker(model, self._train, task, recipe, device)
        kept = persistent_names(self._worker.model)
        # What no checkpoint holds; weights are not kept, so that there are never more than two copies of them.
        self._other = {name: t.clone() for name, t in capture(self._worker.model).items() if name not in kept}

    def cook(self, methods: Sequence[str], cases: Cases | None) -> Soup:
        """Evaluate the checkpoints, let each method choose, evaluate what it chose."""
        everyone = range(len(self._checkpoints))
        singles = [self._evaluated(_one(self._checkpoints, place)) for place in everyone]
        errors = np.stack([each.errors for each in singles])
        if cases is not None:
            cases = cases.subset_by(lambda: errors)
            cases.resolve(errors.shape[1])  # refused before anything is mixed
        known = {tuple(_one(self._checkpoints, place)): each.errors for place, each in enumerate(singles)}

        def tried(shares: Shares) -> npt.NDArray[np.float64]:
            """A mixture's errors on the validation part, all that a method sees of it."""
            if tuple(shares) not in known:
                known[tuple(shares)] = self._errors(self._outputs(self._state(shares), self._validation))
            return known[tuple(shares)]

        shares = {method: METHODS[method](errors, tried, cases) for method in methods}
        final = {tuple(_one(self._checkpoints, place)): each for place, each in enumerate(singles)}
        for own in shares.values():
            if tuple(own) not in final:
                final[tuple(own)] = self._evaluated(own)
        mixtures = {method: self._mixture(method, own, final[tuple(own)]) for method, own in shares.items()}
        alike = np.full(len(singles), 1 / len(singles))
        mixtures[ENSEMBLE] = self._mixture(
            ENSEMBLE, alike, self._judged(_mean([each.outputs for each in singles]))
        )
        measure = self._task.measures[0]
        sign = 1 if measure.higher_is_better else -1
        chosen = max(methods, key=lambda method: sign * mixtures[method].validation[measure.name])
        install(self._worker.model, self._state(shares[chosen]))
        return Soup(
            mixtures=mixtures,
            chosen=chosen,
            model=self._worker.model.eval(),
            labels=tuple(each.label for each in self._checkpoints),
            errors=errors,
            provenance=self._provenance(chosen, mixtures[chosen]),
        )

    def _state(self, shares: Shares) -> State:
        """The mixture, tensor by tensor; batch norm recalibrated where it is one of several checkpoints."""
        used = np.flatnonzero(shares)
        state = dict(self._other)
        for name, own in persistent_names(self._worker.model).items():
            first = self._checkpoints[int(used[shares[used].argmax()])].read(name)
            if len(used) > 1 and (first.is_floating_point() or first.is_complex()):
                wide = torch.zeros(
                    first.shape, dtype=torch.complex128 if first.is_complex() else torch.float64
                )
                for place in used.tolist():
                    wide.add_(self._checkpoints[place].read(name).to(wide.dtype), alpha=float(shares[place]))
                first = wide
            like = torch.empty_like(own)  # in the memory format that the network computes in
            state[name] = like.copy_(first)
        if len(used) > 1 and self._recalibrate:
            return recalibrated(self._worker, state, self._recalibrate, 0)
        return state

    def _evaluated(self, shares: Shares) -> _Evaluated:
        state = self._state(shares)
        parts = [part for part in (self._validation, self._test) if part is not None]
        return self._judged([self._outputs(state, part) for part in parts])

    def _outputs(self, state: State, samples: Samples) -> tuple[Tensor, Tensor]:
        """The network's outputs for all samples and their targets, on the host."""
        worker = self._worker
        seed = torch_seed(worker.recipe.seed, "evaluation")
        found: list[tuple[Tensor, Tensor]] = []
        with failing_as("the evaluation of a mixture"), seeded(seed, worker.device), torch.no_grad():
            install(worker.model, state)
            worker.model.eval()
            for indices in _batches(len(samples)):
                inputs, targets = samples.clean(indices)
                found.append((call(worker.model, inputs).float().cpu(), targets.cpu()))
        return torch.cat([outputs for outputs, _ in found]), torch.cat([targets for _, targets in found])

    def _errors(self, outputs: tuple[Tensor, Tensor]) -> npt.NDArray[np.float64]:
        found = self._task.errors(*outputs).double().numpy()
        return np.where(np.isfinite(found), found, np.inf)

    def _judged(self, outputs: list[tuple[Tensor, Tensor]]) -> _Evaluated:
        return _Evaluated(
            outputs=outputs,
            errors=self._errors(outputs[0]),
            metrics=[measured(self._task, *part) for part in outputs],
        )

    def _mixture(self, method: str, shares: Shares, found: _Evaluated) -> Mixture:
        return Mixture(
            method=method,
            weights={
                each.label: float(share)
                for each, share in zip(self._checkpoints, shares, strict=True)
                if share > 0
            },
            validation=found.metrics[0],
            test=found.metrics[1] if self._test is not None else None,
        )

    def _provenance(self, chosen: str, mixture: Mixture) -> dict[str, Any]:
        return {
            "gradlex": __version__,
            "method": chosen,
            "weights": dict(mixture.weights),
            "checkpoints": {each.label: dict(each.provenance) for each in self._checkpoints},
            "chosen_on": f"{len(self._validation)} validation samples",
            "reported_on": None if self._test is None else f"{len(self._test)} test samples",
            "batch_norm": f"recalibrated on up to {self._recalibrate} batches"
            if self._recalibrate
            else "averaged",
        }


@dataclass(frozen=True, kw_only=True)
class _Evaluated:
    """A network on the validation part, and on the test part if there is one."""

    outputs: list[tuple[Tensor, Tensor]]
    errors: npt.NDArray[np.float64]
    metrics: list[dict[str, float]]


def _mean(parts: list[list[tuple[Tensor, Tensor]]]) -> list[tuple[Tensor, Tensor]]:
    """The mean of the checkpoints' outputs, for each part."""
    return [
        (torch.stack([outputs for outputs, _ in part]).mean(dim=0), part[0][1])
        for part in zip(*parts, strict=True)
    ]


def _one(checkpoints: Sequence[Checkpoint], place: int) -> Shares:
    return np.asarray(np.eye(len(checkpoints))[place])


def _batches(count: int) -> Iterator[npt.NDArray[np.intp]]:
    yield from batches(np.arange(count), _BATCH)


def _samples(given: Any) -> Samples:
    return make_samples(given)[0] if not hasattr(given, "clean") else given


def _labelled(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Each with a label of its own: those that share a name get its number, or its path."""
    labels = [each.label for each in checkpoints]
    if len(set(labels)) == len(labels):
        return list(checkpoints)
    paths = [str(each.provenance.get("path", "")) for each in checkpoints]
    unlike = len(set(paths)) == len(paths)
    return [
        Checkpoint(
            label=paths[place] if unlike else f"{each.label} {place + 1}",
            shapes=each.shapes,
            read=each.read,
            provenance=each.provenance,
        )
        for place, each in enumerate(checkpoints)
    ]
