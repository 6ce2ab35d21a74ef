"""gradlex.train: one call from a model and data to a finished run."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import gradlex
from gradlex import Population, Recipe
from gradlex.population.split import batches
from gradlex.tasks import Measure, Task


def points(samples: int = 120, features: int = 6) -> tuple[Tensor, Tensor]:
    x = torch.randn(samples, features, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] + x[:, 1] > 0).long()


def net(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))


SMALL: dict[str, Any] = {"epochs": 3, "batch_size": 10, "population": 3, "precision": "float32"}


def same(first: nn.Module, second: nn.Module) -> bool:
    one, other = first.state_dict(), second.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("fields", [{}, {"momentum_state": "inherit", "promotion": "average", "selection": "random"}])
def test_a_recipe_and_the_same_thing_as_an_own_loop_with_population_end_with_the_same_bits(
    fields: dict[str, Any],
) -> None:
    x, y = points()
    recipe = Recipe(**SMALL, seed=4, **fields)
    run = gradlex.train(net(), (x, y), recipe, threads=1, device="cpu")

    model, threads = net(), torch.get_num_threads()
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
    options = {"selection": "lexicase", **fields}
    population = Population(model, optimizer, size=3, seed=4, **options)
    for _ in range(3):
        for candidate in population.candidates(len(x)):
            model.train()
            for batch in batches(candidate.indices, 10):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
                optimizer.step()
        population.select(lambda cases: model(x[cases]).argmax(dim=1) != y[cases], len(x))
        scheduler.step()
    torch.set_num_threads(threads)
    assert same(run.model, model)


def test_the_split_is_drawn_once_the_recipe_resolved_once_and_the_model_built_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "counted_networks.py").write_text(
        "from torch import nn\n"
        "built = []\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, num_classes):\n"
        "        super().__init__()\n"
        "        built.append(num_classes)\n"
        "        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))\n"
        "    def forward(self, x):\n"
        "        return self.layers(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    drawn: list[int] = []

    class Counting(np.random.Generator):
        def permutation(self, x: Any, axis: int = 0) -> Any:
            drawn.append(x)
            return super().permutation(x, axis)

    def counting(seed: Any = None) -> np.random.Generator:
        return seed if isinstance(seed, np.random.Generator) else Counting(np.random.PCG64(seed))

    monkeypatch.setattr(np.random, "default_rng", counting)
    asked: list[str] = []

    class Counted(gradlex.tasks.Classification):
        @property
        def selection(self) -> str:
            asked.append("selection")
            return "tournament"

    gradlex.train(task=Counted(), model="counted_networks:Net", validation_fraction=0.1, epochs=2, batch_size=100)

    import counted_networks  # type: ignore[import-not-found]

    assert counted_networks.built == [10]
    assert asked == ["selection"]
    # The test part, the validation part; then the parts and the order of cases of each generation.
    assert drawn == [1797, 1438, 1294, 1294, 1294, 1294]


def test_fields_of_the_recipe_can_be_given_as_keywords_also_beside_a_recipe() -> None:
    run = gradlex.train(net(), points(), epochs=2, batch_size=20, selection="random")
    assert (run.recipe.epochs, run.recipe.selection, run.recipe.population) == (2, "random", 4)
    run = gradlex.train(net(), points(), Recipe(epochs=2, batch_size=20), epochs=1, device=torch.device("cpu"))
    assert (run.recipe.epochs, run.recipe.batch_size) == (1, 20)
    with pytest.raises(gradlex.InputError, match=r"unknown recipe field 'generations'. Did you mean 'epochs'"):
        gradlex.train(net(), points(), generations=3)


def test_the_callers_model_stays_as_it_was() -> None:
    model = net()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    run = gradlex.train(model, points(), **SMALL)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.training
    assert not run.model.training


def test_metrics_of_a_part_that_was_not_there_say_so() -> None:
    run = gradlex.train(net(), points(), **SMALL)
    assert set(run.metrics["train"]) == {"accuracy", "loss", "balanced_accuracy", "worst_class_accuracy"}
    with pytest.raises(KeyError, match=r"the run has no test data: train with test="):
        run.metrics["test"]
    with pytest.raises(gradlex.InputError, match="no validation data"):
        run.metrics["validation"]


def test_the_history_is_a_pandas_frame() -> None:
    run = gradlex.train(net(), points(), test=points(), **SMALL)
    frame = run.frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame.generation.tolist() == [1, 2, 3]
    assert frame.test_accuracy.iloc[-1] == run.metrics["test"]["accuracy"]


def test_the_test_part_is_evaluated_as_often_as_asked_and_in_the_end() -> None:
    run = gradlex.train(net(), points(), test=points(), evaluate_every=2, **{**SMALL, "epochs": 5})
    assert [bool(record.metrics) for record in run.history] == [False, True, False, True, True]


def test_test_data_decides_nothing() -> None:
    x, y = points()
    runs = [
        gradlex.train(net(), (x, y), test=(x[:40], targets), evaluate_every=1, **SMALL)
        for targets in (y[:40], 1 - y[:40])
    ]
    assert same(runs[0].model, runs[1].model)
    assert runs[0].metrics["test"] != runs[1].metrics["test"]


def test_evaluation_changes_no_buffer_of_a_network_that_counts_its_passes() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 2)
            self.register_buffer("passes", torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            self.passes += 1
            return self.layer(x)

    run = gradlex.train(Counting(), points(), test=points(), evaluate_every=1, **SMALL)
    assert float(run.model.passes) == 3 * 4  # 3 generations of 4 steps


def test_a_tail_mean_is_the_mean_of_the_parents_since_the_branch() -> None:
    parents: list[dict[str, Tensor]] = []

    class Keep(gradlex.Callback):
        def on_generation(self, record: Any, run: Any) -> None:
            parents.append({name: tensor.clone() for name, tensor in run.model.state_dict().items()})

    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2))
    fields = {"branch_at": 0.5, "tail_mean": True, "promotion": "average", "batch_size": 10, "epochs": 6}
    run = gradlex.train(model, points(), precision="float32", callbacks=[Keep()], **fields)
    assert [len(record.losses) for record in run.history] == [1, 1, 1, 4, 4, 4]
    for name, tensor in run.model.state_dict().items():
        torch.testing.assert_close(tensor, torch.stack([parent[name] for parent in parents[3:]]).mean(dim=0))
    assert not torch.equal(run.model[0].weight, parents[-1]["0.weight"])


def test_a_recalibrated_layer_in_evaluation_mode_keeps_its_statistics() -> None:
    model = net()
    model[1].eval()
    model[1].running_mean.fill_(0.25)
    run = gradlex.train(model, points(), promotion="average", recalibrate=3, **SMALL)
    assert torch.equal(run.model[1].running_mean, torch.full((8,), 0.25))
    trained = gradlex.train(net(), points(), promotion="average", recalibrate=3, **SMALL)
    assert not torch.equal(trained.model[1].running_mean, torch.zeros(8))
    assert trained.model[1].momentum == 0.1


def test_patience_stops_and_returns_the_best_model_by_the_validation_part() -> None:
    x, y = points()
    fields = {**SMALL, "epochs": 40, "patience": 2, "lr": 0.5}
    run = gradlex.train(net(), (x[:60], y[:60]), validation=(x[60:], y[60:]), test=(x[60:], y[60:]), **fields)
    values = [record.metrics["validation"]["accuracy"] for record in run.history]
    assert len(values) < 40
    assert run.result["best_generation"] == 1 + int(np.argmax(values)) == len(values) - 2
    assert run.metrics["validation"]["accuracy"] == max(values) == run.metrics["test"]["accuracy"]
    assert run.result["stopped"] == f"no better validation accuracy since generation {len(values) - 2}"


def test_a_callback_ends_the_run_and_another_one_sees_it_end_though_the_first_fails() -> None:
    seen: list[str] = []

    class Ends(gradlex.Callback):
        def on_generation(self, record: Any, run: Any) -> str | None:
            return "good enough" if record.generation == 2 else None

    class Watches(gradlex.Callback):
        def on_end(self, run: Any) -> None:
            seen.append(f"{len(run.history)} of {run.recipe.epochs}")

    run = gradlex.train(net(), points(), callbacks=[Watches(), Ends()], **SMALL)
    assert (run.result["stopped"], run.result["generations"], seen) == ("good enough", 2, ["2 of 3"])

    class Fails(gradlex.Callback):
        def on_generation(self, record: Any, run: Any) -> None:
            raise RuntimeError("no disk")

    with pytest.raises(RuntimeError, match="no disk"):
        gradlex.train(net(), points(), callbacks=[Watches(), Fails()], **SMALL)
    assert seen[1:] == ["1 of 3"]


def test_the_cost_counts_samples_and_the_longest_way() -> None:
    x, y = points(100)
    run = gradlex.train(net(), (x, y), **{**SMALL, "branch_at": 0.5, "epochs": 4})
    assert run.result["samples_trained"] == 400
    assert run.result["critical_path"] == 100 + 100 + 34 + 34
    assert run.result["cases_evaluated"] == sum(record.cases_evaluated for record in run.history)


def test_images_in_bytes_are_normalized_inside_the_model() -> None:
    images = torch.randint(256, (64, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    run = gradlex.train(model, (images, torch.arange(64) % 2), epochs=1, population=2, precision="float32")
    with torch.no_grad():
        assert torch.equal(run.model(images).argmax(dim=1), run.predict(images))
    assert run.model.normalize.mean.shape == (3,)


def test_a_network_with_view_and_one_with_several_inputs_are_trained() -> None:
    class Viewing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(144, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.conv(x).view(len(x), -1))

    images, labels = torch.randn(40, 3, 8, 8), torch.arange(40) % 2
    assert gradlex.train(Viewing(), (images, labels), epochs=1, population=2).predict(images).shape == (40,)

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(5, 2)

        def forward(self, left: Tensor, right: Tensor) -> Tensor:
            return self.head(torch.cat([left, right], dim=1))

    inputs = {"left": torch.randn(40, 2), "right": torch.randn(40, 3)}
    run = gradlex.train(Two(), (inputs, labels), epochs=1, population=2)
    assert run.predict({"left": torch.zeros(3, 2), "right": torch.zeros(3, 3)}).shape == (3,)


def test_arrays_of_64_bits_and_losses_of_torch_are_taken() -> None:
    x, y = points()
    run = gradlex.train(net(), (x.double().numpy(), y.numpy()), task=nn.CrossEntropyLoss(label_smoothing=0.1), **SMALL)
    assert run.recipe.task == "classification(label_smoothing=0.1)"
    assert run.recipe.selection == "lexicase"


def test_a_lazy_network_and_the_same_network_with_its_shapes_are_both_trained() -> None:
    runs = [gradlex.train(nn.Sequential(nn.LazyLinear(2)), points(), **SMALL) for _ in range(2)]
    assert same(runs[0].model, runs[1].model)  # its weights are drawn from the seed
    assert runs[0].model[0].weight.shape == (2, 6)


@pytest.mark.slow
def test_a_compiled_network_learns_as_the_plain_one_does() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    plain, compiled = (gradlex.train(model, points(), compile=flag, **{**SMALL, "epochs": 1}) for flag in (False, True))
    torch.testing.assert_close(plain.model.state_dict(), compiled.model.state_dict(), rtol=1e-4, atol=1e-5)


def test_graded_errors_are_selected_on_by_the_classic_rule() -> None:
    x, _ = points()
    model, y = nn.Linear(6, 1), x[:, :1] * 2
    assert gradlex.train(model, (x, y), **SMALL).recipe.selection == "epsilon-lexicase"
    assert (
        gradlex.train(model, (x, y), selection="lexicase", **SMALL).recipe.selection == "lexicase(on_all_fail=survive)"
    )
    with pytest.raises(gradlex.InputError, match="as errors, and these are graded"):
        gradlex.train(model, (x, y), selection="lexicase(on_all_fail=random)", **SMALL)


def test_groups_are_the_cases_that_selection_sees() -> None:
    x, y = points()
    groups = np.arange(120) // 30
    run = gradlex.train(net(), (x, y), groups=groups, **SMALL)
    assert all(record.cases_used <= 4 for record in run.history)


def test_parameters_without_a_gradient_in_the_first_steps_are_trained_later() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(6, 2), nn.Linear(6, 2)
            self.register_buffer("passes", torch.zeros((), dtype=torch.long))

        def forward(self, x: Tensor) -> Tensor:
            self.passes += self.training
            return self.first(x) + (self.second(x) if self.passes > 3 else 0)

    before = Late()
    run = gradlex.train(before, points(), epochs=2, batch_size=10, selection="sgd")
    assert not torch.equal(run.model.second.weight, before.second.weight)


def test_a_task_with_metrics_that_are_not_finite_is_recorded_as_null(tmp_path: Path) -> None:
    class Odd(Task):
        measures = (Measure("ratio"),)
        graded = False

        def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
            return nn.functional.cross_entropy(outputs, targets)

        def errors(self, outputs: Tensor, targets: Tensor) -> Tensor:
            return (outputs.argmax(dim=1) != targets).float()

        def metrics(self, batches: Any) -> dict[str, float]:
            return {"ratio": math.nan * len(list(batches))}

    run = gradlex.train(net(), points(), task=Odd(), out=tmp_path / "run", **SMALL)
    assert json.loads((tmp_path / "run/result.json").read_text())["metrics"]["train"] == {"ratio": None}
    assert math.isnan(run.metrics["train"]["ratio"])


SEEN: dict[bool, list[float]] = {}


class Watches(nn.Module):
    """Notes the largest input of each pass, in training and in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        SEEN.setdefault(self.training, []).append(float(x.max()))
        return self.linear(x)


def test_selection_and_evaluation_see_clean_samples() -> None:
    SEEN.clear()
    x = torch.rand(40, 4)
    data = x, (x[:, 0] > 0.5).long()
    gradlex.train(Watches(), data, augment=lambda batch, rng: batch + 100, epochs=3, batch_size=5, population=2)
    assert max(SEEN[False]) < 1
    assert min(SEEN[True]) > 100
