"""Which task fits targets, where nobody has named one."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gradlex.errors import InputError
from gradlex.tasks._parts import shown


def infer_task(targets: Any) -> str:
    """The task of targets that only one fits, by its name; refused where several might, or none.

    As for scikit-learn's `type_of_target`, whole numbers are classes also where they are stored as floats.

    Examples:
        >>> import torch
        >>> from gradlex.tasks import infer_task
        >>> infer_task(torch.tensor([0, 2, 1]))
        'classification'
        >>> infer_task(torch.tensor([0.1, 2.5, 1.0]))
        'regression'
        >>> infer_task(torch.tensor([[0, 1], [1, 1]]))
        'multi-label'
    """
    if isinstance(targets, Tensor) and targets.ndim == 1:
        return "classification" if _whole(targets) else "regression"
    if isinstance(targets, Tensor) and targets.ndim == 2 and targets.shape[1] > 1:
        if not _whole(targets):
            return "regression"
        if bool(((targets == 0) | (targets == 1)).all()):
            if bool((targets.sum(dim=1) == 1).all()):
                raise InputError(
                    "each sample has one label, as a row of 0 and a single 1: give y.argmax(1) for classification, or "
                    "task='multi-label' where a sample may have several."
                )
            return "multi-label"
        if not targets.is_floating_point():
            return "tokens"
    if isinstance(targets, Tensor) and targets.ndim == 3 and not targets.is_floating_point():
        return "segmentation"
    raise InputError(
        f"targets that are {shown(targets)} do not tell what is to be learnt: name the task, such as task='regression'."
    )


def _whole(targets: Tensor) -> bool:
    return not targets.is_floating_point() or bool((targets == targets.round()).all())
