"""The paper's experiments as lists of recipes, one's own comparison, and the running of many runs.

What only says which runs there are is free of torch; what runs them is imported on first use.
"""

from typing import TYPE_CHECKING

from gradlex._lazy import lazy_attributes
from gradlex.experiments._grid import Cell, Grid
from gradlex.experiments._identity import run_name
from gradlex.experiments._methods import METHODS, OWN_FIELDS, Method
from gradlex.experiments._paper import EXPERIMENTS, Scale, comparison, paper_grid
from gradlex.experiments._plan import Plan, Planned, stored_plan, stored_plans
from gradlex.experiments._published import Published, published

if TYPE_CHECKING:
    from gradlex.experiments._activations import (
        ACTIVATIONS,
        choose_layers,
        record_activations,
        stored_activations,
    )
    from gradlex.experiments._estimate import estimate
    from gradlex.experiments._jobs import Failure, Watcher, run_jobs
    from gradlex.experiments._prepare import Job, prepare

__all__ = [
    "ACTIVATIONS",
    "EXPERIMENTS",
    "METHODS",
    "OWN_FIELDS",
    "Cell",
    "Failure",
    "Grid",
    "Job",
    "Method",
    "Plan",
    "Planned",
    "Published",
    "Scale",
    "Watcher",
    "choose_layers",
    "comparison",
    "estimate",
    "paper_grid",
    "prepare",
    "published",
    "record_activations",
    "run_jobs",
    "run_name",
    "stored_activations",
    "stored_plan",
    "stored_plans",
]

_MODULES = {
    "_activations": ("ACTIVATIONS", "choose_layers", "record_activations", "stored_activations"),
    "_estimate": ("estimate",),
    "_jobs": ("Failure", "Watcher", "run_jobs"),
    "_prepare": ("Job", "prepare"),
}
__getattr__ = lazy_attributes(
    __name__, {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
)
