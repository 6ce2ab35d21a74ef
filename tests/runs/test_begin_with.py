"""A run that begins with another one's first generations: the same bytes as if it had computed them itself."""

from __future__ import annotations

import hashlib
import json
import shutil

import numpy as np
import pytest

import gradlex
from gradlex import InputError, Recipe
from gradlex.cli import main
from gradlex.runs import Execution, Given, start

pytestmark = pytest.mark.usefixtures("one_thread")

SGD = Recipe(selection="sgd", generations=8, batch_size=8, seed=4, precision="float32", threads=1)
BRANCHED = SGD.replace(selection="lexicase", population=3, momentum="inherit", branch_at=0.5)


@pytest.fixture
def run(images, tiny_cnn, tmp_path):
    """Trains a recipe into a folder below tmp_path."""

    def train(recipe, name, *, resume=False, callbacks=(), data=images, **how):
        return start(
            Given(model=tiny_cnn(), data=data, test=images),
            recipe,
            Execution(workers=1, **how),
            out=tmp_path / name,
            resume=resume,
            callbacks=callbacks,
        )

    return train


@pytest.fixture
def sgd(run, tmp_path):
    """The folder of a run of plain SGD that keeps its checkpoint of generation 4."""
    run(SGD, "sgd", keep_checkpoints=(4,))
    return tmp_path / "sgd"


def contents(folder):
    """What a run folder holds, but for what depends on time or on how it came about."""
    found = {"model": (folder / "model.safetensors").read_bytes()}
    for name in ("generations.jsonl", "evaluations.jsonl"):
        lines = [json.loads(line) for line in (folder / name).read_text().splitlines()]
        found[name] = [{k: v for k, v in line.items() if not k.endswith("seconds")} for line in lines]
    result = json.loads((folder / "result.json").read_text())
    found["result"] = {k: v for k, v in result.items() if k not in ("seconds", "peak_memory")}
    found["recipe"] = (folder / "recipe.json").read_bytes()
    return found


def environment(folder):
    return json.loads((folder / "environment.json").read_text())


BRANCHES = {
    "lexicase": {},
    "reset": {"momentum": "reset"},
    "a mean": {"promotion": "average", "tail": "constant", "tail_mean": True, "outer_momentum": 0.5},
    "varied": {"vary": {"lr": "1|2|0.5"}, "inherit_variation": True, "parts": "all", "recalibrate": 2},
    "swa": {"selection": "sgd", "population": 1, "tail": "constant", "tail_mean": True},
    "a memory": {"selection": "informed-lexicase", "selection_options": {"share": 0.5}},
}


@pytest.mark.parametrize("fields", BRANCHES.values(), ids=BRANCHES)
def test_it_is_the_run_that_computes_its_beginning_itself(fields, run, sgd, tmp_path):
    recipe = BRANCHED.replace(**fields)
    run(recipe, "whole")
    begun = run(recipe, "begun", begin_with=sgd)
    assert contents(tmp_path / "begun") == contents(tmp_path / "whole")
    assert [record.generation for record in begun.generations] == list(range(8))
    assert environment(tmp_path / "begun")["begin_with"] == "sgd"
    assert environment(tmp_path / "whole")["begin_with"] is None


def test_what_it_begins_with_is_not_computed_again(run, sgd):
    done = []

    class Notes(gradlex.Callback):
        def on_generation(self, run, record):
            done.append(record.generation)

    begun = run(BRANCHED, "begun", begin_with=sgd, callbacks=[Notes()])
    assert done == [4, 5, 6, 7]
    earlier = [json.loads(line) for line in (sgd / "generations.jsonl").read_text().splitlines()]
    # The time it took there counts.
    assert begun.result["seconds"] > sum(line["train_seconds"] for line in earlier[:4])


def test_a_moving_average_goes_on_from_there(run, tmp_path, images):
    run(SGD.replace(ema=0.5), "sgd", keep_checkpoints=(4,))
    run(BRANCHED.replace(ema=0.5), "whole")
    run(BRANCHED.replace(ema=0.5), "begun", begin_with=tmp_path / "sgd")
    assert contents(tmp_path / "begun") == contents(tmp_path / "whole")
    averages = [(tmp_path / name / "ema.safetensors").read_bytes() for name in ("begun", "whole")]
    assert averages[0] == averages[1]


def test_an_earlier_checkpoint_will_do_and_the_rest_is_computed(run, tmp_path):
    run(SGD, "sgd", keep_checkpoints=(3,))
    run(BRANCHED, "whole")
    run(BRANCHED, "begun", begin_with=tmp_path / "sgd")
    assert contents(tmp_path / "begun") == contents(tmp_path / "whole")


def tree(folder):
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()
    }


DIFFERENT = {
    "lr": ({"lr": 0.05}, "lr differ before generation 4"),
    "schedule": ({"schedule": "constant"}, "lr differ"),
    "length": ({"generations": 9}, "lr differ"),
    "seed": ({"seed": 5}, "seed differ"),
    "batch size": ({"batch_size": 5}, "batch_size differ"),
    "weight decay": ({"weight_decay": 0.0}, "weight_decay differ"),
    "precision": ({"precision": "bfloat16"}, "precision differ"),
    "augmentation": ({"augment": "flip"}, "augment differ"),
    "optimizer": ({"optimizer_options": {"nesterov": True}}, "optimizer_options differ"),
    "held-out cases": ({"cases": "held-out"}, "held_out differ"),
    "moving average": ({"ema": 0.5}, "ema differ"),
    "other steps": ({"steps_per_generation": 3}, "steps_per_generation differ"),
    "no branch": (
        {"branch_at": 0.0},
        "a run begins with another one until it branches, and this one does not",
    ),
    "an earlier branch": (
        {"branch_at": 0.25},
        "has no checkpoint of generation 2 or before, where this run branches: train it with --keep-checkpoints 2",
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_another_beginning_is_refused_with_what_differs_and_nothing_is_written(what, run, sgd, tmp_path):
    fields, said = DIFFERENT[what]
    before = tree(tmp_path)
    with pytest.raises(InputError, match=said):
        run(BRANCHED.replace(**fields), "begun", begin_with=sgd)
    assert not (tmp_path / "begun").exists()
    assert tree(tmp_path) == before


def test_other_data_is_refused(run, sgd, images, tmp_path):
    x, y = images
    with pytest.raises(InputError, match="does not begin as this run does: the data differ"):
        run(BRANCHED, "begun", begin_with=sgd, data=(x + 1, y))
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"selection": "lexicase", "population": 2, "momentum": "inherit"}, "population differ"),
        ({"selection": "lexicase", "population": 1, "momentum": "reset"}, "population differ"),
        ({"outer_momentum": 0.5}, "outer_momentum differ"),
        ({"outer_lr": 0.5}, "outer_lr differ"),
        ({"recalibrate": 2}, "recalibrate differ"),
        ({"timeline": {"weight_decay": [0.0] * 8}}, "timeline differ"),
    ],
    ids=["population", "momentum", "outer momentum", "outer lr", "recalibration", "timeline"],
)
def test_a_run_that_does_more_than_sgd_from_the_start_is_no_beginning(fields, said, run, tmp_path):
    """Even where the branching run does the same, but only since its branch."""
    run(SGD.replace(**fields), "other", keep_checkpoints=(4,))
    shared = {
        name: value for name, value in fields.items() if name in ("outer_momentum", "outer_lr", "recalibrate")
    }
    with pytest.raises(InputError, match=said):
        run(BRANCHED.replace(**shared), "begun", begin_with=tmp_path / "other")
    assert not (tmp_path / "begun").exists()


def test_a_run_that_branches_at_the_same_place_can_be_the_beginning(run, tmp_path):
    run(BRANCHED.replace(outer_momentum=0.5), "other", keep_checkpoints=(4,))
    run(BRANCHED, "whole")
    run(BRANCHED, "begun", begin_with=tmp_path / "other")
    assert contents(tmp_path / "begun") == contents(tmp_path / "whole")


def test_a_damaged_beginning_is_refused(run, sgd, tmp_path):
    (checkpoint,) = (sgd / "checkpoint").glob("00000004-*")
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InputError, match="wrong checksum: this run cannot begin with it"):
        run(BRANCHED, "begun", begin_with=sgd)
    checkpoint.write_bytes(whole)
    records = sgd / "generations.jsonl"
    text = records.read_text()
    records.write_text(text.replace('"selected": 0', '"selected": 1', 1))
    with pytest.raises(InputError, match=r"generations\.jsonl is not what it was .* cannot begin with it"):
        run(BRANCHED, "begun", begin_with=sgd)
    assert [path.name for path in (tmp_path / "begun").iterdir() if path.name != ".lock"] == []
    records.write_text(text)
    run(BRANCHED, "begun", begin_with=sgd)


def test_a_beginning_without_a_folder_is_refused(sgd, images, tiny_cnn):
    with pytest.raises(InputError, match="begin_with needs a run folder"):
        start(Given(model=tiny_cnn(), data=images), BRANCHED, Execution(workers=1, begin_with=sgd))


def test_kept_checkpoints_survive_pruning_also_between_those_that_are_due_and_after_a_resume(run, tmp_path):
    class Stop(gradlex.Callback):
        def on_generation(self, run, record):
            if record.generation == 4:
                raise gradlex.errors.InterruptedRun(2, "")

    with pytest.raises(gradlex.errors.InterruptedRun):
        run(SGD, "sgd", keep_checkpoints=(1, 3), checkpoint_every=2, callbacks=[Stop()])
    run(SGD, "sgd", resume=True, keep_checkpoints=(6,))
    kept = sorted(path.name[:8] for path in (tmp_path / "sgd" / "checkpoint").iterdir())
    assert kept == ["00000001", "00000003", "00000006", "00000007", "00000008"]
    assert environment(tmp_path / "sgd")["keep_checkpoints"] == [1, 3, 6]


class Killed(BaseException):
    pass


@pytest.mark.parametrize("again", ["with it", "without it"])
@pytest.mark.parametrize("moment", ["before its records", "among its records", "before its checkpoint"])
def test_a_run_that_is_killed_while_it_begins_can_be_started_again(
    moment, again, run, sgd, tmp_path, monkeypatch
):
    from gradlex.runs import RunFolder, _journal

    def kill(*arguments, **keywords):
        raise Killed

    whole = RunFolder.append
    with monkeypatch.context() as patch:
        if moment == "before its checkpoint":
            patch.setattr(_journal, "save_checkpoint", kill)
        else:
            count = 0 if moment == "before its records" else 2

            def append(self, name, line):
                nonlocal count
                count -= 1
                return kill() if count < 0 else whole(self, name, line)

            patch.setattr(RunFolder, "append", append)
        with pytest.raises(Killed):
            run(BRANCHED, "begun", begin_with=sgd)
    run(BRANCHED, "whole")
    if again == "without it":
        shutil.rmtree(sgd)
    run(BRANCHED, "begun", resume=True, begin_with=sgd if again == "with it" else None)
    assert contents(tmp_path / "begun") == contents(tmp_path / "whole")
    assert environment(tmp_path / "begun")["begin_with"] == ("sgd" if again == "with it" else None)


def test_an_interrupted_run_remembers_what_it_began_with_and_continues_without_it(run, sgd, tmp_path):
    class Stop(gradlex.Callback):
        def on_generation(self, run, record):
            if record.generation == 5:
                raise gradlex.errors.InterruptedRun(2, "")

    with pytest.raises(gradlex.errors.InterruptedRun):
        run(BRANCHED, "begun", begin_with=sgd, callbacks=[Stop()])
    shutil.rmtree(sgd)
    run(BRANCHED, "begun", resume=True)
    run(BRANCHED, "whole")
    assert contents(tmp_path / "begun") == contents(tmp_path / "whole")
    assert environment(tmp_path / "begun")["begin_with"] == "sgd"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (60, 6, 6), dtype=np.uint8), np.arange(60) % 3
    path = tmp_path_factory.mktemp("data") / "mine.npz"
    np.savez(path, x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])
    return str(path)


def test_the_command_begins_with_a_run_folder(archive, tmp_path, capsys):
    words = [
        "train",
        "--dataset",
        archive,
        "--model",
        "mlp",
        "--width",
        "0.1",
        "--threads",
        "1",
        "--workers",
        "1",
    ]
    words += ["--generations", "4", "--batch-size", "10", "--seed", "3"]
    main([*words, "--selection", "sgd", "--keep-checkpoints", "2", "--out", str(tmp_path / "sgd")])
    branched = [*words, "--branch-at", "0.5", "--promotion", "average"]
    main([*branched, "--out", str(tmp_path / "whole")])
    main([*branched, "--init-from", str(tmp_path / "sgd"), "--out", str(tmp_path / "begun")])
    capsys.readouterr()
    assert contents(tmp_path / "begun") == contents(tmp_path / "whole")
    assert environment(tmp_path / "begun")["begin_with"] == "sgd"
    stored = json.loads((tmp_path / "begun" / "recipe.json").read_text())["recipe"]
    assert stored["init_from"] is None
    with pytest.raises(SystemExit) as caught:
        main(
            [*branched, "--seed", "5", "--init-from", str(tmp_path / "sgd"), "--out", str(tmp_path / "other")]
        )
    assert caught.value.code == 2
    assert "seed differ before generation 2" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_resuming_with_the_recipe_as_it_was_given_finds_the_same_run(images, tiny_cnn, tmp_path, same):
    """A tail's mean resolves the recalibration that it needs."""
    recipe = SGD.replace(branch_at=0.5, tail_mean=True)
    assert recipe.recalibrate_final == 0
    whole = gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run")
    again = gradlex.train(tiny_cnn(), images, recipe, out=tmp_path / "run", resume=True)
    assert same(whole.model.state_dict(), again.model.state_dict())
    with pytest.raises(InputError, match="recalibrate_final is 7, asked for 3"):
        gradlex.train(
            tiny_cnn(), images, recipe.replace(recalibrate_final=3), out=tmp_path / "run", resume=True
        )
