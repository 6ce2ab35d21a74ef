"""gradlex paper, compare and report, as a user starts them."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import gradlex
from gradlex.cli import main
from gradlex.errors import InterruptedRun
from gradlex.experiments import Failure, comparison


def command(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "gradlex", *words], capture_output=True, text=True, check=False, **options
    )


QUICK = ("--generations", "1", "--train-size", "80", "--batch-size", "10")


@pytest.fixture(scope="module")
def table2(tmp_path_factory):
    """Table 2 at its smallest, made by a real process."""
    root = tmp_path_factory.mktemp("experiments") / "root"
    return root, command("paper", "table2", "--scale", "smoke", *QUICK, "--out", str(root))


def test_a_table_is_printed_beside_the_published_one(table2):
    root, done = table2
    assert (done.returncode, done.stderr) == (0, "")
    for published in ("95.35 ± 0.06", "92.83 ± 0.12", "94.02 ± 0.14"):
        assert published in done.stdout
    results = [json.loads(path.read_text()) for path in root.glob("runs/*/result.json")]
    assert len(results) == 4
    for result in results:
        assert f"{100 * result['metrics']['test']['accuracy']:.2f}" in done.stdout
    assert {path.suffix for path in root.glob("table2*")} == {
        ".json", ".txt", ".md", ".tex", ".png", ".svg"
    }  # fmt: skip


def test_started_again_it_does_no_finished_run_twice(table2):
    root, first = table2
    before = {path: path.stat().st_mtime_ns for path in root.glob("runs/*/*")}
    again = command("paper", "table2", "--scale", "smoke", *QUICK, "--out", str(root))
    assert "4 runs, 4 already done" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in root.glob("runs/*/*")} == before
    _, _, report = again.stdout.partition("\n")
    assert first.stdout.endswith(report)


def test_the_report_is_made_again_from_the_records(table2, capsys):
    root, _ = table2
    reports = {path: path.read_bytes() for path in root.glob("table2*")}
    for path in reports:
        if path.suffix != ".json":
            path.unlink()
    page = root.parent / "RESULTS.md"
    main(["report", str(root), "--page", str(page)])
    first = page.read_bytes()
    assert {path: path.read_bytes() for path in root.glob("table2*")} == reports
    main(["report", str(root), "--page", str(page)])
    assert page.read_bytes() == first
    capsys.readouterr()


def test_the_list_names_the_papers_126_runs_without_any_data(tmp_path, monkeypatch):
    done = command("paper", "table1", "--scale", "paper", "--list", "--data-dir", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r"\s*\d+ +(sgd|lexicase) ", line)]
    assert len(rows) == 42 * 3
    assert ["lexicase", "cifar10", "resnet18", "4", "reset", "1000", "128", "0"] in [row[1:9] for row in rows]
    assert ["sgd", "svhn", "vgg16", "1", "inherit", "200", "64", "2"] in [row[1:9] for row in rows]
    assert "all runs: lr 0.1, decay 0.0001" in done.stdout
    assert "126 runs, 126 to do, data missing (it will be downloaded), in " in done.stdout
    assert "estimate" not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_list_says_what_is_done(table2):
    root, _ = table2
    done = command("paper", "table2", *QUICK, "--seeds", "2", "--list", "--out", str(root))
    assert done.stdout.count(" done ") == 4
    assert done.stdout.count(" to do ") == 4
    assert f"8 runs, 4 to do, in {root}" in done.stdout


@pytest.mark.slow
def test_compare_says_what_the_evidence_supports(tmp_path):
    methods = ("sgd", "sgd-matched-5e-4", "lexicase")
    words = ("--methods", *methods, "--seeds", "2", "--out", str(tmp_path / "root"))
    done = command("compare", *QUICK, *words)
    assert (done.returncode, done.stderr) == (0, "")
    printed = " ".join(done.stdout.split())
    for told in (
        "SGD, equal samples, decay 5e-4 2 ",
        "In short, for small-cnn on digits: Lexicase, which trains on 5 times the samples of SGD, ",
        "95 % interval",
        "2 seeds",
    ):
        assert told in printed
    assert len(list(tmp_path.glob("root/runs/*/result.json"))) == 6
    plan = json.loads((tmp_path / "root" / "compare.json").read_text())
    samples = {
        run["method"]: json.loads((tmp_path / "root" / "runs" / run["run"] / "result.json").read_text())[
            "samples_trained"
        ]
        for run in plan["runs"]
    }
    assert samples.pop("sgd") == 80
    assert set(samples.values()) == {400}


def test_compare_takes_data_and_a_network_of_ones_own(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = rng.normal(size=(60, 5)) + y[:, None]
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=y, x_test=x[:20], y_test=y[:20])
    (tmp_path / "nets.py").write_text(
        "from torch import nn\n"
        "def small(num_classes, in_channels):\n"
        "    return nn.Sequential(nn.Linear(in_channels, 8), nn.ReLU(), nn.Linear(8, num_classes))\n"
    )
    words = ("--dataset", "mine.npz", "--model", "nets:small", "--generations", "2", "--seeds", "1")
    monkeypatch.chdir(tmp_path)
    main(["compare", *words, "--list"])
    listed = re.findall(r"^ *\d+ +([\w.-]+) ", capsys.readouterr().out, re.MULTILINE)
    assert listed == list(comparison("mine.npz", "nets:small").methods)
    done = command("compare", *words, "--methods", "sgd", "lexicase")
    assert (done.returncode, done.stderr) == (0, "")
    root = tmp_path / "runs" / "compare-mine-nets-small"
    assert (root / "compare.md").exists()
    assert "mine.npz" in done.stdout
    assert len(list(root.glob("runs/*/result.json"))) == 2


@pytest.mark.slow
def test_figure_2_is_drawn_from_runs_that_are_there_and_again_without_weights(table2):
    root, _ = table2
    done = command("paper", "figure2", *QUICK, "--out", str(root))
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 runs, 2 already done" in done.stdout
    assert "Effective rank" in done.stdout
    drawn = (root / "figure2.svg").read_bytes()
    for weights in root.glob("runs/*/model.safetensors"):
        weights.unlink()
    again = command("report", str(root))
    assert again.returncode == 0
    assert json.loads((root / "figure2.json").read_text())["layers"] == ["features.0", "features.2"]
    assert (root / "figure2.svg").read_bytes() == drawn
    plan = (root / "figure2.json").read_bytes()
    refused = command("paper", "figure2", *QUICK, "--layers", "features.1", "--out", str(root))
    assert refused.returncode == 2
    assert "holds neither model.safetensors nor the activations of features.1" in " ".join(
        refused.stderr.split()
    )
    assert (root / "figure2.json").read_bytes() == plan
    for path in root.glob("figure2*"):
        path.unlink()


def test_figure_2_compares_runs_that_are_named_and_says_which(table2, capsys, tmp_path):
    root, _ = table2
    sgd, lexicase = (next(root.glob(f"runs/*-{name}-*")) for name in ("sgd", "lexicase"))
    words = ["paper", "figure2", "--first", str(sgd), "--second", str(lexicase), "--out", str(tmp_path)]
    main(words)
    printed = capsys.readouterr().out
    for told in (f"first: {sgd.name}.", f"second: {lexicase.name}.", "second minus first"):
        assert told in printed
    assert {path.name for path in tmp_path.iterdir()} == {
        f"figure2-runs.{kind}" for kind in ("png", "svg", "txt", "md", "tex")
    }
    with pytest.raises(SystemExit):
        main([*words, "--list"])
    assert "leave out what says which to run" in capsys.readouterr().err


def test_figure_2_refuses_other_images_in_a_file_of_the_same_name(table2, capsys, tmp_path):
    root, _ = table2
    copies = []
    for name in ("sgd", "lexicase"):
        copies.append(shutil.copytree(next(root.glob(f"runs/*-{name}-*")), tmp_path / name))
        stored = json.loads((copies[-1] / "recipe.json").read_text())
        stored["data"] |= dict.fromkeys(("fingerprint", "test_fingerprint"), name)
        (copies[-1] / "recipe.json").write_text(json.dumps(stored))
    out = tmp_path / "out"
    with pytest.raises(SystemExit):
        main(["paper", "figure2", "--first", str(copies[0]), "--second", str(copies[1]), "--out", str(out)])
    assert "the same test images, and these are not" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.slow
def test_a_run_that_fails_is_told_by_the_report_too(tmp_path):
    root = tmp_path / "root"
    words = ("--methods", "sgd", "lexicase", "--seeds", "1", "--lr", "1e30", "--out", str(root))
    done = command("compare", *QUICK, *words)
    assert done.returncode == 1
    assert "2 of 2 runs failed" in done.stderr
    told = command("report", str(root))
    assert told.returncode == 0
    assert "run of lexicase (seed 0 at generation 0 of 5 failed: " in " ".join(told.stdout.split())


def test_what_has_failed_is_still_known_when_the_rest_is_interrupted(tmp_path, monkeypatch):
    root = tmp_path / "root"
    words = [*("compare", *QUICK), *("--methods", "sgd", "lexicase", "--seeds", "1", "--out", str(root))]

    for failing in (0, 1):

        def interrupted(jobs, *, watcher, failing=failing, **how):
            watcher.failed(Failure(job=jobs[failing], reason=f"number {failing} diverged."))
            raise InterruptedRun(signal.SIGINT, "interrupted")

        monkeypatch.setattr("gradlex.experiments._experiment.run_jobs", interrupted)
        with pytest.raises(SystemExit):
            main(words)
    plan = json.loads((root / "compare.json").read_text())
    assert [run["failure"] for run in plan["runs"]] == ["number 0 diverged.", "number 1 diverged."]


@pytest.mark.slow
def test_two_equal_commands_share_the_runs_and_both_succeed(tmp_path):
    words = (
        "compare",
        *QUICK,
        "--model",
        "mlp",
        "--methods",
        "sgd",
        "lexicase",
        "--seeds",
        "2",
        "--jobs",
        "1",
    )
    call = [sys.executable, "-m", "gradlex", *words, "--out", str(tmp_path / "root")]
    both = [
        subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = [process.communicate(timeout=600) for process in both]
    assert [(process.returncode, err) for process, (_, err) in zip(both, said, strict=True)] == [(0, "")] * 2
    done = [line for out, _ in said for line in out.splitlines() if " of 4 done: " in line]
    assert len(done) == 4  # each run by one of them
    assert all("4 of 4 done" in out for out, _ in said)
    assert len(list(tmp_path.glob("root/runs/*/result.json"))) == 4
    assert list(tmp_path.glob("root/runs/*.log")) == []


def test_the_library_runs_a_whole_experiment(tmp_path, capfd):
    how = {"methods": ["sgd", "lexicase"], "seeds": 1, "generations": 1, "recipe": {"train_size": 80}}
    report = gradlex.compare("digits", "mlp", **how, out=tmp_path / "root", jobs=1)
    assert [run.recipe.selection for run in report.runs] == ["sgd", "lexicase"]
    assert all(run.recipe.train_size == 80 for run in report.runs)
    assert report.folder == tmp_path / "root"
    assert report.failures == ()
    assert report.tables[0].columns[0] == "method"
    assert report.verdict.startswith("In short, for mlp on digits: ")
    assert repr(report) == f"<compare: 2 finished runs, in {tmp_path / 'root'}>"
    assert report._repr_html_().startswith("<pre>")
    assert {path.suffix for path in report.files} >= {".txt", ".md", ".tex", ".png", ".svg"}
    plan = json.loads((tmp_path / "root" / "compare.json").read_text())
    assert plan["command"].startswith(
        "gradlex.compare('digits', 'mlp', methods=['sgd', 'lexicase'], seeds=1,"
    )
    assert "2 of 2 done" in capfd.readouterr().out
    again = gradlex.compare("digits", "mlp", **how, out=tmp_path / "root", progress=False)
    assert again.verdict == report.verdict
    assert capfd.readouterr().out == ""


def test_the_library_names_what_failed(tmp_path, capfd):
    report = gradlex.paper(
        "table2",
        methods=["sgd"],
        generations=1,
        recipe={"train_size": 80, "lr": 1e30},
        out=tmp_path / "root",
        progress=False,
    )
    assert report.runs == []
    assert "diverged" in report.failures[0].reason
    assert report.files == ()
    assert repr(report).startswith("<table2: 0 finished runs, 1 failed, in ")
    capfd.readouterr()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["paper", "table2", "--methods", "lexicas"], "Did you mean 'lexicase'"),
        (["paper", "table2", "--models", "resnet19"], "unknown model 'resnet19'"),
        (["paper", "table5"], "table5"),
        (["paper", "table1", "--layers", "conv5_x"], "layers belong to figure2"),
        (["paper", "figure2", "--first", "somewhere"], "give --first RUN ... and --second RUN"),
        (["paper", "figure2", "--models", "mlp", "small-cnn"], "one dataset and one model"),
        (["paper", "table2", "--jobs", "0"], "jobs must be a whole number of at least 1"),
        (["paper", "table2", "--recipe", "seed=3"], "is a dimension of the experiment"),
        (["paper", "table2", "--recipe", "lr=3"], "has a flag of its own: --lr"),
        (["paper", "table2", "--recipe", "promotion=average"], "tells methods apart"),
        (["paper", "table2", "--recipe", "optimiser=adam"], "unknown recipe field 'optimiser'"),
        (["paper", "table2", "--recipe", 'selection_options={"sigma": 3}'], "sigma is not an option of"),
        (["compare", "--dataset", "nowhere.npz"], "nowhere.npz"),
        (["compare", "--model", "resnet18"], "resnet18"),
        (["compare", "--train-size", "0"], "train_size must be"),
        (["report", "nowhere"], "holds no experiment"),
        (["report", "nowhere", "--page", "not/there.md"], "a file in a folder that exists"),
        (["compare", "--out", "/dev/null"], "cannot be written"),
        (["paper", "figure2", "--layers", "nope"], "has no layer 'nope'"),
        (["paper", "table4", "--momenta", "rest"], "Did you mean 'reset'"),
    ],
)
def test_a_bad_value_is_refused_before_anything_is_written(words, told, refused):
    refused(words, told)
