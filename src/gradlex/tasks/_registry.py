"""Tasks by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from gradlex._objects import load_object
from gradlex.errors import InputError, did_you_mean, refusing_as, unknown_name
from gradlex.tasks._classification import Classification
from gradlex.tasks._multi_label import MultiLabel
from gradlex.tasks._regression import Regression
from gradlex.tasks._segmentation import Segmentation
from gradlex.tasks._task import Measure, Task, part
from gradlex.tasks._tokens import Tokens

_PARTS = ("measures", "graded", "check", "loss", "errors", "metrics")

TASKS: Mapping[str, Callable[..., Task]] = {
    "classification": Classification,
    "multi-label": MultiLabel,
    "regression": Regression,
    "segmentation": Segmentation,
    "tokens": Tokens,
}


def make_task(name: str, options: Mapping[str, Any]) -> Task:
    """The task of this name, or of `module:Class`, with its options.

    Examples:
        >>> from gradlex.tasks import make_task
        >>> make_task("regression", {"criterion": "huber"}).criterion
        'huber'
    """
    if ":" in name:
        factory: Any = load_object(name, "task")
    elif name in TASKS:
        factory = TASKS[name]
    else:
        raise unknown_name("task", name, TASKS)
    if not callable(factory):  # an object that is a task already
        if options:
            raise InputError(f"task {name!r} is an object and takes no options, got {dict(options)}.")
        return checked_task(factory)
    with refusing_as(f"task {name!r}"):
        parameters = inspect.signature(factory).parameters.values()
    takes = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    for option in options:
        if option not in takes:
            allowed = f"it takes {', '.join(takes)}" if takes else "it takes none"
            raise InputError(
                f"task {name!r} has no option {option!r}: {allowed}.{did_you_mean(option, takes)}"
            )
    with refusing_as(f"task {name!r}"):
        made = factory(**options)
    return checked_task(made)


def checked_task(given: Any) -> Task:
    """A task object of the user's; refused where it lacks what a run needs of it."""
    if isinstance(given, type):
        raise InputError(
            f"the task must be an object, got the class {given.__name__}: give {given.__name__}()."
        )
    lacks = []
    for name in _PARTS:
        with refusing_as(part(given, name)):  # a property may raise anything
            lacks += [] if hasattr(given, name) else [name]
    if lacks:
        raise InputError(
            f"the task {type(given).__name__} lacks {', '.join(lacks)}: see gradlex.tasks.Task for what a task has."
        )
    for measure in given.measures:
        if not isinstance(measure, Measure):
            raise InputError(
                f"{part(given, 'measures')} must be gradlex.tasks.Measure objects, got {measure!r:.80}."
            )
    return given  # type: ignore[no-any-return]
