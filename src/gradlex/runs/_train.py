"""gradlex.train: one call for a model and data of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge
from torch import nn

from gradlex._checks import check
from gradlex.callbacks import Callback, Progress, interactive
from gradlex.data import Augmentation, Output
from gradlex.engine import PopulationEngine
from gradlex.population import Step
from gradlex.recipe import Recipe
from gradlex.runs._execution import Execution, Placement
from gradlex.runs._member import launched
from gradlex.runs._problem import EngineFactory
from gradlex.runs._run import Run
from gradlex.runs._source import Given
from gradlex.runs._start import start
from gradlex.selection import Cases
from gradlex.tasks import Task


def train(
    model: nn.Module,
    data: Any,
    recipe: Recipe | None = None,
    *,
    test: Any = None,
    validation: Any = None,
    clean: Any = None,
    cases: Cases | None = None,
    test_groups: Any = None,
    augment: Augmentation | None = None,
    task: Task | str | None = None,
    output: Output | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    workers: int | Literal["auto"] = 1,
    loader_workers: int = 0,
    device: str | None = None,
    evaluate_every: int | None = None,
    checkpoint_every: int = 1,
    placement: Placement = "resident",
    callbacks: Sequence[Callback] = (),
    promotion_steps: Sequence[Step] = (),
    engine: EngineFactory = PopulationEngine,
    progress: bool | None = None,
) -> Run:
    """Train a copy of `model` by gradient lexicase selection, or another `recipe.selection`, and return the run.

    Args:
        model: Any nn.Module; it stays as it is.
        data: Training samples: (x, y) as tensors or arrays, a map-style Dataset, or a DataLoader (its dataset and
            collate function are used). x may be a tuple or dict of tensors: `model(*x)` or `model(**x)`.
            Float arrays reach the model as they are, bytes are normalized by their channel statistics.
        recipe: Every number of the run.
        test: Test samples, in the same form.
        validation: Validation samples, in the same form, evaluated every generation; `Recipe(patience=...)` and
            `Recipe(keep="best")` look at them. Or take a part of the training samples: `validation_fraction`.
        clean: A second view of a Dataset that transforms its samples, for selection.
        cases: What the training samples are as cases: Cases(groups=...) has selection look at groups of them, weights
            say which come sooner (default: a case each).
        test_groups: The group of each test sample; the primary metric of the worst group is reported beside the mean.
        augment: A function (batch, stream) -> batch, gradlex.data.crop_flip(4) for example; a transform of
            torchvision.transforms.v2; or a list of them.
        task: What is learnt: an object, or its name (default: what the targets tell).
        output: Which of the model's outputs is learnt: its name, its number, or a function of what the model returns
            (default: the tensor, its `logits`, or the first of a tuple).
        out: A run folder to write (default: nothing is written).
        resume: Continue a run that is in `out` where it stopped; start it if there is none.
        workers: Processes that train candidates at the same time. More than one needs a script with an
            `if __name__ == "__main__"` guard. They share the CPUs where the recipe leaves `threads` open; with threads
            that are named, their number changes no bit.
        loader_workers: Processes, for each worker, that read the batches of a slow Dataset ahead (default: none).
            Their number changes no bit. They read with one thread each.
        device: Any torch device (default: the accelerator if there is one).
        evaluate_every: Generations between two evaluations on the test samples (default: about 20 a run).
        checkpoint_every: Generations between two checkpoints.
        placement: "offload" keeps waiting candidates on the host where they do not all fit the device; "stacked" trains
            those of a worker together.
        callbacks: What watches the run, and may stop it.
        promotion_steps: Further steps from the chosen candidates to the next parent, after the recipe's own.
        engine: Makes what trains the candidates.
        progress: Show progress (default: in a terminal or notebook).

    Raises:
        InputError: A value was refused; nothing was written.
        RunError: The run failed after it had started; its last checkpoint is kept.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> _ = torch.manual_seed(0)
        >>> x = torch.randn(120, 8)
        >>> y = (x[:, 0] > 0).long()
        >>> recipe = gradlex.Recipe(population=2, generations=5, batch_size=8)
        >>> run = gradlex.train(torch.nn.Linear(8, 2), (x[:80], y[:80]), recipe, test=(x[80:], y[80:]))
        >>> run.test["accuracy"] > 0.7
        True
        >>> len(run.generations)
        5
    """
    check("loader_workers", Annotated[int, Ge(0)], loader_workers)
    execution = Execution(
        workers="auto"
        if workers == 1 and launched()
        else workers,  # under torchrun the default asks for nothing
        device=device,
        evaluate_every=evaluate_every,
        checkpoint_every=checkpoint_every,
        placement=placement,
        threads_per_worker=not launched(),
    )
    shown = [Progress()] if (interactive() if progress is None else progress) else []
    return start(
        Given(
            model=model,
            data=data,
            test=test,
            validation=validation,
            clean=clean,
            augment=augment,
            own_task=task,
            cases=cases,
            loader_workers=loader_workers,
            test_groups=test_groups,
            output=output,
        ),
        Recipe() if recipe is None else recipe,
        execution,
        out=out,
        resume=resume,
        callbacks=(*shown, *callbacks),
        promotion_steps=promotion_steps,
        engine=engine,
    )
