"""Each adapter in the library it is for: the parents of `select_parents`, in the library's own shapes."""

import random
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from gradlex.errors import InputError
from gradlex.selection import EpsilonLexicase, select_parents

ERRORS = np.random.default_rng(0).integers(0, 3, (12, 7)).astype(float)
METHODS = ["lexicase", "epsilon-lexicase(epsilon=1.0)", EpsilonLexicase(epsilon=1.0), "tournament"]


@pytest.fixture
def individuals():
    """DEAP's individuals with these errors; every other case is maximized."""
    base = pytest.importorskip("deap.base")
    signs = np.where(np.arange(7) % 2, 1.0, -1.0)
    fitness = type("Fitness", (base.Fitness,), {"weights": tuple(3 * signs)})
    return [SimpleNamespace(fitness=fitness(tuple(-signs * errors))) for errors in ERRORS]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_deap_selects_the_parents_of_select_parents(individuals, method) -> None:
    from gradlex.integrations.deap import select

    chosen = select(individuals, 9, method, rng=np.random.default_rng(5))
    same = select_parents(ERRORS, 9, method, 5)
    assert [individuals.index(each) for each in chosen] == same.tolist()


@pytest.mark.slow
def test_deap_without_an_rng_follows_pythons_random(individuals) -> None:
    from gradlex.integrations.deap import select

    answers = []
    for _ in range(2):
        random.seed(3)
        answers.append([select(individuals, 20), select(individuals, 20)])
    assert answers[0] == answers[1]
    assert answers[0][0] != answers[0][1]


@pytest.mark.slow
def test_deap_raises_an_error_for_what_would_mislead(individuals) -> None:
    from gradlex.integrations.deap import select

    with pytest.raises(InputError, match="the same draws every time"):
        select(individuals, 3, rng=5)
    with pytest.raises(InputError, match="no individuals"):
        select([], 3)
    del individuals[0].fitness.values
    with pytest.raises(InputError, match="has no fitness"):
        select(individuals, 3)


@pytest.mark.slow
def test_pymoo_selects_the_parents_of_select_parents() -> None:
    core = pytest.importorskip("pymoo.core.population")
    from gradlex.integrations.pymoo import LexicaseSelection

    pop = core.Population.new(F=ERRORS, seen=ERRORS[:, :3])
    for selection, errors in (
        (LexicaseSelection(), ERRORS),
        (LexicaseSelection("epsilon-lexicase(epsilon=1.0)"), ERRORS),
        (LexicaseSelection(of="seen"), ERRORS[:, :3]),
    ):
        chosen = selection.do(None, pop, 5, 2, to_pop=False, random_state=np.random.default_rng(7))
        assert chosen.shape == (5, 2)
        same = select_parents(errors, 10, selection.method, 7)
        assert chosen.ravel().tolist() == same.tolist()
    with pytest.raises(InputError, match="no value 'absent'"):
        LexicaseSelection(of="absent").do(None, pop, 5, 2)


@pytest.mark.slow
def test_pymoo_chooses_infeasible_individuals_only_if_there_are_no_others() -> None:
    core = pytest.importorskip("pymoo.core.population")
    from gradlex.integrations.pymoo import LexicaseSelection

    broken = np.ones((12, 1))
    some = core.Population.new(F=ERRORS, G=np.where(np.isin(np.arange(12), [2, 7])[:, None], -1, broken))
    chosen = LexicaseSelection().do(None, some, 30, 1, to_pop=False, random_state=np.random.default_rng(0))
    assert set(chosen.ravel()) <= {2, 7}
    none = core.Population.new(F=ERRORS, G=broken)
    assert LexicaseSelection().do(None, none, 5, 2, to_pop=False).shape == (5, 2)


def test_gepas_next_candidate_is_the_one_that_select_parents_chooses() -> None:
    from gradlex.integrations.gepa import LexicaseCandidateSelector

    state = SimpleNamespace(prog_candidate_val_subscores=[dict(enumerate(-row)) for row in ERRORS])
    selector, rng = LexicaseCandidateSelector(rng=9), np.random.default_rng(9)
    for _ in range(10):
        assert selector.select_candidate_idx(state) == select_parents(ERRORS, 1, rng=rng)[0]


def test_gepas_missing_scores_are_the_worst() -> None:
    from gradlex.integrations.gepa import LexicaseCandidateSelector

    state = SimpleNamespace(prog_candidate_val_subscores=[{"a": 1.0}, {"a": 1.0, "b": 0.5}])
    assert {LexicaseCandidateSelector(rng=seed).select_candidate_idx(state) for seed in range(10)} == {1}


def test_importing_gradlex_imports_no_other_library() -> None:
    code = "import gradlex, sys; print({'deap', 'pymoo', 'gepa', 'sklearn', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
