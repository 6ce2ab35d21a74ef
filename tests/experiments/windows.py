"""`python windows.py FOLDER`: experiments and workers without what Windows lacks; FOLDER/found.json has what happened.

multiprocessing and torch stay this system's own. The modules of gradlex see `os`, `signal` and `sys` as Windows has
them, in spawned processes too, since those import this file first.
"""

from __future__ import annotations

import errno
import importlib
import json
import multiprocessing
import os
import pkgutil
import signal
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from torch import nn  # before what it may need is taken away

import gradlex

LACKS = {
    *(
        "fork",
        "forkpty",
        "killpg",
        "setsid",
        "setpgid",
        "getpgid",
        "getuid",
        "geteuid",
        "getgid",
        "chown",
        "fchown",
    ),
    *(
        "sched_getaffinity",
        "getloadavg",
        "register_at_fork",
        "wait",
        "waitid",
        "WNOHANG",
        "mkfifo",
        "uname",
        "nice",
    ),
    *("sysconf", "statvfs", "pread", "pwrite", "sendfile", "openpty", "lockf", "memfd_create", "pidfd_open"),
    *(
        "set_blocking",
        "posix_spawn",
        "posix_fallocate",
        "O_NONBLOCK",
        "O_CLOEXEC",
        "O_DIRECTORY",
        "O_NOFOLLOW",
    ),
}
SIGNALS = ("SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM", "SIG_DFL", "SIG_IGN", "NSIG")
FUNCTIONS = ("signal", "getsignal", "default_int_handler", "raise_signal", "set_wakeup_fd", "strsignal")


def _read(number: int, size: int) -> bytes:
    raise OSError(errno.EBADF, "a pipe there is a handle, not a file descriptor")


def _open(path: Any, *rest: Any) -> int:
    if os.path.isdir(path):
        raise PermissionError(errno.EACCES, "a folder cannot be opened there", str(path))
    return os.open(path, *rest)


def _windows() -> dict[str, Any]:
    own = {name: value for name, value in vars(os).items() if name not in LACKS}
    codes = {"Signals": signal.Signals, "Handlers": signal.Handlers}
    heard = {name: getattr(signal, name) for name in (*SIGNALS, *FUNCTIONS)}
    return {
        "os": SimpleNamespace(**{**own, "name": "nt", "read": _read, "open": _open}),
        "signal": SimpleNamespace(**heard, **codes),
        "sys": SimpleNamespace(**{**vars(sys), "platform": "win32"}),
    }


def patch() -> int:
    """Put them into the modules of gradlex; into how many places."""
    found: dict[str, ModuleType] = {}
    reports = ["gradlex.report"] if __name__ == "__main__" else []  # spawned processes make none
    for package in ("gradlex.runs", "gradlex.experiments", "gradlex.callbacks", *reports):
        root = importlib.import_module(package)
        for module in pkgutil.walk_packages(root.__path__, f"{package}."):
            if not module.name.endswith(("._ray", "._slurm")):
                found[module.name] = importlib.import_module(module.name)
    found |= {name: importlib.import_module(f"gradlex.{name}") for name in ("_files", "_console", "__main__")}
    places = 0
    for module in found.values():
        for name, there in _windows().items():
            if isinstance(getattr(module, name, None), ModuleType):
                setattr(module, name, there)
                places += 1
    for name in ("fcntl", "resource", "termios", "pwd", "grp"):
        sys.modules[name] = None  # type: ignore[assignment]
    return places


PLACES = patch()


def breaks(num_classes: int, in_channels: int) -> nn.Module:
    """A network that ends the process which is to train it."""
    if multiprocessing.parent_process() is not None:
        os._exit(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(64 * in_channels, num_classes))


def interrupt(folder: Path) -> None:
    """Press Ctrl-C once a run has done a generation."""
    while not any(path.stat().st_size for path in folder.glob("runs/*/generations.jsonl")):
        time.sleep(0.02)
    signal.raise_signal(signal.SIGINT)


def experiment(folder: Path, model: str = "mlp", generations: int = 3, **fields: Any) -> Any:
    """One run of SGD."""
    return gradlex.compare(
        model=model,
        methods=["sgd"],
        seeds=1,
        generations=generations,
        recipe={"train_size": 60, "batch_size": 10, "threads": 1, **fields},
        out=folder,
        jobs=1,
        progress=False,
    )


def main(folder: Path) -> None:
    found: dict[str, Any] = {"places": PLACES}
    out = folder / "compared"
    threading.Thread(target=interrupt, args=(out,), daemon=True).start()
    try:
        experiment(out, generations=100, width=0.1)
    except KeyboardInterrupt as error:
        found["interrupted"] = str(error)
    found["generations"] = [path.read_text().count("\n") for path in out.glob("runs/*/generations.jsonl")]
    found["left behind"] = len(multiprocessing.active_children())

    done = experiment(out, generations=100, width=0.1)
    found["finished"], found["failures"] = len(done.runs), [each.reason for each in done.failures]
    broken = experiment(folder / "broken", model="windows:breaks")
    found["broken"] = [each.reason for each in broken.failures]

    run = gradlex.runs.start(
        gradlex.runs.Named(),
        gradlex.Recipe(train_size=60, model="mlp", width=0.1, population=2, generations=2, threads=1),
        gradlex.runs.Execution(workers=2),
        out=folder / "workers",
    )
    found["workers"] = run.result["generations"]
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
