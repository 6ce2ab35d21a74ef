"""Algorithm 1 against an engine of NumPy arrays that writes down what it is asked."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradlex import Generation, InputError, Parent, Recipe, evolve
from gradlex.population import Cost, Diversity
from gradlex.randomness import stream
from gradlex.selection import Choice, TableErrors, bind, lexicase


class FakeCandidates:
    def __init__(self, parent: Parent, weights: list[np.ndarray], targets: np.ndarray) -> None:
        self.parent, self.weights = parent, weights
        self.losses = tuple(float(w.sum()) for w in weights)
        self.errors = TableErrors([(w > targets).astype(int) for w in weights], memory=parent.memory)
        self.promoted: list[Choice] = []

    @property
    def cost(self) -> Cost:
        return Cost(cases_evaluated=self.errors.evaluated, train_seconds=0.0, select_seconds=0.0)

    @property
    def diversity(self) -> Diversity:
        return Diversity(disagreement=float(self.errors.evaluated))

    def promote(self, choice: Choice) -> Parent:
        self.promoted.append(choice)
        state = {"weights": self.weights[choice.index]}
        return Parent(generation=self.parent.generation + 1, state=state, memory=choice.memory)


@dataclass
class FakeEngine:
    """A candidate's weights are its parent's, moved by the rate at its subset's places."""

    num_samples: int
    num_cases: int
    asked: list[tuple[Parent, list[np.ndarray], float]] = field(default_factory=list)
    made: list[FakeCandidates] = field(default_factory=list)

    def train(self, parent: Parent, subsets: list[np.ndarray], lr: float) -> FakeCandidates:
        self.asked.append((parent, subsets, lr))
        weights = []
        for subset in subsets:
            moved = parent.state["weights"].copy()
            moved[subset % self.num_cases] += lr * np.cos(subset)
            weights.append(moved)
        candidates = FakeCandidates(parent, weights, np.linspace(-0.5, 0.5, self.num_cases))
        self.made.append(candidates)
        return candidates


def start(cases: int) -> Parent:
    return Parent(generation=0, state={"weights": np.zeros(cases)})


def same(one: Generation, other: Generation) -> bool:
    def plain(choice: Choice) -> tuple[object, ...]:
        return choice.index, choice.reason, choice.cases_used, choice.survivors

    return (
        one.generation == other.generation
        and plain(one.choice) == plain(other.choice)
        and one.losses == other.losses
        and one.cost == other.cost
        and one.diversity == other.diversity
        and one.parent.state["weights"].tobytes() == other.parent.state["weights"].tobytes()
        and list(one.parent.memory) == list(other.parent.memory)
        and all((one.parent.memory[k] == other.parent.memory[k]).all() for k in one.parent.memory)
    )


@settings(max_examples=40, deadline=None)
@given(
    samples=st.integers(8, 40),
    cases=st.integers(1, 40),
    population=st.integers(1, 4),
    generations=st.integers(1, 6),
    seed=st.integers(0, 2**32),
)
def test_every_generation_follows_algorithm_1(samples, cases, population, generations, seed):
    recipe = Recipe(population=population, generations=generations, seed=seed)
    engine = FakeEngine(samples, cases)
    yielded = list(evolve(start(cases), engine, lexicase, recipe))

    assert [g.generation for g in yielded] == list(range(generations))
    parent = None
    for generation, happened in enumerate(yielded):
        given_parent, subsets, lr = engine.asked[generation]
        # Every candidate starts from the parent that the generation before chose.
        assert generation == 0 or given_parent is parent
        # p disjoint subsets hold every sample once, their sizes differing by at most one.
        assert sorted(np.concatenate(subsets).tolist()) == list(range(samples))
        sizes = [len(subset) for subset in subsets]
        assert len(sizes) == population
        assert max(sizes) - min(sizes) <= 1
        assert lr == recipe.lr_at(generation)
        # Selection sees a fresh order of all cases; the chosen candidate, and only it, is promoted.
        order = stream(seed, "cases", generation).permutation(cases)
        fresh = TableErrors(engine.made[generation].errors.matrix())
        expected = lexicase(order, fresh, stream(seed, "choice", generation))
        assert happened.choice == expected
        assert engine.made[generation].promoted == [happened.choice]
        assert happened.losses == engine.made[generation].losses
        parent = happened.parent
        assert parent.generation == generation + 1


@pytest.mark.parametrize("method", ["lexicase", "informed-lexicase", "tournament", "random", "dalex"])
def test_starting_again_from_any_yielded_parent_continues_the_same_run(method):
    select = bind(method, **({"refresh": 3, "share": 0.5} if method == "informed-lexicase" else {}))
    recipe = Recipe(population=4, generations=8, seed=9)
    whole = list(evolve(start(30), FakeEngine(50, 30), select, recipe))
    for done, happened in enumerate(whole):
        rest = list(evolve(happened.parent, FakeEngine(50, 30), select, recipe))
        assert len(rest) == len(whole) - done - 1
        assert all(same(one, other) for one, other in zip(whole[done + 1 :], rest, strict=True))


def test_orders_and_splits_are_fresh_in_every_generation_and_seed():
    engine = FakeEngine(40, 40)
    for seed in (0, 1):
        list(evolve(start(40), engine, lexicase, Recipe(population=2, generations=5, seed=seed)))
    splits = {tuple(subsets[0].tolist()) for _, subsets, _ in engine.asked}
    assert len(splits) == 10


def test_a_generation_is_not_computed_before_it_is_asked_for():
    engine = FakeEngine(8, 8)
    running = evolve(start(8), engine, lexicase, Recipe(population=2, generations=3))
    assert engine.asked == []
    next(running)
    assert len(engine.asked) == 1


def test_a_finished_parent_yields_nothing():
    done = Parent(generation=3, state={"weights": np.zeros(8)})
    assert list(evolve(done, FakeEngine(8, 8), lexicase, Recipe(population=2, generations=3))) == []


@pytest.mark.parametrize("field", ["population", "generations"])
def test_an_open_recipe_is_refused_by_name(field):
    recipe = Recipe(**{"population": 2, "generations": 3, field: None})
    with pytest.raises(InputError, match=field):
        next(evolve(start(8), FakeEngine(8, 8), lexicase, recipe))
