"""Bad input to the command: a clear sentence, exit code 2, nothing on disk changed."""

from __future__ import annotations

import sys

import pytest

from gradlex.cli import main

REFUSED = [
    ("--population 0", "population must be a whole number of at least 1"),
    ("--population=-1", "got -1"),
    ("--population 31", "population 31 is more than half of the 60 samples"),
    ("--population many", "expected INT, got 'many'"),
    ("--generations 0", "generations must be a whole number of at least 1"),
    ("--batch-size 0", "batch_size must be a whole number of at least 1"),
    ("--lr nan", "lr must be a number above 0, got nan"),
    ("--lr inf", "lr must be a number above 0, got inf"),
    ("--lr=-0.1", "lr must be a number above 0, got -0.1"),
    ("--lr 0", "lr must be a number above 0, got 0"),
    ("--weight-decay nan", "weight_decay must be a number of at least 0, got nan"),
    ("--weight-decay inf", "weight_decay must be a number of at least 0, got inf"),
    ("--weight-decay=-1", "weight_decay must be a number of at least 0, got -1"),
    ("--width 0", "width must be a number above 0"),
    ("--seed=-1", "seed must be a whole number of at least 0, got -1"),
    ("--threads 0", "threads must be a whole number of at least 1"),
    ("--threads many", "expected INT, got 'many'"),
    ("--train-size 1", "train_size"),
    ("--train-size 5000", "train_size 5000 is more than the 1438 training samples"),
    ("--test-fraction 1.5", "test_fraction must be a number above 0 and below 1"),
    ("--image-size 16", "image_size resizes a folder's images; digits has a size of its own"),
    ("--model smal-cnn", "unknown model 'smal-cnn'. Did you mean 'small-cnn'?"),
    ("--model nowhere.to_be:found", "nowhere"),
    ("--dataset digit", "unknown dataset 'digit'. Did you mean 'digits'?"),
    ("--dataset cifar-10", "Did you mean 'cifar10'?"),
    ("--dataset absent.npz", "there is no file absent.npz"),
    ("--selection lexicse", "unknown selection 'lexicse'. Did you mean 'lexicase'?"),
    ("--optimizer adamm", "unknown optimizer 'adamm'. Did you mean 'adam"),
    ("--optimizer lbfgs", "optimizer 'lbfgs' calls the loss several times a step (a closure)"),
    ("--momentum resset", "'resset'. Did you mean 'reset'?"),
    ("--optimizer adamw --momentum none", "'adamw' has none: use 'reset' or 'inherit'"),
    ("--optimizer-options nestrov=true", "Did you mean 'nesterov'?"),
    ("--optimizer-options nesterov", "an option is written KEY=VALUE, got 'nesterov'"),
    ("--optimizer-options momentum=-1", "refused its settings"),
    ("--optimizer adamw --optimizer-options betas=[0.9]", "options {'betas': [0.9]}): IndexError"),
    ("--optimizer adamw --optimizer-options betas=0.9", "options {'betas': 0.9}): TypeError"),
    ("--selection tournament --selection-options on_all_fail=random", "tournament"),
    (
        "--selection tournament --selection-options tournament_size=5",
        "tournament_size 5 is more than the population of 4",
    ),
    ("--selection sgd --population 4", "selection sgd trains one network, got population 4: leave it out"),
    ("--selection sgd --momentum reset", "selection sgd keeps its momentum, got momentum 'reset'"),
    ("--selection dalex --selection-options sigma=-1", "sigma must be"),
    ("--selection downsampled-lexicase --selection-options share=0", "share must be"),
    ("--selection-options share=0.5", "'share'"),
    ("--task-options case_error=loss --selection-options on_all_fail=random", "needs 0/1 errors"),
    ("--augment crp4", "unknown augmentation 'crp4'"),
    ("--evaluate-every 0", "evaluate_every must be"),
    ("--device gpu", "device 'gpu' cannot be used"),
    ("--init-from absent.safetensors", "there is no file absent.safetensors"),
    ("--schedule cosin", "'cosin'. Did you mean 'cosine'?"),
    ("--precision float-32", "Did you mean 'float32'?"),
    ("--populaton 4", "--population"),
]


@pytest.mark.parametrize(("flags", "told"), REFUSED, ids=[flags for flags, _ in REFUSED])
def test_a_bad_value_is_refused(flags, told, quick, refused):
    refused([*quick, *flags.split(), "--out", "run"], told)


def test_a_folder_that_already_holds_a_run_is_refused(quick, refused, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.json").write_text("{}")
    refused([*quick, "--out", "run"], "run already holds a run (recipe.json): choose another folder")


def test_a_folder_that_cannot_be_written_is_refused(quick, refused, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    refused([*quick, "--out", "file/run"], "file/run cannot be written")
    refused([*quick, "--out", "file"], "file cannot be written")
    refused([*quick, "--out", "n" * 300], "cannot be written")


LONG = "n" * 5000


@pytest.mark.parametrize(
    "words",
    [
        ("train", "--out", LONG),
        ("train", "--dataset", f"{LONG}.npz"),
        ("train", "--dataset", LONG),
        ("train", "--model", LONG),
        ("train", "--model", f"{LONG}:net"),
        ("train", "--init-from", LONG),
        ("train", "--data-dir", LONG, "--dataset", "cifar10"),
        ("train", "--seed", "9" * 5000),
        ("resume", LONG),
        ("evaluate", LONG),
        ("report", LONG),
        ("report", ".", "--page", LONG),
        ("compare", "--dataset", f"{LONG}.npz"),
        ("compare", "--out", LONG),
        ("paper", "figure2", "--first", LONG, "--second", LONG),
        (LONG,),
    ],
    ids=lambda words: " ".join(word if len(word) < 100 else "LONG" for word in words),
)
def test_names_of_any_length_are_refused(words, refused):
    refused(words, "")


def test_an_unknown_command_is_refused_with_the_nearest(refused):
    refused(["trian"], "gradlex: unknown command 'trian'. Did you mean 'train'?")
    refused(["--trian"], "expected a command")


@pytest.mark.parametrize(
    "words",
    [
        ("train", "--dataset", "bad\x1b[31m\x9b2J.npz"),
        ("train", "--bad\x1b[31m\x9b2J", "3"),
        ("train", "--population", "bad\x1b[31m\x9b2J"),
        ("train", "--out", "bad\x1b[31m\x9b2J", "--resume", "--lr", "nan"),
        ("evaluate", "bad\x1b[31m\x9b2J"),
        ("bad\x1b[31m\x9b2J",),
    ],
    ids=lambda words: words[1] if len(words) > 1 else "command",
)
def test_no_control_character_reaches_the_terminal(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(list(words))
    printed = capsys.readouterr().err
    assert caught.value.code == 2
    assert not set(printed) & {*map(chr, range(9)), *map(chr, range(11, 32)), *map(chr, range(127, 160))}


def test_a_refusal_in_a_process_of_its_own_has_its_exit_code_and_no_traceback(python, tmp_path):
    done = python("-m", "gradlex", "train", "--selection", "lexicse", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("gradlex: unknown selection 'lexicse'. Did you mean 'lexicase'?")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


MINE = """
import torch
from gradlex.tasks import Classification, Measure

class Task:
    measures, graded = (Measure(name="score"),), False
    own = Classification()
    def check(self, inputs, targets, outputs): pass
    def loss(self, outputs, targets): return self.own.loss(outputs, targets)
    def errors(self, outputs, targets): return self.own.errors(outputs, targets)
    def metrics(self, batches): return {"score": float(len(list(batches)))}

def oops(*given):
    raise KeyError("oops")

class Init(Task):
    __init__ = oops
class Check(Task):
    check = oops
class Loss(Task):
    loss = oops
class Errors(Task):
    errors = oops
class Metrics(Task):
    metrics = oops
class Fitted(Task):
    fitted = oops
class Outputs(Task):
    outputs = oops
class Measures(Task):
    measures = property(oops)
class Selection(Task):
    selection = property(oops)
class Learnt(Task):
    learnt = {"a": torch}
class Words(Task):
    measures = ("score",)
class NotFinite(Task):
    def metrics(self, batches): return {"score": 0 * float("inf") * len(list(batches))}
class NoNumber(Task):
    def metrics(self, batches): return {"score": str(len(list(batches)))}

class Net(torch.nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.head = torch.nn.Linear(64, num_classes)
    forward = oops

def augment(batch, rng):
    oops()

def larger(batch, rng):
    return batch.repeat(2, 1, 1, 1)
"""

RAISING = [
    ("--task mine:Init", "task 'mine:Init' failed: KeyError: 'oops' (in "),
    ("--task mine:Check", "the task's Check.check failed: KeyError: 'oops' (in "),
    (
        "--task mine:Loss",
        "Loss cannot learn from outputs of shape (2, 10) and targets of shape (2,): KeyError",
    ),
    ("--task mine:Errors", "Errors cannot learn from outputs of shape (2, 10)"),
    ("--task mine:Metrics", "Metrics cannot learn from outputs of shape (2, 10)"),
    ("--task mine:Fitted", "the task's Fitted.fitted failed: KeyError: 'oops' (in "),
    ("--task mine:Outputs", "the task's Outputs.outputs failed: KeyError: 'oops' (in "),
    ("--task mine:Measures", "the task's Measures.measures failed: KeyError: 'oops' (in "),
    ("--task mine:Selection", "the task's Selection.selection failed: KeyError: 'oops' (in "),
    ("--task mine:Learnt", "the task's Learnt.learnt must hold plain values, which are stored with the run"),
    ("--task mine:Words", "the task's Words.measures must be gradlex.tasks.Measure objects, got 'score'"),
    ("--task mine:NotFinite", "the metric 'score' of NotFinite must be a finite number, got nan"),
    ("--task mine:NoNumber", "the metric 'score' of NoNumber must be a finite number, got '1'"),
    (
        "--model mine:Net --width 1",
        "the model cannot take inputs of shape and type (2, 1, 8, 8) torch.float32: KeyError",
    ),
    ("--augment crop1,mine:augment", "the augmentation 'augment' failed: KeyError: 'oops' (in "),
    (
        "--augment mine:larger",
        "the augmentation 'larger' failed: it must return a batch like the one it gets",
    ),
]


@pytest.mark.parametrize(("flags", "told"), RAISING, ids=[flags for flags, _ in RAISING])
def test_code_of_the_users_that_raises_is_named(flags, told, quick, refused, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    words = ["--width", "0.1"] if "--width" not in flags else []
    base = [word for word in quick if word not in ("--width", "0.1")]
    if "--augment" in flags:
        base, words = [word for word in base if word not in ("--model", "mlp")], []
    refused([*base, *words, *flags.split(), "--out", "run"], told)
