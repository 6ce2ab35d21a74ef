"""Every example runs, and what it prints shows that it works."""

import difflib
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"

# Each example with a pattern in its last line; the numbers in the pattern's groups must reach these values.
QUICK = {
    "callback": (r"stopped after \d\d epochs, test accuracy (.+)%", (80,)),
    "character_model": (r"perplexity 1\.", ()),
    "cutmix": (r"test accuracy (.+)%", (80,)),
    "mean_of_parents": (r"mean of parents: test accuracy (.+)%", (80,)),
    "multi_label": (r"F1 (\S+)%, mAP (\S+)%", (80, 80)),
    "mutation_by_noise": (r"test accuracy (.+)%", (80,)),
    "own_model": (r"test accuracy (.+)%", (80,)),
    "own_task": (r"within 0.1: (.+)%", (80,)),
    "segmentation": (r"(\S+)% of test pixels right", (95,)),
    "select_parents": (r"exact: \[0\.375 0\.375 0\.25", ()),
    "tabular_regression": (r"R2 (\S+), mean absolute error", (0.3,)),
}
# Libraries that an example needs, beyond the development tools.
EXTRAS = {
    "deap_symbolic_regression": ("deap", r"found: ", ()),
    "gepa_rules": ("gepa", r"(?s)the best rules route (.+)% of the messages", (100,)),
    "plain_loop": ("tensorboard", r"test accuracy (.+)%", (80,)),
    "plain_loop_before": ("tensorboard", r"test accuracy (.+)%", (80,)),
    "pymoo_fair_classifier": ("pymoo", r"lexicase by groups .* small group (.+)%", (80,)),
    "with_accelerate": ("accelerate", r"test accuracy (.+)%", (80,)),
    "with_lightning": ("lightning", r"test accuracy (.+)%", (80,)),
    "with_transformers": ("transformers", r"test accuracy (.+)%", (75,)),
}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an example in an empty folder, and return what it printed."""

    def run(name: str, *arguments: str) -> str:
        monkeypatch.chdir(tmp_path)
        torch.set_num_threads(1)  # so small networks gain nothing from two
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


def check(printed: str, pattern: str, at_least: tuple[float, ...]) -> None:
    found = re.search(pattern, printed if pattern.startswith("(?s)") else printed.splitlines()[-1])
    assert found, printed
    assert all(float(number) >= least for number, least in zip(found.groups(), at_least, strict=True)), printed


@pytest.mark.parametrize("name", QUICK)
def test_an_example_runs_and_shows_what_it_promises(run, name: str) -> None:
    check(run(name), *QUICK[name])


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # these libraries warn of their own affairs
@pytest.mark.parametrize("name", EXTRAS)
def test_an_example_of_another_library_runs_and_shows_what_it_promises(run, name: str) -> None:
    library, pattern, at_least = EXTRAS[name]
    pytest.importorskip(library)
    check(run(name), pattern, at_least)


def test_every_example_is_run_by_a_test_and_has_at_most_60_lines() -> None:
    files = {path.stem: path for path in EXAMPLES.glob("*.py")}
    assert files.keys() == QUICK.keys() | EXTRAS.keys() | {"cifar10"}
    lengths = {name: len(path.read_text().splitlines()) for name, path in files.items()}
    assert [name for name, lines in lengths.items() if lines > (120 if name == "cifar10" else 60)] == []


def test_the_experiment_on_cifar10_runs_on_noise(tmp_path: Path) -> None:
    words = [sys.executable, str(EXAMPLES / "cifar10.py"), "--smoke", "--methods", "sgd", "lexicase", "--out", "own"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert "One seed cannot decide" in done.stdout, done.stderr
    assert (tmp_path / "own" / "lexicase" / "seed0" / "activations.npz").exists()


def test_gradlex_changes_six_lines_of_a_plain_training_script() -> None:
    before, after = ((EXAMPLES / f"{name}.py").read_text().splitlines() for name in ("plain_loop_before", "plain_loop"))
    changed = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert len(changed) == 6
    assert any("population.candidates" in line for line in changed)
