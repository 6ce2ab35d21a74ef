"""What a network learns: the loss, the error of each case, and the metrics. No other package knows what accuracy is."""

from gradlex.tasks.classification import Classification as Classification
from gradlex.tasks.custom import Custom as Custom
from gradlex.tasks.make import TASKS as TASKS
from gradlex.tasks.make import make_task as make_task
from gradlex.tasks.multi_label import MultiLabel as MultiLabel
from gradlex.tasks.regression import Regression as Regression
from gradlex.tasks.task import Measure as Measure
from gradlex.tasks.task import Task as Task
