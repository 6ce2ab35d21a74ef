from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from gradlex.errors import InputError
from gradlex.models import build

NETS = """
import functools
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes, in_channels=3):
        super().__init__()
        self.layer = nn.Conv2d(in_channels, num_classes, 1)
    def forward(self, x):
        return self.layer(x).mean(dim=(2, 3))

def both(num_classes, in_channels):
    return Net(num_classes, in_channels)

def classes_only(*, num_classes):
    return nn.Linear(4, num_classes)

def neither():
    return nn.Linear(4, 9)

def wide(num_classes, width):
    return nn.Linear(int(8 * width), num_classes)

def anything(**settings):
    net = nn.Identity()
    net.settings = settings
    return net

bound = functools.partial(both, in_channels=7)
built = nn.Linear(2, 2)
number = 3

def a_list(num_classes):
    return [num_classes]

def broken(num_classes):
    raise ZeroDivisionError("no layers left")

def lazy():
    import beside_nets
    return beside_nets.net()
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Write modules into a fresh current folder; forget them afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    before = set(sys.modules)

    def write(path: str, text: str) -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    write("nets.py", NETS)
    yield write
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"nets", "beside_nets", "folder", "bad"}:
            del sys.modules[name]


@pytest.mark.usefixtures("write")
class TestFactories:
    def test_a_factory_of_the_current_folder_gets_classes_and_channels(self) -> None:
        model = build("nets:both", num_classes=5, in_channels=2)
        assert model(torch.zeros(3, 2, 8, 8)).shape == (3, 5)

    def test_a_class_is_a_factory(self) -> None:
        assert build("nets:Net", num_classes=5)(torch.zeros(3, 3, 8, 8)).shape == (3, 5)

    def test_what_a_partial_has_bound_is_still_the_data_s_to_say(self) -> None:
        assert build("nets:bound", num_classes=5, in_channels=2)(torch.zeros(3, 2, 8, 8)).shape == (3, 5)

    def test_a_factory_gets_only_what_its_signature_names(self) -> None:
        assert build("nets:classes_only", num_classes=5, in_channels=2)(torch.zeros(1, 4)).shape == (1, 5)
        assert build("nets:neither", num_classes=5, in_channels=2)(torch.zeros(1, 4)).shape == (1, 9)

    def test_a_factory_that_takes_anything_gets_what_differs_from_the_defaults(self) -> None:
        assert build("nets:anything", num_classes=5).settings == {"num_classes": 5}
        model = build("nets:anything", num_classes=5, in_channels=1, width=0.5)
        assert model.settings == {"num_classes": 5, "in_channels": 1, "width": 0.5}

    def test_a_width_goes_to_a_factory_that_names_it(self) -> None:
        assert build("nets:wide", num_classes=5, width=0.5)(torch.zeros(1, 4)).shape == (1, 5)
        assert build("nets:wide", num_classes=5)(torch.zeros(1, 8)).shape == (1, 5)

    def test_a_width_is_refused_for_a_factory_without_it(self) -> None:
        with pytest.raises(InputError, match=r"'nets:both' takes no width, got width 0\.5: leave it at 1\.0"):
            build("nets:both", num_classes=5, width=0.5)

    def test_a_missing_factory_is_refused_with_the_nearest(self) -> None:
        with pytest.raises(
            InputError, match=r"nets \(from .*nets\.py\) has no 'boht'\. Did you mean 'both'\?"
        ):
            build("nets:boht", num_classes=5)

    def test_a_missing_module_is_refused_with_where_it_was_sought(self) -> None:
        with pytest.raises(InputError, match="no module 'absent_nets', neither installed nor in") as caught:
            build("absent_nets:both", num_classes=5)
        assert os.getcwd() in str(caught.value)

    def test_a_missing_package_above_the_module_is_refused_by_its_own_name(self) -> None:
        with pytest.raises(InputError, match="no module 'absent', neither"):
            build("absent.nets:both", num_classes=5)

    def test_a_file_name_is_refused_with_the_cure(self) -> None:
        with pytest.raises(InputError, match=r"no module 'nets\.py'.*leave out \.py"):
            build("nets.py:both", num_classes=5)

    @pytest.mark.parametrize(
        "name", [":", "nets:", ":both", "a:b:c", "./nets.py:both", ".nets:both", "ne ts:f"]
    )
    def test_a_name_of_another_form_is_refused(self, name: str) -> None:
        with pytest.raises(InputError, match=r"is not of the form package\.module:name"):
            build(name, num_classes=5)

    def test_a_network_already_built_is_refused(self) -> None:
        with pytest.raises(InputError, match="'nets:built' is a network already built: give a function"):
            build("nets:built", num_classes=5)

    def test_what_cannot_be_called_is_refused(self) -> None:
        with pytest.raises(InputError, match="'nets:number' is a int: give a function"):
            build("nets:number", num_classes=5)

    def test_a_factory_that_returns_no_module_is_refused_with_what_it_returned(self) -> None:
        with pytest.raises(InputError, match=r"nets:a_list\(num_classes=5\) returned \[5\], a list"):
            build("nets:a_list", num_classes=5)

    def test_an_error_inside_the_factory_is_named_and_chained(self) -> None:
        message = r"nets:broken\(num_classes=5\) failed: ZeroDivisionError: no layers left"
        with pytest.raises(InputError, match=message) as caught:
            build("nets:broken", num_classes=5)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.usefixtures("write")
class TestImportPath:
    def test_the_current_folder_stays_on_the_path_once_a_network_came_from_it(self) -> None:
        before = list(sys.path)
        build("nets:both", num_classes=5)
        assert sys.path == [os.getcwd(), *before]
        build("nets:Net", num_classes=5)
        assert sys.path == [os.getcwd(), *before]

    @pytest.mark.parametrize("name", ["absent_nets:both", "torch.nn:Identity"])
    def test_the_path_is_left_as_it_was_when_nothing_came_from_the_folder(self, name: str) -> None:
        before = list(sys.path)
        with contextlib.suppress(InputError):
            build(name, num_classes=5)
        assert sys.path == before

    def test_a_spawned_process_can_unpickle_a_network_of_the_current_folder(self) -> None:
        with torch.device("cpu"):
            model = build("nets:Net", num_classes=5)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply(parameter_names, (model,)) == ["layer.weight", "layer.bias"]


def parameter_names(model: nn.Module) -> list[str]:
    """Computed in another process."""
    return [name for name, _ in model.named_parameters()]


def test_a_folder_of_modules_without_init_is_found_and_stays_on_the_path(
    write: Callable[[str, str], None],
) -> None:
    write("folder/inner.py", "from torch import nn\nmake = nn.Identity\n")
    build("folder.inner:make", num_classes=5)
    assert sys.path[0] == os.getcwd()


def test_a_factory_may_import_its_neighbour_when_called(write: Callable[[str, str], None]) -> None:
    write("beside_nets.py", "from torch import nn\nnet = nn.Identity\n")
    assert isinstance(build("nets:lazy", num_classes=5), nn.Identity)


def test_a_module_inside_a_package_is_found(write: Callable[[str, str], None]) -> None:
    write("folder/__init__.py", "")
    write(
        "folder/inner.py", "from torch import nn\ndef make(num_classes): return nn.Linear(2, num_classes)\n"
    )
    assert build("folder.inner:make", num_classes=5)(torch.zeros(1, 2)).shape == (1, 5)


def test_an_import_path_that_holds_the_folder_already_is_not_touched(
    write: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("bad.py", "import sys\nfrom torch import nn\nPATH = list(sys.path)\nmake = nn.Identity\n")
    monkeypatch.syspath_prepend(os.getcwd())
    build("bad:make", num_classes=5)
    assert sys.path == sys.modules["bad"].PATH


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("import absent_dependency", "importing bad failed: No module named 'absent_dependency'"),
        (
            "from torch import absent_name",
            "importing bad failed: ImportError: cannot import name 'absent_name'",
        ),
        ("1 / 0", "importing bad failed: ZeroDivisionError: division by zero"),
        ("def make(:", "importing bad failed: SyntaxError: "),
    ],
)
def test_an_error_while_importing_the_users_module_is_named_and_chained(
    write: Callable[[str, str], None], text: str, cause: str
) -> None:
    write("bad.py", text)
    with pytest.raises(InputError, match=cause) as caught:
        build("bad:make", num_classes=5)
    assert caught.value.__cause__ is not None


def test_torchvisions_own_factories_work_on_colour_images() -> None:
    with torch.device("meta"):
        model = build("torchvision.models:squeezenet1_1", num_classes=5)
        assert model(torch.zeros(1, 3, 64, 64)).shape == (1, 5)
