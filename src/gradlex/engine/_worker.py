"""Worker: one process's network and data; trains one candidate at a time and evaluates candidates on cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from gradlex.data import Mixed, Output, Samples, call, parse_augment
from gradlex.engine._context import autocast, reseed, seeded, settings
from gradlex.engine._data_parallel import DataParallel
from gradlex.engine._folding import Folding
from gradlex.errors import failing_as
from gradlex.population import (
    Batch,
    OptimizerState,
    Parent,
    Setting,
    State,
    all_finite,
    batches,
    capture,
    changing,
    channels_last,
    copy,
    export_state,
    import_state,
    install,
    installer,
    make_optimizer,
    moved,
    same_buffers,
    settings_of,
    shielded,
    sketch,
    subgd,
)
from gradlex.randomness import stream, torch_seed
from gradlex.recipe import Recipe
from gradlex.selection import Indices
from gradlex.tasks import Task

# A fixed number: a network's last bits depend on its batch. On a CPU 64 to 128 images of 32 x 32 are computed
# fastest (resnet20 in float32: a fifth faster than 256), since one layer's maps then stay in its cache.
EVALUATION_BATCH = 128

_WITHOUT_AUTOCAST = ". It was computed in bfloat16; to do without: precision float32"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A trained copy of the parent."""

    state: State
    optimizer: OptimizerState | None
    loss: float | None
    """Mean training loss over its subset; None where the loss or a weight is not finite."""
    sketch: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    """Of how its weights moved from the parent's."""


class Worker:
    """The model is one module that every candidate is swapped into; its own weights are the first parent's.

    `parallel` is the group of processes that shares this worker's candidate. With `offload`, candidates wait on
    the host and only the one that is computed lies on the device; with `stacked` they are trained together. `watch` is
    called before every batch and may raise, when another process has died for example. `output` says which of the
    model's outputs is learnt.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> recipe = gradlex.Recipe(population=2, momentum="reset", generations=1, batch_size=8, threads=1)
        >>> samples = gradlex.data.ArraySamples(torch.randn(32, 4), torch.arange(32) % 2)
        >>> task = gradlex.tasks.Classification(classes=2)
        >>> worker = gradlex.engine.Worker(torch.nn.Linear(4, 2), samples, task, recipe, torch.device("cpu"))
        >>> parent = worker.first_parent()
        >>> sorted(parent.state)
        ['bias', 'weight']
        >>> sorted(worker.evaluate(parent.state, samples))
        ['accuracy', 'balanced_accuracy', 'loss', 'worst_class_accuracy']
    """

    def __init__(
        self,
        model: nn.Module,
        samples: Samples,
        task: Task,
        recipe: Recipe,
        device: torch.device,
        *,
        cases: Samples | None = None,
        parallel: DataParallel | None = None,
        offload: bool = False,
        stacked: bool = False,
        watch: Callable[[], None] | None = None,
        output: Output | None = None,
    ) -> None:
        model = model.to(device)
        self.model = channels_last(model) if samples.channels_last else model
        # A layer that was put into evaluation mode stays there: it is frozen. A network all of which is in evaluation
        # mode has only been evaluated before, and is trained.
        modes = {name: layer.training for name, layer in model.named_modules()}
        self._resting = {name for name, training in modes.items() if any(modes.values()) and not training}
        self.samples, self.task, self.recipe, self.device = samples, task, recipe, device
        self.cases = samples if cases is None else cases
        self.parallel, self._watch = parallel, watch or (lambda: None)
        self.output, self.call = output, partial(call, output=output)
        self._home = torch.device("cpu") if offload else device
        self._together, self.stacked = not offload, stacked
        self._folding = (
            Folding(self.model) if recipe.fold_norm else None
        )  # before layers hold a process group
        self._trained: Callable[..., Any] = parallel.wrap(self.model) if parallel else self.model
        self._answerer = self._folding.module if self._folding else self.model
        self._asked: Callable[..., Any] = self._answerer
        if recipe.compile:
            options: dict[str, Any] = dict(recipe.compile_options)
            self._trained = torch.compile(self._trained, **options)
            self._asked = torch.compile(self._answerer, **options)

    def first_parent(self) -> Parent:
        """The model as it was given, as the parent of generation 0."""
        return Parent(generation=0, state=copy(capture(self.model)))

    def put(self, state: State) -> None:
        """Have the model compute with this state, which lies on its device: by reference, not copied."""
        self._installer(self.model)(state)

    def _installer(self, module: nn.Module) -> Callable[[State], None]:
        # A graph that was recorded on the device replays with the addresses it has seen: there values are copied.
        return installer(module, copies=self.recipe.replays_graphs)

    def train(self, parent: Parent, index: int, subset: Indices, lr: float) -> Candidate:
        """SubGD: candidate `index` of the parent's generation, on its subset."""
        recipe, generation = self.recipe, parent.generation
        cure = _WITHOUT_AUTOCAST if recipe.precision == "bfloat16" else ""
        with failing_as(f"candidate {index} of generation {generation}", cure=cure):
            self.put(moved(copy(parent.state), self.device))
            momentum, setting = recipe.momentum_at(generation), settings_of(recipe, parent)[index]
            own = (
                recipe if setting.weight_decay is None else recipe.replace(weight_decay=setting.weight_decay)
            )
            optimizer = make_optimizer(own, self.model, lr * setting.lr, self.device.type, momentum)
            if parent.optimizer is not None and momentum == "inherit":
                import_state(optimizer, self.model, parent.optimizer)
            self.training_mode()
            with settings(recipe), seeded(self._dropout_seed(generation, index), self.device):
                augmented = self.augmented(subset, generation, index, setting)
                loss = subgd(
                    partial(self.call, self._trained),
                    optimizer,
                    augmented,
                    self.loss,
                    autocast(recipe, self.device),
                    accumulate=recipe.accumulate,
                    clip=self._clip if recipe.clip_norm is not None else None,
                )
                if self.parallel is not None:
                    loss = self.parallel.agree(self.model, loss)
                finite = all_finite(self.model, loss)
                moved_by = sketch(capture(self.model), parent.state, self.trainable)
        return Candidate(
            state=moved(self._captured(), self._home),
            optimizer=export_state(optimizer, self.model, self._home)
            if recipe.momentum_at(generation + 1) == "inherit"
            else None,
            loss=float(loss) if finite else None,
            sketch=moved_by,
        )

    def _captured(self) -> State:
        """The model's state for whoever keeps it: the model may be given another one after this."""
        state = capture(self.model)
        return copy(state) if self.recipe.replays_graphs else state

    @property
    def trainable(self) -> list[str]:
        """The names of the parameters that are trained."""
        return [name for name, parameter in self.model.named_parameters() if parameter.requires_grad]

    def training_mode(self) -> None:
        """Have the model as it is to be trained: all of it in training mode but what came in evaluation mode."""
        self.model.train()
        for name, layer in self.model.named_modules():
            if name in self._resting:
                layer.training = False

    def errors(self, states: Sequence[State], cases: Indices, generation: int = 0) -> npt.NDArray[np.float32]:
        """The (states, cases) errors, in one copy from the device; augmented cases are those of a generation.

        In a data-parallel group each process computes its part of the cases and leaves the others zero.
        """
        if self.parallel is not None:
            part = self.parallel.cases(cases)
            table = np.zeros((len(states), len(cases)), dtype=np.float32)
            if part.start < part.stop:
                table[:, part] = self._errors(states, cases[part], generation)
            return table
        return self._errors(states, cases, generation)

    def finished(self, state: State) -> nn.Module:
        """The network with this state, an ordinary module in evaluation mode; nothing is trained afterwards."""
        if self.parallel is not None:
            self.parallel.unwrap(self.model)
        install(self.model, moved(state, self.device))
        return self.model.eval()

    def snapshot(self, state: State) -> nn.Module:
        """A network of its own with this state, in evaluation mode; the worker keeps its own."""
        shared = {} if self.parallel is None else self.parallel.memo  # a process group cannot be copied
        twin = deepcopy(self.model, shared)
        if self.parallel is not None:
            self.parallel.unwrap(twin)
        install(twin, copy(moved(state, self.device)))
        return twin.eval()

    def evaluate(
        self, state: State, samples: Samples, watch: Callable[[Any, Any], None] | None = None
    ) -> dict[str, float]:
        """The task's metrics on clean samples, in full precision: the way the returned model computes.

        `watch` is shown the outputs and targets of every batch.
        """
        seed = torch_seed(self.recipe.seed, "evaluation")
        with (
            failing_as("the evaluation"),
            settings(self.recipe),
            seeded(seed, self.device),
            torch.no_grad(),
            self._asking([state]) as (own,),
        ):
            self.put(own)
            clean = self._clean(samples, np.arange(len(samples)))
            answers = ((self.call(self.model, inputs), targets) for inputs, targets in clean)
            return self.task.metrics(answers if watch is None else _watched(answers, watch))

    def _errors(self, states: Sequence[State], cases: Indices, generation: int) -> npt.NDArray[np.float32]:
        # A batch is prepared once for all candidates that lie on the device; those on the host come one by one.
        groups = [states] if self._together else [[state] for state in states]
        with (
            settings(self.recipe),
            seeded(0, self.device),
            # Not inference_mode: what a network keeps for itself in a pass must be of use in training too.
            torch.no_grad(),
            autocast(self.recipe, self.device, swaps=True),
        ):
            table = torch.cat([self._together_errors(group, cases, generation) for group in groups])
        found = table.float().cpu().numpy()
        return np.where(np.isfinite(found), found, np.float32(np.inf))

    def _together_errors(self, states: Sequence[State], cases: Indices, generation: int) -> Tensor:
        table = torch.empty(len(states), len(cases), device=self.device)
        done = 0
        with self._asking(states) as own:
            folded = self._folding.state if self._folding else lambda state: state
            put = self._installer(self._answerer)
            for inputs, targets in self._cases(cases, generation):
                seed = torch_seed(self.recipe.seed, "evaluation", index=int(cases[done]))
                size = min(EVALUATION_BATCH, len(cases) - done)
                for row, state in zip(table, own, strict=True):
                    # A hundredth of a pass; all of them folded at once would double the weights.
                    put(folded(state))
                    reseed(seed, self.device)  # who is random even now is so alike for all candidates
                    row[done : done + size] = self.task.errors(self.call(self._asked, inputs), targets)
                done += size
        return table

    @contextmanager
    def _asking(self, states: Sequence[State]) -> Iterator[list[State]]:
        """The states to ask, in evaluation mode: asking changes neither them nor the module, whatever it does."""
        self.model.eval()
        names = changing(self.model)
        own = [shielded(moved(state, self.device), names) for state in states]
        with same_buffers(self.model):
            yield own

    def augmented(self, subset: Indices, generation: int, index: int, setting: Setting) -> Iterator[Batch]:
        """A candidate's training batches, augmented by its own stream."""
        rng = stream(self.recipe.seed, "augmentation", generation, index)
        samples = self.samples
        if setting.augment is not None:
            samples = samples.with_augment(parse_augment(setting.augment))
        numbers = list(batches(subset, self.recipe.require("batch_size")))
        drawn = samples.augmented_batches(numbers, [rng] * len(numbers))
        for indices, (inputs, targets) in zip(numbers, drawn, strict=True):
            self._watch()
            size = len(indices)
            yield (
                self.parallel.part(inputs, targets, size) if self.parallel else Batch(inputs, targets, size)
            )

    def _cases(self, cases: Indices, generation: int) -> Iterator[tuple[Any, Any]]:
        """Batches of cases: clean, or augmented alike for all candidates."""
        if self.recipe.cases != "augmented":
            yield from self._clean(self.cases, cases)
            return
        numbers = _evaluated(cases)
        rngs = [stream(self.recipe.seed, "case_augmentation", generation, int(batch[0])) for batch in numbers]
        for batch in self.cases.augmented_batches(numbers, rngs):
            self._watch()
            yield batch

    def _clean(self, samples: Samples, indices: Indices) -> Iterator[tuple[Any, Any]]:
        for batch in samples.clean_batches(_evaluated(indices)):
            self._watch()
            yield batch

    def loss(self, outputs: Any, targets: Any) -> Tensor:
        """The task's, also of mixed targets."""
        if isinstance(targets, Mixed):
            return targets.loss(self.task.loss, outputs)
        return self.task.loss(outputs, targets)

    def _clip(self) -> None:
        assert self.recipe.clip_norm is not None
        nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm)

    def _dropout_seed(self, generation: int, index: int) -> int:
        """A stream for each candidate, and for each process of a data-parallel group."""
        member = self.parallel.rank if self.parallel else 0
        place = index + member * self.recipe.require("population")
        return torch_seed(self.recipe.seed, "dropout", generation, place)


def _evaluated(indices: Indices) -> list[Indices]:
    """The batches in which these are evaluated."""
    return [indices[start : start + EVALUATION_BATCH] for start in range(0, len(indices), EVALUATION_BATCH)]


def _watched(
    batches: Iterator[tuple[Any, Any]], watch: Callable[[Any, Any], None]
) -> Iterator[tuple[Any, Any]]:
    for outputs, targets in batches:
        watch(outputs, targets)
        yield outputs, targets
