"""The single cases on a run's page: which decided, which are hard, and what the classes are confused with."""

from __future__ import annotations

import functools
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gradlex.report._decisions import Decisive, decisions, decisive, halves
from gradlex.report._format import NONE, count, number_of, plain
from gradlex.report._run_words import method_of
from gradlex.report.html._samples import Samples, Shown
from gradlex.runs import Predictions, StoredRun, case_samples, stored_predictions, trained_samples

_GALLERY = 12
"""Samples in a row of thumbnails."""
_WALKS = 8
"""Generations at the beginning and at the end whose selection is shown case by case."""
_MOST_CLASSES = 25
"""Classes of a confusion matrix that is shown whole."""


@dataclass(frozen=True, kw_only=True)
class Card:
    """A sample with what is said of it."""

    number: int
    shown: Shown
    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """Samples in a row, or why there are none."""

    title: str
    cards: tuple[Card, ...]
    note: str = ""


class RunCases:
    """What is known of single cases of a run; its samples are shown where its data is found."""

    def __init__(self, run: StoredRun, samples: Samples) -> None:
        self.run, self.samples, self.recipe = run, samples, run.recipe
        self.predictions = {} if run.result is None else stored_predictions(run.path, run.result)
        self.decisions = decisions(run.generations)
        samples_of_data = run.data["train_samples"]
        cases = case_samples(run.recipe, samples_of_data)
        self.cases = np.arange(samples_of_data) if cases is None else cases
        """The number of each case among the training samples of the data."""
        self.trained = trained_samples(run.recipe, samples_of_data)
        """The same of each sample that was trained on."""

    # Which cases decided

    @functools.cached_property
    def not_recorded(self) -> str | None:
        """Why no decisive case can be shown."""
        records = self.run.generations
        if not self.decisions:
            return "There was one candidate in every generation, so nothing was selected."
        if all(record.deciding is None for record in records):
            return "Which cases decided was not recorded: the run is from an older gradlex."
        if not any(decision.steps for decision in self.decisions):
            if self.recipe.promotion in ("average", "expected"):
                return "The parent is a mean of the candidates, so no single case decided."
            if all(decision.reason == "exhausted" for decision in self.decisions):
                return "No case told the candidates apart."
            return f"No single case decides in {method_of(self.recipe)}: it looks at means, batches or none at all."
        return None

    @functools.cached_property
    def decisive_galleries(self) -> list[Gallery]:
        generations = len(self.run.generations)
        early, late = halves(self.decisions, generations)
        titles = {
            f"Early: generations 1 to {math.ceil(generations / 2):,}": early,
            f"Late: generations {math.ceil(generations / 2) + 1:,} to {generations:,}": late,
        }
        return [
            Gallery(
                title=title,
                cards=tuple(self._decisive(each) for each in decisive(found)[:_GALLERY]),
                note="" if any(each.steps for each in found) else "No case told the candidates apart.",
            )
            for title, found in titles.items()
            if found
        ]

    def _decisive(self, found: Decisive) -> Card:
        number = int(self.cases[found.case]) if found.case < len(self.cases) else -1
        lines = []
        if found.eliminated:
            lines.append(f"eliminated {found.eliminated} in {number_of(found.generations, 'generation')}")
        if found.ended:
            lines.append(f"failed by all left: {found.ended} x")
        return Card(
            number=number,
            shown=self.samples.show("train", number),
            title=self._class("train", number),
            lines=tuple(lines),
        )

    @functools.cached_property
    def walks(self) -> list[dict[str, Any]]:
        """The first and the last selections, case by case."""
        found = [each for each in self.decisions if each.steps]
        kept = found if len(found) <= 2 * _WALKS else [*found[:_WALKS], *found[-_WALKS:]]
        return [
            {
                "generation": decision.generation + 1,
                "steps": [
                    {
                        "number": (
                            number := int(self.cases[step.case]) if step.case < len(self.cases) else -1
                        ),
                        "class": self._class("train", number),
                        "shown": self.samples.show("train", number),
                        "eliminated": step.eliminated,
                    }
                    for step in decision.steps
                ],
                "left": decision.left,
                "selected": decision.selected,
            }
            for decision in kept
        ]

    @functools.cached_property
    def class_table(self) -> list[tuple[str, str, str, str]]:
        """Class, its share of the training samples, and its share of eliminations early and late."""
        targets = self._targets()
        if targets is None or targets.ndim != 1 or targets.dtype.kind not in "iu" or self.not_recorded:
            return []
        early, late = Counter[int](), Counter[int]()
        for counts, found in zip(
            (early, late), halves(self.decisions, len(self.run.generations)), strict=True
        ):
            for each in decisive(found):
                if each.eliminated and each.case < len(self.cases):
                    counts[int(targets[self.cases[each.case]])] += each.eliminated
        sizes = Counter(targets[self.cases].tolist())
        classes = sorted(sizes, key=lambda c: (-(early[c] + late[c]), c))[:_MOST_CLASSES]

        def share(counts: Counter[int], c: int) -> str:
            whole = sum(counts.values())
            return f"{counts[c] / whole:.1%} ({counts[c]:,})" if whole else NONE

        return [(self._name(c), share(Counter(sizes), c), share(early, c), share(late, c)) for c in classes]

    def _targets(self) -> npt.NDArray[Any] | None:
        """The target of every training sample of the data."""
        train = self.predictions.get("train")
        if (
            train is not None
            and train.targets is not None
            and len(train.targets) == self.run.data["train_samples"]
        ):
            return train.targets
        first = self.samples.target("train", 0)
        if first is None:
            return None
        return np.asarray([self.samples.target("train", n) for n in range(self.run.data["train_samples"])])

    def _class(self, part: Literal["train", "test"], number: int) -> str:
        """The target of a sample as it is shown."""
        target = self.samples.target(part, number)
        found = self.predictions.get(part)
        if target is None and found is not None and found.targets is not None:
            numbers = self.trained if part == "train" else np.arange(len(found.targets))
            place = np.flatnonzero(numbers == number)
            target = found.targets[place[0]] if len(place) else None
        return "" if target is None else self._label(target)

    def _label(self, target: Any) -> str:
        """The same with a word for what it is, where it is only a number."""
        name = self._name(target)
        return f"class {name}" if name.isdecimal() and self._is_classification else name

    def _name(self, target: Any) -> str:
        """The name of a class, or a number."""
        names = self.run.data.get("class_names")
        if isinstance(target, int | np.integer):
            if isinstance(names, list) and 0 <= target < len(names):
                return plain(names[target])
            return str(target)
        return "" if np.ndim(target) else f"{float(target):.4g}"  # several targets are no name

    @functools.cached_property
    def _is_classification(self) -> bool:
        return self.recipe.task in (None, "classification")

    # Where the network fails

    @functools.cached_property
    def predictions_note(self) -> str | None:
        """Why there is nothing to say of single samples."""
        if self.run.result is None:
            return "The run is not finished: its final network is not known yet."
        if not self.predictions:
            return "What the network predicts for single samples was not recorded: the run is from an older gradlex."
        return None

    @functools.cached_property
    def hard_galleries(self) -> list[Gallery]:
        found = []
        for part, title in (("train", "Hardest training samples"), ("test", "Worst test errors")):
            predictions = self.predictions.get(part)
            if predictions is not None:
                found.append(self._hard(part, title, predictions))  # type: ignore[arg-type]
        return found

    def _hard(self, part: Literal["train", "test"], title: str, found: Predictions) -> Gallery:
        errors = np.nan_to_num(found.errors, nan=np.inf)
        numbers = self.trained if part == "train" else np.arange(len(errors))
        order = np.argsort(-errors, kind="stable")
        wrong = errors > 0
        if found.predicted is not None and found.targets is not None and self._classes(found):
            wrong = found.predicted != found.targets
        worst = [place for place in order if wrong[place] or part == "train"][:_GALLERY]
        cards = []
        for place in worst:
            number = int(numbers[place]) if place < len(numbers) else -1
            lines = [
                f"loss {found.errors[place]:.3g}"
                if self._classes(found)
                else f"error {found.errors[place]:.4g}"
            ]
            if found.predicted is not None:
                lines.insert(0, f"predicted {self._name(found.predicted[place])}")
            cards.append(
                Card(
                    number=number,
                    shown=self.samples.show(part, number),
                    title=self._class(part, number),
                    lines=tuple(lines),
                )
            )
        total = int(wrong.sum())
        if self._classes(found):
            note = (
                f"{total:,} of {number_of(len(errors), 'sample')} are classified wrongly."
                if total
                else "None is classified wrongly."
            )
        else:
            note = f"{number_of(len(errors), 'sample')}, by the task's error."
        return Gallery(title=title, cards=tuple(cards), note=note)

    def _classes(self, found: Predictions) -> bool:
        """Whether classes are predicted."""
        return found.predicted is not None and np.issubdtype(found.predicted.dtype, np.integer)

    @functools.cached_property
    def confusion(self) -> dict[str, Any] | None:
        """The confusion matrix of the test samples: rows are true classes."""
        counts = self._confusion_counts()
        if counts is None or len(counts) > _MOST_CLASSES:
            return None
        rows = counts.sum(axis=1, keepdims=True)
        shares = counts / np.maximum(rows, 1)
        return {
            "names": [self._name(c) for c in range(len(counts))],
            "rows": [
                [
                    {"count": int(n), "share": float(s), "right": r == c}
                    for c, (n, s) in enumerate(zip(*line, strict=True))
                ]
                for r, line in enumerate(zip(counts, shares, strict=True))
            ],
        }

    def _confusion_counts(self) -> npt.NDArray[Any] | None:
        test = self.predictions.get("test")
        if test is None or test.targets is None or test.predicted is None or not self._classes(test):
            return None
        if not np.issubdtype(test.targets.dtype, np.integer):
            return None
        size = max(int(test.targets.max()), int(test.predicted.max())) + 1
        size = max(size, int(self.run.data.get("num_classes") or 0))
        flat = test.targets.astype(np.int64) * size + test.predicted
        return np.bincount(flat, minlength=size * size).reshape(size, size)

    @functools.cached_property
    def per_class(self) -> list[tuple[str, ...]]:
        """Class, test samples, precision, recall, F1, and with what it is confused most."""
        counts = self._confusion_counts()
        if counts is None:
            return []
        right = np.diag(counts)
        support, predicted = counts.sum(axis=1), counts.sum(axis=0)
        found = []
        for c in range(len(counts)):
            precision = right[c] / predicted[c] if predicted[c] else None
            recall = right[c] / support[c] if support[c] else None
            f1 = 2 * right[c] / (support[c] + predicted[c]) if support[c] + predicted[c] else None
            others = counts[c].copy()
            others[c] = 0
            most = f"{self._name(int(others.argmax()))} ({others.max():,} x)" if others.any() else NONE
            cells = (NONE if value is None else f"{100 * value:.1f} %" for value in (precision, recall, f1))
            found.append(
                (recall if recall is not None else 2.0, (self._name(c), count(support[c]), *cells, most))
            )
        return [row for _, row in sorted(found, key=lambda each: each[0])]
