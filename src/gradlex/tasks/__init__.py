"""What is learnt."""

from gradlex.tasks._classification import Classification
from gradlex.tasks._task import Task

__all__ = ["Classification", "Task"]
