"""Session: one run in one process, with its callbacks, records and checkpoints."""

from __future__ import annotations

import math
import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gradlex import __version__
from gradlex.callbacks import Callback, Record
from gradlex.callbacks.early_stopping import best_generation, out_of_patience
from gradlex.errors import InputError, InterruptedRun
from gradlex.evolve import evolve
from gradlex.population.examination import ErrorFunction
from gradlex.population.state import Snapshot
from gradlex.recipe import GIVEN
from gradlex.runs.checkpoint import Checkpoint
from gradlex.runs.devices import environment
from gradlex.runs.folder import CHECKPOINT, RUN, Described, Result, RunFolder, line_of, parse_records
from gradlex.runs.interrupts import Interrupts
from gradlex.runs.problem import Problem
from gradlex.runs.run import Run
from gradlex.runs.training import TailMean, Trainer
from gradlex.runs.weights import weights_of
from gradlex.selection import by_group


class Session:
    """A run in progress, the callbacks' `LiveRun`: one per process; only rank 0 writes files and calls callbacks."""

    def __init__(
        self,
        problem: Problem,
        folder: RunFolder | None,
        *,
        compiled: bool,
        interrupts: Interrupts,
        callbacks: Sequence[Callback],
        evaluate_every: int,
        checkpoint_every: int,
    ) -> None:
        self.recipe, self.data, self.task = problem.recipe, problem.data, problem.task
        self.path = None if folder is None else folder.path
        self.history: list[Record] = []
        self._problem, self._interrupts = problem, interrupts
        self._evaluate_every, self._checkpoint_every = evaluate_every, checkpoint_every
        self._epochs = problem.recipe.epochs or 0
        self._trainer = Trainer(problem, compiled=compiled)
        self._errors: ErrorFunction = self._trainer.errors
        self._num_cases = len(problem.parts.train)
        if problem.groups is not None:
            self._errors, self._num_cases = by_group(self._errors, problem.groups)
        self.model, self._team = problem.model, self._trainer.population.team
        self.environment = environment(problem.device, self._team.processes)
        leads = self._team.rank == 0
        self._folder = folder if leads else None
        self._callbacks = list(callbacks) if leads else []
        self._tail = TailMean()
        self._best: Snapshot | None = None
        self._stopped: str | None = None
        self._started, self._seconds_before = time.perf_counter(), 0.0

    def start(self) -> None:
        """Begin the folder: run.json, and no records yet."""
        if self._folder is not None:
            weights_of(self.model)  # weights that no file can hold raise an error now, not at the end
            parameters = sum(parameter.numel() for parameter in self.model.parameters())
            model = {"name": self.recipe.model, "parameters": parameters, "outputs": self._problem.outputs}
            relative = not os.path.isabs(self.recipe.dataset) and os.path.exists(self.recipe.dataset)
            own = {**self.environment, **({"folder": os.getcwd()} if relative else {})}
            recipe = self.recipe.to_dict()
            described = Described(gradlex=__version__, recipe=recipe, data=self.data, model=model, environment=own)
            self._folder.describe(described)

    def restore(self) -> None:
        """Continue from the checkpoint, if there is one."""
        path = (self.path or Path()) / CHECKPOINT
        here = self._folder is not None and path.exists()
        found = self._team.from_leader(Checkpoint.load(path) if here else None)
        if found is not None:
            if found.recipe != self.recipe.to_dict():
                raise InputError(f"{path} belongs to another run: its recipe differs from the one in run.json.")
            self.history = parse_records(found.history, path)
            try:
                self._trainer.population.load_state_dict(found.population)
                self._tail = TailMean(found.tail)
            except (KeyError, TypeError, AttributeError, IndexError) as error:
                raise InputError(f"{path} is damaged: {error!r}.") from error
            self._best, self._stopped, self._seconds_before = found.best, found.stopped, found.seconds
        if self._folder is not None:
            self._folder.write_records(self.history)

    def run(self) -> Run:
        """Train to the last generation, and finish."""
        with self._callback_scope():
            if self._stopped is None:
                self._evolve()
            result = self._finish()
        return Run(
            model=self.model,
            recipe=self.recipe,
            history=self.history,
            result=result,
            task=self.task,
            data=self.data,
            environment=self.environment,
            path=self.path,
            _test=self._problem.parts.test,
        )

    def _evolve(self) -> None:
        trainer, recipe, samples = self._trainer, self.recipe, len(self._problem.parts.train)
        for generation in evolve(
            trainer.population,
            trainer.train,
            self._errors,
            num_samples=samples,
            num_cases=self._num_cases,
            epochs=self._epochs,
            size=recipe.population_at,
        ):
            done = generation.number
            metrics = self._metrics(done) if self._team.rank == 0 else {}
            record = Record.of(generation, lr=recipe.lr_at(done - 1), metrics=metrics)
            if self._problem.groups is not None:
                record = record.model_copy(update={"deciding": ()})  # no single sample decides
            self.history.append(self._team.from_leader(record))
            if recipe.tail_mean and done > recipe.branch:
                self._tail.add(trainer.parent())
            if recipe.patience and best_generation(self.history, self.task.measures[0]) == done:
                self._best = trainer.parent()
            self._stopped = self._team.from_leader(self._reason_to_stop())
            signum = self._team.from_leader(self._interrupts.signum)
            if self._folder is not None:
                self._folder.append_record(self.history[-1])
            if done % self._checkpoint_every == 0 or done == self._epochs or self._stopped or signum:
                self._save()
            if self._stopped:
                return
            if signum and done < self._epochs:
                raise InterruptedRun(signum, f"interrupted after generation {done} of {self._epochs}{self._hint()}")

    def _metrics(self, done: int) -> dict[str, dict[str, float]]:
        """The parent's metrics: on the validation part always, on the test part if it is due."""
        parts = self._problem.parts
        due = done % self._evaluate_every == 0 or done == self._epochs
        wanted = {"validation": parts.validation, "test": parts.test if due else None}
        return {name: self._trainer.measure(part) for name, part in wanted.items() if part is not None}

    def _reason_to_stop(self) -> str | None:
        """Call the callbacks. Returns why one of them, or patience, ends the run; else None."""
        reasons: list[str | None] = []
        for callback in self._callbacks:
            answer = callback.on_generation(self.history[-1], self)
            if answer:
                reasons.append(answer if isinstance(answer, str) else f"by {type(callback).__name__}")
        if self.recipe.patience:
            reasons.append(out_of_patience(self.history, self.task.measures[0], self.recipe.patience))
        return next(filter(None, reasons), None)

    def _save(self) -> None:
        if self._folder is None:
            return
        checkpoint = Checkpoint(
            recipe=self.recipe.to_dict(),
            population=self._trainer.population.state_dict(),
            history=[line_of(record) for record in self.history],
            seconds=self._seconds,
            stopped=self._stopped,
            tail=self._tail.state(),
            best=self._best,
        )
        checkpoint.save(self._folder.path / CHECKPOINT)
        if self._folder.description().recipe != self.recipe.to_dict():
            raise InputError(f"{self._folder.path / RUN} was changed during the run: restore it, then resume.")

    def _finish(self) -> dict[str, Any]:
        """Make the final model, measure it, and write the results."""
        trainer = self._trainer
        known = dict(self.history[-1].metrics) if self.history else {}
        if self._best is not None or self._tail.mean is not None:
            known = {}
        if self._best is not None:
            trainer.install(self._best)
        elif self._tail.mean is not None:
            trainer.finish_tail(self._tail.mean)
            trainer.install(self._team.hand_over(0, trainer.parent()))  # last bits may differ between machines
        self.model.eval()
        return self._team.from_leader(self._result(known) if self._team.rank == 0 else None)  # type: ignore[no-any-return]

    def _result(self, known: Mapping[str, Any]) -> dict[str, Any]:
        parts, done, samples = self._problem.parts, len(self.history), len(self._problem.parts.train)
        present = {"test": parts.test, "validation": parts.validation, "train": parts.train}
        metrics = {
            name: dict(known[name]) if name in known else self._trainer.measure(part)
            for name, part in present.items()
            if part is not None
        }
        best = best_generation(self.history, self.task.measures[0]) if self.recipe.patience else None
        result = Result(
            metrics={
                part: {name: value if math.isfinite(value) else None for name, value in own.items()}
                for part, own in metrics.items()
            },
            stopped=self._stopped,
            **({} if best is None else {"best_generation": best}),
            seconds=self._seconds,
            samples_trained=done * samples,
            critical_path=sum(-(-samples // self.recipe.population_at(each)) for each in range(done)),
            cases_evaluated=sum(record.cases_evaluated for record in self.history),
            generations=done,
        )
        if self._folder is not None:
            self._folder.finish(result, self.history, weights_of(self.model))
        return {**result.model_dump(), "metrics": metrics}

    @property
    def _seconds(self) -> float:
        return round(self._seconds_before + time.perf_counter() - self._started, 3)

    def _hint(self) -> str:
        """The end of the message after an interruption: how to continue."""
        if self.path is None:
            return ""
        if GIVEN in (self.recipe.model, self.recipe.dataset):
            return f"; continue with gradlex.resume({str(self.path)!r}, model, data)"
        return f"; continue with: gradlex resume {shlex.quote(str(self.path))}"

    @contextmanager
    def _callback_scope(self) -> Iterator[None]:
        """Call `on_start` of each callback, and `on_end` however the run ends, even if another one fails."""
        with ExitStack() as ends:
            try:
                for callback in self._callbacks:
                    callback.on_start(self)
                    ends.callback(callback.on_end, self)
            except InputError:
                if self._folder is not None and not self.history:
                    (self._folder.path / RUN).unlink()  # nothing was trained, so the folder is free again
                raise
            yield
