"""Two machines for real: network namespaces joined by a cable (a veth pair), torchrun and gloo over it.

Nothing but the namespaces' own addresses is used, from the range that is kept for documentation.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import safetensors.torch

ADDRESSES = ("192.0.2.1", "192.0.2.2")
PORT = 29517
HOW = {"population": 4, "batch-size": 8, "threads": 1, "augment": "flip", "precision": "float32"}


def admin(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=30).stdout


def privilege() -> str | None:
    """Why this process cannot make network namespaces; None: it can."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "needs the ip and tc commands of iproute2"
    name = f"gradlex-try-{os.getpid()}"
    made = subprocess.run(
        ["ip", "netns", "add", name], check=False, capture_output=True, text=True, timeout=30
    )
    if made.returncode:
        return f"may not make network namespaces: {made.stderr.strip()}"
    admin("ip", "netns", "del", name)
    return None


LACK = privilege()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(LACK is not None, reason=str(LACK))]


class Cable:
    """Two namespaces, and the interfaces at both ends of the cable between them."""

    def __init__(self) -> None:
        self.spaces = [f"gradlex-{end}-{os.getpid()}" for end in "ab"]
        self.ends = [f"glx{end}{os.getpid() % 10**6}" for end in "ab"]
        for space in self.spaces:
            admin("ip", "netns", "add", space)
            admin("ip", "-n", space, "link", "set", "lo", "up")
        (a, b), (one, other) = self.ends, self.spaces
        admin("ip", "link", "add", a, "netns", one, "type", "veth", "peer", "name", b, "netns", other)
        for space, end, address in zip(self.spaces, self.ends, ADDRESSES, strict=True):
            admin("ip", "-n", space, "addr", "add", f"{address}/30", "dev", end)
            admin("ip", "-n", space, "link", "set", end, "up")

    def plug(self, state: str) -> None:
        admin("ip", "-n", self.spaces[1], "link", "set", self.ends[1], state)

    def limit(self, rate: str) -> None:
        limited = ("root", "tbf", "rate", rate, "burst", "64kb", "latency", "400ms")
        for space, end in zip(self.spaces, self.ends, strict=True):
            admin("tc", "-n", space, "qdisc", "replace", "dev", end, *limited)

    def sent(self) -> int:
        """Bytes over the cable so far, both ways."""
        link = json.loads(admin("ip", "-n", self.spaces[0], "-s", "-j", "link", "show", self.ends[0]))
        return sum(link[0]["stats64"][way]["bytes"] for way in ("rx", "tx"))

    def remove(self) -> None:
        for space in self.spaces:
            admin("ip", "netns", "del", space)


@pytest.fixture
def cable():
    made = Cable()
    yield made
    made.remove()


@pytest.fixture
def train(start, archive, cable):
    """Starts the command on both machines, or on one process of neither."""

    def flags(out, more):
        given = {"dataset": archive, "model": "networks:Sound", "out": out, **HOW, **more}
        return [
            "-m",
            "gradlex",
            "train",
            *(w for k, v in given.items() for w in (f"--{k}", str(v))),
            "--resume",
        ]

    def alone(out, **more):
        return start(*flags(out, {"workers": 1, **more}))

    def on_both(out, **more):
        launcher = ["-m", "torch.distributed.run", "--nnodes", 2, "--nproc-per-node", 1]
        meeting = ["--master-addr", ADDRESSES[0], "--master-port", PORT]
        return [
            start(
                *map(str, (*launcher, *meeting, "--node-rank", rank, *flags(out, more))),
                within=["ip", "netns", "exec", space],
                # No interface is named: it is the one that leads to the machine that was asked for.
                without=["GLOO_SOCKET_IFNAME"],
            )
            for rank, space in enumerate(cable.spaces)
        ]

    return alone, on_both


def weights(run: Path) -> bytes:
    return (run / "model.safetensors").read_bytes()


def finished(groups, seconds=240):
    for group in groups:
        assert group.wait(seconds) == 0, group.err


def listeners(space: str) -> dict[str, set[str]]:
    """The addresses that the processes of a namespace listen at, by what they are: torchrun itself, or its ranks."""
    found: dict[str, set[str]] = {"ranks": set(), "torchrun": set()}
    for line in admin("ip", "netns", "exec", space, "ss", "-Hltnp").splitlines():
        address, users = line.split()[3].rsplit(":", 1)[0], line.split("pid=")[1:]
        for user in users:
            words = Path("/proc", user.split(",")[0], "cmdline").read_bytes().split(b"\0")
            found["torchrun" if b"torch.distributed.run" in words else "ranks"].add(address)
    return found


def test_two_machines_give_the_bits_of_one_process_and_ranks_listen_on_the_cable_only(
    train, cable, tmp_path, same
):
    alone, on_both = train
    serial = alone(tmp_path / "alone", model="networks:Slow", generations=6)
    groups = on_both(tmp_path / "two", model="networks:Slow", generations=6)
    records = tmp_path / "two" / "generations.jsonl"
    while not (records.exists() and records.read_text()):
        assert groups[0].process.poll() is None, groups[0].err
        time.sleep(0.05)
    heard = [listeners(space)["ranks"] for space in cable.spaces] if shutil.which("ss") else []
    finished([serial, *groups])
    found = [safetensors.torch.load_file(tmp_path / run / "model.safetensors") for run in ("alone", "two")]
    assert same(*found)
    assert heard == [{address} for address in ADDRESSES[: len(heard)]]


def test_a_machine_that_is_cut_off_ends_the_run_which_resumes_to_the_same_bytes(train, cable, tmp_path):
    alone, on_both = train
    much = {"model": "networks:Slow", "generations": 40}
    serial = alone(tmp_path / "alone", **much)
    groups = on_both(tmp_path / "two", **much)
    records = tmp_path / "two" / "generations.jsonl"
    while not (records.exists() and len(records.read_text().splitlines()) > 3):
        assert groups[0].process.poll() is None, groups[0].err
        time.sleep(0.05)
    cable.plug("down")
    assert groups[0].wait(180) == 1, groups[0].err
    assert "another process of this run ended unexpectedly" in groups[0].err
    assert "Traceback" not in groups[0].err.split("another process")[0]
    groups[1].kill()  # its torchrun waits for the machine that it cannot reach
    assert not (tmp_path / "two" / "result.json").exists()

    cable.plug("up")
    finished([serial, *on_both(tmp_path / "two", **much)])
    assert weights(tmp_path / "two") == weights(tmp_path / "alone")
    result = json.loads((tmp_path / "two" / "result.json").read_text())
    assert result["generations"] == 40


def test_over_a_cable_of_100_mbit_a_generation_sends_the_weights_once_and_with_averaging_p_times(
    train, cable, tmp_path
):
    _, on_both = train
    cable.limit("100mbit")
    sent = {}
    for promotion in ("winner", "average"):
        for generations in (1, 6):
            before = cable.sent()
            out = tmp_path / f"{promotion}-{generations}"
            finished(on_both(out, model="networks:Large", generations=generations, promotion=promotion))
            sent[promotion, generations] = cable.sent() - before
    size = (tmp_path / "winner-1" / "model.safetensors").stat().st_size
    each = {way: (sent[way, 6] - sent[way, 1]) / 5 / size for way in ("winner", "average")}
    print(f"weights {size:,} bytes; sent per generation, in copies: {each}")
    assert (
        0.9 < each["winner"] < 1.3
    )  # to the one other machine, with acknowledgements, errors and what else there is
    assert 2.9 < each["average"] < 4.6  # each of the p candidates once, from wherever it is
