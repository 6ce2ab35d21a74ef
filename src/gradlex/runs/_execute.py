"""Run a problem from its first generation, or from where it stopped, to its result."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeAlias

from gradlex.engine import Evaluation, PopulationEngine, Worker
from gradlex.errors import InterruptedRun
from gradlex.evolve import evolve
from gradlex.population import Parent, State, make_optimizer
from gradlex.runs._execution import Execution
from gradlex.runs._final import shown_parent, with_state
from gradlex.runs._folder import RunFolder
from gradlex.runs._interrupts import Interrupts
from gradlex.runs._journal import Journal
from gradlex.runs._members import Member, leading, refuse_processes
from gradlex.runs._outcome import Run, result_of
from gradlex.runs._problem import Problem
from gradlex.runs._processes import members
from gradlex.runs._records import Record
from gradlex.runs._resolve import promoting_selection
from gradlex.runs._weights import weights_bytes

Callback: TypeAlias = Callable[[Record], object]
"""Called after every generation with its record."""


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
    folder = None if folder is None else folder.absolute()  # the model or the data may change the directory
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
        result = journal.result or (
            result_of(member.problem, worker, parent, journal) if member.team.leads else {}
        )
        model = worker.finished(parent.state)
        states = {"model.safetensors": parent.state, "ema.safetensors": parent.ema}
        journal.finish(
            {
                name: functools.partial(weights_bytes, model, state)
                for name, state in states.items()
                if state is not None
            },
            result,
        )
    return Run(
        model=model,
        recipe=member.problem.recipe,
        generations=journal.records,
        result=result,
        normalization=problem.normalization,
        path=folder.path if folder is not None else None,
        ema=None if parent.ema is None else with_state(model, parent.ema),
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
    """The test evaluation, where one is due and there is something to test."""
    if state is None or problem.test is None:
        return None
    due = execution.tests(generation, problem.recipe.require("generations"))
    return worker.evaluate(state, problem.test) if due else None
