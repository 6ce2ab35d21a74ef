"""Tokens: a class for every token of a sequence, as in language modelling and token classification.

A case is a sequence. Padding has the target `ignore_index`, as in torch and Hugging Face, and counts for nothing.
Perplexity is e to the mean loss of all tokens that count (Jelinek et al. 1977).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from gradlex._checks import check_fields
from gradlex.errors import InputError
from gradlex.tasks._parts import check_labels, full, shown
from gradlex.tasks._task import Measure

_PERPLEXITY = Measure(name="perplexity", higher_is_better=False)
_ACCURACY = Measure(name="token_accuracy", fraction=True)
_EXACT = Measure(name="exact", fraction=True)
_LOSS = Measure(name="loss", higher_is_better=False)


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Targets (samples, length) of class numbers, outputs (samples, length, classes).

    For language modelling the target of a token is the next one: shift them before.

    Args:
        case_error: Selection sees the mean loss of a sequence's tokens, the share that is wrong, or whether any is.
        primary: The metric that is reported first.
        ignore_index: Tokens of this target, such as padding, count for nothing.

    Examples:
        >>> import torch
        >>> from gradlex.tasks import Tokens
        >>> targets = torch.tensor([[2, 0, -100, -100]])  # two tokens, then padding
        >>> outputs = torch.zeros(1, 4, 3)
        >>> outputs[0, 0, 2] = outputs[0, 1, 1] = 4  # the first token is right, the second wrong
        >>> Tokens(case_error="share").errors(outputs, targets)
        tensor([0.5000])
        >>> Tokens().errors(outputs, targets)  # their mean loss
        tensor([2.0360])
    """

    case_error: Literal["loss", "share", "exact"] = "loss"
    primary: Literal["perplexity", "token_accuracy"] = "perplexity"
    ignore_index: int = -100

    def __post_init__(self) -> None:
        """Refuse options that there are not."""
        check_fields(self)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The primary one first."""
        first = (_PERPLEXITY, _ACCURACY) if self.primary == "perplexity" else (_ACCURACY, _PERPLEXITY)
        return (*first, _EXACT, _LOSS)

    @property
    def graded(self) -> bool:
        """Whether a sequence can be solved in part."""
        return self.case_error != "exact"

    @property
    def selection(self) -> str:
        """Losses are graded."""
        return "lexicase" if self.case_error == "exact" else "epsilon-lexicase"

    def outputs(self, targets: Tensor) -> int:
        """One a class."""
        return int(targets.max()) + 1

    def check(self, inputs: Any, targets: Any, outputs: Any) -> None:
        """Refuse targets that are not rows of class numbers, and outputs that are not a row of numbers a token."""
        if not isinstance(targets, Tensor) or targets.ndim != 2:
            raise InputError(
                f"tokens needs targets (samples, length) of class numbers, got {shown(targets)}. For one class a "
                "sequence use classification."
            )
        if not isinstance(outputs, Tensor) or outputs.ndim != 3:
            raise InputError(
                f"tokens needs a model that returns (samples, length, classes), got {shown(outputs)}."
            )
        check_labels(targets, outputs.shape[2], self.ignore_index, "tokens")

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy over the tokens that count."""
        self._check_lengths(outputs, targets)
        flat = full(outputs).flatten(0, 1)
        return F.cross_entropy(flat, targets.flatten().long(), ignore_index=self.ignore_index)

    def errors(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of each sequence's tokens, the share that is wrong, or whether any is."""
        counts = targets != self.ignore_index
        if self.case_error == "loss":
            return self._losses(outputs, targets).sum(dim=1) / counts.sum(dim=1)
        wrong = counts & ~_right(outputs, targets)
        return (
            wrong.any(dim=1).float() if self.case_error == "exact" else wrong.sum(dim=1) / counts.sum(dim=1)
        )

    def predict(self, outputs: Tensor) -> Tensor:
        """The class of each token."""
        return outputs.argmax(dim=2)

    def metrics(self, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
        """Of all tokens that count; `exact` is the share of sequences without a wrong one."""
        loss, tokens, right, whole, sequences = 0.0, 0, 0, 0, 0
        for outputs, targets in batches:
            counts = targets != self.ignore_index
            correct = _right(outputs, targets)
            loss += float(self._losses(outputs, targets).sum())
            tokens += int(counts.sum())
            right += int((correct & counts).sum())
            whole += int((correct | ~counts).all(dim=1).sum())
            sequences += len(targets)
        mean = loss / tokens
        return {
            "perplexity": math.exp(mean) if mean < 700 else math.inf,
            "token_accuracy": right / tokens,
            "exact": whole / sequences,
            "loss": mean,
        }

    def _losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of each token, (samples, length); 0 where it does not count."""
        flat = full(outputs).flatten(0, 1)
        losses = F.cross_entropy(
            flat, targets.flatten().long(), ignore_index=self.ignore_index, reduction="none"
        )
        return losses.view(targets.shape)

    def _check_lengths(self, outputs: Tensor, targets: Tensor) -> None:
        if outputs.shape[:2] != targets.shape:
            raise InputError(
                f"the model returns {outputs.shape[1]} outputs for a sequence of {targets.shape[1]} targets: they must "
                "be as many (samples, length, classes)."
            )


def _right(outputs: Tensor, targets: Tensor) -> Tensor:
    """Which tokens are right; argmax takes NaN for the largest value, so a network that answers NaN has failed."""
    return (outputs.argmax(dim=2) == targets) & torch.isfinite(outputs.amax(dim=2))
