"""gradlex train, gradlex resume"""

from __future__ import annotations

import shlex
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from gradlex.cli._arguments import Flags
from gradlex.errors import InputError
from gradlex.recipe import Recipe

Placement = Literal["resident", "offload"]

if TYPE_CHECKING:
    import torch

    from gradlex.runs import Run, RunFolder


def train(
    flags: Flags,
    *,
    out: Path | None = None,
    resume: bool = False,
    workers: int | Literal["auto"] = "auto",
    device: str = "auto",
    evaluate_every: int | None = None,
    checkpoint_every: int = 1,
    placement: Placement = "resident",
    data_dir: Path | None = None,
) -> None:
    """Train a network and write a run folder.

    Args:
        flags: Every number of the run.
        out: The run folder to write. None: a new one under runs/.
        resume: Go on with the run in --out where it stopped; start it if there is none yet.
        workers: Processes that train candidates at the same time. auto: one a candidate, up to one a processor
            (or CUDA device); under torchrun, those that it has started.
        device: auto, cpu, cuda, cuda:1, ... auto: the accelerator where there is one.
        evaluate_every: Generations between two evaluations on the test samples. None: about 20 a run.
        checkpoint_every: Generations between two checkpoints.
        placement: Where candidates wait: on the device, or offload to the host where they do not all fit.
        data_dir: Where downloaded datasets are kept. None: the user's cache folder.
    """
    from gradlex.runs import RunFolder, continued, find_device, leading

    recipe = flags.recipe()
    if resume and out is None:
        raise InputError("resume needs the run's folder: --out RUN --resume, or gradlex resume RUN.")
    folder = RunFolder(out or _free_folder(recipe))
    if leading():  # it alone has to do with the folder, and its recipe becomes everybody's
        if resume and folder.holds_run:
            recipe = continued(recipe, folder)
        else:
            folder.refuse_if_taken(resume=resume)
    _run(
        recipe,
        folder,
        workers,
        find_device(device),
        data_dir,
        resume=resume,
        evaluate_every=evaluate_every,
        checkpoint_every=checkpoint_every,
        placement=placement,
    )


def resume(
    run: Annotated[Path, tyro.conf.Positional],
    *,
    workers: int | Literal["auto"] = "auto",
    device: str | None = None,
    evaluate_every: int | None = None,
    checkpoint_every: int | None = None,
    placement: Placement | None = None,
    data_dir: Path | None = None,
) -> None:
    """Go on with an interrupted run: the result is the one it would have had.

    Args:
        run: The run folder.
        workers: Processes that train candidates at the same time. auto: as for train, or, where the run had more than
            candidates, as many as it had.
        device: auto, cpu, cuda, ... None: as before; another kind may change the last bits.
        evaluate_every: Generations between two evaluations on the test samples. None: as before.
        checkpoint_every: Generations between two checkpoints. None: as before.
        placement: Where candidates wait: on the device, or offload to the host. None: as before.
        data_dir: Where downloaded datasets are kept. None: the user's cache folder.
    """
    from gradlex.runs import RunFolder, find_device, stored_device, stored_execution, stored_recipe

    folder = RunFolder(run)
    recipe, _ = stored_recipe(folder)
    asked = {
        "evaluate_every": evaluate_every,
        "checkpoint_every": checkpoint_every,
        "placement": placement,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    _run(
        recipe,
        folder,
        workers,
        stored_device(folder) if device is None else find_device(device),
        data_dir,
        resume=True,
        **{**stored_execution(folder), **given},
    )


def _run(
    recipe: Recipe,
    folder: RunFolder,
    workers: int | Literal["auto"],
    device: torch.device,
    data_dir: Path | None,
    *,
    resume: bool,
    **how: Any,
) -> None:
    from gradlex.cli._progress import Progress
    from gradlex.runs import (
        Execution,
        choose_processes,
        choose_threads,
        execute,
        has_checkpoint,
        launched,
        leading,
        named_problem,
        refuse_other_data,
        resolve_method,
        stored_groups,
        with_room,
    )

    method = resolve_method(recipe, device)
    goes_on = resume and leading() and folder.holds_run
    if goes_on and workers == "auto" and not launched():
        workers = stored_groups(folder, method) or "auto"
    chosen = choose_processes(workers, method, device)
    execution = Execution(workers=chosen.number, **how)
    problem = named_problem(recipe, device=device, data_dir=data_dir, fresh=not has_checkpoint(folder))
    if goes_on:
        refuse_other_data(folder, problem.data)
    chosen = with_room(chosen, workers, problem)
    execution = replace(execution, workers=chosen.number)
    threads = choose_threads(method, problem.multiply_adds, device)
    progress = Progress(problem, chosen, threads, folder.path, quiet=not leading())
    with progress.bar:
        run = execute(
            problem,
            folder=folder,
            execution=execution,
            callback=progress.update,
            notice=progress.notice,
            resume=resume,
            handle_signals=True,
        )
    if leading():
        _summary(run, folder.path)


def _free_folder(recipe: Recipe) -> Path:
    name = "-".join(
        (Path(recipe.dataset).stem, recipe.model.replace(":", "-"), recipe.selection, f"seed{recipe.seed}")
    )
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(path for path in (Path("runs") / name for name in names) if not path.exists())


def _summary(run: Run, path: Path) -> None:
    from gradlex.cli._console import console

    result, recipe = run.result, run.recipe
    out = console()
    accuracy = "" if result["test_accuracy"] is None else f"test accuracy {result['test_accuracy']:.2%}, "
    out.print(
        f"{accuracy}clean training accuracy {result['train_accuracy']:.2%} after "
        f"{result['generations']} generations in {result['seconds']:.1f} s",
        style="bold",
    )
    out.print(
        f"{result['samples_trained']:,} samples trained, {result['cases_evaluated']:,} case evaluations, "
        f"{recipe.selection} with a population of {recipe.population}"
    )
    out.print(f"run folder: {path}", soft_wrap=True)
    other = "lexicase" if recipe.selection == "sgd" else "sgd"
    out.print(
        f"next: gradlex evaluate {shlex.quote(str(path))}, or the same with --selection {other} to compare",
        soft_wrap=True,
    )
