"""Regression: numbers to predict, selected on by epsilon-lexicase (La Cava, Spector & Danai 2016).

The network learns standardized targets, (y - mean) / scale of the training part, as LeCun et al. 1998 (Efficient
BackProp, section 4.3) advise for inputs: a learning rate then means the same for prices and for probabilities.
`predict` maps back, and metrics are in the units of the targets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from gradlex._checks import Positive, check_fields
from gradlex.errors import InputError
from gradlex.tasks.task import Loss, Measure, Numbers, Task, check_finite, full, plain_options, shown


@dataclass(frozen=True, kw_only=True)
class Regression(Task):
    """One number per sample, or several; the network's outputs are standardized targets.

    Selection sees each case's absolute error in standard deviations of the training targets, averaged over outputs.

    Args:
        criterion: The training loss: squared error ("mse"), absolute error ("l1"), Huber's ("huber"), quadratic up to
            `delta` standard deviations, or a function of outputs and standardized targets, both (samples, numbers).
        delta: Where Huber's loss becomes linear.
        mean: What is subtracted from the targets, a number for each output (default: their mean).
        scale: What they are then divided by (default: their standard deviation). mean=[0], scale=[1] leaves targets
            as they are.

    Examples:
        >>> import torch
        >>> from gradlex.tasks import Regression
        >>> prices = torch.tensor([100.0, 200.0, 300.0, 400.0])
        >>> task = Regression().fitted(torch.zeros(4, 1), prices)  # standardizes by the training targets
        >>> task.mean
        (250.0,)
        >>> task.predict(torch.zeros(1, 1))  # an output of 0 is the mean price
        tensor([250.], dtype=torch.float64)
        >>> task.errors(torch.zeros(4, 1), prices)  # in standard deviations
        tensor([1.3416, 0.4472, 0.4472, 1.3416])
    """

    criterion: Literal["mse", "l1", "huber"] | Loss = "mse"
    delta: Positive = 1.0
    mean: Numbers | None = None
    scale: Numbers | None = None

    _name = "regression"
    measures = (
        Measure("r2"),
        Measure("rmse", higher_is_better=False),
        Measure("mae", higher_is_better=False),
    )

    def __post_init__(self) -> None:
        check_fields(self)
        mean, scale = self.mean or (), self.scale or ()
        if len(mean) != len(scale) or min(scale, default=1) <= 0:
            raise InputError(f"mean and scale must be equally long, and scale above 0, got {mean} and {scale}.")

    def outputs(self, targets: Tensor) -> int:
        """One for each number of a sample."""
        return 1 if targets.ndim == 1 else int(targets.shape[1])

    def fitted(self, outputs: Tensor, targets: Tensor) -> Regression:
        """With the mean and the deviation of the training targets, unless they are given."""
        if self.mean is not None:
            return self
        values = targets.reshape(len(targets), -1).cpu().double()
        shift = values[0]  # near the mean, so that the squares don't swamp the deviation
        mean = (values - shift).sum(dim=0) / len(values)
        squares = ((values - shift) ** 2).sum(dim=0)
        deviation = (squares / len(values) - mean**2).clamp(min=0).sqrt()
        varies = deviation > 1e-7 * (shift + mean).abs()
        scale = torch.where(varies, deviation, torch.ones_like(deviation))
        return replace(self, mean=tuple((shift + mean).tolist()), scale=tuple(scale.tolist()))

    @property
    def learned(self) -> dict[str, Any]:
        """The mean and the scale of the training targets."""
        return plain_options(self, "mean", "scale")

    def check(self, inputs: Any, targets: Any, outputs: Any) -> None:
        """Raise an error for targets that aren't numbers, and for a wrong number of outputs."""
        if not isinstance(targets, Tensor) or targets.ndim not in (1, 2) or targets.dtype == torch.bool:
            raise InputError(
                f"regression needs targets (samples,) or (samples, outputs) of numbers, got {shown(targets)}."
            )
        check_finite(targets)
        wanted = self.outputs(targets)
        if not isinstance(outputs, Tensor) or outputs.numel() != len(outputs) * wanted:
            raise InputError(
                f"regression needs outputs (samples, {wanted}), got {shown(outputs)}: change the model's last layer."
            )
        if self.mean is not None and len(self.mean) not in (1, wanted):
            raise InputError(f"mean and scale hold {len(self.mean)} numbers, the targets {wanted} a sample.")

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over samples and outputs, of standardized targets."""
        found, wanted = self._standardized(outputs, targets)
        if self.criterion == "huber":
            return F.huber_loss(found, wanted, delta=self.delta)
        named = {"mse": F.mse_loss, "l1": F.l1_loss}
        criterion: Loss = self.criterion if callable(self.criterion) else named[self.criterion]
        return criterion(found, wanted)

    def errors(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Each case's absolute error in standard deviations; the mean of several outputs."""
        found, wanted = self._standardized(outputs, targets)
        return (found - wanted).abs().mean(dim=1)

    def predict(self, outputs: Tensor) -> Tensor:
        """The outputs in the units of the targets; one number per sample is (samples,)."""
        mean, scale = self._numbers(outputs)
        values = outputs.reshape(len(outputs), -1).to(mean.dtype) * scale + mean
        return values[:, 0] if values.shape[1] == 1 else values

    def metrics(self, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
        """In the units of the targets; R2 is the mean over outputs, as in scikit-learn's r2_score."""
        found, wanted = [], []
        for outputs, targets in batches:
            wanted.append(targets.reshape(len(targets), -1).cpu().double())
            found.append(self.predict(outputs.cpu()).reshape(wanted[-1].shape))
        y = torch.cat(wanted)
        residuals, varies = torch.cat(found) - y, (y != y[0]).any(dim=0)
        squares = (residuals**2).mean(dim=0)
        variance = torch.where(varies, y.var(dim=0, correction=0), 1.0)
        # As in scikit-learn: of targets that don't vary, all is explained or nothing.
        r2 = torch.where(varies, 1 - squares / variance, (squares == 0).double())
        rmse, mae = squares.mean().sqrt(), residuals.abs().mean()
        return {"r2": float(r2.mean()), "rmse": float(rmse), "mae": float(mae)}

    def _standardized(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and standardized targets, both (samples, outputs): one number per sample must not broadcast."""
        found = full(outputs).reshape(len(targets), -1)
        mean, scale = self._numbers(targets)
        wanted = (targets.reshape(found.shape).to(mean.dtype) - mean) / scale
        return found, wanted.to(found.dtype)

    def _numbers(self, like: Tensor) -> tuple[Tensor, Tensor]:
        wide = torch.float32 if like.device.type == "mps" else torch.float64  # Apple's devices have no float64
        numbers = torch.tensor([self.mean or (0.0,), self.scale or (1.0,)], dtype=wide, device=like.device)
        return numbers[0], numbers[1]
