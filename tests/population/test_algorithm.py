"""Population against Algorithm 1 written out in plain PyTorch and NumPy."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gradlex import Population, evolve
from gradlex.randomness import stream, torch_seed

N, SIZE, EPOCHS, BATCH = 60, 3, 4, 5
X = torch.randn(N, 3, 6, 6, generator=torch.Generator().manual_seed(0))
Y = torch.randint(4, (N,), generator=torch.Generator().manual_seed(1))


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(96, 4)
    )


def train_one(model: nn.Module, optimizer: torch.optim.Optimizer, indices: np.ndarray) -> None:
    model.train()
    for batch in torch.from_numpy(indices).split(BATCH):
        optimizer.zero_grad()
        F.cross_entropy(model(X[batch]), Y[batch]).backward()
        optimizer.step()


def algorithm_1(momentum_state: str, on_all_fail: str, seed: int) -> tuple[nn.Module, list[int]]:
    """The paper's Algorithm 1, one candidate a deep copy, one case at a time."""
    parent, momentum, chosen = network(), None, []
    for g in range(EPOCHS):
        parts = np.array_split(stream(seed, "split", g).permutation(N), SIZE)
        models, states = [], []
        for i in range(SIZE):
            model = copy.deepcopy(parent)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            if momentum_state == "inherit" and momentum is not None:
                optimizer.load_state_dict(copy.deepcopy(momentum))
            torch.manual_seed(torch_seed(seed, "dropout", g, i))
            train_one(model, optimizer, parts[i])
            models.append(model.eval())
            states.append(optimizer.state_dict())
        rng = stream(seed, "choice", g)
        alive = list(range(SIZE))
        with torch.no_grad():
            right = torch.stack([model(X).argmax(dim=1) == Y for model in models]).numpy()
        for case in stream(seed, "cases", g).permutation(N):
            solvers = [i for i in alive if right[i, case]]
            if not solvers and on_all_fail == "random":
                break
            alive = solvers or alive
            if len(alive) == 1:
                break
        winner = alive[0] if len(alive) == 1 else alive[rng.integers(len(alive))]
        parent, momentum = models[winner], states[winner]
        chosen.append(winner)
    return parent, chosen


@pytest.mark.parametrize("momentum_state", ["reset", "inherit"])
@pytest.mark.parametrize("on_all_fail", ["random", "survive"])
def test_population_is_algorithm_1_bit_for_bit(momentum_state: str, on_all_fail: str) -> None:
    seed = 5
    expected, winners = algorithm_1(momentum_state, on_all_fail, seed)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    population = Population(
        model,
        optimizer,
        size=SIZE,
        seed=seed,
        selection=f"lexicase(on_all_fail={on_all_fail})",
        momentum_state=momentum_state,
    )
    chosen = []
    for _ in range(EPOCHS):
        for candidate in population.candidates(N):
            train_one(model, optimizer, candidate.indices)
        chosen.append(population.select(lambda cases: model(X[cases]).argmax(dim=1) != Y[cases], N).index)
    assert chosen == winners
    assert len(set(chosen)) > 1
    for (name, mine), theirs in zip(model.state_dict().items(), expected.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs), name


def test_evolve_is_the_loop_over_candidates_and_select() -> None:
    outcomes = []
    for own_loop in (True, False):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        population = Population(model, optimizer, size=2)

        def errors(cases: np.ndarray, model: nn.Module = model) -> torch.Tensor:
            return model(X[cases]).argmax(dim=1) != Y[cases]

        def train(candidate, model=model, optimizer=optimizer) -> float:
            train_one(model, optimizer, candidate.indices)
            return 0.0

        if own_loop:
            for _ in range(3):
                for candidate in population.candidates(N):
                    train(candidate)
                population.select(errors, N)
        else:
            generations = list(evolve(population, train, errors, num_samples=N, num_cases=N, epochs=3))
            assert [generation.number for generation in generations] == [1, 2, 3]
        outcomes.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*outcomes)


def test_with_one_candidate_it_is_plain_sgd_that_keeps_its_momentum() -> None:
    model, plain = network(), network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    population = Population(model, optimizer, size=1, momentum_state="reset")
    its_own = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for g in range(3):
        for candidate in population.candidates(N):
            train_one(model, optimizer, candidate.indices)
        population.select(lambda cases: np.zeros(len(cases)), N)
        torch.manual_seed(torch_seed(0, "dropout", g))
        train_one(plain, its_own, stream(0, "split", g).permutation(N))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters(), strict=True))
