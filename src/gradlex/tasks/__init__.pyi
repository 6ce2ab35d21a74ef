from ._classification import CaseError as CaseError
from ._classification import Classification as Classification
from ._registry import TASKS as TASKS
from ._registry import checked_task as checked_task
from ._registry import make_task as make_task
from ._task import Measure as Measure
from ._task import Task as Task
