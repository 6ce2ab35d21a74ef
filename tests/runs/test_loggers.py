"""Loggers: what they write is what the run records, also after a resume, and none of them can end a run."""

from __future__ import annotations

import csv
import importlib.util
import json

import pytest

import gradlex
from gradlex.callbacks import CSV, LOGGERS, Logger, MLflow, TensorBoard, Trackio, WandB, numbers
from gradlex.cli import main
from gradlex.runs import stored_run

pytestmark = pytest.mark.filterwarnings("ignore")  # other libraries' own


class Killed(BaseException):
    """Ends a run as the loss of power would."""


class KillAt(gradlex.Callback):
    def __init__(self, generation):
        self.generation = generation

    def on_generation(self, run, record):
        if record.generation == self.generation:
            raise Killed


def needs(library):
    missing = importlib.util.find_spec(library) is None
    return pytest.mark.skipif(missing, reason=f"{library} is not installed")


@pytest.fixture(autouse=True)
def at_home(monkeypatch, tmp_path):
    """Everything local, below the test's folder."""
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_TRACKING_URI": str(tmp_path / "mlruns"),
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }.items():
        monkeypatch.setenv(name, value)


def read_tensorboard(path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(path / "tensorboard"))
    events.Reload()
    return {tag: {e.step: e.value for e in events.Scalars(tag)} for tag in events.Tags()["scalars"]}, {
        tag: [e.step for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]
    }


def read_trackio(path):
    from trackio.sqlite_storage import SQLiteStorage

    name = json.loads((path / "loggers.json").read_text())["trackio"]["run"]
    return by_step((row["step"], row) for row in SQLiteStorage.get_logs("gradlex", name))


def read_mlflow(path):
    from mlflow import MlflowClient

    client, run = MlflowClient(), json.loads((path / "loggers.json").read_text())["mlflow"]["run"]
    found = {}
    for key in client.get_run(run).data.metrics:
        found[key] = [(metric.step, metric.value) for metric in client.get_metric_history(run, key)]
    return {key: dict(each) for key, each in found.items()}, {
        key: [step for step, _ in each] for key, each in found.items()
    }


def read_csv(path):
    with open(path / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return by_step((int(row["generation"]), row) for row in rows)


def by_step(rows):
    """Values and steps by name, without what only the store has."""
    values, steps = {}, {}
    for step, row in rows:
        for key, value in row.items():
            if key in ("generation", "step", "timestamp") or value == "":
                continue
            values.setdefault(key, {})[step] = float(value)
            steps.setdefault(key, []).append(step)
    return values, steps


READ = {"tensorboard": read_tensorboard, "trackio": read_trackio, "mlflow": read_mlflow, "csv": read_csv}
LOCAL = [pytest.param(name, marks=() if name == "csv" else needs(name)) for name in READ]


@pytest.fixture
def trackio_dir(monkeypatch, tmp_path):
    """trackio reads where its store is once, when it is imported."""
    if importlib.util.find_spec("trackio") is not None:
        import trackio.sqlite_storage
        import trackio.utils

        for module in (trackio, trackio.utils, trackio.sqlite_storage):
            if hasattr(module, "TRACKIO_DIR"):
                monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path / "trackio")


def expected(path):
    """What a log must hold: the numbers of generations.jsonl and evaluations.jsonl."""
    found = {}
    for record in stored_run(path).generations:
        for name, value in numbers(record).items():
            found.setdefault(name, {})[record.generation] = pytest.approx(value, rel=1e-6)
    return found


def test_the_numbers_are_those_of_the_files(images, tiny_cnn, small, tmp_path):
    gradlex.train(tiny_cnn(), images, small, test=images, out=tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "generations.jsonl").read_text().splitlines()]
    evaluated = json.loads((tmp_path / "run" / "evaluations.jsonl").read_text().splitlines()[-1])
    logged = numbers(stored_run(tmp_path / "run").generations[-1])
    assert logged["lr"] == lines[-1]["lr"]
    assert [logged[f"loss/candidate{index}"] for index in range(3)] == lines[-1]["losses"]
    assert logged["loss/selected"] == lines[-1]["losses"][lines[-1]["selected"]]
    assert logged["selection/cases_used"] == lines[-1]["cases_used"]
    assert logged["candidates/spread"] == lines[-1]["spread"]
    assert logged["seconds/train"] == lines[-1]["train_seconds"]
    assert logged["test/accuracy"] == evaluated["metrics"]["test"]["accuracy"]


@pytest.mark.parametrize("name", LOCAL)
def test_a_log_read_back_has_the_values_of_the_records(name, images, tiny_cnn, small, tmp_path, trackio_dir):
    logger, out = LOGGERS[name](), tmp_path / "run"
    gradlex.train(tiny_cnn(), images, small.replace(generations=3), test=images, out=out, callbacks=[logger])
    values, _ = READ[name](out)
    assert values == expected(out)


@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize("every", [1, 3])
def test_a_resumed_run_continues_its_log_without_a_step_twice(
    every, name, images, tiny_cnn, small, tmp_path, trackio_dir
):
    recipe, out = small.replace(generations=5), tmp_path / "run"
    with pytest.raises(Killed):
        gradlex.train(
            tiny_cnn(),
            images,
            recipe,
            out=out,
            checkpoint_every=every,
            callbacks=[LOGGERS[name](), KillAt(3)],
        )
    gradlex.train(tiny_cnn(), images, recipe, out=out, resume=True, callbacks=[LOGGERS[name]()])
    values, steps = READ[name](out)
    assert steps["lr"] == [0, 1, 2, 3, 4]
    wanted = expected(out)
    for each in ("lr", "loss/selected", "selection/cases_used"):
        assert values[each] == wanted[each]


@pytest.mark.parametrize("name", LOCAL)
def test_a_logger_that_joins_on_resume_has_the_generations_before(
    name, images, tiny_cnn, small, tmp_path, trackio_dir
):
    recipe, out = small.replace(generations=4), tmp_path / "run"
    with pytest.raises(Killed):
        gradlex.train(tiny_cnn(), images, recipe, out=out, callbacks=[KillAt(1)])
    gradlex.train(tiny_cnn(), images, recipe, out=out, resume=True, callbacks=[LOGGERS[name]()])
    assert READ[name](out)[1]["lr"] == [0, 1, 2, 3]


@needs("wandb")
def test_weights_and_biases_takes_an_offline_run(images, tiny_cnn, small, tmp_path, caplog):
    gradlex.train(tiny_cnn(), images, small, out=tmp_path / "run", callbacks=[WandB()])
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb"))
    assert "failed" not in caplog.text


class Breaks(Logger):
    """Raises where it is told to."""

    name = "breaks"

    def __init__(self, where):
        self.where, self.calls = where, []

    def open(self, run):
        return self._do("open") or 0

    def write(self, generation, numbers):
        self._do("write")

    def close(self, run):
        self._do("close")

    def _do(self, what):
        self.calls.append(what)
        if what == self.where:
            raise ConnectionError("nobody there")


@pytest.mark.parametrize(
    ("where", "calls"),
    [
        ("open", ["open", "close"]),
        ("write", ["open", "write", "close"]),
        ("close", ["open", "write", "write", "close"]),
    ],
)
def test_a_logger_that_raises_is_reported_once_and_changes_no_byte(
    where, calls, images, tiny_cnn, small, tmp_path, caplog
):
    logger = Breaks(where)
    gradlex.train(tiny_cnn(), images, small, test=images, out=tmp_path / "with", callbacks=[logger])
    gradlex.train(tiny_cnn(), images, small, test=images, out=tmp_path / "without")
    assert logger.calls == calls
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == (
        "the logger Breaks failed, and the run continues without it: ConnectionError: nobody there"
    )
    for name in ("model.safetensors", "evaluations.jsonl"):
        assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()


def test_a_logger_without_a_place_to_write_is_reported(images, tiny_cnn, small, caplog):
    gradlex.train(tiny_cnn(), images, small, callbacks=[CSV()])
    assert "must be given a path of its own" in caplog.text


def test_a_path_of_its_own_is_used(images, tiny_cnn, small, tmp_path):
    gradlex.train(tiny_cnn(), images, small, callbacks=[CSV("logs/mine.csv")])
    assert (tmp_path / "logs" / "mine.csv").read_text().count("\n") == 3


@pytest.mark.parametrize("kind", [TensorBoard, WandB, Trackio, MLflow])
def test_a_logger_whose_library_is_missing_is_refused_with_the_extra(kind, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(gradlex.InputError, match=rf"pip install 'gradlex\[{kind.name}\]'"):
        kind()


def test_the_command_refuses_it_before_anything_is_written(monkeypatch, tmp_path, quick, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as caught:
        main([*quick, "--log", "csv", "mlflow"])
    assert caught.value.code == 2
    assert "pip install 'gradlex[mlflow]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_command_logs_and_resumes_with_the_loggers_it_had(tmp_path, quick, capsys):
    main([*quick, "--log", "csv", "--out", "run"])
    whole = (tmp_path / "run" / "log.csv").read_text()
    assert whole.count("\n") == 4
    (tmp_path / "run" / "log.csv").unlink()
    main(["resume", "run"])
    assert (tmp_path / "run" / "log.csv").read_text() == whole
    (tmp_path / "run" / "log.csv").unlink()
    main(["resume", "run", "--log", "none"])
    assert not (tmp_path / "run" / "log.csv").exists()


def test_what_the_run_has_of_its_loggers_may_be_damaged(tmp_path, quick, capsys):
    main([*quick, "--log", "csv", "--out", "run"])
    (tmp_path / "run" / "loggers.json").write_text("[1]")
    with pytest.raises(SystemExit) as caught:
        main(["resume", "run"])
    assert caught.value.code == 2
    assert "loggers.json" in capsys.readouterr().err
