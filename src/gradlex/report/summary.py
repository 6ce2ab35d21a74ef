"""What a run reached and how: the facts behind its page, and as text for a terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from gradlex.errors import InputError
from gradlex.report.decisions import decisions
from gradlex.report.frames import EXPERIMENT, Study, history, read_run, studies
from gradlex.report.tables import ENDINGS, WIDTH, tables
from gradlex.report.words import count, duration, number_of, title_of, unit_of


class RunFacts:
    """What the folder of a run says.

    Attributes:
        stored: run.json.
        history: One row a generation.
        title: What was trained.
        state: How far it has come.
        metric: The primary metric, if any was recorded.
        tiles: What was reached, then what it cost: words and values.
    """

    def __init__(self, path: Path) -> None:
        self.stored, result = read_run(path)
        self.history = history(path)
        model, data = (str(given.get("name", "")) for given in (self.stored.model, self.stored.data))
        self.title = title_of(self.stored.method) + (f": {model} on {data}" if model and data else "")
        done = len(self.history)
        self.state = f"Not finished: {done:,} of {number_of(self.stored.epochs or 0, 'generation')}."
        self.metric, self.tiles = None, list[tuple[str, str]]()
        if result is None:
            return
        self.state = f"Finished after {number_of(done, 'generation')}."
        if result.stopped:
            self.state += f" Stopped early: {result.stopped}"
        parts = result.metrics
        self.metric = next((name for part in sorted(parts, reverse=True) for name in parts[part]), None)
        if self.metric:
            unit = unit_of(self.metric)
            self.tiles = [(f"{part} {self.metric}", unit.value(own.get(self.metric), 1)) for part, own in parts.items()]
            costs = ("samples_trained", "critical_path", "cases_evaluated")
            self.tiles += [(name.replace("_", " "), count(getattr(result, name))) for name in costs]
            self.tiles.append(("time", duration(result.seconds)))

    @property
    def sentences(self) -> list[str]:
        """How selection went."""
        selected = self.history[self.history.reason != "only_candidate"]
        if selected.empty:
            return ["Each generation had one candidate: plain SGD, with nothing to select."]
        shares = selected.reason.value_counts(normalize=True)
        ended = [f"{ENDINGS.get(reason, reason.replace('_', ' '))} {share:.0%}" for reason, share in shares.items()]
        found = [f"How {number_of(len(selected), 'selection')} ended: {', '.join(ended)}."]
        compared = self.history[self.history.cases_used > 0]
        if len(compared):
            typical = number_of(round(compared.cases_used.median()), "case")
            found.append(f"A selection used {typical} (median; at most {compared.cases_used.max():,}).")
        exhausted = compared.reason == "exhausted"
        later = exhausted[::-1].expanding().mean()[::-1]  # among this generation and all later ones
        first = compared.generation[exhausted & (later >= 0.9)].min()
        if first <= 0.9 * self.history.generation.max():
            found.append(
                f"Saturated from generation {first:,.0f} on: the remaining candidates solve the same cases in "
                "nine selections out of ten or more, and one of them is picked at random."
            )
        return found


def decisive(history: pd.DataFrame) -> list[tuple[int, int, int]]:
    """Cases that decided: (case, candidates eliminated, selections ended because all failed it), most first."""
    eliminated, ended = Counter[int](), Counter[int]()
    for record in history.to_dict("records"):
        deciding, trail = record["deciding"] or [], record["survivors"] or []
        left = sum(loss is not None for loss in record["losses"])  # one that diverged is not in the pool
        for case, (_, survivors) in zip(deciding, trail, strict=False):
            eliminated[case] += left - len(survivors)
            left = len(survivors)
        ended.update(deciding[len(trail) :])
    found = [(case, eliminated[case], ended[case]) for case in eliminated.keys() | ended.keys()]
    return sorted(found, key=lambda each: (-each[1], -each[2], each[0]))


def summary(path: Path | str) -> str:
    """A run or an experiment as text within 80 columns: what `gradlex report PATH` prints.

    Examples:
        >>> import gradlex
        >>> print(gradlex.report.summary("runs/mine"))  # doctest: +SKIP
    """
    path = Path(path)
    if not (path / "run.json").exists():
        texts = [f"{study.title}\n\n{outcome(study)}" for study in studies(path)]
        if not texts:
            raise InputError(f"{path} is neither a run nor an experiment: it has no run.json and no {EXPERIMENT}.")
        return "\n".join(texts)
    run = RunFacts(path)
    reached = ", ".join(f"{name} {value}" for name, value in run.tiles)
    sentences = [run.title, run.state, reached, *run.sentences]
    most = [f"{case} ({eliminated})" for case, eliminated, _ in decisive(run.history)[:5] if eliminated]
    if most:
        sentences.append(f"The most decisive cases, with the candidates they eliminated: {', '.join(most)}.")
    return _wrapped(filter(None, sentences))


def outcome(study: Study) -> str:
    """The verdict and the tables of an experiment."""
    found = decisions(study)
    texts = [_wrapped(each.sentence for each in found), *(table.text() for table in tables(study, found))]
    return "\n".join(filter(None, texts))


def _wrapped(sentences: Iterable[str]) -> str:
    return "".join(f"{textwrap.fill(sentence, WIDTH)}\n" for sentence in sentences)
