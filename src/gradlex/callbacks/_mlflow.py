"""MLflow, with a local folder as its store unless another is configured."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Mapping
from typing import Any

from gradlex.callbacks._callback import LiveRun
from gradlex.callbacks._logger import Logger, require

_ENDED = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}


class MLflow(Logger):
    """MLflow at `uri` (default: MLFLOW_TRACKING_URI, else the folder mlruns).

    Examples:
        >>> from gradlex.callbacks import MLflow
        >>> logger = MLflow("my-experiment", uri="mlruns")  # then gradlex.train(..., callbacks=[logger])
        >>> logger.name
        'mlflow'
    """

    name = "mlflow"

    def __init__(self, experiment: str = "gradlex", *, uri: str | None = None) -> None:
        require("mlflow", extra="mlflow")
        self._experiment, self._uri = experiment, uri
        self._client: Any = None

    def open(self, run: LiveRun) -> int:
        """A resumed run continues the one it logged to before, after its last step."""
        uri = self._uri or os.environ.get("MLFLOW_TRACKING_URI") or "mlruns"
        if "://" not in uri and not uri.startswith("databricks"):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # which MLflow 3 wants to be told
        mlflow, entities = importlib.import_module("mlflow"), importlib.import_module("mlflow.entities")
        self._metric = entities.Metric
        self._client = mlflow.MlflowClient(tracking_uri=uri)
        if "run" in self.notes:
            self._client.update_run(self.notes["run"], status="RUNNING")
            logged = self._client.get_metric_history(self.notes["run"], "lr")
            return max((metric.step + 1 for metric in logged), default=0)
        found = self._client.get_experiment_by_name(self._experiment)
        experiment = found.experiment_id if found else self._client.create_experiment(self._experiment)
        made = self._client.create_run(experiment, run_name=None if run.path is None else run.path.name)
        self.notes["run"] = made.info.run_id
        params = [entities.Param(name, str(value)) for name, value in run.recipe.to_dict().items()]
        self._client.log_batch(self.notes["run"], params=params)
        return 0

    def write(self, generation: int, numbers: Mapping[str, float]) -> None:
        """One metric per number, the generation as its step."""
        now = int(time.time() * 1000)
        metrics = [self._metric(name, value, now, generation) for name, value in numbers.items()]
        self._client.log_batch(self.notes["run"], metrics=metrics)

    def close(self, run: LiveRun) -> None:
        """Say how the run ended."""
        if self._client is not None and "run" in self.notes:
            self._client.set_terminated(self.notes["run"], status=_ENDED[run.ended or "failed"])
