"""Each adapter in the library it is for: the parents of `select_parents`, in the library's own shapes."""

from __future__ import annotations

import importlib.util
import inspect
import random
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from gradlex.errors import InputError
from gradlex.selection import Cases, select_parents

ERRORS = np.random.default_rng(0).integers(0, 3, (12, 7)).astype(float)


def needed(library: str, extra: str = "integrations"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a library's own deprecations
        return pytest.importorskip(library, reason=f"needs {library}: pip install 'gradlex[{extra}]'")


@pytest.fixture
def population():
    """DEAP's individuals with these errors; every other case is maximized."""
    needed("deap")
    from deap import base

    signs = np.where(np.arange(7) % 2, 1.0, -1.0)

    class Fitness(base.Fitness):
        weights = tuple(3 * signs)

    class Individual:
        def __init__(self, errors) -> None:
            self.fitness = Fitness(tuple(errors))

    return [Individual(-signs * errors) for errors in ERRORS]


def test_deap_selects_the_parents_of_select_parents(population):
    from gradlex.integrations.deap import select

    for method, options in (("lexicase", {}), ("epsilon-lexicase", {"epsilon": 1.0}), ("tournament", {})):
        chosen = select(population, 9, method, rng=np.random.default_rng(5), **options)
        same = select_parents(ERRORS, 9, method, rng=5, **options)
        assert [population.index(each) for each in chosen] == same.tolist()
    grouped = Cases(groups=[0, 0, 1, 1, 2, 2, 2])
    chosen = select(population, 9, rng=np.random.default_rng(5), cases=grouped)
    assert [population.index(each) for each in chosen] == select_parents(
        ERRORS, 9, rng=5, cases=grouped
    ).tolist()


def test_deap_without_an_rng_follows_pythons_random(population):
    from gradlex.integrations.deap import select

    answers = []
    for _ in range(2):
        random.seed(3)
        answers.append([select(population, 20), select(population, 20)])
    assert answers[0] == answers[1]
    assert answers[0][0] != answers[0][1]


def test_deap_refuses_what_would_mislead(population):
    from gradlex.integrations.deap import select

    with pytest.raises(InputError, match="alike in every generation"):
        select(population, 3, rng=5)
    with pytest.raises(InputError, match="no individual"):
        select([], 3)
    del population[0].fitness.values
    with pytest.raises(InputError, match="has no fitness"):
        select(population, 3)


def test_pymoo_selects_the_parents_of_select_parents():
    needed("pymoo")
    from pymoo.core.population import Population
    from pymoo.core.problem import Problem

    from gradlex.integrations.pymoo import LexicaseSelection

    pop = Population.new(F=ERRORS, seen=ERRORS[:, :3])
    problem = Problem(n_var=1, n_obj=7)
    for selection, errors in (
        (LexicaseSelection(), ERRORS),
        (LexicaseSelection("epsilon-lexicase", epsilon=1.0), ERRORS),
        (LexicaseSelection(of="seen", cases=Cases(weights=[1, 2, 3])), ERRORS[:, :3]),
    ):
        rng = np.random.default_rng(7)
        chosen = selection.do(problem, pop, 5, 2, to_pop=False, random_state=rng)
        assert chosen.shape == (5, 2)
        same = select_parents(errors, 10, selection.method, 7, cases=selection.cases, **selection.options)
        assert chosen.ravel().tolist() == same.tolist()
    with pytest.raises(InputError, match="no 'absent'"):
        LexicaseSelection(of="absent").do(problem, pop, 5, 2)


def test_pymoo_chooses_the_infeasible_only_if_there_is_nobody_else():
    needed("pymoo")
    from pymoo.core.population import Population

    from gradlex.integrations.pymoo import LexicaseSelection

    broken = np.ones((12, 1))
    broken[[2, 7]] = -1
    pop = Population.new(F=ERRORS, G=broken)
    chosen = LexicaseSelection().do(None, pop, 30, 1, to_pop=False, random_state=np.random.default_rng(0))
    assert set(chosen.ravel()) <= {2, 7}
    nobody = Population.new(F=ERRORS, G=np.ones((12, 1)))
    assert LexicaseSelection().do(None, nobody, 5, 2, to_pop=False).shape == (5, 2)


def test_pygad_selects_the_parents_of_select_parents():
    pygad = needed("pygad")
    from gradlex.integrations.pygad import parent_selection

    seen = []

    def fitness(instance, solution, index):
        return [-abs(gene - target) for gene, target in zip(solution, range(3), strict=True)]

    select = parent_selection(rng=4)

    def watched(scores, count, instance):
        chosen = select(scores, count, instance)
        seen.append((np.asarray(scores), count, chosen))
        return chosen

    pygad.GA(
        num_generations=2,
        num_parents_mating=4,
        fitness_func=fitness,
        sol_per_pop=8,
        num_genes=3,
        parent_selection_type=watched,
        random_seed=1,
        suppress_warnings=True,
    ).run()
    stream = np.random.default_rng(4)
    assert len(seen) >= 2
    for scores, count, (parents, chosen) in seen:
        assert parents.shape == (4, 3)
        assert chosen.tolist() == select_parents(-scores, count, rng=stream).tolist()


@pytest.fixture
def solutions():
    """EvoTorch's problem with a sense for each of three objectives and four columns of data, and an evaluated batch."""
    evotorch = needed("evotorch", "evotorch")
    import torch

    problem = evotorch.Problem(
        ["min", "max", "min"],
        lambda x: x,
        solution_length=2,
        initial_bounds=(0, 1),
        eval_data_length=4,
        seed=3,
    )
    batch = problem.generate_batch(12)
    values = torch.tensor(ERRORS, dtype=torch.float32)
    values[:, 1] *= -1
    batch.set_evals(values[:, :3], eval_data=values[:, 3:])
    return problem, batch


def test_evotorch_selects_the_parents_of_select_parents(solutions):
    from gradlex.integrations.evotorch import LexicaseSelection

    problem, batch = solutions
    grouped = Cases(groups=[0, 0, 1, 1])
    for errors, method, options in (
        (ERRORS[:, :3], "lexicase", {}),
        (ERRORS[:, :3], "epsilon-lexicase", {"epsilon": 1.0, "num_parents": 30}),
        (ERRORS[:, 3:], "lexicase", {"of": "eval_data", "cases": grouped}),
    ):
        chosen = LexicaseSelection(problem, method, rng=np.random.default_rng(5), **options)(batch)
        count = options.pop("num_parents", 12)
        options.pop("of", None)
        same = select_parents(errors, count, method, rng=5, **options)
        assert chosen.values.tolist() == batch.values[same].tolist()


def test_evotorch_without_an_rng_follows_the_problems_seed(solutions):
    from gradlex.integrations.evotorch import LexicaseSelection

    problem, batch = solutions
    select = LexicaseSelection(problem, "random", num_parents=40)
    answers = []
    for _ in range(2):
        problem.manual_seed(8)
        answers.append([select(batch).values.tolist() for _ in range(2)])
    assert answers[0] == answers[1]
    assert answers[0][0] != answers[0][1]


def test_evotorch_refuses_what_would_mislead(solutions):
    import evotorch

    from gradlex.integrations.evotorch import LexicaseSelection

    problem, _ = solutions
    with pytest.raises(InputError, match="was not evaluated"):
        LexicaseSelection(problem)(problem.generate_batch(4))
    plain = evotorch.Problem("min", lambda x: x.sum(), solution_length=2, initial_bounds=(0, 1))
    with pytest.raises(InputError, match="no evaluation data"):
        LexicaseSelection(plain, of="eval_data")


def test_gepa_mutates_the_candidates_that_select_parents_chooses():
    gepa = needed("gepa")
    from gradlex.integrations.gepa import LexicaseCandidateSelector

    class Adapter:
        """A candidate is a text; example i is solved by its i-th letter."""

        propose_new_texts = None

        def evaluate(self, batch, candidate, capture_traces=False):
            scores = [float(letter in candidate["text"]) for letter in batch]
            return gepa.EvaluationBatch(
                outputs=scores, scores=scores, trajectories=scores if capture_traces else None
            )

        def make_reflective_dataset(self, candidate, eval_batch, components_to_update):
            return {"text": [{"Inputs": "", "Generated Outputs": "", "Feedback": ""}]}

    adapter = Adapter()
    letters = iter("bcdefghij" * 20)
    adapter.propose_new_texts = lambda candidate, data, names: {"text": candidate["text"] + next(letters)}
    selector, asked = LexicaseCandidateSelector(rng=9), []
    inner = selector.select_candidate_idx

    def watched(state):
        chosen = inner(state)
        table = [[own[i] for i in sorted(own)] for own in state.prog_candidate_val_subscores]
        asked.append((np.array(table), chosen))
        return chosen

    selector.select_candidate_idx = watched
    result = gepa.optimize(
        seed_candidate={"text": "a"},
        trainset=list("abcdef"),
        valset=list("abcdef"),
        adapter=adapter,
        candidate_selection_strategy=selector,
        max_metric_calls=120,
        reflection_lm=None,
        seed=0,
    )
    stream = np.random.default_rng(9)
    assert len(asked) > 3
    for scores, chosen in asked:
        assert chosen == select_parents(1 - scores, 1, rng=stream)[0]
    assert max(result.val_aggregate_scores) > result.val_aggregate_scores[0]


def test_gepas_missing_scores_are_the_worst():
    from types import SimpleNamespace

    from gradlex.integrations.gepa import LexicaseCandidateSelector

    state = SimpleNamespace(prog_candidate_val_subscores=[{"a": 1.0}, {"a": 1.0, "b": 0.5}])
    assert {LexicaseCandidateSelector(rng=seed).select_candidate_idx(state) for seed in range(10)} == {1}


def test_tpots_signature_shape_and_distribution():
    from gradlex.integrations.tpot import lexicase_selection

    chosen = lexicase_selection(-ERRORS, 40, n_parents=2, rng=3)
    assert chosen.shape == (40, 2)
    assert chosen.ravel().tolist() == select_parents(ERRORS, 80, rng=3).tolist()
    spec = importlib.util.find_spec("tpot")
    if spec is None:
        pytest.skip("needs tpot, to be compared with: pip install tpot")
    place = Path(spec.submodule_search_locations[0]) / "selectors" / "lexicase_selection.py"
    source = importlib.util.spec_from_file_location(
        "tpots_own", place
    )  # the package itself needs dask and more
    own = importlib.util.module_from_spec(source)
    source.loader.exec_module(own)
    assert list(inspect.signature(own.lexicase_selection).parameters) == list(
        inspect.signature(lexicase_selection).parameters
    )
    theirs = np.bincount(own.lexicase_selection(-ERRORS, 1500, rng=0).ravel(), minlength=12)
    ours = np.bincount(lexicase_selection(-ERRORS, 1500, rng=0).ravel(), minlength=12)
    assert (np.abs(theirs - ours) <= 5 * np.sqrt(np.maximum(theirs + ours, 1))).all()


@pytest.mark.parametrize(
    ("example", "library"),
    [
        ("deap_symbolic_regression", "deap"),
        ("pymoo_fair_classifier", "pymoo"),
        ("evotorch_classifier", "evotorch"),
        ("pygad_classifier", "pygad"),
        ("gepa_rules", "gepa"),
    ],
)
def test_the_examples_solve_their_problems(example, library):
    needed(library, "evotorch" if library == "evotorch" else "integrations")
    path = Path(__file__).parents[2] / "examples" / f"{example}.py"
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if library == "deap":
        assert "e-1" in done.stdout.splitlines()[-2]  # a mean error of rounding alone
    elif library == "evotorch":
        assert float(done.stdout.split()[-1].rstrip("%")) > 90  # test accuracy
    elif library == "pygad":
        assert int(done.stdout.split()[-1]) > 140  # of 150 flowers
    elif library == "gepa":
        assert "the best routes 100% of the messages" in done.stdout
    else:
        shares = [
            [float(word.rstrip("%,")) for word in line.split() if word.rstrip(",").endswith("%")]
            for line in done.stdout.splitlines()
        ]
        assert shares[1][2] > shares[0][2] + 5  # the small group, in points


def test_importing_gradlex_imports_no_other_library():
    code = "import gradlex, sys; print({'deap', 'pymoo', 'gepa', 'pygad', 'evotorch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
