"""gradlex trains neural networks by gradient lexicase selection (Ding and Spector, ICLR 2022).

`import gradlex` imports no torch: what needs it is imported on first use.
"""

from typing import TYPE_CHECKING

from gradlex import data, models, population, selection
from gradlex._lazy import lazy_attributes
from gradlex._version import __version__
from gradlex.errors import InputError, RunError
from gradlex.evolve import Generation, evolve
from gradlex.population import Parent
from gradlex.recipe import Recipe

if TYPE_CHECKING:
    from gradlex import engine, experiments, report, runs, tasks
    from gradlex.runs import Run, train

__all__ = [
    "Generation",
    "InputError",
    "Parent",
    "Recipe",
    "Run",
    "RunError",
    "__version__",
    "data",
    "engine",
    "evolve",
    "experiments",
    "models",
    "population",
    "report",
    "runs",
    "selection",
    "tasks",
    "train",
]

__getattr__ = lazy_attributes(
    __name__,
    attributes={"Run": "gradlex.runs", "train": "gradlex.runs"},
    modules=("engine", "experiments", "report", "runs", "tasks"),
)
