"""Run a problem from its first generation, or from where it stopped, to its result."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from torch import nn

from gradlex._version import __version__
from gradlex.data import Normalization
from gradlex.engine import Evaluation, PopulationEngine, Worker
from gradlex.errors import InputError, InterruptedRun, unknown_name
from gradlex.evolve import evolve
from gradlex.population import Parent, State, install, make_optimizer
from gradlex.recipe import Recipe
from gradlex.runs._final import shown_parent, with_state
from gradlex.runs._folder import RunFolder
from gradlex.runs._interrupts import Interrupts
from gradlex.runs._journal import Journal
from gradlex.runs._members import Member, leading, refuse_processes
from gradlex.runs._memory import peak_memory
from gradlex.runs._problem import Problem
from gradlex.runs._processes import members
from gradlex.runs._records import Record
from gradlex.runs._resolve import promoting_selection
from gradlex.runs._weights import weights_bytes

Placement: TypeAlias = Literal["resident", "offload"]

Callback: TypeAlias = Callable[[Record], object]
"""Called after every generation with its record."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run."""

    model: nn.Module
    """The trained network, an ordinary module in evaluation mode."""
    recipe: Recipe
    """The resolved recipe."""
    generations: list[Record]
    """What happened, generation by generation."""
    result: dict[str, Any]
    """What result.json holds: test_accuracy, train_accuracy, seconds, samples_trained, ..."""
    normalization: Normalization | None
    """What the model's inputs were normalised by; None where they were given to it as they are."""
    path: Path | None
    """The run folder."""
    ema: nn.Module | None = None
    """With `Recipe.ema`: a network like `model` with the moving average of the parents."""


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a run is carried out; nothing here can change its outcome."""

    workers: int = 1
    """Processes that train candidates at the same time, on all machines of the run."""
    evaluate_every: int | None = None
    """Generations between two evaluations on the test samples. None: about twenty a run."""
    checkpoint_every: int = 1
    """Generations between two checkpoints."""
    placement: Placement = "resident"
    """Where candidates wait: on the device, or on the host where they do not all fit."""

    def __post_init__(self) -> None:
        """Refuse intervals and numbers of workers below one."""
        for name in ("workers", "evaluate_every", "checkpoint_every"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InputError(f"{name} must be a whole number of at least 1, got {value!r}.")
        if self.placement not in get_args(Placement):
            raise unknown_name("placement", str(self.placement), get_args(Placement))


def execute(
    problem: Problem,
    *,
    folder: RunFolder | None = None,
    execution: Execution | None = None,
    callback: Callback | None = None,
    notice: Callable[[str], None] | None = None,
    resume: bool = False,
    handle_signals: bool = False,
) -> Run:
    """Evolve the problem's model; with a folder, everything is recorded there and, with `resume`, goes on there.

    `notice` is told what a person should know, a damaged checkpoint that was passed over for example. With
    `handle_signals` the first Ctrl-C or SIGTERM ends the run after the current generation (InterruptedRun).
    """
    execution = execution or Execution()
    # Tried before anything is written: some optimizers, muon for one, do not take every model.
    make_optimizer(problem.recipe, problem.model, problem.recipe.lr, problem.device.type)
    refuse_processes(problem.recipe.require("population"), execution.workers, problem.device)
    kept = folder if leading() else None
    with (
        Interrupts(handle=handle_signals) as interrupts,
        members(problem, execution.workers, functools.partial(follow, execution)) as member,
        # Only now: what other processes cannot have is refused before the folder is made.
        kept.locked() if kept is not None else nullcontext(),
    ):
        journal = Journal(
            member.problem,
            kept,
            resume=resume,
            checkpoint_every=execution.checkpoint_every,
            how=vars(execution),
            notice=notice,
        )
        worker, parent = _generations(member, journal, execution, interrupts, callback)
        result = _result(member.problem, worker, parent, journal) if member.team.leads else {}
        install(worker.model, parent.state)
        worker.model.eval()
        states = {"model.safetensors": parent.state, "ema.safetensors": parent.ema}
        journal.finish(
            {
                name: functools.partial(weights_bytes, worker.model, state)
                for name, state in states.items()
                if state is not None
            },
            result,
        )
    return Run(
        model=worker.model,
        recipe=member.problem.recipe,
        generations=journal.records,
        result=result,
        normalization=problem.normalization,
        path=folder.path if folder is not None else None,
        ema=None if parent.ema is None else with_state(worker.model, parent.ema),
    )


def follow(execution: Execution, member: Member) -> None:
    """What a worker other than the leader does: the same generations, without a word."""
    _generations(member, Journal(member.problem, None), execution, Interrupts(handle=False), None)


def _generations(
    member: Member,
    journal: Journal,
    execution: Execution,
    interrupts: Interrupts,
    callback: Callback | None,
) -> tuple[Worker, Parent]:
    problem, team = member.problem, member.team
    recipe = problem.recipe
    worker = Worker(
        problem.model,
        problem.train,
        problem.task,
        recipe,
        problem.device,
        parallel=team.parallel,
        offload=execution.placement == "offload",
        watch=member.watch,
    )
    select = promoting_selection(recipe)
    parent = worker.first_parent()
    parent = team.start_from(journal.begin(parent) if team.leads else parent)
    shown = shown_parent(worker, parent)
    for generation in evolve(parent, PopulationEngine(worker, team), select, recipe):
        parent = generation.parent
        shown = shown_parent(worker, parent)
        last = parent.generation == recipe.generations
        tested, average = (
            _tested(problem, worker, state, parent.generation, execution) if team.leads else None
            for state in (shown.state, shown.ema)
        )
        trained = worker.evaluate(shown.state, problem.train) if team.leads and last else None
        record = Record.of(generation, recipe, tested, trained, average)
        journal.add(record, parent, last=last)
        if callback is not None:
            callback(record)
        signum = team.largest(interrupts.signum)
        if signum and not last:
            journal.save(parent)
            raise InterruptedRun(
                signum, f"interrupted after generation {record.generation}{journal.how_to_resume}"
            )
    return worker, shown


def _tested(
    problem: Problem, worker: Worker, state: State | None, generation: int, execution: Execution
) -> Evaluation | None:
    """The test evaluation, where one is due: by default about twenty times a run, and always at its end."""
    generations = problem.recipe.require("generations")
    every = execution.evaluate_every or max(1, generations // 20)
    if state is None or problem.test is None or (generation % every and generation != generations):
        return None
    return worker.evaluate(state, problem.test)


def _result(problem: Problem, worker: Worker, parent: Parent, journal: Journal) -> dict[str, Any]:
    tested, trained = journal.records[-1].evaluation, journal.records[-1].training
    average = journal.records[-1].ema
    averaged = {
        "ema_test_accuracy": None if average is None else average.accuracy,
        "ema_test_loss": None if average is None else average.loss,
    }
    return {
        "test_accuracy": None if tested is None else tested.accuracy,
        "test_loss": None if tested is None else tested.loss,
        "train_accuracy": None if trained is None else trained.accuracy,
        "train_loss": None if trained is None else trained.loss,
        **({} if parent.ema is None else averaged),
        "generations": parent.generation,
        "samples_trained": parent.generation * len(problem.train),
        "cases_evaluated": sum(record.cases_evaluated for record in journal.records),
        "parameters": sum(p.numel() for p in worker.model.parameters()),
        "seconds": journal.seconds,
        "peak_memory": peak_memory(problem.device),
        "data": {key: problem.data[key] for key in ("fingerprint", "train_samples", "test_samples")},
        "gradlex": __version__,
    }
