from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

import gradlex
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
    with pytest.raises(
        InputError, match=r"needs timm, which is not installed: pip install 'gradlex\[timm\]'"
    ):
        build("timm:resnet10t", num_classes=5)


def test_a_timm_that_cannot_be_imported_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    (tmp_path / "timm.py").write_text("import absent_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        InputError, match="cannot be imported: ModuleNotFoundError: No module named 'absent_dep"
    ):
        build("timm:resnet10t", num_classes=5)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Module]:
    timm = pytest.importorskip("timm", reason="timm is an extra")
    torch.manual_seed(0)
    network = timm.create_model("test_resnet", num_classes=1000)
    path = tmp_path_factory.mktemp("timm") / "weights.safetensors"
    safetensors.torch.save_file(network.state_dict(), path)
    return path, network


class TestPretrained:
    """Against timm itself, with weights from a file: the code that a download would go through."""

    def test_all_but_the_last_layer_is_what_the_file_holds(self, weights: tuple[Path, nn.Module]) -> None:
        path, source = weights
        network = build(f"timm:test_resnet?pretrained={path}", num_classes=3)
        own, given = network.state_dict(), source.state_dict()
        same = {name for name in own if torch.equal(own[name], given[name])}
        assert set(own) - same == {"fc.weight", "fc.bias"}
        assert own["fc.weight"].shape[0] == 3

    def test_weights_are_fitted_to_the_channels(self, weights: tuple[Path, nn.Module]) -> None:
        path, source = weights
        network = build(f"timm:test_resnet?pretrained={path}", num_classes=3, in_channels=1)
        own, given = network.state_dict()["conv1.0.weight"], source.state_dict()["conv1.0.weight"]
        assert torch.allclose(own, given.sum(1, keepdim=True), atol=1e-6)

    def test_a_finished_run_needs_the_pretrained_weights_no_more(
        self, weights: tuple[Path, nn.Module], tmp_path: Path
    ) -> None:
        path = tmp_path / "mine.safetensors"
        path.write_bytes(weights[0].read_bytes())
        run = tmp_path / "run"
        recipe = gradlex.Recipe(
            model=f"timm:test_resnet?pretrained={path}",
            freeze="conv1.*,bn1.*,layer*",
            selection="sgd",
            train_size=40,
            generations=1,
            precision="float32",
            threads=1,
        )
        gradlex.runs.start(gradlex.runs.Named(), recipe, out=run)
        path.unlink()
        network = gradlex.runs.load_network(run)
        own, given = network.state_dict()["layer1.0.conv1.weight"], weights[1].state_dict()
        assert torch.equal(own, given["layer1.0.conv1.weight"])

    @pytest.mark.parametrize(
        ("query", "told"),
        [
            ("pretrain", "after [?] expected pretrained .* or pretrained=FILE, got 'pretrain'"),
            ("pretrained=", "expected pretrained .* or pretrained=FILE, got 'pretrained='"),
            ("pretrained=absent.pt", "there is no file 'absent.pt'"),
        ],
    )
    def test_what_is_no_source_of_weights_is_refused(self, query: str, told: str) -> None:
        with pytest.raises(InputError, match=told):
            build(f"timm:test_resnet?{query}", num_classes=3)


@pytest.mark.usefixtures("timm")
def test_timm_is_asked_for_its_own_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def create(name: str, **settings: Any) -> nn.Module:
        asked.append({"name": name, **settings})
        return nn.Linear(3, 5)

    monkeypatch.setattr(FakeTimm, "create_model", create)
    build("timm:resnet10t?pretrained", num_classes=5)
    assert asked == [{"name": "resnet10t", "num_classes": 5, "in_chans": 3, "pretrained": True}]
