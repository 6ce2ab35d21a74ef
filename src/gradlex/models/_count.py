"""How large a network is, and how much it computes for one image."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def count(model: nn.Module, input_shape: Sequence[int]) -> tuple[int, int]:
    """The parameters of `model`, and its multiply-adds for one input of `input_shape` (without the batch).

    Multiply-adds are those of convolutions and matrix products; norms, activations and additions are left
    out, as is usual. It runs one forward pass in evaluation mode on the model's own device, and leaves the
    model as it was; a model built under `torch.device("meta")` computes nothing and is counted at once.

    Examples:
        >>> import torch
        >>> from gradlex.models import build, count
        >>> with torch.device("meta"):  # no memory is taken, nothing is computed
        ...     net = build("vgg16", num_classes=10)
        >>> parameters, multiply_adds = count(net, (3, 32, 32))
        >>> f"{parameters / 1e6:.1f} M parameters, {multiply_adds / 1e6:.0f} M multiply-adds"
        '14.7 M parameters, 313 M multiply-adds'
    """
    parameters = sum(parameter.numel() for parameter in model.parameters())
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(torch.zeros(1, *input_shape, device=device))
    finally:
        for module in training:
            module.training = True
    return parameters, counter.get_total_flops() // 2
