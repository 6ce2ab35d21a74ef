"""Regression: numbers to predict, selected on by epsilon-lexicase (La Cava, Spector & Danai 2016).

The network learns standardised targets, (y - mean) / scale by the training part, as LeCun et al. 1998 (Efficient
BackProp, section 4.3) advise for inputs: a learning rate then means the same for prices and for probabilities.
`predict` maps back, and metrics are in the units of the targets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from annotated_types import Gt
from torch import Tensor

from gradlex._checks import check_fields
from gradlex._devices import has_float64
from gradlex.errors import InputError
from gradlex.tasks._parts import check_finite, constant, full, plain_numbers, shown
from gradlex.tasks._task import Measure

Criterion: TypeAlias = Literal["mse", "l1", "huber"]

_MEASURES = (
    Measure(name="r2"),
    Measure(name="rmse", higher_is_better=False),
    Measure(name="mae", higher_is_better=False),
)


@dataclass(frozen=True, kw_only=True)
class Regression:
    """One number a sample, or several; the network's outputs are standardised targets.

    Args:
        criterion: The loss: squared error, absolute error, or Huber's, quadratic up to `delta` standard deviations.
        case_error: Selection sees each case's absolute error in standard deviations of the training targets, or its
            loss; the mean of several outputs.
        delta: Where Huber's loss becomes linear.
        mean: What targets are standardised by, a number for each output (default: by the training part).
        scale: Likewise; mean=[0], scale=[1] leaves them as they are.

    Examples:
        >>> import torch
        >>> from gradlex.tasks import Regression
        >>> prices = torch.tensor([100.0, 200.0, 300.0, 400.0])
        >>> task = Regression().fitted(torch.zeros(4, 1), [prices])  # standardised by the training targets
        >>> task.mean
        (250.0,)
        >>> task.predict(torch.zeros(1, 1))  # an output of 0 is the mean price
        tensor([250.], dtype=torch.float64)
        >>> task.errors(torch.zeros(4, 1), prices)  # in standard deviations
        tensor([1.3416, 0.4472, 0.4472, 1.3416])
    """

    criterion: Criterion = "mse"
    case_error: Literal["absolute", "loss"] = "absolute"
    delta: Annotated[float, Gt(0)] = 1.0
    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None

    selection = "epsilon-lexicase"
    measures = _MEASURES
    graded = True

    def __post_init__(self) -> None:
        """Refuse options that no regression has."""
        check_fields(self)
        if (self.mean is None) != (self.scale is None):
            raise InputError(
                "mean and scale belong together: give both, or neither to standardise by the training part."
            )
        for name in ("mean", "scale"):
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, plain_numbers(name, given))
        mean, scale = self.mean or (), self.scale or ()
        if len(mean) != len(scale) or any(value <= 0 for value in scale):
            raise InputError(
                f"mean and scale must be as many numbers, and scale above 0, got {mean} and {scale}."
            )

    def outputs(self, targets: Tensor) -> int:
        """As many as each sample has numbers."""
        return 1 if targets.ndim == 1 else int(targets.shape[1])

    def fitted(self, outputs: Tensor, targets: Iterable[Tensor]) -> Regression:
        """Standardised by the mean and the deviation of the training targets, unless those are given."""
        if self.mean is not None:
            return self
        samples, total, squares = 0, torch.zeros(1), torch.zeros(1)
        shift: Tensor | None = None  # near the mean, so that the squares do not swamp the deviation
        for batch in targets:
            values = batch.reshape(len(batch), -1).cpu().double()
            shift = values[0] if shift is None else shift
            total = total + (values - shift).sum(dim=0)
            squares = squares + ((values - shift) ** 2).sum(dim=0)
            samples += len(values)
        assert shift is not None  # no set is empty
        mean = total / samples
        deviation = (squares / samples - mean**2).clamp(min=0).sqrt()
        varies = deviation > 1e-7 * (shift + mean).abs()
        scale = torch.where(varies, deviation, torch.ones_like(deviation))
        return replace(self, mean=tuple((shift + mean).tolist()), scale=tuple(scale.tolist()))

    @property
    def learnt(self) -> dict[str, Any]:
        """What targets are standardised by."""
        if self.mean is None or self.scale is None:
            return {}
        return {"mean": list(self.mean), "scale": list(self.scale)}

    def check(self, inputs: Any, targets: Any, outputs: Any) -> None:
        """Refuse targets that are not numbers, one or several a sample, and outputs that are not as many."""
        if not isinstance(targets, Tensor) or targets.ndim not in (1, 2) or targets.dtype == torch.bool:
            raise InputError(
                f"regression needs targets (samples,) or (samples, outputs) of numbers, got {shown(targets)}. For yes "
                "or no use classification, or multi-label."
            )
        check_finite(targets)
        wanted = self.outputs(targets)
        if (
            not isinstance(outputs, Tensor)
            or outputs.ndim not in (1, 2)
            or outputs.numel() // len(outputs) != wanted
        ):
            raise InputError(
                f"regression of {wanted} number{'' if wanted == 1 else 's'} a sample needs a model that returns "
                f"(samples, {wanted}){' or (samples,)' if wanted == 1 else ''}, got {shown(outputs)}: give its last "
                f"layer {wanted} output{'' if wanted == 1 else 's'}, or name another task."
            )
        if self.mean is not None and len(self.mean) not in (1, wanted):
            raise InputError(f"mean and scale hold {len(self.mean)} numbers, the targets {wanted} a sample.")

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over samples and outputs, of standardised targets."""
        return self._losses(*self._standardised(outputs, targets), "mean")

    def errors(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Each case's absolute error in standard deviations, or its loss; the mean of several outputs."""
        found, wanted = self._standardised(outputs, targets)
        each = (
            (found - wanted).abs() if self.case_error == "absolute" else self._losses(found, wanted, "none")
        )
        return each.mean(dim=1)

    def predict(self, outputs: Tensor) -> Tensor:
        """The outputs in the units of the targets; one number a sample is (samples,)."""
        mean, scale = self._numbers(outputs)
        values = outputs.reshape(len(outputs), -1).to(mean.dtype) * scale + mean
        return values[:, 0] if values.shape[1] == 1 else values

    def metrics(self, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
        """In the units of the targets; R2 is the mean over outputs, as scikit-learn's r2_score has it."""
        samples = 0
        sums: Tensor | None = (
            None  # (4, outputs): residuals, their squares, targets less a shift, and their squares
        )
        shift = torch.zeros(1)
        for outputs, targets in batches:
            wanted = targets.reshape(len(targets), -1).cpu().double()
            residuals = (self.predict(outputs.cpu()).reshape(wanted.shape) - wanted).abs()
            if sums is None:
                sums, shift = torch.zeros(4, wanted.shape[1], dtype=torch.float64), wanted[0]
            sums += torch.stack(
                [part.sum(dim=0) for part in (residuals, residuals**2, wanted - shift, (wanted - shift) ** 2)]
            )
            samples += len(targets)
        assert sums is not None  # no set is empty
        absolute, squares, total, spread = sums
        variance = (spread - total**2 / samples).clamp(min=0)
        constant = variance <= 1e-14 * spread.clamp(min=1e-300)
        # As scikit-learn: of targets that do not vary, all is explained or nothing.
        r2 = torch.where(
            constant, (squares == 0).double(), 1 - squares / torch.where(constant, 1.0, variance)
        )
        return {
            "r2": float(r2.mean()),
            "rmse": math.sqrt(float(squares.mean()) / samples),
            "mae": float(absolute.mean()) / samples,
        }

    def _losses(self, found: Tensor, wanted: Tensor, reduction: str) -> Tensor:
        if self.criterion == "mse":
            return F.mse_loss(found, wanted, reduction=reduction)
        if self.criterion == "l1":
            return F.l1_loss(found, wanted, reduction=reduction)
        return F.huber_loss(found, wanted, reduction=reduction, delta=self.delta)

    def _standardised(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and standardised targets, both (samples, outputs): one number a sample must not broadcast."""
        found = full(outputs).reshape(len(targets), -1)
        mean, scale = self._numbers(targets)
        wanted = (targets.reshape(found.shape).to(mean.dtype) - mean) / scale
        return found, wanted.to(found.dtype)

    def _numbers(self, like: Tensor) -> tuple[Tensor, Tensor]:
        wide = torch.float64 if has_float64(like.device) else torch.float32
        mean, scale = self.mean or (0.0,), self.scale or (1.0,)
        return (
            constant(tuple(mean), wide, like.device),
            constant(tuple(scale), wide, like.device),
        )
