from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gradlex.errors import InputError
from gradlex.models import build


class FakeTimm:
    """Stands for timm, which is an extra."""

    @staticmethod
    def is_model(name: str) -> bool:
        return name in FakeTimm.list_models()

    @staticmethod
    def list_models() -> list[str]:
        return ["resnet10t", "vit_tiny_patch16_224"]

    @staticmethod
    def create_model(name: str, **settings: Any) -> nn.Module:
        if settings["in_chans"] == 2:
            raise NotImplementedError("two channels")
        return nn.Linear(settings["in_chans"], settings["num_classes"])


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", FakeTimm)  # type: ignore[arg-type]


@pytest.mark.usefixtures("timm")
class TestTimm:
    def test_timm_gets_classes_and_channels(self) -> None:
        assert build("timm:resnet10t", num_classes=5, in_channels=4)(torch.zeros(1, 4)).shape == (1, 5)

    def test_a_name_timm_does_not_know_is_refused_with_the_nearest(self) -> None:
        with pytest.raises(InputError, match=r"timm has no model 'resnet10'\. Did you mean 'resnet10t'\?"):
            build("timm:resnet10", num_classes=5)

    def test_a_width_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"'timm:resnet10t' takes no width, got width 0\.25"):
            build("timm:resnet10t", num_classes=5, width=0.25)

    def test_an_error_inside_timm_is_named(self) -> None:
        with pytest.raises(InputError, match="failed: NotImplementedError: two channels"):
            build("timm:resnet10t", num_classes=5, in_channels=2)


def test_without_timm_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"needs timm, which is not installed: pip install gradlex\[timm\]"):
        build("timm:resnet10t", num_classes=5)


def test_a_timm_that_cannot_be_imported_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    (tmp_path / "timm.py").write_text("import absent_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        InputError, match="cannot be imported: ModuleNotFoundError: No module named 'absent_dep"
    ):
        build("timm:resnet10t", num_classes=5)
