"""Outcome: what a report needs of one finished run, checked once, so that everything after it can rely on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le

from gradlex._checks import check
from gradlex.errors import InputError
from gradlex.recipe import Recipe
from gradlex.report._candidates import Candidates, candidates_of
from gradlex.runs import StoredRun, stored_run
from gradlex.tasks import Measure

# What a float holds exactly: a larger count is a broken file.
_Count = Annotated[int, Ge(0), Le(2**53)]
_AtLeastOne = Annotated[int, Ge(1), Le(2**53)]
_Number = Annotated[float, Ge(-1e100), Le(1e100)]  # squares of larger ones overflow


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One finished run: its primary measure, its curve, its cost and its data. Fractions are in per cent."""

    path: Path
    recipe: Recipe
    revision: int
    """Of the recipe's meaning: `gradlex.recipe.REVISION` when it ran."""
    measure: Measure
    test: float
    """The primary measure on the test samples after the last generation."""
    train: float | None
    """The same on the clean training samples, where it was computed."""
    validation: float | None
    """The same on the validation samples, where there are any."""
    curve: Mapping[int, float]
    """The same on the test samples, by generations finished until then."""
    generations: int
    samples_trained: int
    cases_evaluated: int
    seconds: float
    peak_memory: int | None
    fingerprint: str
    train_samples: int
    trained_on: int
    """Of these, without held-out cases and the validation part; the recipe's steps go before it."""
    test_samples: int
    candidates: Candidates
    """How they differed."""
    tries: int = 1
    """Separate runs that it is the best of; their costs are added, and they train side by side."""

    @cached_property
    def samples_after(self) -> Sequence[int]:
        """Samples trained after 0, 1, 2, ... generations."""
        return list(accumulate((self.tries * samples for samples in self._samples), initial=0))

    @cached_property
    def critical_path_after(self) -> Sequence[int]:
        """The part of them that one device trains on when every candidate has its own."""
        shares = (
            math.ceil(samples / self.recipe.population_at(generation))
            for generation, samples in enumerate(self._samples)
        )
        return list(accumulate(shares, initial=0))

    @property
    def _samples(self) -> list[int]:
        return [self.recipe.samples_at(each, self.trained_on) for each in range(self.generations)]


def read_run(path: Path) -> StoredRun:
    """A run folder; whatever is wrong with its files is an InputError."""
    try:
        return stored_run(path)
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error!r}. Bring its files back.") from error


def outcome(run: StoredRun) -> Outcome:
    """The outcome of a run that has a result; refused where a number is missing or is none."""
    path, data = run.path, run.data
    result = _mapping(path, "result.json", run.result)
    measure = _primary(path, result.get("measures"))
    metrics = _mapping(path, "metrics", result.get("metrics"))
    if metrics.get("test") is None:
        raise InputError(f"{path} has no test metrics to report: it was trained without test samples.")
    for name, kind in (("train_samples", _AtLeastOne), ("test_samples", _AtLeastOne), ("fingerprint", str)):
        check(f"{path}: {name}", kind, data.get(name))
    for name in ("generations", "samples_trained"):
        check(f"{path}: {name}", _AtLeastOne, result.get(name))
    if len(run.generations) != result["generations"]:
        raise InputError(
            f"{path} is damaged: it has records of {len(run.generations)} of {result['generations']} generations. "
            "Bring generations.jsonl back."
        )
    check(f"{path}: cases_evaluated", _Count, result.get("cases_evaluated"))
    check(f"{path}: seconds", Annotated[float, Ge(0), Le(1e15)], result.get("seconds"))
    check(f"{path}: peak_memory", _Count | None, result.get("peak_memory"))
    for name in ("generations", "population"):
        check(f"{path}: {name}", _AtLeastOne, getattr(run.recipe, name))
    test = _value(path, "test", metrics["test"], measure)
    if test is None:
        raise InputError(f"{path} has no finite test {measure.name}: take it out of the experiment.")
    curve = {}
    for record in run.generations:
        check(f"{path}: generation", _Count, record.generation)
        value = _value(path, "test", record.test, measure)
        if value is not None:
            curve[record.generation + 1] = value
    return Outcome(
        path=path,
        recipe=run.recipe,
        revision=run.revision,
        measure=measure,
        test=test,
        train=_value(path, "train", metrics.get("train"), measure),
        validation=_value(path, "validation", metrics.get("validation"), measure),
        curve=curve or {result["generations"]: test},
        fingerprint=data["fingerprint"],
        train_samples=data["train_samples"],
        trained_on=result["samples_trained"] // result["generations"],
        test_samples=data["test_samples"],
        generations=result["generations"],
        samples_trained=result["samples_trained"],
        cases_evaluated=result["cases_evaluated"],
        seconds=result["seconds"],
        peak_memory=result.get("peak_memory"),
        candidates=candidates_of(str(path), run.generations),
    )


def _primary(path: Path, measures: Any) -> Measure:
    if not isinstance(measures, Sequence) or isinstance(measures, str) or not measures:
        raise InputError(f"{path}: measures must be a list of at least one measure, got {measures!r}.")
    first = _mapping(path, "the first measure", measures[0])
    found = Measure(
        name=first.get("name", ""),
        higher_is_better=first.get("higher_is_better", True),
        fraction=first.get("fraction", False),
    )
    for name, kind in (("name", str), ("higher_is_better", bool), ("fraction", bool)):
        check(f"{path}: {name} of the first measure", kind, getattr(found, name))
    return found


def _value(path: Path, part: str, metrics: Any, measure: Measure) -> float | None:
    """The measure as it is printed; None where it was not computed or is not finite."""
    value = None if metrics is None else _mapping(path, f"{part} metrics", metrics).get(measure.name)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    check(f"{path}: {part} {measure.name}", _Number, value)
    return 100.0 * value if measure.fraction else float(value)


def _mapping(path: Path, name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{path}: {name} must be a mapping, got {value!r:.80}.")
    return value
