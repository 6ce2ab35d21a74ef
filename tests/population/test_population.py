"""What a caller of Population can rely on: optimizers, promotion, resume, many kinds of models, misuse."""

import collections
import contextlib
import copy
import gc
import io
import random
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from gradlex import InputError, Population, RunError
from gradlex.selection import EpsilonLexicase

X = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()
ALL = np.arange(40)


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def step(model: nn.Module, *optimizers: torch.optim.Optimizer, indices: np.ndarray = ALL) -> None:
    model.train()
    for batch in torch.from_numpy(indices).split(5):
        for optimizer in optimizers:
            optimizer.zero_grad()
        nn.functional.cross_entropy(model(X[batch]), Y[batch]).backward()
        for optimizer in optimizers:
            optimizer.step()


def solved(model: nn.Module):
    return lambda cases: model(X[cases]).argmax(dim=1) != Y[cases]


def generation(population: Population, model: nn.Module, *optimizers: torch.optim.Optimizer):
    for candidate in population.candidates(len(X)):
        step(model, *optimizers, indices=candidate.indices)
    return population.select(solved(model), len(X))


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([t.detach().flatten().double() for t in model.state_dict().values()])


# The optimizer


@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop])
@pytest.mark.parametrize("momentum_state", ["reset", "inherit"])
def test_optimizers_start_each_generation_from_the_right_state(make, momentum_state: str) -> None:
    model = mlp()
    optimizer = make(model.parameters(), lr=0.01)
    population = Population(model, optimizer, size=2, momentum_state=momentum_state)
    counts = []
    for _ in range(2):
        for candidate in population.candidates(40):
            state = optimizer.state.get(model[0].weight) or {"step": 0}
            counts.append(int(state["step"]))
            step(model, optimizer, indices=candidate.indices)
        population.select(solved(model), 40)
    assert counts == ([0, 0, 0, 0] if momentum_state == "reset" else [0, 0, 4, 4])


def test_an_optimizer_that_has_stepped_before_is_reset_to_nothing() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step(model, optimizer)
    population = Population(model, optimizer)
    for _ in population.candidates(40):
        assert not optimizer.state


def test_learning_rates_stay_what_a_scheduler_sets_once_a_generation() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    population = Population(model, optimizer, size=2)
    seen = []
    for _ in range(4):
        for candidate in population.candidates(40):
            seen.append(optimizer.param_groups[0]["lr"])
            step(model, optimizer, indices=candidate.indices)
        population.select(solved(model), 40)
        scheduler.step()
    expected = [0.05 * (1 + np.cos(np.pi * g / 4)) for g in range(4)]
    assert seen == pytest.approx(np.repeat(expected, 2))


def test_a_schedule_for_each_batch_is_a_function_of_epoch_and_batch() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    population = Population(model, optimizer, size=2)
    seen: dict[int, list[float]] = {0: [], 1: []}
    for candidate in population.candidates(40):
        for number, batch in enumerate(np.array_split(candidate.indices, 4)):
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + population.generation + number)
            seen[candidate.index].append(optimizer.param_groups[0]["lr"])
            step(model, optimizer, indices=batch)
    assert seen[0] == seen[1] == pytest.approx([0.1, 0.05, 0.1 / 3, 0.025])


def test_a_scheduler_that_is_set_back_gives_every_candidate_the_same_schedule() -> None:
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=8)
    population = Population(model, optimizer, size=2)
    seen: list[tuple[float, float]] = []
    for _ in range(2):
        position = scheduler.state_dict()
        options = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
        for candidate in population.candidates(40):
            scheduler.load_state_dict(position)
            for group, old in zip(optimizer.param_groups, options, strict=True):
                group.update(old)
            for batch in np.array_split(candidate.indices, 4):
                seen.append((optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["betas"][0]))
                step(model, optimizer, indices=batch)
                scheduler.step()
        population.select(solved(model), 40)
    assert seen[:4] == seen[4:8]
    assert seen[8:12] == seen[12:]
    assert len(set(seen)) == 8


def test_a_scheduler_that_goes_on_from_one_candidate_to_the_next_is_warned_of() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    candidates = Population(model, optimizer, size=2).candidates(40)
    for _ in range(2):
        step(model, optimizer, indices=next(candidates).indices)
        scheduler.step()
    with pytest.warns(UserWarning, match="candidate 1 ends with a different learning rate than the one before it"):
        assert next(candidates, None) is None


def test_several_optimizers_may_share_the_model() -> None:
    model = mlp()
    body = torch.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.9)
    head = torch.optim.Adam(model[3].parameters(), lr=0.01)
    population = Population(model, [body, head], size=2, momentum_state="inherit")
    for _ in range(2):
        generation(population, model, body, head)
    assert int(head.state[model[3].weight]["step"]) == 8


# Promotion


def test_the_average_is_the_mean_of_the_candidates() -> None:
    model = nn.Linear(2, 1, bias=False)
    population = Population(model, size=4, promotion="average")
    for candidate in population.candidates(4):
        with torch.no_grad():
            model.weight.copy_(torch.tensor([[float(candidate.index), 1.0]]))
    choice = population.select(lambda cases: np.zeros(len(cases)), 4)
    assert model.weight.tolist() == [[1.5, 1.0]]
    assert choice.weights == {0: 0.25, 1: 0.25, 2: 0.25, 3: 0.25}


def test_the_expected_parent_weighs_candidates_by_their_chances() -> None:
    model = nn.Linear(1, 1, bias=False)
    population = Population(model, size=2, promotion="expected", selection="lexicase(on_all_fail=survive)")
    for candidate in population.candidates(4):
        with torch.no_grad():
            model.weight.fill_(float(candidate.index))
    table = np.array([[1, 1, 1, 0], [0, 0, 0, 1]])  # candidate 1 wins three orders out of four
    population.select(lambda cases: table[int(model.weight.item()), cases], 4)
    assert model.weight.item() == pytest.approx(0.75)


def test_recalibrate_is_called_with_the_mean_in_the_model() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def recalibrate() -> None:
        torch.optim.swa_utils.update_bn([X], model)

    population = Population(model, optimizer, promotion="average", recalibrate=recalibrate)
    generation(population, model, optimizer)
    assert torch.allclose(model[1].running_mean, model[0](X).mean(dim=0), atol=1e-6)


# Resume


@pytest.mark.parametrize("momentum_state", ["reset", "inherit"])
@pytest.mark.parametrize("selection", ["lexicase", "informed-lexicase"])
def test_a_saved_population_continues_to_the_same_bits(momentum_state: str, selection: str) -> None:
    def make():
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)
        population = Population(model, optimizer, size=3, momentum_state=momentum_state, selection=selection)
        return model, optimizer, scheduler, population

    model, optimizer, scheduler, population = make()
    saved = []
    for _ in range(6):
        generation(population, model, optimizer)
        scheduler.step()
        file = io.BytesIO()
        torch.save({"population": population.state_dict(), "scheduler": scheduler.state_dict()}, file)
        saved.append(file)
    for epoch in (1, 4):
        again, its_optimizer, its_scheduler, continued = make()
        generation(continued, again, its_optimizer)  # a state to be replaced
        saved[epoch - 1].seek(0)
        state = torch.load(saved[epoch - 1], weights_only=True)
        continued.load_state_dict(state["population"])
        its_scheduler.load_state_dict(state["scheduler"])
        while continued.generation < 6:
            generation(continued, again, its_optimizer)
            its_scheduler.step()
        assert torch.equal(weights(model), weights(again))


def test_a_scheduler_may_be_made_before_or_after_a_state_is_loaded() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    population = Population(model, optimizer)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    generation(population, model, optimizer)
    scheduler.step()
    again = mlp()
    optimizer = torch.optim.SGD(again.parameters(), lr=0.1)
    Population(again, optimizer).load_state_dict(population.state_dict())
    assert optimizer.param_groups[0]["lr"] == scheduler.get_last_lr()[0]


def test_a_state_dict_is_not_changed_by_training_on() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    population = Population(model, optimizer, momentum_state="inherit")
    generation(population, model, optimizer)
    saved = population.state_dict()
    before = copy.deepcopy(saved)
    generation(population, model, optimizer)
    assert torch.equal(saved["model"]["tensors"]["0.weight"], before["model"]["tensors"]["0.weight"])
    assert torch.equal(saved["optimizer"][0][0]["momentum_buffer"], before["optimizer"][0][0]["momentum_buffer"])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: Population(mlp(), seed=1), "seed is 1, the saved run has 0"),
        (lambda: Population(nn.Linear(4, 2)), "belongs to a different model"),
        (lambda: Population(mlp(), selection=EpsilonLexicase(epsilon=0.5)), "selection is"),
    ],
)
def test_the_state_of_another_population_is_an_error(other, message: str) -> None:
    saved = Population(mlp()).state_dict()
    with pytest.raises(InputError, match=message):
        other().load_state_dict(saved)


# Models


class Counts(nn.Module):
    """Keeps a number where `keep` says."""

    def __init__(self, keep: str) -> None:
        super().__init__()
        self.linear, self.keep, self.k = nn.Linear(4, 2), keep, 0
        self.register_buffer("lazy", None, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and self.keep in ("attribute", "extra"):
            self.k += 1
        if self.keep == "cache" and self.k == 0:
            self.k = 7
        if self.keep == "buffer":
            before = torch.zeros(()) if self.lazy is None else self.lazy
            self.lazy = before + 1 if self.training else before
        scale = 1 + self.k / 10 + (0 if self.lazy is None else self.lazy / 10)
        return self.linear(x) * scale

    def get_extra_state(self) -> int:
        return self.k

    def set_extra_state(self, state: int) -> None:
        self.k = state


class Plain(Counts):
    get_extra_state = nn.Module.get_extra_state
    set_extra_state = nn.Module.set_extra_state


def test_extra_state_belongs_to_the_candidate() -> None:
    model = Counts("extra")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    population = Population(model, optimizer, size=4)
    for number in range(1, 4):
        generation(population, model, optimizer)
        assert model.k == 2 * number  # ten samples in batches of five


def test_a_buffer_that_the_first_pass_makes_belongs_to_the_candidate() -> None:
    model = Plain("buffer")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    population = Population(model, optimizer, size=4)
    generation(population, model, optimizer)
    assert int(model.lazy) == 2
    other = Plain("buffer")
    continued = Population(other, torch.optim.SGD(other.parameters(), lr=0.1), size=4)
    continued.load_state_dict(population.state_dict())
    assert int(other.lazy) == 2


def test_an_attribute_that_training_changes_is_an_error_that_names_it() -> None:
    model = Plain("attribute")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    population = Population(model, optimizer)
    with pytest.raises(InputError, match=r"attribute 'k'.*register_buffer"):
        generation(population, model, optimizer)


def test_a_cache_that_the_first_pass_fills_is_no_error() -> None:
    model = Plain("cache")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    population = Population(model, optimizer)
    for _ in range(3):
        generation(population, model, optimizer)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.out = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.b(self.a(x)))


MODELS = {
    "tied": Tied,
    "parametrized": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 2)),
    "max norm": lambda: nn.Sequential(nn.EmbeddingBag(4, 3, max_norm=0.5), nn.Linear(3, 2)),
    "no buffers": lambda: nn.Linear(4, 2),
    "float64 part": lambda: nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)),
    "frozen": lambda: nn.Sequential(nn.Linear(4, 3).requires_grad_(False), nn.Linear(3, 2)),
}


@pytest.mark.parametrize("kind", MODELS)
def test_candidates_of_every_kind_of_model_start_alike_and_the_winner_stays(kind: str) -> None:
    torch.manual_seed(0)
    model = MODELS[kind]()
    inputs = torch.randint(4, (40, 2)) if kind == "max norm" else X
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    population = Population(model, optimizer, size=3)
    for _ in range(2):
        starts, ends = [], []
        for candidate in population.candidates(40):
            starts.append(weights(model))
            nn.functional.cross_entropy(model(inputs[candidate.indices]), Y[candidate.indices]).backward()
            optimizer.step()
            ends.append(weights(model))
        choice = population.select(lambda cases: model(inputs[cases]).argmax(dim=1) != Y[cases], 40)
        assert all(torch.equal(starts[0], each) for each in starts)
        assert not torch.equal(ends[0], ends[1])
        assert torch.equal(weights(model), ends[choice.index])
    if kind == "tied":
        assert model.a.weight is model.b.weight


def test_a_compiled_model_trains_to_the_bits_of_the_plain_one_in_eager_mode() -> None:
    found = []
    for wrap in (lambda model: model, lambda model: torch.compile(model, backend="eager")):
        model = mlp()
        used = wrap(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        population = Population(used, optimizer, size=2)
        for _ in range(2):
            generation(population, used, optimizer)
        found.append(weights(model))
        assert "0.weight" in population.parent_state()
    assert torch.equal(*found)


def test_the_training_modes_of_layers_stay() -> None:
    model = mlp()
    model[1].eval()
    population = Population(model, size=2)
    for _ in population.candidates(40):
        assert model[0].training
        assert not model[1].training
        model.eval()
    population.select(solved(model), 40)
    assert model[0].training
    assert not model[1].training


# Random numbers


def test_restore_puts_the_training_modes_back() -> None:
    model = mlp()
    population = Population(model, size=2)
    for _ in population.candidates(40):
        model.eval()
        break
    population.restore()
    assert all(layer.training for layer in model.modules())


def test_the_callers_random_numbers_are_not_disturbed() -> None:
    model = mlp()
    population = Population(model, size=2)
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    drawn = []
    for candidate in population.candidates(40):
        drawn.append((random.random(), np.random.rand(), float(torch.rand(1)), candidate.rng.random()))
    population.select(lambda cases: torch.rand(len(cases)).round(), 40)
    assert states[0] == random.getstate()
    assert states[1] == np.random.get_state()[1].tolist()
    assert torch.equal(states[2], torch.get_rng_state())
    assert len({number for numbers in drawn for number in numbers}) == 8


# Selection


def test_select_asks_in_evaluation_mode_without_gradients_and_only_for_those_alive() -> None:
    model = nn.Linear(1, 1, bias=False)
    population = Population(model, size=3)
    for candidate in population.candidates(100):
        with torch.no_grad():
            model.weight.fill_(float(candidate.index))
    asked: list[tuple[int, int]] = []

    def errors(cases: np.ndarray) -> np.ndarray:
        assert not model.training
        assert not torch.is_grad_enabled()
        asked.append((int(model.weight.item()), len(cases)))
        return np.full(len(cases), model.weight.item() == 1)  # candidate 1 fails everything

    choice = population.select(errors, 100)
    assert [index for index, _ in asked] == [0, 1, 2, 0, 2, 0, 2]
    assert choice.index in (0, 2)
    assert choice.survivors[0] == (1, (0, 2))
    assert choice.evaluated == sum(cases for _, cases in asked)


def test_nan_counts_as_worst() -> None:
    model = nn.Linear(1, 1, bias=False)
    population = Population(model, size=2, selection="tournament")
    for candidate in population.candidates(4):
        with torch.no_grad():
            model.weight.fill_(float(candidate.index))
    choice = population.select(lambda cases: np.full(len(cases), np.nan if model.weight == 0 else 9.0), 4)
    assert choice.index == 1


def test_a_candidate_with_infinite_weights_or_that_is_discarded_is_left_out() -> None:
    model = nn.Linear(1, 1, bias=False)
    population = Population(model, size=3)
    for candidate in population.candidates(9):
        with torch.no_grad():
            model.weight.fill_([float("inf"), 1.0, 2.0][candidate.index])
        if candidate.index == 2:
            candidate.discard()
    assert population.select(lambda cases: np.zeros(len(cases)), 9).reason == "only_candidate"
    assert model.weight.item() == 1.0


def test_if_all_candidates_diverge_the_model_holds_the_last_parent() -> None:
    model = nn.Linear(1, 1, bias=False)
    before = model.weight.item()
    population = Population(model, size=2)
    for _ in population.candidates(9):
        with torch.no_grad():
            model.weight.fill_(float("nan"))
    with pytest.raises(RunError, match="every candidate of generation 1 diverged"):
        population.select(lambda cases: np.zeros(len(cases)), 9)
    assert model.weight.item() == before
    assert len(list(population.candidates(9))) == 2


def test_parts_of_the_callers_own_and_one_candidate_until_a_branch() -> None:
    population = Population(mlp(), size=2)
    assert [c.indices.tolist() for c in population.candidates(parts=[[3, 4], [0]])] == [[3, 4], [0]]
    population.select(lambda cases: np.zeros(len(cases)), 4)
    assert [len(c.indices) for c in population.candidates(7, size=1)] == [7]


# Misuse


def test_select_before_every_candidate_was_trained_is_an_error() -> None:
    population = Population(mlp(), size=2)
    with pytest.raises(InputError, match="loop over candidates"):
        population.select(lambda cases: cases, 4)
    loop = population.candidates(10)
    next(loop)
    with pytest.raises(InputError, match="generation 1 is not finished: 0 of 2"):
        population.select(lambda cases: cases, 4)
    with pytest.raises(InputError, match="restore"):
        population.candidates(10)
    with pytest.raises(InputError, match="save after select"):
        population.state_dict()


def test_a_break_is_found_and_restore_trains_again() -> None:
    model = mlp()
    before = weights(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    population = Population(model, optimizer, size=2)
    for candidate in population.candidates(40):
        step(model, optimizer, indices=candidate.indices)
        break
    with pytest.raises(InputError, match="0 of 2 candidates are trained"):
        population.select(solved(model), 40)
    population.restore()
    assert torch.equal(weights(model), before)
    assert not optimizer.state
    generation(population, model, optimizer)


def test_after_an_exception_in_the_body_training_goes_on_as_if_it_had_not_happened() -> None:
    outcomes = []
    for fails in (True, False):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        population = Population(model, optimizer, size=2)
        torch.manual_seed(8)
        if fails:
            with pytest.raises(ZeroDivisionError):
                for candidate in population.candidates(40):
                    step(model, optimizer, indices=candidate.indices)
                    1 / 0
            population.restore()
        assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(8)))
        generation(population, model, optimizer)
        outcomes.append(weights(model))
    assert torch.equal(*outcomes)


def test_gradients_that_a_candidate_leaves_over_do_not_reach_the_next() -> None:
    model = mlp()
    for candidate in Population(model, size=3).candidates(40):
        assert all(parameter.grad is None for parameter in model.parameters()), candidate.index
        nn.functional.cross_entropy(model(X), Y).backward()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_weight_that_is_not_finite_is_found_in_any_tensor_but_a_mask_may_be_infinite(bad: float) -> None:
    model = mlp()
    model.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
    model.register_buffer("waves", torch.zeros(2, dtype=torch.complex64))
    population = Population(model, size=3)
    trained = []
    for candidate in population.candidates(40):
        trained.append(candidate)
        if candidate.index:
            tensor = model[1].running_var if candidate.index == 1 else model.waves
            with torch.no_grad():
                tensor[1] = bad
    assert [candidate.discarded for candidate in trained] == [False, True, True]


def test_graded_errors_under_the_rule_for_right_and_wrong_are_an_error() -> None:
    model = mlp()
    population = Population(model, size=2)
    list(population.candidates(40))
    with pytest.raises(InputError, match="selection='epsilon-lexicase'"):
        population.select(lambda cases: np.linspace(0.1, 0.2, len(cases)), 40)
    assert population.generation == 0
    assert population.select(solved(model), 40).index in (0, 1)


def test_errors_of_the_wrong_length_can_be_mended_and_selected_again() -> None:
    model = mlp()
    population = Population(model, size=2)
    list(population.candidates(40))
    with pytest.raises(InputError, match="one number for each of the 32 cases"):
        population.select(lambda cases: nn.functional.cross_entropy(model(X[cases]), Y[cases]), 40)
    assert population.select(solved(model), 40).index in (0, 1)


def test_replaced_parameters_and_foreign_optimizers_are_errors() -> None:
    model = mlp()
    with pytest.raises(InputError, match="parameters that the model doesn't have"):
        Population(model, torch.optim.SGD(mlp().parameters(), lr=0.1))
    population = Population(model)
    nn.utils.parametrizations.weight_norm(model[0])
    with pytest.raises(InputError, match=r"0\.weight"):
        population.candidates(40)


def test_a_cast_in_the_middle_of_a_generation_is_an_error() -> None:
    model = mlp()
    population = Population(model, size=2)
    with pytest.raises(InputError, match="changed their device or dtype"):
        for _ in population.candidates(40):
            model.double()


def test_a_layer_that_is_replaced_in_the_body_is_an_error_at_once() -> None:
    model = mlp()
    population = Population(model, size=2)
    with pytest.raises(InputError, match=r"3\.\w+.* were replaced"):
        for _ in population.candidates(40):
            model[3] = nn.Linear(8, 4)


def test_an_abandoned_generation_disturbs_nothing_when_it_is_freed() -> None:
    population = Population(mlp(), size=2)
    for _ in population.candidates(40):
        break
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    del population, _
    gc.collect()
    assert torch.equal(torch.rand(3), expected)


def test_a_selection_can_be_repeated_after_a_recalibration_that_failed() -> None:
    model, failing = mlp(), [True]

    def recalibrate() -> None:
        if failing.pop() if failing else False:
            raise RuntimeError("no batch")

    population = Population(model, size=2, promotion="average", recalibrate=recalibrate)
    for candidate in population.candidates(40):
        with torch.no_grad():
            model[0].weight.fill_(candidate.index)
    with pytest.raises(RuntimeError, match="no batch"):
        population.select(solved(model), 40)
    population.select(solved(model), 40)
    assert model[0].weight.unique().tolist() == [0.5]


@pytest.mark.parametrize("selection", ["tournament", "plexicase", "informed-lexicase", "dalex"])
def test_no_strategy_asks_for_more_cases_at_once_than_memory_may_hold(selection: str) -> None:
    asked = []

    def errors(cases: np.ndarray) -> np.ndarray:
        asked.append(len(cases))
        return cases % 2

    population = Population(mlp(), size=2, selection=selection)
    list(population.candidates(40))
    population.select(errors, 5000)
    assert max(asked) <= 1024


def test_parts_say_how_many_candidates_there_are() -> None:
    with pytest.raises(InputError, match="got 2 parts, one for each candidate, and size=3"):
        Population(mlp()).candidates(size=3, parts=[[0], [1]])


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_scripted_model_is_an_error() -> None:
    with pytest.raises(InputError, match=r"before torch\.jit\.script"):
        Population(torch.jit.trace(nn.Linear(4, 2), torch.zeros(1, 4)))


def test_lazy_layers_need_a_first_batch() -> None:
    model = nn.LazyLinear(2)
    with pytest.raises(InputError, match="pass one batch"):
        Population(model)
    model(X)
    Population(model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size must be"),
        ({"momentum_state": "keep"}, "momentum_state must be"),
        ({"selection": "lexcase"}, "Did you mean 'lexicase'"),
        ({"promotion": "best"}, "promotion"),
        ({"seed": None}, "seed must be a whole number"),
        ({"optimizer": torch.optim.SGD}, "optimizer must be a torch.optim.Optimizer"),
    ],
)
def test_bad_settings_are_errors(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Population(mlp(), **options)


def test_too_few_samples_are_an_error_and_so_is_what_is_no_number() -> None:
    population = Population(mlp())
    for given, message in ((3, "at least 4 samples, got 3"), (X, "num_samples must be"), (None, "num_samples must be")):
        with pytest.raises(InputError, match=message):
            population.candidates(given)
    list(population.candidates(40))
    with pytest.raises(InputError, match="num_cases must be a whole number"):
        population.select(lambda cases: np.zeros(len(cases)), torch.utils.data.TensorDataset(X))


def test_a_checkpoint_that_holds_more_than_the_population_is_an_error() -> None:
    population = Population(mlp())
    with pytest.raises(InputError, match=r"not what Population\.state_dict\(\) returned"):
        population.load_state_dict({"population": population.state_dict()})


@pytest.mark.parametrize("cast", [nn.Module.double, nn.Module.bfloat16])
def test_a_saved_state_of_another_type_is_an_error_and_changes_nothing(cast) -> None:
    saved = Population(mlp()).state_dict()
    model = cast(mlp())
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(InputError, match=r"is torch.float32 there and torch\.(float64|bfloat16) here"):
        Population(model).load_state_dict(saved)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_model_that_was_cast_in_the_body_can_be_put_back() -> None:
    model = mlp()
    population = Population(model, size=2)
    before = population.parent_state()
    with pytest.raises(InputError, match="changed their device or dtype"):
        for _ in population.candidates(40):
            model.double()
    population.restore()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    model(X)


@pytest.mark.parametrize(
    "other",
    [
        lambda model: None,
        lambda model: torch.optim.Adam(model.parameters()),
        lambda model: torch.optim.SGD([{"params": [p]} for p in model.parameters()], lr=0.1),
    ],
)
def test_a_saved_state_of_another_optimizer_is_an_error_and_changes_nothing(other) -> None:
    model = mlp()
    saved = Population(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)).state_dict()
    changed = mlp()
    with torch.no_grad():
        changed[0].weight.zero_()
    population = Population(changed, other(changed))
    before = population.parent_state()
    with pytest.raises(InputError, match="different model or optimizer"):
        population.load_state_dict(saved)
    assert all(torch.equal(tensor, before[name]) for name, tensor in changed.state_dict().items())


def test_restore_puts_back_what_the_optimizer_held_and_keeps_the_blank_state_blank() -> None:
    model = mlp()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    population = Population(model, optimizer, size=2)

    for _ in population.candidates(40, 1):
        step(model, optimizer)
    population.select(solved(model), 40)
    held = [optimizer.state[p]["sum"].clone() for p in model.parameters()]
    for _ in range(2):
        population.candidates(40)
        population.restore()
        assert all(
            torch.equal(optimizer.state[p]["sum"], each) for p, each in zip(model.parameters(), held, strict=True)
        )
    step(model, optimizer)
    for _ in population.candidates(40):
        assert all(float(optimizer.state[p]["sum"].abs().sum()) == 0 for p in model.parameters())


def test_old_style_weight_norm_and_outputs_kept_in_attributes_are_fine() -> None:
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)
                self.layer = nn.utils.weight_norm(nn.Linear(4, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.last = self.layer(x)
            return self.last

    model = Keeps()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    population = Population(model, optimizer, size=3)
    x, y = torch.randn(30, 4), torch.arange(30) % 3
    for _ in range(3):
        for candidate in population.candidates(30):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[candidate.indices]), y[candidate.indices]).backward()
            optimizer.step()
        population.select(lambda cases: model(x[cases]).argmax(dim=1) != y[cases], 30)
    assert population.generation == 3


@pytest.mark.parametrize("parts", [[], [1, 2, 3], [[True, False]], [[0.0, 1.0]], [[[0], [1]]]])
def test_parts_are_lists_of_sample_numbers(parts) -> None:
    with pytest.raises(InputError, match="parts must be lists of sample numbers"):
        Population(mlp()).candidates(parts=parts)


def test_gather_needs_a_number_for_each_candidate() -> None:
    population = Population(mlp(), size=2)
    list(population.candidates(40))
    with pytest.raises(InputError, match="candidate 1 has none"):
        population.gather({0: 1.0})


def test_the_callers_autocast_does_not_mix_up_the_weights_of_candidates() -> None:
    model = nn.Linear(4, 2)
    population = Population(model, size=3, selection="tournament")
    for candidate in population.candidates(40):
        with torch.no_grad():
            model.weight.fill_(candidate.index + 1)
            model.bias.zero_()
    seen = {}

    def errors(cases):
        outputs = model(X[cases]).float()
        seen[int(model.weight[0, 0])] = float(outputs.abs().sum() / X[cases].sum(dim=1).abs().sum())
        return outputs.abs().sum(dim=1)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        choice = population.select(errors, 40)
    assert choice.index == 0
    assert seen == {weight: pytest.approx(2 * weight, rel=0.05) for weight in (1, 2, 3)}


@pytest.mark.parametrize("surroundings", [torch.no_grad, lambda: torch.device("meta")])
def test_what_surrounds_a_selection_changes_no_choice(surroundings) -> None:
    outcomes = []
    for around in (contextlib.nullcontext, surroundings):
        model = mlp()
        population = Population(model, size=4, selection="lexicase(on_all_fail=survive)")
        for candidate in population.candidates(40):
            with torch.no_grad():
                model[3].weight.mul_(candidate.index - 1.5)
        with around():
            choice = population.select(solved(model), 40)
        outcomes.append((choice.index, weights(model).tolist()))
    assert outcomes[0] == outcomes[1]


class Remembers(nn.Module):
    """Keeps something in a plain attribute, and changes it in each training pass."""

    def __init__(self, kept, change) -> None:
        super().__init__()
        self.linear, self.kept, self.change = nn.Linear(4, 2), kept, change

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.kept = self.change(self.kept) or self.kept
        return self.linear(x)


@pytest.mark.parametrize(
    ("kept", "change"),
    [
        (torch.zeros(4), lambda kept: kept.data.add_(1)),
        (np.random.default_rng(0), lambda kept: kept.normal() and None),
        (torch.Generator(), lambda kept: torch.rand(1, generator=kept).item() and None),
        (random.Random(0), lambda kept: kept.random() and None),
        ({0}, lambda kept: kept.add(len(kept))),
        (False, lambda kept: True),
    ],
    ids=["tensor.data", "numpy generator", "torch generator", "python generator", "set", "flag"],
)
def test_every_kind_of_attribute_that_training_changes_is_an_error(kept, change) -> None:
    model = Remembers(kept, lambda held: None if isinstance(change(held), torch.Tensor) else change(held))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    population = Population(model, optimizer, size=3)
    with pytest.raises(InputError, match="training changes the model's attribute 'kept'"):
        generation(population, model, optimizer)


class CachesInEvaluation(nn.Module):
    """Keeps a product of its weights until it is trained again, as LeViT's attention does."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.cache = nn.Linear(4, 2), {}

    def train(self, mode: bool = True) -> None:  # type: ignore[override]  # as many do
        super().train(mode)
        if mode:
            self.cache = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.linear.weight if self.training else self.cache.setdefault("weight", self.linear.weight.clone())
        return nn.functional.linear(x, weight, self.linear.bias)


def test_what_a_model_caches_in_evaluation_is_not_another_candidates() -> None:
    model, seen = CachesInEvaluation(), {}
    population = Population(model, size=3, selection="tournament")
    for candidate in population.candidates(40):
        with torch.no_grad():
            model.linear.weight.fill_(candidate.index)
            model.linear.bias.zero_()

    def errors(cases: np.ndarray) -> torch.Tensor:
        found = model(torch.ones(1, 4))[0, 0]
        seen[float(found)] = True
        return (found - 4).abs().expand(len(cases))

    assert population.select(errors, 10).index == 1
    assert sorted(seen) == [0.0, 4.0, 8.0]
    model.train(False)
    assert model(torch.ones(1, 4))[0, 0] == 4


def test_an_attribute_that_the_caller_changes_between_generations_is_no_error() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    population = Population(model, optimizer, size=2)
    for epoch in range(4):
        model.temperature = 0.9**epoch
        generation(population, model, optimizer)
    assert population.generation == 4


def test_a_sparse_tensor_in_an_attribute_is_no_error() -> None:
    model = mlp()
    model.adjacency = torch.eye(3).to_sparse()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generation(Population(model, optimizer, size=3), model, optimizer)


def test_weights_that_old_hooks_compute_may_be_validated_in_the_body() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        model = nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 8)), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    population = Population(model, optimizer, size=3)
    for candidate in population.candidates(40):
        step(model, optimizer, indices=candidate.indices)
        with torch.no_grad():
            model(X)
    assert population.select(solved(model), 40).index in range(3)


def test_a_deque_that_training_fills_is_an_error() -> None:
    class Remembers(nn.Linear):
        def __init__(self) -> None:
            super().__init__(4, 2)
            self.norms = collections.deque([0.0], maxlen=3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.norms.append(float(x.norm()))
            return super().forward(x)

    model = Remembers()
    population = Population(model, size=4)
    with pytest.raises(InputError, match="attribute 'norms', which is not part of its state"):
        for candidate in population.candidates(40):
            model(X[candidate.indices])
