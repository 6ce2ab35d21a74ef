"""The examples with Hugging Face's libraries: they learn, and say what they need where it is not installed."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDS = {"transformers_text_classifier.py": "transformers", "hugging_face_dataset.py": "datasets"}


@pytest.mark.parametrize(
    "example",
    # transformers alone takes ten seconds to import
    [pytest.param(name, marks=pytest.mark.slow if "transformers" in name else ()) for name in NEEDS],
)
def test_the_example_learns(example, python, tmp_path):
    if importlib.util.find_spec(NEEDS[example]) is None:
        pytest.skip(f"needs {NEEDS[example]}: pip install 'gradlex[huggingface]'")
    done = python(str(EXAMPLES / example), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    accuracy = re.search(r"test accuracy ([\d.]+)%", done.stdout)
    assert accuracy is not None, done.stdout
    assert float(accuracy[1]) > 90


@pytest.mark.parametrize("example", NEEDS)
def test_without_its_library_the_example_says_what_to_install(example, python, tmp_path):
    without = f"import runpy, sys; sys.modules[{NEEDS[example]!r}] = None; runpy.run_path(sys.argv[1])"
    done = python("-c", without, str(EXAMPLES / example), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout == f"skipped: this example needs {NEEDS[example]}: pip install 'gradlex[huggingface]'\n"
    )
