from . import callbacks as callbacks
from . import data as data
from . import experiments as experiments
from . import models as models
from . import population as population
from . import report as report
from . import runs as runs
from . import selection as selection
from . import tasks as tasks

__version__: str
from .callbacks import Callback as Callback
from .callbacks import Record as Record
from .errors import InputError as InputError
from .errors import RunError as RunError
from .evolve import Generation as Generation
from .evolve import evolve as evolve
from .population import Candidate as Candidate
from .population import Population as Population
from .recipe import Recipe as Recipe
from .report import compare as compare
from .report import paper as paper
from .report import results as results
from .runs import Run as Run
from .runs import load as load
from .runs import resume as resume
from .runs import train as train
from .selection import Choice as Choice
