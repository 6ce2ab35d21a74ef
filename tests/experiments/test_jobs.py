"""Where jobs run: fresh processes, this process, Ray."""

from __future__ import annotations

import functools
import math
import os
import time

import pytest

from gradlex import InputError
from gradlex.experiments.jobs import make_backend, portable


def call(function, *arguments):
    return functools.partial(function, *arguments)


@pytest.fixture(scope="module")
def ended():
    """What became of four jobs in two processes at a time."""
    jobs = {"root": call(math.sqrt, 4.0), "bad": call(int, "x"), "dies": call(os._exit, 3), "pid": os.getpid}
    return {finished.name: finished for finished in make_backend("processes", 2).run(jobs)}


def test_each_job_returns_what_its_function_returned(ended):
    assert (ended["root"].value, ended["root"].reason) == (2.0, "")


def test_each_job_has_a_process_of_its_own(ended):
    assert ended["pid"].value != os.getpid()


def test_a_job_that_raises_is_reported_with_its_traceback(ended):
    assert ended["bad"].reason.startswith("ValueError: invalid literal")
    assert "Traceback" in ended["bad"].traceback


def test_a_process_that_ends_early_is_reported(ended):
    assert "exit code 3" in ended["dies"].reason


def test_closing_ends_what_is_running():
    started = time.monotonic()
    running = make_backend("processes", 2).run({"quick": os.getpid, "slow": call(time.sleep, 600)})
    assert next(running).name == "quick"
    running.close()
    assert time.monotonic() - started < 60


def test_the_serial_backend_goes_in_order():
    jobs = {"first": call(math.sqrt, 1.0), "bad": call(int, "x"), "pid": os.getpid}
    ended = list(make_backend("serial").run(jobs))
    assert [finished.name for finished in ended] == ["first", "bad", "pid"]
    assert ended[2].value == os.getpid()


def test_an_input_error_is_marked():
    def job():
        raise InputError("population must be a whole number")

    (finished,) = make_backend("serial").run({"job": job})
    assert finished.bad_input
    assert finished.reason == "population must be a whole number"


@pytest.mark.parametrize(
    ("backend", "jobs", "message"),
    [
        ("rays", 1, "unknown backend 'rays'. Did you mean 'ray'?"),
        ("processes", 0, "jobs must be a whole number of at least 1, got 0"),
        ("processes(num_gpus=1)", 1, "backend 'processes' has no option 'num_gpus'"),
        ("serial", 2, "one job at a time"),
    ],
)
def test_a_bad_backend_raises(backend, jobs, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(").replace(")", r"\)")):
        make_backend(backend, jobs)


def test_a_backend_of_ones_own_is_used_as_it_is():
    class Own:
        def run(self, jobs):
            yield from ()

    own = Own()
    assert make_backend(own) is own


def test_an_importable_function_travels_by_name_and_a_closure_by_value():
    assert portable(math.sqrt) is math.sqrt
    three = 3
    assert portable(lambda: three)() == 3


@pytest.mark.slow
def test_ray_runs_jobs_in_processes_of_their_own():
    pytest.importorskip("ray")
    jobs = {"root": call(math.sqrt, 4.0), "bad": call(int, "x"), "dies": call(os._exit, 3), "pid": os.getpid}
    ended = {finished.name: finished for finished in make_backend("ray", 2).run(jobs)}
    assert ended["root"].value == 2.0
    assert ended["bad"].reason.startswith("ValueError")
    assert ended["dies"].reason.startswith("Ray ended it")
    assert ended["pid"].value != os.getpid()
