"""The front door: from a source and a recipe to a finished run. The command, the library and experiments come in here.

source + Recipe + Execution -> resolve once -> Problem -> launch -> evolve -> callbacks -> Run
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gradlex._version import __version__
from gradlex.callbacks import Callback, EarlyStopping, LiveRun, Record, best_generation
from gradlex.engine import PopulationEngine, Worker, recalibrated
from gradlex.errors import BusyError, InputError, InterruptedRun, failing_as
from gradlex.evolve import evolve
from gradlex.population import Parent, State, Step, copy, settings_of
from gradlex.recipe import Recipe
from gradlex.runs._execution import Execution, find_device
from gradlex.runs._folder import RunFolder
from gradlex.runs._interrupts import Interrupts
from gradlex.runs._journal import BEST, Journal
from gradlex.runs._launch import choose_processes, members
from gradlex.runs._member import Member, launched, leading
from gradlex.runs._predictions import PREDICTIONS, PredictionRecorder, predictions_bytes
from gradlex.runs._problem import EngineFactory, Problem, make_problem
from gradlex.runs._resume import (
    check_beginning,
    check_data,
    check_revision,
    continued,
    has_checkpoint,
    stored_workers,
)
from gradlex.runs._run import Run, peak_memory
from gradlex.runs._source import Source
from gradlex.runs._weights import weights_bytes

_STOP = 1 << 10  # above every signal: a callback has stopped the run


def start(
    source: Source,
    recipe: Recipe,
    execution: Execution | None = None,
    *,
    out: Path | str | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    promotion_steps: Sequence[Step] = (),
    engine: EngineFactory = PopulationEngine,
    handle_signals: bool = False,
    notice: Callable[[str], None] | None = None,
) -> Run:
    """Train what the source provides by the recipe, and return the run.

    With `out` everything is recorded in that folder and, with `resume`, a run that is there continues where it stopped.
    `notice` receives what a person should know, a damaged checkpoint that was passed over for example; by default it
    is logged as a warning. With `handle_signals` the first Ctrl-C or SIGTERM ends the run after the current generation
    (InterruptedRun), and at once where none has begun.

    Examples:
        >>> import gradlex
        >>> from gradlex.runs import Execution, Named, start
        >>> recipe = gradlex.Recipe(dataset="digits", train_size=100, generations=1, population=2)
        >>> run = start(Named(), recipe, Execution(workers=1))
        >>> run.recipe.model, run.recipe.batch_size  # what the recipe left open is resolved
        ('small-cnn', 32)
    """
    execution, notice = execution or Execution(), notice or logging.getLogger("gradlex").warning
    device = find_device(execution.device)
    # Only the leading process touches the folder, and all others take its recipe. The path is absolute,
    # since the model or the data may change the directory.
    folder = RunFolder(Path(out)).absolute() if out is not None and leading() else None
    recipe, workers, fresh = source.marked(recipe), execution.workers, True
    with ExitStack() as stack:
        continues = folder is not None and resume and folder.holds_run
        if folder is not None and continues:
            stack.enter_context(folder.locked())
            check_revision(folder)
            recipe, fresh = continued(recipe, folder), not has_checkpoint(folder)
            if workers == "auto" and not launched():
                workers = stored_workers(folder, recipe) or "auto"
        elif folder is not None:
            folder.check_free(
                resume=resume
            )  # for a quick answer; what counts is what is there under the lock
        problem = make_problem(
            source,
            recipe,
            execution=execution,
            device=device,
            fresh=fresh,
            steps=tuple(promotion_steps),
            engine=engine,
            notice=notice,
        )
        if folder is not None and continues:
            check_data(folder, problem.data)
        if execution.begin_with is not None and leading() and fresh:
            if folder is None:
                raise InputError("begin_with needs a run folder, into which it copies the records: give out.")
            check_beginning(problem.recipe, problem.data, RunFolder(execution.begin_with))
        for callback in callbacks:
            if isinstance(callback, EarlyStopping):
                callback.check(problem.data)
        execution.check_kept(problem.recipe.require("generations"))
        processes = choose_processes(workers, problem, notice)
        interrupts = stack.enter_context(Interrupts(handle=handle_signals, waits=False))
        member = stack.enter_context(members(problem, processes, functools.partial(follow, execution)))
        if folder is not None and not continues:  # only now: what no run can do is refused before it is made
            stack.enter_context(folder.locked())
            if resume and folder.holds_run:
                raise BusyError(f"another process has just started the run in {folder.path}: try again.")
            folder.check_free(resume=resume)
        how = execution.described(processes)
        journal = None if folder is None else Journal(member.problem, folder, how=how, notice=notice)
        patience = member.problem.recipe.patience
        stopping = () if patience is None else (EarlyStopping(patience),)
        watching = (*callbacks, *stopping)
        return _Session(member, execution, interrupts, journal, watching, notice).run(resume=resume)


def follow(execution: Execution, member: Member) -> None:
    """What a worker other than the leader does: the same generations, silently."""
    _Session(member, execution, Interrupts(handle=False), None, ()).run(resume=False)


class _Session:
    """The generations of one process; on the leading one with all that watches them."""

    def __init__(
        self,
        member: Member,
        execution: Execution,
        interrupts: Interrupts,
        journal: Journal | None,
        callbacks: Sequence[Callback],
        notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._member, self._execution, self._interrupts = member, execution, interrupts
        self._problem, self._team, self._journal = member.problem, member.team, journal
        self._notice = notice
        leads = member.team.leads
        self._callbacks = [*([journal] if journal is not None else []), *callbacks] if leads else []
        self._started = time.perf_counter()
        self._shown: tuple[Parent, Parent] | None = None

    def run(self, *, resume: bool) -> Run:
        """Evolve from the first generation, or from where the run stopped, to the result."""
        problem, journal = self._problem, self._journal
        worker = Worker(
            problem.model,
            problem.train,
            problem.task,
            problem.recipe,
            problem.device,
            cases=problem.cases,
            parallel=self._team.parallel,
            offload=self._execution.placement == "offload",
            stacked=self._execution.placement == "stacked",
            watch=self._member.watch,
            output=problem.output,
        )
        parent = worker.first_parent()
        if journal is not None:
            parent = journal.begin(parent, resume=resume, begin_with=self._execution.begin_with)
        finished = journal is not None and journal.finished is not None
        parent = self._team.start_from(parent)
        live = LiveRun(
            recipe=problem.recipe,
            data=problem.data,
            measures=problem.measures,
            path=None if journal is None else journal.path,
            workers=self._member.workers,
            device=problem.device.type,
            parent=parent,
            records=[] if journal is None else journal.records,
            network=lambda parent: worker.snapshot(parent.state),
            notice=self._notice,
        )
        live.stopped = None if journal is None else journal.stopped
        with self._watched(live):
            if not self._team.largest(finished):
                self._evolve(worker, live)
            final = self._final(worker, live.parent)
            result = self._result(worker, live, final) if self._team.leads else None
            live.result = self._team.from_leader(result)
        return Run(
            model=worker.finished(final.state),
            recipe=problem.recipe,
            generations=live.records,
            result=live.result,
            measures=problem.measures,
            task=problem.task,
            normalization=problem.normalization,
            path=live.path,
            ema=worker.snapshot(final.slots["ema"]) if "ema" in final.slots else None,
        )

    def _evolve(self, worker: Worker, live: LiveRun) -> None:
        problem, recipe = self._problem, self._problem.recipe
        if self._team.largest(bool(live.stopped)):  # in on_start, or before the run was interrupted
            return
        engine = problem.engine(worker, self._team, problem.steps)
        self._interrupts.waits = True
        for generation in evolve(live.parent, engine, problem.select, recipe):
            varies = recipe.vary and live.parent.generation >= recipe.branch
            settings = settings_of(recipe, live.parent) if varies else []
            best, live.parent = live.parent.slots.get(BEST), generation.parent
            metrics = self._metrics(worker, live.parent) if self._team.leads else {}
            live.records.append(Record.of(generation, recipe, metrics, [each.plain() for each in settings]))
            if recipe.keep == "best":
                live.parent = live.parent.with_slot(BEST, self._better(live, best))
            for callback in self._callbacks:
                self._call(callback, "on_generation", live, live.records[-1])
            if self._journal is not None and live.stopped:
                self._journal.on_stop(live)
            code = self._team.largest(_STOP if live.stopped else self._interrupts.signum)
            if code == _STOP:
                return
            if code and live.parent.generation != recipe.generations:
                resume = "" if self._journal is None else self._journal.how_to_resume
                raise InterruptedRun(
                    code,
                    f"interrupted after generation {live.parent.generation} of {recipe.generations}{resume}",
                )

    def _metrics(self, worker: Worker, parent: Parent) -> dict[str, dict[str, float]]:
        """The metrics on the validation samples, and on the test samples where they are due.

        The validation part is evaluated in every generation: what it decides must not depend on evaluate_every.
        """
        recipe, test, validation = self._problem.recipe, self._problem.test, self._problem.validation
        total = recipe.require("generations")
        found = {} if validation is None else {"validation": worker.evaluate(parent.state, validation)}
        if test is None or not self._execution.evaluates(parent.generation, total):
            return found
        ends = parent.generation == total and recipe.keep == "last"
        return found | _evaluated(worker, self._final(worker, parent) if ends else parent, self._problem)

    def _better(self, live: LiveRun, best: State | None) -> State:
        """The weights of the best generation so far by the validation part: on every process, what the leader finds."""
        found = self._team.leads and best_generation(live.records, live.measures[0])
        is_last = self._team.from_leader(found == live.records[-1].generation)
        return copy(live.parent.state) if best is None or is_last else best

    def _final(self, worker: Worker, parent: Parent) -> Parent:
        """The parent as it is returned: the mean of the tail, or the best, recalibrated, where the recipe says so.

        A checkpoint keeps the parent itself, from which a longer run would continue.
        """
        if self._shown is not None and self._shown[0] is parent:  # evaluated a moment ago
            return self._shown[1]
        self._shown = (parent, self._recalibrated(worker, parent))
        return self._shown[1]

    def _recalibrated(self, worker: Worker, parent: Parent) -> Parent:
        count, index = self._problem.recipe.recalibrate_final, 1
        if BEST in parent.slots:
            parent = replace(parent, state=parent.slots[BEST])
        if "tail" in parent.slots:
            parent = replace(parent, state=parent.slots["tail"])
        if count == 0 or parent.generation == 0:
            return parent
        networks = {
            "": parent.state,
            **{name: parent.slots[name] for name in ("ema",) if name in parent.slots},
        }
        found = {
            name: recalibrated(worker, state, count, parent.generation, index)
            for name, state in networks.items()
        }
        state = found.pop("")
        return replace(parent, state=state, slots={**parent.slots, **found})

    def _result(self, worker: Worker, live: LiveRun, final: Parent) -> dict[str, Any]:
        """What result.json holds; it is written, where there is a folder."""
        problem, journal = self._problem, self._journal
        if journal is not None and journal.finished is not None:
            return journal.finished
        last = dict(live.records[-1].metrics) if live.records else {}
        shown = final.state is live.parent.state  # it is the last parent as it was
        early = live.stopped or problem.recipe.keep == "best"
        if problem.test is not None and early and not (shown and "test" in last):
            last |= _evaluated(worker, final, problem)
        if problem.validation is not None and not (shown and "validation" in last):
            last["validation"] = worker.evaluate(final.state, problem.validation)
        parts = {"train": problem.train, "test": problem.test}
        answers = {part: PredictionRecorder(task=problem.task) for part in parts if parts[part] is not None}
        metrics = {**last, "train": worker.evaluate(final.state, problem.train, answers["train"])}
        result = {
            "metrics": metrics,
            "measures": [asdict(measure) for measure in problem.measures],
            "generations": final.generation,
            "stopped": live.stopped,
            **self._kept(live),
            "samples_trained": sum(
                problem.recipe.samples_at(each, len(problem.train)) for each in range(final.generation)
            ),
            "cases_evaluated": sum(record.cases_evaluated for record in live.records),
            "parameters": sum(p.numel() for p in worker.model.parameters()),
            "seconds": round(time.perf_counter() - self._started, 3),
            "peak_memory": peak_memory(problem.device),
            "data": {key: problem.data[key] for key in ("fingerprint", "train_samples", "test_samples")},
            "gradlex": __version__,
        }
        if journal is None:
            return result
        states = {"model.safetensors": final.state, "ema.safetensors": final.slots.get("ema")}
        files = {name: weights_bytes(worker.model, state) for name, state in states.items() if state}
        if problem.test is not None:
            worker.evaluate(final.state, problem.test, answers["test"])
        files[PREDICTIONS] = predictions_bytes(answers)
        return journal.finish(files, result)

    def _kept(self, live: LiveRun) -> dict[str, Any]:
        """Which generation's parent the final model is, where that is not the last one's."""
        if self._problem.recipe.keep == "last":
            return {}
        return {"best_generation": best_generation(live.records, live.measures[0])}

    @contextmanager
    def _watched(self, live: LiveRun) -> Iterator[None]:
        """Tell the callbacks of the start and of the end, whatever it is."""
        live.ended = None
        try:
            for callback in self._callbacks:
                self._call(callback, "on_start", live)
            yield
            live.ended = "finished"
        except InterruptedRun:  # which a callback may raise too
            live.ended = "interrupted"
            raise
        finally:
            live.ended = live.ended or "failed"
            with ExitStack() as ends:  # every callback is called, also where another fails
                for callback in reversed(self._callbacks):
                    ends.callback(self._call, callback, "on_end", live)

    def _call(self, callback: Callback, hook: str, *arguments: Any) -> None:
        own = callback is self._journal
        with failing_as(f"the callback {type(callback).__name__}.{hook}") if not own else ExitStack():
            getattr(callback, hook)(*arguments)


def _evaluated(worker: Worker, parent: Parent, problem: Problem) -> dict[str, dict[str, float]]:
    networks = {"test": parent.state, **({"ema": parent.slots["ema"]} if "ema" in parent.slots else {})}
    return {part: problem.evaluate(worker, state) for part, state in networks.items()}
