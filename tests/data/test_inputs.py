from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace

import pytest
import torch

from gradlex.data import call, describe, layout_hint, leaves, map_inputs
from gradlex.errors import InputError

X = torch.zeros(2, 3)
Output = namedtuple("Output", "logits aux")


def echo(*given, **named):
    """A model that shows what it was called with, in a tensor's place."""
    echo.seen = given, named
    return X


@pytest.mark.parametrize(
    ("inputs", "given", "named"),
    [
        (X, (X,), {}),
        ((X, X), (X, X), {}),
        ([X, (X, X)], (X, (X, X)), {}),
        (Output(X, X), (X, X), {}),
        ({"ids": X, "mask": X}, (), {"ids": X, "mask": X}),
    ],
)
def test_a_model_is_called_as_its_inputs_are_structured(inputs, given, named):
    assert call(echo, inputs) is X
    assert str(echo.seen) == str((given, named))


@pytest.mark.parametrize(
    "output", [X, (X, None), [X], Output(X, 1), SimpleNamespace(logits=X, loss=1), SimpleNamespace(logits=X)]
)
def test_an_output_is_unwrapped(output):
    assert call(lambda _: output, X) is X


@pytest.mark.parametrize("output", [None, (), {"logits": X}, (None, X), SimpleNamespace(logits=None), "text"])
def test_an_output_without_a_tensor_is_refused(output):
    with pytest.raises(InputError, match=f"must return a tensor, .* got {type(output).__name__}"):
        call(lambda _: output, X)


def test_every_tensor_of_a_structure_is_mapped():
    inputs = {"a": X, "b": (X + 1, [X + 2])}
    doubled = map_inputs(lambda leaf: leaf * 2, inputs)
    assert [leaf.max().item() for leaf in leaves(doubled)] == [0, 2, 4]
    assert isinstance(doubled["b"], tuple)
    assert map_inputs(lambda leaf: leaf + 1, X).equal(X + 1)
    assert leaves(X) == [X]


def test_inputs_are_described_by_their_names_types_and_shapes():
    assert describe(X) == "torch.float32 of shape (2, 3)"
    assert describe({"a": X, "b": [None]}) == "x['a'] torch.float32 of shape (2, 3), x['b'][0] NoneType"
    assert describe(()) == "an empty tuple"
    assert describe(3) == "int"


@pytest.mark.parametrize(
    ("shape", "wanted"), [((5, 32, 24, 3), "(N, 3, 32, 24)"), ((5, 8, 8, 1), "(N, 1, 8, 8)")]
)
def test_images_that_lie_channels_last_are_noticed(shape, wanted):
    _, height, width, channels = shape
    assert layout_hint(torch.zeros(shape)) == (
        f"x looks like NHWC (N, {height}, {width}, {channels}); torch wants {wanted}: x.permute(0, 3, 1, 2)"
    )
    assert "x['image'].permute(0, 3, 1, 2)" in layout_hint({"ids": X, "image": torch.zeros(shape)})


@pytest.mark.parametrize("shape", [(5, 3, 32, 32), (5, 3, 32, 3), (5, 32, 32, 2), (5, 32, 3), (5, 3)])
def test_other_inputs_get_no_hint(shape):
    assert layout_hint(torch.zeros(shape)) == ""
