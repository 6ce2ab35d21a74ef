"""How the runs of an experiment were made, in words, so that no one mistakes a small number for the paper's."""

from __future__ import annotations

from gradlex.report._evidence import Arm, Evidence
from gradlex.report._format import count, listed

PAPER = (
    "published: Ding and Spector (ICLR 2022), all training samples of each dataset, 200 generations for SGD and "
    "200 (p + 1) for a population of p; three seeds."
)


def setup_notes(evidence: Evidence) -> tuple[str, ...]:
    """One sentence for each way of training that the runs have; datasets and models with the same one share it."""
    settings: dict[str, list[str]] = {}
    for setting in evidence.settings:
        facts = _facts(list(evidence.on(setting).values()))
        settings.setdefault(facts, []).append(str(setting))
    return tuple(f"gradlex: {listed(names)}: {facts}" for facts, names in settings.items())


def _facts(arms: list[Arm]) -> str:
    runs = [run for arm in arms for run in arm.runs.values()]
    samples = {part: sorted({run.data[f"{part}_samples"] for run in runs}) for part in ("train", "test")}
    sizes, rates, decays = (
        sorted({getattr(run.recipe, name) for run in runs}) for name in ("batch_size", "lr", "weight_decay")
    )
    return (
        f"{_numbers(samples['train'])} training and {_numbers(samples['test'])} test samples; {_generations(arms)}; "
        f"batch size {_numbers(sizes)}, rate {_plain(rates)}, weight decay {_plain(decays)}."
    )


def _generations(arms: list[Arm]) -> str:
    titles: dict[int, list[str]] = {}
    for arm in arms:
        titles.setdefault(arm.recipe.require("generations"), []).append(arm.title)
    if len(titles) == 1:
        return f"generations: {_numbers(list(titles))}"
    most = max(titles, key=lambda number: len(titles[number]))
    if len(titles[most]) > 3:  # a list that long says less than this
        titles[most] = ["the others"]
        titles[most] = titles.pop(most)  # "the others" come last
    told = [f"{count(number)} for {listed(names)}" for number, names in titles.items()]
    return f"generations: {'; '.join(told)}"


def _numbers(values: list[int]) -> str:
    return listed([count(value) for value in values])


def _plain(values: list[float]) -> str:
    return listed([f"{value:g}" for value in values])
