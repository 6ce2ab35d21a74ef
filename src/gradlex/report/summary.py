"""What a run reached and how: the facts behind its page, and as text for a terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path

from gradlex.errors import InputError
from gradlex.report.decisions import decisions
from gradlex.report.frames import EXPERIMENT, history, read_run, studies
from gradlex.report.tables import ENDINGS, WIDTH, tables
from gradlex.report.words import count, duration, number_of, title_of, unit_of

_REASONS = {
    **ENDINGS,
    "best_mean": "lowest mean error",
    "average": "mean of all candidates",
    "expected": "mean by exact chances",
    "estimated": "mean by estimated chances",
}


class RunFacts:
    """What the folder of a run says.

    Attributes:
        stored: run.json.
        result: result.json, or None before the run is finished.
        history: One row a generation.
        compared: The generations in which candidates were compared on cases.
        method: The method or the selection, which decides the color of the charts.
        title: What was trained.
        state: How far it has come.
        metric: The primary metric, if any was recorded.
        tiles: What was reached, then what it cost: words and values.
        saturated: The generation from which on nine selections in ten used up all cases, if it isn't in the last tenth.
    """

    def __init__(self, path: Path) -> None:
        self.stored, self.result = read_run(path)
        self.history = history(path)
        self.compared = self.history[self.history.cases_used > 0]
        stored, recipe, done = self.stored, self.stored.recipe, len(self.history)
        self.method = stored.method
        model, data = (str(given.get("name", "")) for given in (stored.model, stored.data))
        self.title = f"{title_of(self.method)}: {model} on {data}" if model and data else title_of(self.method)
        self.state = f"Finished after {number_of(done, 'generation')}."
        if self.result is None:
            planned = stored.epochs or recipe.get("epochs") or 0
            self.state = f"Not finished: {done:,} of {number_of(planned, 'generation')}."
        elif self.result.stopped:
            self.state += f" Stopped early: {self.result.stopped}"
        parts = self.result.metrics if self.result else {}
        self.metric = next((name for part in sorted(parts, reverse=True) for name in parts[part]), None)
        self.tiles = []
        if self.result and self.metric:
            unit = unit_of(self.metric)
            self.tiles = [(f"{part} {self.metric}", unit.value(own.get(self.metric), 1)) for part, own in parts.items()]
            costs = ("samples_trained", "critical_path", "cases_evaluated")
            self.tiles += [(name.replace("_", " "), count(getattr(self.result, name))) for name in costs]
            self.tiles.append(("time", duration(self.result.seconds)))
        exhausted = self.compared.reason == "exhausted"
        later = exhausted[::-1].expanding().mean()[::-1]  # among this generation and all later ones
        first = self.compared.generation[exhausted & (later >= 0.9)].min()
        self.saturated = int(first) if first <= 0.9 * self.history.generation.max() else None

    @property
    def sentences(self) -> list[str]:
        """How selection went."""
        selected = self.history[self.history.reason != "only_candidate"]
        if selected.empty:
            return ["Each generation had one candidate: plain SGD, with nothing to select."]
        shares = selected.reason.value_counts(normalize=True)
        ended = ", ".join(f"{_REASONS.get(reason, reason)} {share:.0%}" for reason, share in shares.items())
        found = [f"How {number_of(len(selected), 'selection')} ended: {ended}."]
        if len(self.compared):
            used = self.compared.cases_used
            typical = number_of(round(used.median()), "case")
            found.append(f"A selection used {typical} (median; at most {used.max():,}).")
        if self.saturated is not None:
            found.append(
                f"Saturated from generation {self.saturated:,} on: the remaining candidates solve the same cases in "
                "nine selections out of ten or more, and one of them is picked at random."
            )
        return found

    def decisive(self, *halves: bool) -> list[tuple[int, int, int]]:
        """Cases that decided: (case, candidates eliminated, selections ended because all failed it), most first.

        Args:
            halves: Which halves of the run count: False is the first, True the second.
        """
        eliminated, ended, middle = Counter[int](), Counter[int](), self.history.generation.max() / 2
        for record in self.history.to_dict("records"):
            if (record["generation"] > middle) not in halves:
                continue
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
        texts = []
        for study in studies(path):
            found = decisions(study)
            texts += [study.title, _wrapped(*(decision.sentence for decision in found))]
            texts += [table.text() for table in tables(study, found)]
        if not texts:
            raise InputError(f"{path} is neither a run nor an experiment: it has no run.json and no {EXPERIMENT}.")
        return "\n\n".join(text.strip("\n") for text in texts) + "\n"
    run = RunFacts(path)
    sentences = [
        run.title,
        run.state,
        ", ".join(f"{name} {value}" for name, value in run.tiles),
        *run.sentences,
    ]
    most = [f"{case} ({eliminated})" for case, eliminated, _ in run.decisive(False, True)[:5] if eliminated]
    if most:
        sentences.append(f"The most decisive cases, with the candidates they eliminated: {', '.join(most)}.")
    return _wrapped(*filter(None, sentences)) + "\n"


def _wrapped(*sentences: str) -> str:
    return "\n".join(textwrap.fill(sentence, WIDTH) for sentence in sentences)
