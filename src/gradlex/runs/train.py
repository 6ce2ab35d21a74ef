"""The front door: from a model, data and a recipe to a finished run, through `Population` and `evolve`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gradlex._checks import Count, check
from gradlex.callbacks import Callback, Progress
from gradlex.callbacks.progress import interactive
from gradlex.errors import InputError
from gradlex.population.team import find_team
from gradlex.recipe import GIVEN, Recipe
from gradlex.runs.devices import count_threads, find_device, gains_from_threads
from gradlex.runs.folder import CHECKPOINT, Described, RunFolder
from gradlex.runs.interrupts import Interrupts
from gradlex.runs.problem import Given, make_problem
from gradlex.runs.run import Run, load
from gradlex.runs.session import Session
from gradlex.runs.surroundings import surroundings


def train(
    model: nn.Module | str | None = None,
    data: Any = None,
    recipe: Recipe | None = None,
    *,
    test: Any = None,
    validation: Any = None,
    clean: Any = None,
    groups: Any = None,
    augment: Any = None,
    task: Any = None,
    out: Path | str | None = None,
    resume: bool = False,
    device: str | torch.device | None = None,
    threads: int | str = "auto",
    evaluate_every: int | None = None,
    checkpoint_every: int = 1,
    compile: bool = False,  # torch's word
    deterministic: bool = False,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    data_dir: Path | str | None = None,
    **fields: Any,
) -> Run:
    """Train a model by gradient lexicase selection, or by another method that the recipe names.

    Args:
        model: A module, which is copied; or a name, as in the recipe. None: the recipe's.
        data: The training part as (x, y), a Dataset or a DataLoader; or a name or path, as in the recipe. None: the
            recipe's.
        recipe: The settings that decide the outcome. Its fields can be given as keywords instead, or beside it.
        test: The test part, which is used only for reporting.
        validation: The validation part, which decides when to stop with `patience`.
        clean: The training part without random transforms, if `data` is a Dataset that has some: selection looks at it.
        groups: The group of each training sample, if a group is a case of selection, such as all images of a patient.
        augment: A function `(batch, rng) -> batch` for training batches; or text, as in the recipe.
        task: A task, or a loss such as `nn.CrossEntropyLoss()`; or text, as in the recipe.
        out: The run folder (default: nothing is written). With it, the first Ctrl-C or SIGTERM ends the run after the
            current generation, as InterruptedRun.
        resume: Continue the run in `out`, if there is one; the result is bit-identical to an uninterrupted run.
        device: cpu, cuda, cuda:1, mps, ... (default: the accelerator if there is one).
        threads: CPU threads (auto: `torch.get_num_threads()`; 1 for a small network or in a worker process).
        evaluate_every: Generations between two evaluations on the test part (default: about 20 a run).
        checkpoint_every: Generations between two checkpoints.
        compile: Compile the network with `torch.compile`.
        deterministic: Use deterministic algorithms, which makes runs on CUDA repeatable, and slower.
        callbacks: What watches the run; see `gradlex.Callback`.
        progress: Print each generation (default: in a terminal or a notebook).
        data_dir: Where downloaded datasets are kept (default: the user's cache folder).
        **fields: Fields of the recipe.

    The caller's random state, threads and other settings of the process stay as they were, and don't reach the run.
    Threads of one process take turns. Under torchrun the candidates are shared out among the processes.

    Examples:
        >>> import torch
        >>> import gradlex
        >>> x = torch.randn(100, 8, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] > 0).long()
        >>> run = gradlex.train(torch.nn.Linear(8, 2), (x[:80], y[:80]), test=(x[80:], y[80:]), epochs=5, batch_size=4)
        >>> run.metrics["test"]["accuracy"] > 0.7
        True
        >>> len(run.history)
        5
    """
    parts = {"test": test, "validation": validation, "clean": clean}
    given = Given.of(model, data, recipe, fields, groups=groups, augment=augment, task=task, **parts)
    check("evaluate_every", Count | None, evaluate_every)
    check("checkpoint_every", Count, checkpoint_every)
    found, folder = find_device(device), None if out is None else RunFolder(out)
    team = find_team(nn.Identity())
    leads = team.rank == 0
    described, finished, fresh = team.from_leader(
        _state(folder, resume=resume) if folder is not None and leads else (None, False, True)
    )
    if described is not None and threads == "auto":
        threads = described.environment.get("threads", "auto")
    with ExitStack() as stack:
        stack.enter_context(surroundings(device=found, threads=count_threads(threads), deterministic=deterministic))
        problem = make_problem(given, described, device=found, data_dir=data_dir, fresh=fresh)
        batch = problem.recipe.batch_size or 1
        if threads == "auto" and not gains_from_threads(problem.model, problem.parts.sample_shape, batch):
            torch.set_num_threads(1)
        if folder is not None and finished:
            return load(folder.path, given.model, task=problem.task, device=found)
        interrupts = stack.enter_context(Interrupts(handle=folder is not None))
        epochs = problem.recipe.epochs or 0
        session = Session(
            problem,
            folder,
            compiled=compile,
            interrupts=interrupts,
            callbacks=[
                *([Progress()] if (interactive() if progress is None else progress) else []),
                *callbacks,
            ],
            evaluate_every=evaluate_every or max(1, epochs // 20),
            checkpoint_every=checkpoint_every,
        )
        if folder is not None and leads:
            stack.enter_context(folder.locked())
            if described is None:
                folder.check_free()  # another process may have started a run since
        if described is None:
            session.start()
        else:
            session.restore()
        return session.run()


def _state(folder: RunFolder, *, resume: bool) -> tuple[Described | None, bool, bool]:
    """The description of the run to continue, whether it is finished, and whether it has no checkpoint yet."""
    if resume and folder.holds_run:
        return folder.description(), folder.finished, not (folder.path / CHECKPOINT).exists()
    folder.check_free()
    return None, False, True


def resume(path: Path | str, model: Any = None, data: Any = None, **options: Any) -> Run:
    """Continue an interrupted run bit for bit, or load a finished one.

    Args:
        path: The run folder.
        model: The module and the data, if the run was started with objects from Python.
        data: As `model`.
        **options: Other keywords of `gradlex.train`; device and threads are the run's own unless given.

    Examples:
        >>> import gradlex
        >>> run = gradlex.resume("runs/mine")  # doctest: +SKIP
    """
    described = RunFolder(path).description()
    stored = Recipe(**described.recipe)
    for name, field, value in (("model", "model", model), ("data", "dataset", data)):
        if getattr(stored, field) == GIVEN and value is None:
            raise InputError(
                f"this run was started with {name} from Python, which isn't stored: give it again, as in "
                f"gradlex.resume({str(path)!r}, model, data)."
            )
    device = str(described.environment.get("device", "cpu")).partition(":")[0]
    return train(model, data, stored, **{"device": device, **options, "out": path, "resume": True})
