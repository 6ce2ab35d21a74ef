"""Run folders and experiments made of plain files, as the records of past runs lie on disk."""

import json

import pytest


def generation(number, *, candidates=4, reason="sole_survivor", **more):
    """A line of generations.jsonl."""
    trail = {"survivors": [[3, [1]]], "deciding": [7]} if reason == "sole_survivor" else {}
    return {
        "generation": number,
        "lr": 0.1,
        "losses": [2.0 / number + 0.1 * index for index in range(candidates)],
        "chosen": 1 if candidates > 1 else 0,
        "weights": [1.0] + [0.0] * (candidates - 1),
        "reason": reason if candidates > 1 else "only_candidate",
        "cases_used": 3 if candidates > 1 else 0,
        "cases_evaluated": 64,
        "train_seconds": 1.0,
        "select_seconds": 0.1,
        **(trail if candidates > 1 else {}),
        **({"disagreement": 0.2} if candidates > 1 else {}),
        **more,
    }


def write_run(folder, accuracy, *, seed=0, lines=None, finished=True, recipe=None, **stored):
    folder.mkdir(parents=True, exist_ok=True)
    if lines is None:
        lines = [generation(number, metrics={"test": {"accuracy": accuracy * number / 4}}) for number in range(1, 5)]
    chosen = {"dataset": "given", "selection": "lexicase", "population": 4, "epochs": 4, "seed": seed}
    described = {
        "gradlex": "1.0.0",
        "recipe": {**chosen, **(recipe or {})},
        "data": {"name": "moons", "fingerprint": "f"},
        "model": {"name": "mlp", "parameters": 10},
        "environment": {"python": "3.11"},
        **stored,
    }
    (folder / "run.json").write_text(json.dumps(described))
    (folder / "generations.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    if finished:
        result = {
            "metrics": {"test": {"accuracy": accuracy, "loss": 0.5}, "train": {"accuracy": 1.0, "loss": 0.1}},
            "stopped": None,
            "seconds": 90.0,
            "samples_trained": 4000,
            "critical_path": 1000,
            "cases_evaluated": 640,
            "generations": 4,
        }
        (folder / "result.json").write_text(json.dumps(result))
    return folder


def write_experiment(folder, accuracies, **declared):
    """Runs of each method with the accuracies of seeds 0, 1, ...; None is a run that isn't finished."""
    seeds = range(max(map(len, accuracies.values()), default=0))
    told = {"title": "Does it help?", "methods": list(accuracies), "seeds": list(seeds), "pairs": [], **declared}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "experiment.json").write_text(json.dumps(told))
    for method, values in accuracies.items():
        size = 1 if method.startswith("sgd") else 4
        for seed, accuracy in enumerate(values):
            lines = [
                generation(number, candidates=size, metrics={"test": {"accuracy": (accuracy or 0.1) * number / 4}})
                for number in range(1, 5)
            ]
            write_run(folder / method / f"seed{seed}", accuracy, seed=seed, lines=lines, finished=accuracy is not None)
    return folder


@pytest.fixture
def make_generation():
    return generation


@pytest.fixture(scope="session")
def make_run():
    return write_run


@pytest.fixture(scope="session")
def make_experiment():
    return write_experiment


@pytest.fixture
def experiment(tmp_path):
    """Lexicase loses against SGD on equal samples by about 2 points, with little scatter."""
    accuracies = {
        "sgd": [0.600, 0.610, 0.605, 0.602],
        "sgd-matched": [0.631, 0.642, 0.633, 0.634],
        "lexicase": [0.610, 0.621, 0.615, 0.612],
    }
    pairs = [("lexicase", "sgd-matched"), ("lexicase", "sgd")]
    questions = [{"pair": pairs[0], "question": "Is lexicase better than SGD on equal samples?"}]
    return write_experiment(
        tmp_path / "results" / "small", accuracies, pairs=pairs, questions=questions, setting="Small data"
    )
