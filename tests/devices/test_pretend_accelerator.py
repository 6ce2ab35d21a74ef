"""Whole runs on a pretend accelerator (pretend.py) end with the CPU's bits, and little crosses to it and back.

SGD and Adam take torch's fused step on every device that has one. The CPU's own fused kernel multiplies and adds in one
rounding where a loop over tensors has two, so a device without it would differ from the CPU in its last bits.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gradlex

HERE = Path(__file__).parent
SOURCE = Path(gradlex.__file__).parent
ARRAYS = "lexicase"

pytestmark = pytest.mark.skipif(
    not hasattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch cannot register a backend from Python",
)


def run(folder: Path, *names: str, source: Path = SOURCE) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(source.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-W", "error", "runs.py", folder, *names],
        cwd=HERE,
        # The backward pass of a device has a thread of its own, which no recipe's `threads` reaches.
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("devices")
    done = run(folder)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "found.json").read_text())


@pytest.fixture(scope="module")
def settings(found):
    return {name: value for name, value in found.items() if "training" in value}


def excess(setting, *, array=True, offload=False):
    """What crosses between host and device beyond what must, of one setting of runs.py."""
    wrong = []
    for generation in [] if offload else setting["training"]:  # then networks travel
        steps, candidates = generation["steps"], generation["candidates"]
        if generation["in"] > steps * (1 if array else 2):
            wrong.append(f"{generation['in']} copies to the device in {steps} training steps")
        if generation["blocking"]:
            wrong.append(f"{generation['blocking']} copies that the host waits for")
        if array and generation["largest"] > 8 * 8 * 8:  # a batch, and eight whole numbers for each sample
            wrong.append(f"a copy of {generation['largest']} bytes in a training step")
        if generation["out"] + generation["wait"] > 3 * candidates:
            wrong.append(f"{generation['out']} copies and {generation['wait']} numbers back in {steps} steps")
    for part in setting["slices"]:
        if part["out"] != 1 or part["wait"]:
            wrong.append(f"{part['out']} copies and {part['wait']} numbers back for a slice of cases")
        if not offload and (part["in"] > part["batches"] * (1 if array else 2) or part["blocking"]):
            wrong.append(f"{part['in']} copies to the device for a slice of cases")
    return wrong


def test_whole_runs_end_with_the_cpus_weights(settings):
    assert len(settings) > 20
    assert {name: value["weights"] for name, value in settings.items() if value["weights"]} == {}


def test_choices_losses_and_metrics_are_the_cpus(settings):
    assert [name for name, value in settings.items() if not value["records"] or not value["metrics"]] == []


def test_the_network_ends_on_the_device(settings):
    assert {device for value in settings.values() for device in value["devices"]} == {"pretend:0"}


def test_images_are_copied_to_the_device_once(settings):
    copies = {name: value["images"] for name, value in settings.items()}
    assert copies.pop("a dict of tensors") == 2  # two tensors, once each
    assert copies.pop("tokens") == 0  # there are none
    copies.pop("a Dataset")  # gives out its samples batch by batch
    assert set(copies.values()) == {1}


def test_a_training_step_sends_one_small_packet_and_a_slice_of_cases_brings_one_table_back(settings):
    wrong = {
        name: excess(value, array=name != "a Dataset", offload="offload" in name)
        for name, value in settings.items()
    }
    assert {name: found for name, found in wrong.items() if found} == {}


def test_waiting_candidates_leave_the_device_with_offload(settings):
    sent = {name: settings[name]["training"][0]["out"] for name in ("momentum inherited", "offload")}
    assert sent["offload"] > sent["momentum inherited"]


def test_a_resumed_run_is_the_same_also_on_the_other_device(found):
    for name, ways in found["resumed"].items():
        for way, same in ways.items():
            assert same == {"weights": [], "records": True, "metrics": True}, (name, way)


def test_a_stored_run_and_its_evaluation_are_the_same_on_both_devices(found):
    assert found["stored"] == {"metrics": True, "weights": True}


def test_a_device_without_double_precision_promotes_with_the_hosts(found):
    assert found["narrow"] == {"average": [], "outer step, moving average, recalibration": []}


def test_a_spawned_worker_touches_its_own_device_alone(found):
    """A problem that was packed with tensors of the leader's device would give every worker a context there."""
    for name, spawned in found["spawned"].items():
        assert spawned == {
            "tensors": True,
            "lie": ["cpu"],
            "copied while unpacking": 0,
            "made current": [["pretend:1", 0]],
            "computes on": "pretend:1",
            "copied then": True,
        }, name


MUTATIONS = {
    "a loss that comes back each step": (
        "population/_subgd.py",
        "total = total + value.detach() * part.samples",
        "total = total + value.detach().cpu() * part.samples",
    ),
    "an index that stays on the host": (
        "data/_array_samples.py",
        "told = sent(torch.from_numpy(packed), self._y.device)",
        "told = torch.from_numpy(packed)",
    ),
    "draws that travel by themselves": (
        "data/_array_samples.py",
        "batch, targets = augmented_alike(self._augment, batch, targets, rng, drawn)",
        "batch, targets = augmented_alike(self._augment, batch, targets, np.random.default_rng(0))",
    ),
}


def mutated(folder, file, good, bad):
    """A copy of gradlex with one line changed."""
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = (folder / file).read_text(encoding="utf-8")
    assert text.count(good) == 1
    (folder / file).write_text(text.replace(good, bad), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_checks_fail_where_the_training_loop_is_broken_on_purpose(name, tmp_path):
    file, good, bad = MUTATIONS[name]
    done = run(tmp_path, ARRAYS, source=mutated(tmp_path / "gradlex", file, good, bad))
    if done.returncode == 0:
        setting = json.loads((tmp_path / "found.json").read_text())[ARRAYS]
        assert excess(setting)
    else:
        assert "mixes devices" in done.stderr


def test_the_check_of_spawned_workers_fails_where_a_problem_is_packed_on_the_device(tmp_path):
    source = mutated(tmp_path / "gradlex", "runs/_problem.py", "model=model.cpu(),", "model=model,")
    done = run(tmp_path, "spawned", source=source)
    assert done.returncode == 0, done.stderr
    spawned = json.loads((tmp_path / "found.json").read_text())["spawned"]
    assert spawned["arrays"]["lie"] == ["cpu", "pretend"]
