"""gradlex.compare: own loops end to end, what is kept and continued, what is caught, and the trainer by names."""

from __future__ import annotations

import json
import math
import re
import shlex
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from gradlex import InputError, compare
from gradlex.experiments import METHODS, Method
from gradlex.experiments.arm import read_metrics
from gradlex.report.frames import history
from gradlex.tasks import Measure, Regression

sys.path.insert(0, str(Path(__file__).parent))  # for processes too: they import the loops
import own_loops

PAIR = {"methods": ["sgd", "lexicase"], "epochs": 1, "progress": False}
HERE = {**PAIR, "backend": "serial"}


def read(path: Path) -> dict:
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Two methods, two seeds, two processes."""
    folder = tmp_path_factory.mktemp("compared")
    plan = {"seeds": (0, 1), "title": "My loop", "pairs": ["lexicase:sgd"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "2")  # which two processes would make four
        return compare(own_loops.experiment, **PAIR, **plan, jobs=2, out=folder)


def test_an_own_loop_is_compared_end_to_end(compared):
    frame = compared.frame.set_index(["method", "seed"])
    assert sorted(frame.index) == [("lexicase", 0), ("lexicase", 1), ("sgd", 0), ("sgd", 1)]
    assert frame.finished.all()
    assert frame.test_accuracy.between(0.2, 1).all()
    assert frame.train_accuracy.between(0.2, 1).all()
    first, *_ = compared.verdict.splitlines()
    assert first.startswith("No gain shown: lexicase ")
    assert "Two seeds cannot decide" in first or "no interval" in first
    assert " ".join(str(compared).split()).startswith(first)
    assert "SGD" in compared.table().text()
    assert [(each.first, each.second) for each in compared.decisions] == [("lexicase", "sgd")]


def test_a_run_of_each_process_has_one_thread(compared):
    assert set(compared.frame.test_threads) == {1}


def test_the_folder_holds_the_plan_and_a_run_for_each_method_and_seed(compared):
    plan = read(compared.path / "experiment.json")
    assert plan["methods"] == ["sgd", "lexicase"]
    assert plan["seeds"] == [0, 1]
    assert plan["pairs"] == [["lexicase", "sgd"]]
    assert (plan["title"], plan["metric"], plan["higher_is_better"]) == ("My loop", "accuracy", True)
    run = read(compared.path / "lexicase" / "seed1" / "run.json")
    assert (run["method"], run["seed"], run["epochs"]) == ("lexicase", 1, 5)
    assert run["identity"]["shapes"] == {"0.weight": [6, 4], "0.bias": [6], "2.weight": [2, 6], "2.bias": [2]}
    assert run["environment"]["torch"] == torch.__version__


def test_costs_follow_the_papers_rule(compared):
    frame = compared.frame.set_index(["method", "seed"])
    assert frame.samples_trained["sgd", 0] == 60
    assert frame.samples_trained["lexicase", 0] == 300  # p + 1 times as many
    assert frame.critical_path["lexicase", 0] == 75
    assert frame.cases_evaluated["sgd", 0] == 0
    assert frame.cases_evaluated["lexicase", 0] >= 5 * 4


def test_methods_start_from_the_same_weights_and_seeds_from_others(compared):
    states = {
        (method, seed): read(compared.path / method / f"seed{seed}" / "run.json")["identity"]["initial_state"]
        for method in ("sgd", "lexicase")
        for seed in (0, 1)
    }
    assert states["sgd", 0] == states["lexicase", 0]
    assert states["sgd", 1] == states["lexicase", 1]
    assert states["sgd", 0] != states["sgd", 1]


def test_every_generation_has_a_record(compared):
    record = history(compared.path / "lexicase" / "seed0")
    assert record.generation.tolist() == [1, 2, 3, 4, 5]
    assert (record.lr == 0.1).all()
    assert record.reason.isin(["sole_survivor", "all_failed", "exhausted"]).all()
    assert history(compared.path / "sgd" / "seed0").reason.tolist() == ["only_candidate"]


def test_finished_runs_are_not_repeated_and_seeds_are_added(compared, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in compared.path.glob("*/seed*/result.json")}
    again = compare(own_loops.experiment, **HERE, seeds=(1, 2), out=compared.path)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert sorted(again.frame.seed.unique()) == [0, 1, 2]
    assert again.study.title == "My loop"
    assert again.study.seeds == (0, 1, 2)


def test_the_page_shows_every_method(compared):
    page = compared.write_page().read_text()
    assert "My loop" in page
    assert "<svg" in page


def test_a_run_that_dies_is_reported_and_continued_from_its_checkpoint(tmp_path):
    methods = {**PAIR, "methods": ["lexicase"], "seeds": [0]}
    died = compare(own_loops.dies, **methods, out=tmp_path / "died")
    assert [each.name for each in died.failures] == ["lexicase, seed 0"]
    assert "exit code 9" in str(died)
    assert not died.frame.finished.any()
    resumed = compare(own_loops.with_checkpoint, **{**methods, "backend": "serial"}, out=tmp_path / "died")
    whole = compare(own_loops.with_checkpoint, **{**methods, "backend": "serial"}, out=tmp_path / "whole")
    assert resumed.frame.finished.all()
    states = [torch.load(each.path / "lexicase/seed0/checkpoint.pt", weights_only=True) for each in (resumed, whole)]
    torch.testing.assert_close(states[0]["model"], states[1]["model"], rtol=0, atol=0)
    assert history(resumed.path / "lexicase/seed0").generation.tolist() == [1, 2, 3, 4, 5]
    assert resumed.frame.samples_trained.tolist() == whole.frame.samples_trained.tolist()


def test_a_run_that_starts_anew_replaces_its_records(tmp_path):
    folder = tmp_path / "lexicase" / "seed0"
    compare(own_loops.experiment, **{**HERE, "methods": ["lexicase"], "seeds": [0]}, out=tmp_path)
    (folder / "result.json").unlink()
    compare(own_loops.experiment, **{**HERE, "methods": ["lexicase"], "seeds": [0]}, out=tmp_path)
    assert history(folder).generation.tolist() == [1, 2, 3, 4, 5]


def test_a_failing_run_leaves_its_traceback_and_the_others_go_on(tmp_path):
    found = compare(own_loops.fails_for_lexicase, **HERE, seeds=(0, 1), out=tmp_path)
    assert [each.name for each in found.failures] == ["lexicase, seed 0", "lexicase, seed 1"]
    assert "Failed: lexicase, seed 0: ZeroDivisionError: the learning rate was 0" in str(found)
    assert "raise ZeroDivisionError" in (tmp_path / "lexicase" / "seed0" / "error.txt").read_text()
    assert found.frame[found.frame.finished].method.tolist() == ["sgd", "sgd"]
    compare(own_loops.experiment, **HERE, seeds=(0, 1), out=tmp_path)
    assert not (tmp_path / "lexicase" / "seed0" / "error.txt").exists()


def test_a_changed_network_is_caught_before_the_rest_is_trained(tmp_path):
    compare(own_loops.experiment, **HERE, seeds=[0], out=tmp_path)
    with pytest.raises(InputError, match=r"that of lexicase, seed 0: 0.weight: \[8, 4\] here, \[6, 4\] there"):
        compare(own_loops.wider, **HERE, seeds=[0, 1], out=tmp_path)
    assert not (tmp_path / "lexicase" / "seed1").exists()
    assert not (tmp_path / "sgd" / "seed1" / "result.json").exists()


def test_methods_with_different_networks_are_caught(tmp_path):
    with pytest.raises(InputError, match="lexicase, seed 0: the network differs from that of sgd, seed 0"):
        compare(own_loops.narrow_for_sgd, **HERE, seeds=[0], out=tmp_path)


def test_methods_with_different_initial_weights_are_caught():
    with pytest.raises(InputError, match="from that of sgd, seed 0: the initial weights differ"):
        compare(own_loops.other_weights, **HERE, seeds=[0])


def test_an_experiment_without_a_population_is_caught():
    with pytest.raises(InputError, match=r"trained 0 generations: make a population by method.population"):
        compare(own_loops.makes_no_population, **HERE, seeds=[0])


def test_a_metric_that_is_not_finite_is_a_failure():
    found = compare(own_loops.diverges, **HERE, seeds=[0])
    assert "the experiment returned accuracy = nan" in found.failures[0].reason


def test_a_closure_runs_in_another_process(tmp_path):
    hidden = 5

    def experiment(method, seed):
        import torch

        model = torch.nn.Linear(hidden, 2)
        population = method.population(model)
        for candidate in population.candidates(10):
            assert len(candidate.indices) == 10
        population.select(lambda cases: cases, 10)
        return 0.25

    found = compare(experiment, **{**PAIR, "methods": ["sgd"], "seeds": [0]}, out=tmp_path)
    assert found.frame.test_accuracy.tolist() == [0.25]


def test_without_a_folder_the_runs_go_into_a_temporary_one():
    found = compare(own_loops.experiment, **HERE, seeds=[0])
    folder = found.path
    assert folder.exists()
    del found
    assert not folder.exists()


def test_late_branches_and_own_methods_train_as_they_say(tmp_path):
    half = Method(name="half", title="half", changes={"selection": "random", "branch_at": 0.5, "population": 2})
    options = {"epochs": 4, "backend": "serial", "progress": False, "seeds": [0]}
    found = compare(own_loops.mean_of_parents, methods=["swa", "branched-average", half], out=tmp_path, **options)
    records = {method: history(tmp_path / method / "seed0") for method in found.study.methods}
    assert records["swa"].most_samples.tolist() == [60, 60, 60, 60]
    assert records["branched-average"].most_samples.tolist() == [60, 60, 60, 15]
    assert records["half"].most_samples.tolist() == [60, 60, 30, 30]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ["lexcase"]}, "unknown method 'lexcase'. Did you mean 'lexicase'"),
        ({"methods": ["adam"]}, "unknown method 'adam'"),
        ({"methods": "sgd"}, "methods must be a list"),
        ({"methods": []}, "methods must be a list"),
        ({"seeds": 3}, r"seeds must be a list without repetition, such as range\(3\), got 3"),
        ({"seeds": [0, 0]}, "without repetition"),
        ({"seeds": [-1]}, "seeds must be a whole number of at least 0"),
        ({"epochs": None}, "needs epochs"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"population": 0}, "population must be"),
        ({"pairs": ["lexicase:adam"]}, "a pair names two of the methods"),
        ({"backend": "slurm"}, "unknown backend 'slurm'"),
        ({"jobs": 2}, "the serial backend runs one job at a time"),
        ({"lr": 0.1}, "takes no data, recipe or options"),
    ],
)
def test_a_bad_value_raises_before_anything_is_written(changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        compare(own_loops.experiment, **{**HERE, "seeds": [0], **changes}, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_unknown_dataset_is_an_error_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="unknown dataset 'digit'"):
        compare("mlp", "digit", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_epochs_in_the_same_folder_raise_an_error(compared):
    with pytest.raises(InputError, match="holds a comparison with epochs=1, and now it is 2"):
        compare(own_loops.experiment, **{**HERE, "epochs": 2}, out=compared.path)


def test_commands_list_one_run_each_and_start_nothing(tmp_path):
    found = compare(own_loops.experiment, **PAIR, seeds=(0, 1), out=tmp_path, commands_only=True)
    words = [shlex.split(command) for command in found.commands]
    assert len(words) == 4
    assert words[0][:4] == ["gradlex", "compare", "--experiment", "own_loops:experiment"]
    assert words[-1][-6:] == ["--methods", "lexicase", "--seeds", "1", "--out", str(tmp_path)]
    assert not list(tmp_path.glob("*/seed*"))


def test_the_trainer_compares_names(tmp_path):
    options = {"methods": ["sgd", "epsilon-lexicase"], "seeds": [0], "epochs": 1, "train_size": 100, "population": 2}
    found = compare("mlp", "digits", **options, backend="serial", out=tmp_path, progress=False)
    assert found.frame.finished.all()
    recipes = {method: read(tmp_path / method / "seed0" / "run.json")["recipe"] for method in options["methods"]}
    assert (recipes["sgd"]["epochs"], recipes["epsilon-lexicase"]["epochs"]) == (1, 3)
    assert recipes["epsilon-lexicase"]["task"] == "classification(case_error=loss)"
    states = {read(path)["identity"]["initial_state"] for path in tmp_path.glob("*/seed0/run.json")}
    assert len(states) == 1
    with pytest.raises(InputError, match="train_size=100, and now it is 120"):
        compare("mlp", "digits", **{**options, "train_size": 120}, backend="serial", out=tmp_path, progress=False)
    listed = compare("mlp", "digits", **{**options, "seeds": [1]}, out=tmp_path, commands_only=True).commands
    assert len(listed) == 2
    assert "--train-size 100" in listed[0]


def test_the_trainer_compares_a_module_on_arrays(tmp_path):
    x, y = own_loops.X, own_loops.X[:, 0] + own_loops.X[:, 1]
    options = {"methods": ["sgd", "epsilon-lexicase"], "seeds": [0], "epochs": 1, "lr": 0.01, "backend": "serial"}
    found = compare(nn.Linear(4, 1), (x[:60], y[:60]), test=(x[60:], y[60:]), **options, out=tmp_path, progress=False)
    assert found.study.metric == "r2"
    assert found.frame.test_rmse.notna().all()
    with pytest.raises(InputError, match="the training data differs from that of"):
        compare(nn.Linear(4, 1), (x[:50], y[:50]), **{**options, "methods": ["random"]}, out=tmp_path, progress=False)


def test_the_task_knows_whether_higher_is_better(tmp_path):
    x, y = own_loops.X, own_loops.X[:, 0]
    options = {"methods": ["sgd"], "seeds": [0], "epochs": 1, "lr": 0.01, "backend": "serial", "metric": "rmse"}
    found = compare(nn.Linear(4, 1), (x[:60], y[:60]), test=(x[60:], y[60:]), **options, out=tmp_path, progress=False)
    assert (found.study.metric, found.study.higher_is_better) == ("rmse", False)


def test_the_methods_decide_selection():
    with pytest.raises(InputError, match="the methods decide selection and promotion"):
        compare("mlp", "digits", selection="tournament", epochs=1)


def test_every_method_has_a_title():
    assert all(method.title and name == method.name for name, method in METHODS.items())


HERE_TOO = {"seeds": [0], "epochs": 1, "backend": "serial", "progress": False}


def test_the_trainer_compares_with_a_loss_and_an_augmentation_from_python(tmp_path):
    data, called = (own_loops.X[:60], own_loops.Y[:60]), []

    def augment(batch, rng):
        called.append(len(batch))
        return batch

    options = {"task": nn.CrossEntropyLoss(label_smoothing=0.1), "augment": augment, "methods": ["sgd"]}
    found = compare(nn.Linear(4, 2), data, test=data, **options, **HERE_TOO, out=tmp_path)
    assert found.frame.finished.all()
    assert called
    assert read(tmp_path / "sgd" / "seed0" / "run.json")["recipe"]["task"] == "classification(label_smoothing=0.1)"


def test_epsilon_lexicase_sees_losses_also_of_a_dataset(tmp_path):
    data = torch.utils.data.TensorDataset(own_loops.X[:60], own_loops.Y[:60])
    compare(nn.Linear(4, 2), data, test=data, methods=["epsilon-lexicase"], **HERE_TOO, out=tmp_path)
    stored = read(tmp_path / "epsilon-lexicase" / "seed0" / "run.json")
    assert stored["recipe"]["task"] == "classification(case_error=loss)"


class Solved(Regression):
    """A regression whose primary metric is a fraction of its own."""

    measures = (Measure("close", fraction=True),)

    def metrics(self, batches):
        return {"close": float(torch.cat([(a[:, 0] - b).abs() < 0.5 for a, b in batches]).float().mean())}


def test_a_metric_that_its_task_calls_a_fraction_is_printed_as_percent(tmp_path):
    data = own_loops.X[:60], own_loops.X[:60, 0]
    options = {"task": Solved(), "test": data, "methods": ["sgd", "random"], "lr": 0.01, **HERE_TOO}
    found = compare(nn.Linear(4, 1), data, **options, out=tmp_path)
    assert re.search(r"random \d+\.\d%, SGD \d+\.\d%", found.verdict)
    assert "close, %" in found.table().text()


def test_an_accuracy_in_percent_is_an_error():
    with pytest.raises(InputError, match=r"returned test_accuracy = 93.5: return a fraction, such as 0.935"):
        read_metrics({"test_accuracy": 93.5})


def test_a_metric_that_the_task_does_not_have_is_an_error(tmp_path):
    data = own_loops.X[:60], own_loops.Y[:60]
    with pytest.raises(InputError, match=r"unknown metric 'acuracy'\. Did you mean 'accuracy'"):
        compare(nn.Linear(4, 2), data, test=data, methods=["sgd"], metric="acuracy", **HERE_TOO, out=tmp_path)


def test_commands_cannot_hold_what_has_no_flag(tmp_path):
    with pytest.raises(InputError, match="gradlex compare has no flag for evaluate_every"):
        compare("mlp", "digits", evaluate_every=2, commands_only=True, out=tmp_path)


def test_parts_of_ones_own_may_be_an_array(tmp_path):
    found = compare(own_loops.own_parts, **{**HERE, "methods": ["lexicase"]}, seeds=[0], out=tmp_path)
    assert found.frame.finished.all()
    assert set(history(tmp_path / "lexicase" / "seed0").samples) == {own_loops.TRAIN}


def test_a_test_metric_that_is_not_a_number_is_no_result_and_no_plot(tmp_path):
    data = own_loops.X[:60], own_loops.X[:60, 0]
    options = {"task": Hopeless(), "test": data, "methods": ["sgd", "random"], "lr": 0.01, **HERE_TOO}
    found = compare(nn.Linear(4, 1), data, **options, out=tmp_path)
    assert "no seed has finished with a number" in found.verdict
    assert "random" in found.write_page().read_text()


class Hopeless(Regression):
    """A regression with a metric that is never a number."""

    measures = (Measure("hope"),)

    def metrics(self, batches):
        return {"hope": math.nan}


@pytest.mark.parametrize(
    ("experiment", "method", "message"),
    [
        (own_loops.two_epochs, "sgd-matched", "trained 2 generations: .* for method.epochs generations, here 5"),
        (own_loops.experiment, "swa", "swa averages the parents from generation method.branch on"),
        (own_loops.experiment, "lexicase-no-momentum", "trains with momentum 0: make an optimizer with this momentum"),
        (own_loops.experiment, "epsilon-lexicase", "needs the loss of each case as its error, got only 0 and 1"),
        (own_loops.only_a_loss, "sgd", "returned no test accuracy, which is compared"),
    ],
)
def test_a_loop_that_does_not_do_what_its_method_says_is_caught(experiment, method, message, tmp_path):
    with pytest.raises(InputError, match=message):
        compare(experiment, **{**HERE, "methods": [method]}, seeds=[0], out=tmp_path)
    assert not list(tmp_path.glob("*/seed*/result.json"))


def test_a_run_that_failed_does_not_keep_its_network(tmp_path):
    compare(own_loops.fails_for_lexicase, **HERE, seeds=[0], out=tmp_path)
    (tmp_path / "sgd" / "seed0" / "run.json").unlink()
    (tmp_path / "sgd" / "seed0" / "result.json").unlink()
    assert compare(own_loops.wider, **HERE, seeds=[0], out=tmp_path).frame.finished.all()
