"""Worker: one process's network and data; trains one candidate at a time and asks candidates about cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from gradlex.data import Samples
from gradlex.engine._context import autocast, reseed, seeded, settings
from gradlex.engine._data_parallel import DataParallel
from gradlex.engine._told import told
from gradlex.population import (
    Batch,
    OptimizerState,
    Parent,
    State,
    all_finite,
    batches,
    capture,
    channels_last,
    copy,
    export_state,
    import_state,
    install,
    make_optimizer,
    moved,
    same_buffers,
    shielded,
    subgd,
)
from gradlex.randomness import stream, torch_seed
from gradlex.recipe import Recipe
from gradlex.selection import Indices
from gradlex.tasks import Task

# A fixed number: a network's last bits depend on its batch. On a processor 64 to 128 pictures of 32 x 32 are asked
# fastest (resnet20 in float32: a fifth faster than 256), since one layer's maps then stay in its cache.
EVALUATION_BATCH = 128


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A trained copy of the parent."""

    state: State
    optimizer: OptimizerState | None
    loss: float | None
    """Mean training loss over its subset; None where the loss or a weight is not finite."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How a network does on a set of samples."""

    accuracy: float
    loss: float


class Worker:
    """The model is one module that every candidate is swapped into; its own weights are the first parent's.

    `parallel` is the group of processes that shares this worker's candidate. With `offload`, candidates wait on
    the host and only the one that is computed lies on the device. `watch` is called before every batch and may
    raise, when another process has died for example.
    """

    def __init__(
        self,
        model: nn.Module,
        samples: Samples,
        task: Task,
        recipe: Recipe,
        device: torch.device,
        *,
        parallel: DataParallel | None = None,
        offload: bool = False,
        watch: Callable[[], None] | None = None,
    ) -> None:
        model = model.to(device)
        self.model = channels_last(model) if samples.channels_last else model
        # What was put into evaluation mode in a network that is to be trained stays there: it is frozen.
        self._resting = {
            name for name, layer in model.named_modules() if model.training and not layer.training
        }
        self.samples, self.task, self.recipe, self.device = samples, task, recipe, device
        self.parallel, self._watch = parallel, watch or (lambda: None)
        self._home = torch.device("cpu") if offload else device
        self._together = not offload
        self._trained: Callable[[Tensor], Tensor] = (
            parallel.wrap(self.model, leaves_out=self._leaves_out()) if parallel else self.model
        )
        self._asked: Callable[[Tensor], Tensor] = self.model
        if recipe.compile:
            self._trained, self._asked = torch.compile(self._trained), torch.compile(self.model)

    def first_parent(self) -> Parent:
        """The model as it was given, as the parent of generation 0."""
        return Parent(generation=0, state=copy(capture(self.model)))

    def train(self, parent: Parent, index: int, subset: Indices, lr: float) -> Candidate:
        """SubGD: candidate `index` of the parent's generation, on its subset."""
        recipe, generation = self.recipe, parent.generation
        bfloat16 = recipe.precision == "bfloat16"
        with told(f"candidate {index} of generation {generation}", bfloat16=bfloat16):
            install(self.model, moved(copy(parent.state), self.device))
            optimizer = make_optimizer(recipe, self.model, lr, self.device.type)
            if parent.optimizer is not None:
                import_state(optimizer, self.model, parent.optimizer)
            self.training_mode()
            with settings(recipe), seeded(self._dropout_seed(generation, index), self.device):
                augmented = self._augmented(subset, generation, index)
                loss = subgd(
                    self._trained, optimizer, augmented, self.task.loss, autocast(recipe, self.device)
                )
                if self.parallel is not None:
                    loss = self.parallel.agree(self.model, loss)
                finite = all_finite(self.model, loss)
        return Candidate(
            state=moved(capture(self.model), self._home),
            optimizer=export_state(optimizer, self.model, self._home)
            if recipe.momentum == "inherit"
            else None,
            loss=float(loss) if finite else None,
        )

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

    def errors(self, states: Sequence[State], cases: Indices) -> npt.NDArray[np.float32]:
        """The (states, cases) errors on clean samples, in one copy from the device.

        In a data-parallel group each process computes its part of the cases and leaves the others zero.
        """
        if self.parallel is not None:
            part = self.parallel.cases(cases)
            table = np.zeros((len(states), len(cases)), dtype=np.float32)
            if part.start < part.stop:
                table[:, part] = self._errors(states, cases[part])
            return table
        return self._errors(states, cases)

    def finished(self, state: State) -> nn.Module:
        """The network with this state, an ordinary module in evaluation mode; nothing is trained afterwards."""
        if self.parallel is not None:
            self.parallel.unwrap(self.model)
        install(self.model, state)
        return self.model.eval()

    def evaluate(self, state: State, samples: Samples) -> Evaluation:
        """Accuracy and mean loss on clean samples, in full precision: the way the returned model computes."""
        seed = torch_seed(self.recipe.seed, "evaluation")
        with (
            told("the evaluation"),
            settings(self.recipe),
            seeded(seed, self.device),
            torch.no_grad(),
            self._asking([state]) as (own,),
        ):
            install(self.model, own)
            # One table for all batches: small tensors kept between a loop's large ones let the heap grow.
            scores = torch.empty(-(-len(samples) // EVALUATION_BATCH), 2, device=self.device)
            clean = self._clean(samples, np.arange(len(samples)))
            for row, (inputs, targets) in zip(scores, clean, strict=True):
                row[0], row[1] = self.task.score(self.model(inputs), targets)
        accuracy, loss = (scores.cpu().double().sum(dim=0) / len(samples)).tolist()
        return Evaluation(accuracy=accuracy, loss=loss)

    def _leaves_out(self) -> bool:
        """Whether training does without some trainable parameter, found by showing the model two samples."""
        before = capture(self.model)
        install(self.model, copy(before))  # local workers have the model in memory that they share
        trainable = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.training_mode()
        with told("the first batch"), settings(self.recipe), seeded(0, self.device):
            inputs, targets = self.samples.clean(np.arange(2))
            loss = self.task.loss(self.model(inputs), targets)
            gradients = torch.autograd.grad(loss, trainable, allow_unused=True)
        install(self.model, before)
        return any(gradient is None for gradient in gradients)

    def _errors(self, states: Sequence[State], cases: Indices) -> npt.NDArray[np.float32]:
        # A batch is prepared once for all candidates that lie on the device; those on the host come one by one.
        groups = [states] if self._together else [[state] for state in states]
        with (
            settings(self.recipe),
            seeded(0, self.device),
            # Not inference_mode: what a network keeps for itself in a pass must be of use in training too.
            torch.no_grad(),
            autocast(self.recipe, self.device, swaps=True),
        ):
            table = torch.cat([self._asked_together(group, cases) for group in groups]).float().cpu().numpy()
        return np.where(np.isfinite(table), table, np.float32(np.inf))

    def _asked_together(self, states: Sequence[State], cases: Indices) -> Tensor:
        table = torch.empty(len(states), len(cases), device=self.device)
        done = 0
        with self._asking(states) as present:
            for inputs, targets in self._clean(self.samples, cases):
                seed = torch_seed(self.recipe.seed, "evaluation", index=int(cases[done]))
                for row, state in zip(table, present, strict=True):
                    install(self.model, state)
                    reseed(seed, self.device)  # who is random even now is so alike for all candidates
                    row[done : done + len(targets)] = self.task.errors(self._asked(inputs), targets)
                done += len(targets)
        return table

    @contextmanager
    def _asking(self, states: Sequence[State]) -> Iterator[list[State]]:
        """The states to ask, in evaluation mode: asking changes neither them nor the module, whatever it does."""
        self.model.eval()
        own = [shielded(moved(state, self.device), self.model) for state in states]
        with same_buffers(self.model):
            yield own

    def _augmented(self, subset: Indices, generation: int, index: int) -> Iterator[Batch]:
        rng = stream(self.recipe.seed, "augmentation", generation, index)
        for indices in batches(subset, self.recipe.require("batch_size")):
            self._watch()
            inputs, targets = self.samples.augmented(indices, rng)
            yield (
                self.parallel.part(inputs, targets) if self.parallel else Batch(inputs, targets, len(targets))
            )

    def _clean(self, samples: Samples, indices: Indices) -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, len(indices), EVALUATION_BATCH):
            self._watch()
            yield samples.clean(indices[start : start + EVALUATION_BATCH])

    def _dropout_seed(self, generation: int, index: int) -> int:
        """A stream for each candidate, and for each process of a data-parallel group."""
        member = self.parallel.rank if self.parallel else 0
        place = index + member * self.recipe.require("population")
        return torch_seed(self.recipe.seed, "dropout", generation, place)
