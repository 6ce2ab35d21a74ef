"""A leader or a worker that is killed while the workers start, join or train: the others end at once, no file stays."""

from __future__ import annotations

import random
import signal
import time

import pytest

LONG = (
    "train", "--model", "mlp", "--width", "0.05", "--train-size", 80, "--population", 3, "--batch-size", 16,
    "--generations", 100_000, "--threads", 1, "--checkpoint-every", 1000,
)  # fmt: skip
# Of three workers: the parcels are the first two sends, then each is told where to meet.
MOMENTS = {
    "just after a worker was started": ("spawn", 1),
    "before a worker has what it is to do": ("send", 1),
    "when one of two workers knows where to meet": ("send", 4),
    "while the workers wait inside torch for it to join": ("join", 1),
    "in the first generation": ("train", 1),
}
SECONDS = 20  # some on a machine with nothing else to do


class Sitting:
    """One command in a process group of its own, with its own folder of temporary files."""

    def __init__(self, forks, folder, faults=(), workers=3):
        self.run, self.temporary = folder / "run", folder / "temporary"
        self.temporary.mkdir(parents=True)
        self.started = time.monotonic()
        self.child = forks.start(
            *LONG, "--workers", workers, "--out", self.run, faults=faults, temporary=str(self.temporary)
        )


@pytest.fixture(scope="module")
def sittings(forks, fault, tmp_path_factory):
    """The leader kills itself, or its first worker, at each moment; all at the same time."""
    folder = tmp_path_factory.mktemp("sittings")
    return {
        (who, moment): Sitting(
            forks,
            folder / f"{who}-{number}",
            [fault(folder, *at, action="worker" if who == "worker" else signal.SIGKILL)],
        )
        for number, (moment, at) in enumerate(MOMENTS.items())
        for who in ("leader", "worker")
    }


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_workers_of_a_killed_leader_end_and_leave_nothing(moment, sittings, group, until):
    sitting = sittings["leader", moment]
    assert sitting.child.wait() == -signal.SIGKILL, sitting.child.err
    until(lambda: group(sitting.child.pid) == [], SECONDS)
    assert list(sitting.temporary.iterdir()) == []
    assert "Traceback" not in sitting.child.err


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_leader_of_a_killed_worker_names_it_and_ends(moment, sittings, group, until):
    sitting = sittings["worker", moment]
    assert sitting.child.wait() == 1, sitting.child.err
    assert sitting.child.err.startswith("gradlex: worker 1 was killed (SIGKILL), probably out of memory")
    assert len(sitting.child.err.splitlines()) == 1
    until(lambda: group(sitting.child.pid) == [], SECONDS)  # Python's own tracker ends a moment later
    assert list(sitting.temporary.iterdir()) == []


def test_a_leader_killed_at_random_moments_leaves_nothing(forks, group, until, tmp_path):
    random.seed(0)
    delays = sorted(random.uniform(0, 6) for _ in range(8))
    found = [Sitting(forks, tmp_path / str(number), workers=2) for number in range(8)]
    for delay, sitting in zip(delays, found, strict=True):
        time.sleep(max(0.0, sitting.started + delay - time.monotonic()))
        sitting.child.kill(signal.SIGKILL)
    for sitting in found:
        assert sitting.child.wait() == -signal.SIGKILL, sitting.child.err
        until(lambda: group(sitting.child.pid) == [], SECONDS)  # noqa: B023  # called at once
        assert list(sitting.temporary.iterdir()) == []
