"""Export: a trained network as a file that runs without gradlex, checked against the network itself.

The file holds the normalization too: it takes inputs as the data has them in float32, images from 0 to 1 and not
normalized, (samples, channels, height, width) or (samples, features), any number of samples.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor, nn

from gradlex.data import Normalization, call
from gradlex.engine import seeded
from gradlex.errors import InputError, RunError, unknown_name
from gradlex.runs._predictor import Predictor, load_predictor

Format: TypeAlias = Literal["torch-export", "onnx"]

_SUFFIX = {"torch-export": ".pt2", "onnx": ".onnx"}
_CHECKED = (3, 1, 5)
"""Samples of the batches that a program is made with (the first) and compared on."""


class Deployed(nn.Module):
    """A network behind its normalization, with one tensor in and one out."""

    def __init__(self, network: nn.Module, normalization: Normalization | None, axes: int) -> None:
        super().__init__()
        self.network = network
        self.normalizes = normalization is not None
        if normalization is not None:
            shape = (1, -1, *(1 for _ in range(axes - 1)))
            self.register_buffer("shift", torch.tensor(normalization.mean).view(shape))
            self.register_buffer("factor", 1 / torch.tensor(normalization.std).view(shape))

    def forward(self, inputs: Tensor) -> Tensor:
        """The network's outputs for inputs as the data has them."""
        if self.normalizes:
            inputs = (inputs - self.get_buffer("shift")) * self.get_buffer("factor")
        found: Tensor = call(self.network, inputs)
        return found


def export(
    path: Path | str, out: Path | str | None = None, *, format: Format = "torch-export", ema: bool = False
) -> Path:
    """Write a finished run's network, with its normalization, to a file; by default model.pt2 or model.onnx in the run.

    Raises:
        InputError: The run or the file cannot be used, or a library is missing.
        RunError: torch cannot export the network, or what it made answers otherwise. No file is written.

    Examples:
        >>> import torch
        >>> from gradlex.runs import export
        >>> path = export("runs/mine", "mine.pt2")
        >>> torch.export.load(path).module()(torch.rand(3, 1, 8, 8)).shape
        torch.Size([3, 10])
    """
    if format not in get_args(Format):
        raise unknown_name("format", str(format), get_args(Format))
    file = Path(path) / f"model{_SUFFIX[format]}" if out is None else Path(out)
    if file.suffix.lower() != _SUFFIX[format] or file.is_dir():
        raise InputError(f"{format} is written to a {_SUFFIX[format]} file, got {file.name!r}.")
    if not file.absolute().parent.is_dir():
        raise InputError(
            f"there is no folder {file.absolute().parent} to write {file.name} to: make it first."
        )
    if format == "onnx":
        _check_onnx()
    predictor = load_predictor(path, ema=ema)
    assert predictor.input_shape is not None
    with seeded(0, torch.device("cpu")):
        batches = [torch.rand(count, *predictor.input_shape) for count in _CHECKED]
    network = Deployed(predictor.network, predictor.normalization, len(predictor.input_shape)).eval()
    temporary = file.with_name(f".{file.stem}.new{file.suffix}")
    try:
        with _quietly(format):
            (_write_program if format == "torch-export" else _write_onnx)(network, batches[0], temporary)
            run = (_read_program if format == "torch-export" else _read_onnx)(temporary)
        _compare(predictor, run, batches, format)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    return file


def _write_program(network: nn.Module, batch: Tensor, file: Path) -> None:
    program = torch.export.export(network, (batch,), dynamic_shapes=_any_number())
    torch.export.save(program, file)


def _read_program(file: Path) -> Callable[[Tensor], Tensor]:
    module: Callable[[Tensor], Tensor] = torch.export.load(file).module()
    return module


def _write_onnx(network: nn.Module, batch: Tensor, file: Path) -> None:
    torch.onnx.export(
        network,
        (batch,),
        file,
        input_names=["inputs"],
        output_names=["outputs"],
        dynamic_shapes=_any_number(),
        dynamo=True,
        external_data=False,
        verbose=False,
    )


def _read_onnx(file: Path) -> Callable[[Tensor], Tensor]:
    import onnxruntime  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415  # an extra

    session = onnxruntime.InferenceSession(file.read_bytes(), providers=["CPUExecutionProvider"])
    return lambda inputs: torch.from_numpy(session.run(None, {"inputs": inputs.numpy()})[0])


def _any_number() -> dict[str, Any]:
    return {"inputs": {0: torch.export.Dim("samples")}}


def _compare(
    predictor: Predictor, run: Callable[[Tensor], Tensor], batches: list[Tensor], format: str
) -> None:
    """Refuse a program whose outputs differ from the network's by more than rounding."""
    for batch in batches:
        wanted = predictor.outputs(batch)
        with torch.no_grad():
            found = run(batch)
        room = 1e-4 * max(1.0, float(wanted.abs().max()))
        if found.shape != wanted.shape or not torch.allclose(found, wanted, rtol=1e-3, atol=room):
            far = float((found - wanted).abs().max()) if found.shape == wanted.shape else np.inf
            raise RunError(
                f"the {format} program answers otherwise than the network, by up to {far:g} on {len(batch)} random "
                "samples: it was not written."
            )


@contextmanager
def _quietly(format: str) -> Iterator[None]:
    """Without torch's own words on standard output; a failure in one line."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "torch.export")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # torch raises many kinds
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RunError(
            f"this network cannot be exported as {format}: {type(error).__name__}: {reason}"
        ) from error
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _check_onnx() -> None:
    try:
        import onnxruntime  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401, PLC0415
        import onnxscript  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401, PLC0415
    except ImportError as error:
        raise InputError(
            f"format onnx needs {error.name}, which is not installed: pip install 'gradlex[onnx]'."
        ) from error
