"""gradlex.train: one call for a model and data of one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torch import nn

from gradlex.data import Augmentation
from gradlex.recipe import Recipe
from gradlex.runs._device import find_device
from gradlex.runs._execute import Callback, execute
from gradlex.runs._execution import Execution, Placement
from gradlex.runs._folder import RunFolder
from gradlex.runs._given import given_problem, given_recipe
from gradlex.runs._given_samples import Data
from gradlex.runs._members import choose_processes, launched, leading
from gradlex.runs._outcome import Run
from gradlex.runs._resume import continued, has_checkpoint, refuse_other_data


def train(
    model: nn.Module,
    data: Data,
    recipe: Recipe | None = None,
    *,
    test: Data | None = None,
    clean: Data | None = None,
    augment: Augmentation | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    workers: int = 1,
    device: str | None = None,
    evaluate_every: int | None = None,
    checkpoint_every: int = 1,
    placement: Placement = "resident",
    callback: Callback | None = None,
) -> Run:
    """Train a copy of `model` by gradient lexicase selection (or another `recipe.selection`) and return the run.

    `data` and `test` are (x, y) tensors or arrays, or map-style Datasets; float arrays reach the model as they
    are, bytes are normalised by their channel statistics. `clean` is a second view of a Dataset that transforms
    its samples, for selection. `augment` is a function (batch, stream) -> batch, gradlex.data.crop_flip(4) for
    example.

    `out` is a run folder to write (None: nothing is written); with `resume` a run that is there goes on where it
    stopped. `workers` processes train candidates at the same time (more than one needs a script with an
    `if __name__ == "__main__"` guard), and share the processors where the recipe leaves `threads` open; with
    threads that are named their number changes no bit. `device` is any torch device (None: the accelerator if
    there is one). `placement="offload"` keeps waiting candidates on the host where they do not all fit the device.
    `evaluate_every` and `checkpoint_every` are in generations (None: about twenty evaluations), and `callback`
    is called with the record of every generation.
    """
    execution = Execution(
        workers=workers,
        evaluate_every=evaluate_every,
        checkpoint_every=checkpoint_every,
        placement=placement,
    )
    asked, found = given_recipe(recipe or Recipe(), augment), find_device(device)
    if launched():  # where one, the default, asks for nothing
        started = choose_processes("auto" if workers == 1 else workers, asked, found)
        execution = replace(execution, workers=started.number)
    folder = None if out is None else RunFolder(Path(out))
    # The leading process alone has to do with the folder, and its recipe becomes everybody's.
    goes_on = folder is not None and resume and leading() and folder.holds_run
    if folder is not None and goes_on:
        asked = continued(asked, folder)
    elif folder is not None and leading():
        folder.refuse_if_taken(resume=resume)
    problem = given_problem(
        model,
        data,
        asked,
        clean=clean,
        test=test,
        augment=augment,
        device=found,
        workers=None if launched() else workers,
        fresh=folder is None or not has_checkpoint(folder),
    )
    if folder is not None and goes_on:
        refuse_other_data(folder, problem.data)
    return execute(problem, folder=folder, execution=execution, callback=callback, resume=resume)
