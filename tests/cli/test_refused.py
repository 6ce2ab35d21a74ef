"""Bad input to the command: a clear sentence, exit code 2, nothing on disk changed."""

from __future__ import annotations

import pytest

REFUSED = [
    ("--population 0", "population must be a whole number of at least 1, got 0"),
    ("--population=-1", "population must be a whole number of at least 1, got -1"),
    ("--population 31", "population 31 is more than half of the 60 samples"),
    ("--population many", "expected INT, got 'many'"),
    ("--generations 0", "generations must be a whole number of at least 1, got 0"),
    ("--batch-size 0", "batch_size must be a whole number of at least 1, got 0"),
    ("--lr nan", "lr must be a finite number above 0, got nan"),
    ("--lr inf", "lr must be a finite number above 0, got inf"),
    ("--lr=-0.1", "lr must be a finite number above 0, got -0.1"),
    ("--lr 0", "lr must be a finite number above 0, got 0"),
    ("--weight-decay nan", "weight_decay must be a finite number at least 0, got nan"),
    ("--weight-decay inf", "weight_decay must be a finite number at least 0, got inf"),
    ("--weight-decay=-1", "weight_decay must be a finite number at least 0, got -1"),
    ("--width 0", "width must be a finite number above 0"),
    ("--seed=-1", "seed must be a whole number of at least 0, got -1"),
    ("--threads 0", "threads must be a whole number of at least 1, got 0"),
    ("--threads many", "expected INT, got 'many'"),
    ("--train-size 1", "train_size"),
    ("--train-size 5000", "train_size 5000 is more than the 1438 training samples"),
    ("--test-fraction 1.5", "test_fraction must be a finite number above 0 and below 1, got 1.5"),
    ("--image-size 16", "image_size resizes a folder's pictures; digits has a size of its own"),
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
    ("--selection tournament --on-all-fail random", "on_all_fail belongs to lexicase"),
    ("--selection tournament --tournament-size 5", "tournament_size 5 is more than the population of 4"),
    ("--selection sgd --population 4", "selection sgd trains one network, got population 4: leave it out"),
    ("--selection sgd --momentum reset", "selection sgd keeps its momentum, got momentum 'reset'"),
    ("--selection dalex --sigma=-1", "sigma"),
    ("--selection downsampled-lexicase --share 0", "share"),
    ("--share 0.5", "share belongs to downsampled-lexicase, informed-lexicase; the selection is lexicase"),
    ("--case-error loss --on-all-fail random", "needs 0/1 errors"),
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
    refused([*quick, "--out", "file/run"], "the folder file/run cannot be written")
    refused([*quick, "--out", "file"], "the folder file cannot be written")
    refused([*quick, "--out", "n" * 300], "cannot be written")


def test_an_unknown_command_is_refused(refused):
    refused(["trian"], "train")


def test_a_refusal_in_a_process_of_its_own_has_its_exit_code_and_no_traceback(python, tmp_path):
    done = python("-m", "gradlex", "train", "--selection", "lexicse", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("gradlex: unknown selection 'lexicse'. Did you mean 'lexicase'?")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []
