"""What loggers there are, by name. Free of torch and of their libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from gradlex.callbacks._csv import CSV
from gradlex.callbacks._logger import Logger
from gradlex.callbacks._mlflow import MLflow
from gradlex.callbacks._tensorboard import TensorBoard
from gradlex.callbacks._wandb import Trackio, WandB

LoggerName: TypeAlias = Literal["tensorboard", "wandb", "trackio", "mlflow", "csv"]

LOGGERS: Mapping[str, type[Logger]] = {kind.name: kind for kind in (TensorBoard, WandB, Trackio, MLflow, CSV)}
"""Each can be made without arguments."""
