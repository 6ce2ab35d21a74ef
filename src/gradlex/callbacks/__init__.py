"""What watches a run: the record of a generation, callbacks, progress, loggers."""

from collections.abc import Mapping

from gradlex.callbacks.callback import Callback as Callback
from gradlex.callbacks.loggers import Logger as Logger
from gradlex.callbacks.loggers import TensorBoard as TensorBoard
from gradlex.callbacks.loggers import WandB as WandB
from gradlex.callbacks.progress import Progress as Progress
from gradlex.callbacks.record import Record as Record

LOGGERS: Mapping[str, type[Logger]] = {"tensorboard": TensorBoard, "wandb": WandB}
"""Each can be made without arguments."""
