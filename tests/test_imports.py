from __future__ import annotations

import inspect

import pytest

import gradlex

_WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None          # an import of torch would fail from here on
import numpy as np
import gradlex, gradlex.cli

class Candidates:
    losses, cost = (0.5, 0.4), gradlex.population.Cost(cases_evaluated=0, train_seconds=0.0, select_seconds=0.0)
    errors = gradlex.selection.TableErrors([[0, 1, 1], [0, 0, 0]])
    diversity = gradlex.population.Diversity()
    def __init__(self, parent): self.parent = parent
    def promote(self, choice):
        state = {"w": self.parent.state["w"] + choice.index}
        return gradlex.Parent(generation=self.parent.generation + 1, state=state)

class Engine:
    num_samples, num_cases = 6, 3
    def train(self, parent, subsets, lr): return Candidates(parent)

recipe = gradlex.Recipe(population=2, generations=3)
parent = gradlex.Parent(generation=0, state={"w": np.zeros(1)})
survive = gradlex.selection.bind("lexicase", on_all_fail="survive")
runs = list(gradlex.evolve(parent, Engine(), survive, recipe))
print(len(runs), runs[-1].parent.state["w"][0], sorted(gradlex.models.MODELS)[0], sorted(gradlex.data.DATASETS)[0])
"""


def test_gradlex_and_algorithm_1_need_no_torch(python):
    done = python("-c", _WITHOUT_TORCH)
    assert done.stderr == ""
    assert done.stdout.split() == ["3", "3.0", "densenet121", "cifar10"]
    assert done.returncode == 0


def test_importing_gradlex_imports_no_torch(python):
    done = python("-c", "import gradlex, sys; print('torch' in sys.modules, 'torchvision' in sys.modules)")
    assert (done.stdout.split(), done.stderr, done.returncode) == (["False", "False"], "", 0)


def test_evolve_is_the_function_and_not_its_module():
    from gradlex import evolve

    assert inspect.isgeneratorfunction(gradlex.evolve)
    assert evolve is gradlex.evolve


@pytest.mark.parametrize("name", gradlex.__all__)
def test_every_public_name_is_there(name):
    assert getattr(gradlex, name) is not None


@pytest.mark.parametrize(
    "room",
    [
        "callbacks",
        "data",
        "engine",
        "experiments",
        "models",
        "population",
        "report",
        "runs",
        "selection",
        "tasks",
    ],
)
def test_every_public_name_of_a_room_is_there(room):
    module = getattr(gradlex, room)
    assert inspect.ismodule(module)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="gradlex attribute trian"):
        gradlex.trian  # noqa: B018
