"""A process that has imported everything and computes nothing: each line it reads forks the command once.

A fork takes milliseconds where a new process would import torch for seconds. The child is a real process that can
be killed; faults are injected into it by replacing functions, never by the product's own code.
"""

from __future__ import annotations

import builtins
import errno
import functools
import gc
import json
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import traceback

MUTATIONS = ("fsync", "rename", "replace", "mkdir", "rmdir", "unlink", "truncate")


class Fault:
    """Counts the steps of one kind and acts at some of them.

    kind: file (operations that change the run folder), train (candidates), select (questions to candidates), or a
    step of the start of workers: spawn, send, join. action: the number of a signal to itself, an errno that the
    operation fails with, or "worker": the first worker is killed.
    """

    def __init__(self, folder, kind, at, action, log=None):
        self.folder, self.kind, self.at, self.action, self.log = folder, kind, set(at), action, log
        self.steps = 0

    def step(self, what):
        """Whether to act at this step, an operation and the name of its file; a checkpoint's hash is left out."""
        self.steps += 1
        what = re.sub(r"-[0-9a-f]{16}(?=\.safetensors)", "", what)
        if self.log:
            with REAL["open"](self.log, "a") as file:
                file.write(f"{what}\n")
        return self.steps in self.at

    def act(self, path=None):
        if self.action == "worker":
            min(multiprocessing.active_children(), key=lambda child: child.pid).kill()
            return
        if isinstance(self.action, str):
            number = getattr(errno, self.action)
            raise OSError(number, os.strerror(number), *([] if path is None else [path]))
        os.kill(os.getpid(), self.action)

    def inside(self, path):
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self.folder)


REAL = {"open": builtins.open, **{name: getattr(os, name) for name in MUTATIONS}}


class Writer:
    """A file whose write can stop in the middle."""

    def __init__(self, file, fault, path):
        self._file, self._fault, self._path = file, fault, path

    def write(self, data):
        if self._fault.step(f"write {os.path.basename(self._path)}"):
            half = len(data) // 2
            self._file.write(data[:half])
            self._file.flush()
            self._fault.act()
            return half + self._file.write(data[half:])
        return self._file.write(data)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()


def inject_files(fault):
    def wrap(name):
        def operation(path, *rest, **keywords):
            named = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else path
            if keywords.get("dir_fd") is not None:
                named = os.path.join(os.readlink(f"/proc/self/fd/{keywords['dir_fd']}"), path)
            if fault.inside(named) and fault.step(f"{name} {os.path.basename(named)}"):
                fault.act(None if isinstance(path, int) else named)  # an open file has no name in its error
            return REAL[name](path, *rest, **keywords)

        return operation

    def opened(path, mode="r", *rest, **keywords):
        if not fault.inside(path) or not set(mode) & set("wa+"):
            return REAL["open"](path, mode, *rest, **keywords)
        if fault.step(f"open {os.path.basename(path)}"):
            fault.act(os.fspath(path))
        return Writer(REAL["open"](path, mode, *rest, **keywords), fault, path)

    for name in MUTATIONS:
        setattr(os, name, wrap(name))
    builtins.open = opened


def inject_calls(fault, owner, name, *, after=False):
    real = getattr(owner, name)

    def call(*arguments, **keywords):
        due = fault.step(name)
        if due and not after:
            fault.act()
        found = real(*arguments, **keywords)
        if due and after:
            fault.act()
        return found

    setattr(owner, name, call)


def inject(fault):
    import torch.distributed as dist

    from gradlex.engine import Worker
    from gradlex.runs import _local_workers

    if fault.kind == "file":
        inject_files(fault)
    elif fault.kind == "spawn":
        inject_calls(fault, _local_workers, "_spawned", after=True)
    else:
        places = {
            "train": (Worker, "augmented"),
            "select": (Worker, "errors"),
            "send": (_local_workers._Worker, "send"),
            "join": (dist, "init_process_group"),
        }
        inject_calls(fault, *places[fault.kind])


def child(order):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as it is for SIGTERM, until the command hears them
    signal.alarm(order.get("seconds", 120))
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    os.chdir(order["cwd"])
    for number in order.get("ignored", ()):
        signal.signal(number, signal.SIG_IGN)
    if order.get("largest_file") is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["largest_file"], resource.RLIM_INFINITY))
    for given in order["faults"]:
        inject(Fault(**given))
    if order.get("temporary"):  # a process group of its own, and temporary files
        os.setsid()
        os.environ["TMPDIR"] = tempfile.tempdir = order["temporary"]
    if order.get("no_pickle"):
        refuse_pickle()
    from other_problems import PROBLEMS
    from other_problems import main as train_other

    from gradlex.__main__ import main

    sys.argv = ["gradlex", *order["arguments"]]
    try:
        if order["arguments"][0] in PROBLEMS:
            train_other(order["arguments"])
        else:
            main()
    except SystemExit as end:
        return end.code or 0
    except BaseException:  # noqa: BLE001  # what Python itself would do with it
        traceback.print_exc()
        return 1
    return 0


def refuse_pickle():
    import pickle

    import numpy as np
    import torch

    def never(*_, **__):
        raise AssertionError("a pickle was read")

    pickle.load = pickle.loads = pickle.Unpickler = torch.load = never
    real = np.load
    np.load = lambda *given, **how: never() if how.get("allow_pickle") else real(*given, **how)


def warm():
    """Import whatever a run imports on its way, by preparing one; nothing here starts a thread."""
    sys.modules["pyarrow"] = None  # it does, and scikit-learn and pandas import it where it is installed
    import rich._emoji_codes
    import sklearn.datasets
    import torch

    torch.set_num_threads(1)
    # The digits are a text file: parsed once, not by every command.
    sklearn.datasets.load_digits = functools.cache(sklearn.datasets.load_digits)
    from other_problems import PROBLEMS

    from gradlex import Recipe
    from gradlex.callbacks import Progress
    from gradlex.cli import _evaluate
    from gradlex.cli._arguments import parse
    from gradlex.cli._train import Train
    from gradlex.runs import Execution, Named, _local_workers, make_problem, start

    device = torch.device("cpu")
    make_problem(Named(), Recipe(model="mlp", threads=1), execution=Execution(), device=device)
    parse(Train, "gradlex train", [])
    assert all((rich._emoji_codes, _evaluate, Progress, start, _local_workers, PROBLEMS))
    assert len(os.listdir("/proc/self/task")) == 1


def serve():
    warm()
    gc.freeze()  # what is imported stays as it is: a collection in a child would copy the memory it looks through
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if "end" in order:  # the pipe's own end may be kept open by a process that another test has forked
            break
        if "wait" in order:
            _, status = os.waitpid(order["wait"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            code = child(order)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        print(pid, flush=True)
    os._exit(0)


if __name__ == "__main__":
    serve()
