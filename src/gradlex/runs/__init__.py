"""One run: put together from names or objects, executed, recorded on disk, resumed, evaluated again."""

from gradlex.runs._device import find_device
from gradlex.runs._evaluate import FinishedModel, evaluate, finished_model
from gradlex.runs._execute import Callback, execute
from gradlex.runs._execution import Execution, Placement
from gradlex.runs._folder import RunFolder, refuse_unwritable
from gradlex.runs._interrupts import Interrupts, deaf
from gradlex.runs._members import choose_processes, launched, leading, with_room
from gradlex.runs._named import build_model, named_problem, resolved_for
from gradlex.runs._outcome import Run
from gradlex.runs._problem import Problem
from gradlex.runs._records import Record
from gradlex.runs._resolve import resolve_method
from gradlex.runs._resources import Chosen, choose_threads, native_bfloat16, processors
from gradlex.runs._resume import (
    continued,
    has_checkpoint,
    refuse_other_data,
    stored_device,
    stored_execution,
    stored_groups,
    stored_recipe,
)
from gradlex.runs._stored import StoredRun, stored_run
from gradlex.runs._train import train

__all__ = [
    "Callback",
    "Chosen",
    "Execution",
    "FinishedModel",
    "Interrupts",
    "Placement",
    "Problem",
    "Record",
    "Run",
    "RunFolder",
    "StoredRun",
    "build_model",
    "choose_processes",
    "choose_threads",
    "continued",
    "deaf",
    "evaluate",
    "execute",
    "find_device",
    "finished_model",
    "has_checkpoint",
    "launched",
    "leading",
    "named_problem",
    "native_bfloat16",
    "processors",
    "refuse_other_data",
    "refuse_unwritable",
    "resolve_method",
    "resolved_for",
    "stored_device",
    "stored_execution",
    "stored_groups",
    "stored_recipe",
    "stored_run",
    "train",
    "with_room",
]
