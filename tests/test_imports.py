"""What importing costs, and which names are public."""

import ast
import importlib
import inspect
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import gradlex

NAMES = [name for name in gradlex.__all__ if not name.startswith("_")]
ROOMS = [name for name in NAMES if inspect.ismodule(getattr(gradlex, name, None))]


@pytest.mark.parametrize("module", ["gradlex", "gradlex.selection", "gradlex.recipe", "gradlex.randomness"])
def test_these_modules_import_no_torch(module: str) -> None:
    code = f"import {module}, sys; print([name for name in ('torch', 'torchvision') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("[]", "", 0)


def test_selection_works_where_torch_is_not_installed() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import gradlex\n"
        "print(gradlex.selection.select_parents([[0, 1], [1, 1]], 3, rng=0).tolist(), gradlex.Recipe().seed)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout.strip()[-1:]) == ("", "0")


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(gradlex, name) is not None


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_that_a_room_lists_is_there(room: str) -> None:
    module = getattr(gradlex, room)
    assert module.__doc__
    assert [name for name in dir(module) if not hasattr(module, name)] == []


def test_at_most_eighty_names_are_documented_and_all_are_there() -> None:
    path = Path(__file__).parents[1] / "docs" / "reference.py"
    names = runpy.run_path(str(path))["NAMES"]
    assert sum(map(len, names.values())) <= 80
    for module in names:
        if not module.startswith("gradlex.integrations."):  # whose libraries are extras
            found = {name: getattr(importlib.import_module(module), name) for name in names[module]}
            objects = {
                name: value for name, value in found.items() if inspect.isclass(value) or inspect.isroutine(value)
            }
            undocumented = [name for name, value in objects.items() if not value.__doc__]
            generated = [name for name, value in objects.items() if (value.__doc__ or "").startswith(f"{name}(")]
            assert (module, undocumented, generated) == (module, [], [])


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_exports_documented_names_only(room: str) -> None:
    known = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "reference.py"))["NAMES"]
    file = Path(gradlex.__file__).with_name(room) / "__init__.py"
    file = file.with_suffix(".pyi") if file.with_suffix(".pyi").exists() else file
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imported = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    names = {alias.asname or alias.name for node in imported for alias in node.names} - {"Mapping"}
    assert names <= {*known["gradlex"], *known.get(f"gradlex.{room}", ())}


def test_no_two_modules_and_no_two_classes_have_one_name() -> None:
    files = [path for path in Path(gradlex.__file__).parent.rglob("*.py") if not path.stem.startswith("__")]
    classes = [
        node.name
        for path in files
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    for names in ([path.stem for path in files], classes):
        assert sorted(names) == sorted(set(names))


def test_evolve_is_the_function_and_not_its_module() -> None:
    from gradlex import evolve

    assert inspect.isgeneratorfunction(evolve)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="trian"):
        gradlex.trian
