"""What a network learns: the loss, the error of each case, and the metrics. No other room knows what accuracy is."""

from gradlex.tasks.class_table import ClassTable
from gradlex.tasks.classification import Classification
from gradlex.tasks.custom import Custom
from gradlex.tasks.make import TASKS, infer_task, make_task
from gradlex.tasks.multi_label import MultiLabel
from gradlex.tasks.regression import Regression
from gradlex.tasks.task import Measure, Task

__all__ = [
    "TASKS",
    "ClassTable",
    "Classification",
    "Custom",
    "Measure",
    "MultiLabel",
    "Regression",
    "Task",
    "infer_task",
    "make_task",
]
