"""Real processes that are really killed, and what a run folder holds afterwards."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
import safetensors.torch

from gradlex import Callback, Record
from gradlex.callbacks import LiveRun

HERE = Path(__file__).parent
TRAIN = (
    "train", "--model", "mlp", "--width", "0.05", "--train-size", "80", "--population", "3", "--batch-size", "16",
    "--generations", "5", "--workers", "1", "--threads", "1", "--momentum", "inherit",
)  # fmt: skip


WEIGHTS = ("model.safetensors", "ema.safetensors")
BYTES = ("recipe.json", "evaluations.jsonl", *WEIGHTS, "predictions.safetensors")


class Child:
    """One forked command."""

    def __init__(self, forks: Forks, pid: int, stdout: Path, stderr: Path) -> None:
        self._forks, self.pid, self._stdout, self._stderr = forks, pid, stdout, stderr

    def wait(self) -> int:
        """Its exit code, or minus the signal that killed it."""
        return self._forks.ask({"wait": self.pid})

    def kill(self, number: int) -> None:
        os.kill(self.pid, number)

    @property
    def out(self) -> str:
        return self._stdout.read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return self._stderr.read_text(encoding="utf-8")


class Forks:
    """Starts commands as forks of one process."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, 0
        self._server = subprocess.Popen(
            [sys.executable, str(HERE / "forks.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)},
        )
        self.temporary = folder
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == "ready\n"

    def ask(self, order: dict[str, Any]) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def start(self, *arguments: object, faults: Any = (), cwd: Path | None = None, **how: Any) -> Child:
        self._number += 1
        stdout, stderr = (self._folder / f"{self._number}.{name}" for name in ("out", "err"))
        order = {
            "arguments": [str(word) for word in arguments],
            "faults": list(faults),
            "stdout": str(stdout),
            "stderr": str(stderr),
            "cwd": str(cwd or self._folder),
            **how,
        }
        return Child(self, self.ask(order), stdout, stderr)

    def run(self, *arguments: object, expect: int = 0, **how: Any) -> Child:
        """Start it, wait for it, and check its exit code; a traceback is never right."""
        done = self.start(*arguments, **how)
        code = done.wait()
        assert code == expect, (code, done.out, done.err)
        assert "Traceback" not in done.err
        return done

    def end(self) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps({"end": True}) + "\n")
        self._server.stdin.close()
        self._server.wait(timeout=60)
        self._server.stdout.close()


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    found = Forks(tmp_path_factory.mktemp("forks"))
    yield found
    found.end()


@pytest.fixture(scope="session")
def train(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """A command that trains for a fraction of a second and inherits its momentum.

    Where a test asks for them, a regression or a network with named inputs of other_problems.py instead.
    """
    other = getattr(request, "param", "command")
    return TRAIN if other == "command" else (other, *TRAIN[-6:])


@pytest.fixture(scope="session")
def undisturbed(forks: Forks, train: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of that command's run, which nothing has disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    forks.run(*train, "--out", folder)
    return folder


def _outcome(folder: Path) -> dict[str, Any]:
    generations = [json.loads(line) for line in (folder / "generations.jsonl").read_text().splitlines()]
    result = json.loads((folder / "result.json").read_text())
    del result["seconds"], result["peak_memory"]  # measured, not computed
    return {
        "generations": [{k: v for k, v in g.items() if not k.endswith("_seconds")} for g in generations],
        "result": result,
        **{name: (folder / name).read_bytes() for name in BYTES if (folder / name).exists()},
    }


@pytest.fixture(scope="session")
def outcome() -> Callable[[Path], dict[str, Any]]:
    """All that a run must have in common with one that was never disturbed: everything but times."""
    return _outcome


@pytest.fixture(scope="session")
def contents() -> Callable[[Path], dict[str, bytes]]:
    """Every file below a folder, to see that nothing was changed; the lock aside."""

    def read(folder: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != ".lock"
        }

    return read


class Calls(Callback):
    """Calls a function with every record."""

    def __init__(self, function: Callable[[Record], object]) -> None:
        self._function = function

    def on_generation(self, run: LiveRun, record: Record) -> None:
        self._function(record)


class Death(BaseException):
    """Ends a run where it stands, as a crash would."""


def _die() -> NoReturn:
    raise Death


@contextmanager
def _dying(*, after: int) -> Iterator[Calls]:
    with pytest.raises(Death):
        yield Calls(lambda record: _die() if record.generation == after else None)


@pytest.fixture(scope="session")
def calls() -> type[Calls]:
    """Makes a callback of a function of records."""
    return Calls


@pytest.fixture(scope="session")
def death() -> type[Death]:
    return Death


@pytest.fixture(scope="session")
def dying() -> Callable[..., AbstractContextManager[Calls]]:
    """A callback for `gradlex.train` that ends the run after a generation, as a crash would."""
    return _dying


def _checkpoint(folder: Path, generation: int) -> Path | None:
    found = list((folder / "checkpoint").glob(f"{generation:08d}-*.safetensors"))
    return found[0] if found else None


@pytest.fixture(scope="session")
def checkpoint() -> Callable[[Path, int], Path | None]:
    """The checkpoint of a generation in a run folder; None while there is none."""
    return _checkpoint


def _rewrite(path: Path, change: Callable[[dict[str, Any], Any], Any]) -> Path:
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    content = json.loads(header["__metadata__"]["gradlex"])
    tensors = safetensors.torch.load(data)
    found = change(tensors, content)
    text = json.dumps(content if found is None else found)
    new = safetensors.torch.save(tensors, {"gradlex": text})
    path.unlink()
    name = f"{path.name[:8]}-{hashlib.sha256(new).hexdigest()[:16]}.safetensors"
    path.with_name(name).write_bytes(new)
    return path.with_name(name)


@pytest.fixture(scope="session")
def rewrite() -> Callable[..., Path]:
    """Changes a checkpoint's tensors and metadata, or gives it other metadata, and a name that fits its new hash."""
    return _rewrite


@pytest.fixture(scope="session")
def kept() -> Callable[[Path], list[int]]:
    """The generations that a run folder has checkpoints of."""

    def generations(folder: Path) -> list[int]:
        return sorted(int(path.name[:8]) for path in (folder / "checkpoint").glob("*.safetensors"))

    return generations


def _fault(folder: Path, kind: str, *at: int, action: int | str = signal.SIGKILL, log: Path | None = None):
    return {"folder": str(folder), "kind": kind, "at": at, "action": action, "log": log and str(log)}


@pytest.fixture(scope="session")
def fault() -> Callable[..., dict[str, Any]]:
    """What `faults=` takes: at which steps of a kind to send itself a signal, or to fail with an errno."""
    return _fault


@pytest.fixture(scope="session")
def operations(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names of all operations by which the run of that command changes its folder, in their order."""
    folder = tmp_path_factory.mktemp("operations")
    forks.run(*TRAIN, "--out", folder / "run", faults=[_fault(folder / "run", "file", log=folder / "log")])
    return (folder / "log").read_text().splitlines()


@pytest.fixture(scope="session")
def until() -> Callable[[Callable[[], object]], None]:
    """Waits for something to become true."""

    def wait(true: Callable[[], object], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.01)

    return wait


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts Python in a process and a process group of its own; what is left of the group afterwards is killed."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: object, cwd: Path, **how: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *(str(word) for word in arguments)],
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
            **how,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.terminate()  # torchrun's own processes are in groups of their own, and end with it only so
            try:
                process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture(scope="session")
def group() -> Callable[[int], list[int]]:
    """The living processes of a process group, read from /proc."""

    def alive(leader: int) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (OSError, ValueError):
                continue
            if int(fields[2]) == leader and fields[0] != "Z":
                found.append(int(entry.name))
        return found

    return alive
