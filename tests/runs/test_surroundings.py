"""What the caller has set for the process stays out of a run, and is as it was afterwards."""

import multiprocessing
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import gradlex

FIELDS: dict[str, Any] = {"epochs": 2, "batch_size": 10, "population": 2, "precision": "float32"}


def points() -> tuple[Tensor, Tensor]:
    x = torch.randn(80, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float32, device="cpu")
    return x, (x[:, 0] > 0).long()


def net() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        make = {"dtype": torch.float32, "device": "cpu"}
        return nn.Sequential(nn.Linear(6, 16, **make), nn.Tanh(), nn.Dropout(0.3), nn.Linear(16, 2, **make))


def weights(run: gradlex.Run) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in run.model.parameters()])


@pytest.fixture(scope="module")
def alone() -> tuple[Tensor, float]:
    """The weights and the test loss of the run without anything around it."""
    run = gradlex.train(net(), points(), test=points(), threads=1, **FIELDS)
    return weights(run), run.metrics["test"]["loss"]


@contextmanager
def default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def default_device() -> Iterator[None]:
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize(
    "around",
    [
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        torch.no_grad,
        torch.inference_mode,
        default_dtype,
        default_device,
        lambda: torch.device("meta"),
    ],
    ids=["autocast", "no_grad", "inference_mode", "default dtype", "default device", "device context"],
)
def test_what_surrounds_the_call_does_not_leak_into_the_run(
    around: Callable[[], AbstractContextManager[Any]], alone: tuple[Tensor, float]
) -> None:
    model, data = net(), points()
    with around():
        run = gradlex.train(model, data, test=data, threads=1, **FIELDS)
        autocast, grad, dtype = torch.is_autocast_enabled("cpu"), torch.is_grad_enabled(), torch.get_default_dtype()
    with around():
        assert (autocast, grad, dtype) == (
            torch.is_autocast_enabled("cpu"),
            torch.is_grad_enabled(),
            torch.get_default_dtype(),
        )
    assert torch.equal(weights(run), alone[0])
    assert run.metrics["test"]["loss"] == alone[1]


def test_a_network_by_name_is_built_alike_under_another_default_dtype() -> None:
    fields = {**FIELDS, "train_size": 100, "model": "mlp"}
    plain = gradlex.train(**fields)
    with default_dtype():
        assert torch.equal(weights(gradlex.train(**fields)), weights(plain))


def test_the_callers_autocast_does_not_change_a_prediction() -> None:
    x, _ = points()
    run = gradlex.train(net(), points(), threads=1, **FIELDS)
    chances = run.probabilities(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(run.probabilities(x), chances)


@pytest.mark.parametrize("around", [default_dtype, default_device, torch.inference_mode])
def test_a_run_is_loaded_alike_whatever_surrounds_the_call(
    around: Callable[[], AbstractContextManager[Any]], tmp_path: Path
) -> None:
    run = gradlex.train(out=tmp_path / "run", train_size=100, model="mlp", **FIELDS)
    with around():
        loaded = gradlex.load(tmp_path / "run")
    assert torch.equal(weights(loaded), weights(run))
    assert loaded.evaluate() == run.metrics["test"]
    assert not any(parameter.is_inference() for parameter in loaded.model.parameters())


class Draws(gradlex.Callback):
    """Draws from every global generator."""

    def on_start(self, run: Any) -> None:
        random.random(), np.random.rand(), torch.rand(1)


def test_the_random_state_threads_handlers_and_the_hook_for_errors_are_as_they_were() -> None:
    def state() -> list[object]:
        numpy = np.random.get_state()
        assert isinstance(numpy, tuple)
        return [
            torch.get_rng_state().tolist(),
            random.getstate(),
            numpy[1].tolist(),
            torch.get_num_threads(),
            torch.are_deterministic_algorithms_enabled(),
            torch.get_default_dtype(),
            [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
            sys.excepthook,
        ]

    before, model = state(), net()
    gradlex.train(model, points(), threads=3, deterministic=True, seed=9, callbacks=[Draws()], **FIELDS)
    assert state() == before


def test_handlers_are_as_they_were_also_after_an_error_in_a_run_with_a_folder(tmp_path: Any) -> None:
    inside = []

    class Fails(gradlex.Callback):
        def on_generation(self, record: Any, run: Any) -> None:
            inside.append(signal.getsignal(signal.SIGINT))
            raise RuntimeError("stop")

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(RuntimeError, match="stop"):
        gradlex.train(net(), points(), out=tmp_path / "run", callbacks=[Fails()], **FIELDS)
    assert inside[0] is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_runs_in_several_threads_are_each_as_if_alone(
    alone: tuple[Tensor, float], caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(5)
    before, found = torch.get_rng_state(), dict[int, Tensor]()

    def job(number: int) -> None:
        found[number] = weights(gradlex.train(model, points(), threads=1, **FIELDS))

    model = net()
    jobs = [threading.Thread(target=job, args=(number,)) for number in range(4)]
    for thread in jobs:
        thread.start()
    for thread in jobs:
        thread.join()
    assert all(torch.equal(found[number], alone[0]) for number in range(4))
    assert torch.equal(torch.get_rng_state(), before)
    assert "another thread of this process is training" in caplog.text


def test_a_run_that_another_thread_loads_meanwhile_disturbs_no_training(tmp_path: Path) -> None:
    fields = {**FIELDS, "epochs": 20, "threads": 1}
    gradlex.train(out=tmp_path / "run", train_size=100, model="mlp", **FIELDS)
    plain = gradlex.train(net(), points(), **fields)
    loading = threading.Thread(target=lambda: [gradlex.load(tmp_path / "run") for _ in range(30)])

    class Starts(gradlex.Callback):
        def on_start(self, run: Any) -> None:
            loading.start()

    run = gradlex.train(net(), points(), callbacks=[Starts()], **fields)
    loading.join()
    assert torch.equal(weights(run), weights(plain))


class Threads(gradlex.Callback):
    """Notes how many threads a run computes with."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_generation(self, record: Any, run: Any) -> None:
        self.seen.append(torch.get_num_threads())
        assert run.environment["threads"] == self.seen[-1]


def threads_of_a_run(**options: Any) -> int:
    noted = Threads()
    model = options.pop("model", None) or net()
    gradlex.train(model, points(), callbacks=[noted], **{**FIELDS, "epochs": 1, **options})
    return noted.seen[0]


def large() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 3_000), nn.Linear(3_000, 3_000), nn.Linear(3_000, 2))


def test_threads_are_those_of_torch_unless_a_number_is_given() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert threads_of_a_run() == 1  # so small a network gains nothing from two
        assert threads_of_a_run(threads=2) == 2
        assert threads_of_a_run(model=large(), batch_size=40) == 2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    with pytest.raises(gradlex.InputError, match="threads must be a whole number of at least 1 or 'auto', got 0"):
        threads_of_a_run(threads=0)


def _in_a_worker(connection: Any) -> None:
    torch.set_num_threads(2)
    connection.send(threads_of_a_run(model=large(), batch_size=40))


@pytest.mark.slow
def test_a_worker_process_takes_one_thread() -> None:
    here, there = multiprocessing.Pipe()
    worker = multiprocessing.get_context("fork").Process(target=_in_a_worker, args=(there,))
    worker.start()
    assert here.recv() == 1
    worker.join()
    workers = joblib.Parallel(n_jobs=2)(
        joblib.delayed(joblib.wrap_non_picklable_objects(threads_of_a_run))() for _ in range(2)
    )
    assert list(workers) == [1, 1]
