"""Thirty wrong versions of the algorithm, each a small change, and the default tests that must fail on every one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gradlex

SOURCE = Path(gradlex.__file__).parent
TESTS = Path(__file__).parents[1]

SPLIT, POPULATION = "population/split.py", "population/population.py"
STATE, EXAMINATION = "population/state.py", "population/examination.py"
LEXICASE, PROTOCOL, EPSILON = "selection/lexicase.py", "selection/protocol.py", "selection/epsilon_lexicase.py"
ALGORITHM, KERNEL, RUNS, DATA = "population golden", "selection population", "runs golden", "data golden"

MUTANTS = {
    # population: split
    "the split leaves out the last sample": (
        SPLIT, "np.array_split(rng.permutation(num_samples), size)", "np.array_split(rng.permutation(num_samples)[:-1], size)", ALGORITHM,
    ),
    "the split is not shuffled": (SPLIT, "rng.permutation(num_samples)", "np.arange(num_samples)", ALGORITHM),
    "a generation uses the split of the one before": (
        POPULATION, 'stream(self.seed, "split", self.generation)', 'stream(self.seed, "split", max(0, self.generation - 1))', ALGORITHM,
    ),
    "every candidate trains on the first part": (POPULATION, "indices=trained.parts[index]", "indices=trained.parts[0]", ALGORITHM),
    "a short last batch": (SPLIT, "return np.array_split(part, count)", "return np.split(part, range(batch_size, len(part), batch_size))", "golden"),
    # population: state
    "candidates train on top of each other": (POPULATION, "self._put((cloned(trained.parent), cloned(trained.begin)))", "pass", ALGORITHM),
    "momentum is not reset": (POPULATION, "begin = optimizer if inherits else self._optimizer.blank", "begin = optimizer", ALGORITHM),
    "momentum is not inherited": (POPULATION, 'inherits = size == 1 or self._momentum_state == "inherit"', "inherits = size == 1", ALGORITHM),
    "one network alone forgets its momentum": (
        POPULATION, 'inherits = size == 1 or self._momentum_state == "inherit"', 'inherits = self._momentum_state == "inherit"', ALGORITHM,
    ),
    "buffers are not part of a candidate": (STATE, 'return {**_named(self._layers, "_parameters"), **_named(self._layers, "_buffers")}', 'return _named(self._layers, "_parameters")', ALGORITHM),
    "evaluation changes batch-norm statistics": (STATE, "else tensor.clone()", "else tensor", "population"),
    "evaluation is in training mode": (POPULATION, "            self.model.eval()\n", "", ALGORITHM),
    "dropout repeats over generations": (POPULATION, '"dropout", self.generation, index', '"dropout", 0, index', ALGORITHM),
    "dropout is the same for every candidate": (POPULATION, '"dropout", self.generation, index', '"dropout", self.generation, 0', ALGORITHM),
    "a mean leaves out the last candidate": (POPULATION, "if i != choice.index]", "if i != choice.index][:-1]", "population golden"),
    "the next generation starts from candidate 0": (POPULATION, "model, optimizer = self.team.hand_over(choice.index, chosen)", "model, optimizer = self.team.hand_over(choice.index, (trained.snapshots[0], trained.optimizers[0]))", ALGORITHM),
    "a diverged candidate stays in the pool": (POPULATION, "if not discarded[index]]", "if True]", "population"),
    # population: examination
    "NaN counts as solved": (EXAMINATION, "np.where(np.isfinite(row), row, np.inf)", "np.where(np.isfinite(row), row, 0)", "population"),
    "errors of the wrong candidate": (EXAMINATION, "self._snapshots[index]", "self._snapshots[min(self._snapshots)]", ALGORITHM),
    # selection
    "cases are not shuffled": (POPULATION, '"cases", self.generation).permutation(num_cases)', '"cases", self.generation).permutation(num_cases) * 0 + np.arange(num_cases)', ALGORITHM),
    "the case order repeats over generations": (POPULATION, 'stream(self.seed, "cases", self.generation)', 'stream(self.seed, "cases", 0)', ALGORITHM),
    "a tie is broken by order": (PROTOCOL, "int(pool[rng.integers(len(pool))])", "int(pool[0])", KERNEL),
    "all failed: the pick is from the whole population": (LEXICASE, 'trail.choose(pick(pool[alive], rng), "all_failed")', 'trail.choose(pick(errors.candidates, rng), "all_failed")', KERNEL),
    "all failed: nothing ends": (LEXICASE, "if lowest > 0 and self._ends:", "if False:", KERNEL),
    "survive ends like random": (LEXICASE, "if lowest > 0 and self._ends:", "if lowest > 0:", KERNEL),
    "a survivor is dropped between slices": (LEXICASE, "            pool = pool[alive]\n", "            pool = pool[alive][:-1] if alive.sum() > 1 else pool[alive]\n", KERNEL),
    "the worst candidates survive": (LEXICASE, "lowest = values.min()", "lowest = values.max()", KERNEL),
    "a slice is skipped": (PROTOCOL, "        start += size\n", "        start += size + 1\n", KERNEL),
    "epsilon is ignored": (EPSILON, "passing = values <= values.min() + within", "passing = values <= values.min()", KERNEL),
    # the trainer: augmentation, resume, schedule
    "selection sees augmented cases": ("runs/evaluate.py", "yield samples.clean(indices[start : start + BATCH])", "yield samples.augmented(indices[start : start + BATCH], np.random.default_rng(0))", RUNS),
    "augmentation repeats over candidates": ("runs/training.py", '"augmentation", candidate.generation, candidate.index', '"augmentation", candidate.generation, 0', RUNS),
    "the learning rate is one generation late": ("runs/training.py", "recipe.lr_at(candidate.generation)", "recipe.lr_at(max(0, candidate.generation - 1))", RUNS),
    "resume starts from the wrong generation": (POPULATION, 'self.generation = int(state["generation"])', 'self.generation = int(state["generation"]) + 1', "population"),
    "resume forgets what selection remembers": (POPULATION, 'self._memory = {name: value.numpy() for name, value in state["memory"].items()}', "self._memory = {}", "population"),
    "resume forgets the optimizer": (POPULATION, 'optimizer = _on(device, cloned(state["optimizer"]))', 'optimizer = [{} for _ in state["optimizer"]]', "population"),
    "test samples are among the training samples": ("data/prepare.py", "return np.sort(kept), np.setdiff1d(order, kept)", "return np.sort(kept), np.sort(kept)", DATA),
}  # fmt: skip


def test_every_mutant_changes_one_place_of_the_source() -> None:
    assert len(MUTANTS) >= 30
    for name, (file, right, _, _) in MUTANTS.items():
        assert (SOURCE / file).read_text(encoding="utf-8").count(right) == 1, (
            f"{name}: {file} has no such line: {right}"
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_the_default_tests_fail_on_a_wrong_version(name: str, tmp_path: Path) -> None:
    file, right, wrong, rooms = MUTANTS[name]
    shutil.copytree(SOURCE, tmp_path / "gradlex", ignore=shutil.ignore_patterns("__pycache__"))
    mutated = tmp_path / "gradlex" / file
    text = mutated.read_text(encoding="utf-8")
    mutated.write_text(text.replace(right, wrong), encoding="utf-8")
    folders = [str(TESTS / room) for room in rooms.split()]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *folders],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 1, f"no test failed on: {name}\n{done.stdout[-2000:]}"
