"""What the documentation says is true: its code and commands run, and its links lead somewhere."""

import doctest
import importlib
import io
import re
import runpy
import shlex
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from gradlex.cli import main
from gradlex.cli.flags import COMMANDS, parse

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!`)\]\(([^)\s]+)\)")
NAMES = runpy.run_path(str(DOCS / "reference.py"))["NAMES"]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, str]]:
    """The code blocks of a page: their language, and their text with continued lines joined."""
    return [(kind, text.replace("\\\n", " ")) for kind, text in BLOCK.findall(page.read_text("utf-8"))]


def commands(page: Path) -> list[list[str]]:
    """The words of each call of gradlex in a page's blocks without a language."""
    lines = [line for kind, text in blocks(page) if kind == "" for line in re.split(r"\n|&&", text)]
    found = [shlex.split(line.partition(" > ")[0], comments=True) for line in lines]
    return [words[1:] for words in found if words[:1] == ["gradlex"]]


def anchors(page: Path) -> set[str]:
    """The ids of a page's headings and, of the API, its names."""
    text = page.read_text("utf-8")
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", text), re.MULTILINE)
    plain = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
    return plain | set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_pages_and_headings_that_exist(page: Path) -> None:
    missing = []
    for link in LINK.findall(BLOCK.sub("", page.read_text("utf-8"))):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if "://" not in link and (not target.exists() or (anchor and anchor not in anchors(target))):
            missing.append(link)
    assert missing == []


def words_of(*pages: Path) -> int:
    return sum(len(page.read_text("utf-8").split()) for page in pages)


def test_the_documentation_is_short() -> None:
    assert words_of(ROOT / "README.md") <= 450
    assert words_of(*PAGES, *DOCS.glob("notebooks/*.py")) <= 14_000


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name_of)
def test_every_command_on_a_page_is_one_that_the_program_understands(page: Path) -> None:
    for words in commands(page):
        parse(words)  # exits where a flag or a value is wrong
    assert set(re.findall(r"`gradlex (\w+)", page.read_text("utf-8"))) <= set(COMMANDS)


def run_python(page: Path, namespace: dict[str, object]) -> None:
    """Run the Python blocks of a page, one after another."""
    for kind, text in blocks(page):
        if kind == "python":
            exec(compile(text, str(page), "exec"), namespace)  # the page's own


def test_the_snippets_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y)
    model = torch.nn.Linear(64, 10)

    def train(model: torch.nn.Module, part: torch.utils.data.Subset, optimizer: torch.optim.Optimizer) -> None:
        for images, labels in torch.utils.data.DataLoader(part, batch_size=20, shuffle=True):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()

    namespace: dict[str, object] = {
        **{"x": x, "y": y, "model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)},
        **{"train": train, "train_set": torch.utils.data.TensorDataset(x, y), "epochs": 6},
        **{"Subset": torch.utils.data.Subset, "gradlex": importlib.import_module("gradlex")},
    }
    run_python(ROOT / "README.md", namespace)
    assert (model(x).argmax(1) == y).float().mean() > 0.85
    assert np.bincount(namespace["parents"], minlength=3).min() > 150


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the pages take for granted: an archive, photos, tables."""
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (80, 32, 32, 3), dtype=np.uint8), np.arange(80) % 4
    np.savez(tmp_path / "mine.npz", x_train=images, y_train=labels, x_test=images[:20], y_test=labels[:20])
    for number, part in enumerate(["train/cat", "train/dog", "test/cat", "test/dog"]):
        (tmp_path / "photos" / part).mkdir(parents=True)
        for index in range(8):
            Image.fromarray(images[8 * number + index]).save(tmp_path / "photos" / part / f"{index}.png")
    homes = pd.DataFrame({"area": range(60), "kind": ["flat", "house"] * 30, "price": [3.5 * n for n in range(60)]})
    homes.to_csv(tmp_path / "homes.csv", index=False)
    homes.drop(columns="price").to_csv(tmp_path / "new.csv", index=False)
    for name, value in {"MASTER_ADDR": "localhost", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)  # for the page that makes a process group
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shortened(words: list[str]) -> list[str]:
    """A command of a page, on data that is here and for seconds."""
    text = shlex.join(words).replace("cifar10", "mine.npz").replace("--workers 4", "")
    text = re.sub(r"--epochs \d+", "--epochs 3", text)
    if words[0] in ("compare", "paper") and "--commands" not in words:
        text += " --commands"  # tests/cli and tests/experiments run whole ones
    if words[0] == "train" and "--epochs" not in words:
        text += " --epochs 2"
    if words[0] == "train" and "--out" not in words:
        text += " --out runs/unnamed"
    return shlex.split(text.replace("--backend ray", ""))


def quick(page: Path) -> bool:
    return not commands(page) and page.name != "compare.md"


WITH_CODE = [page for page in PAGES if commands(page) or any(kind == "python" for kind, _ in blocks(page))]


@pytest.mark.filterwarnings("default")  # other libraries warn of their own affairs
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[] if quick(page) else pytest.mark.slow) for page in WITH_CODE if page.parent == DOCS],
    ids=name_of,
)
def test_the_code_and_commands_of_a_page_run_from_top_to_bottom(page: Path, desk: Path) -> None:
    torch.set_num_threads(1)
    try:
        for words in commands(page):
            if "resnet18" not in words:
                main(shortened(words))
        run_python(page, {"__name__": "page"})
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_the_commands_of_the_readme_run(desk: Path, capfd: pytest.CaptureFixture[str]) -> None:
    short = {"train": ["--epochs", "2"], "compare": ["--epochs", "1"]}
    for words in commands(ROOT / "README.md"):
        main([*words, *short[words[0]]])
    assert "SGD with as many samples" in capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("notebook", sorted(DOCS.glob("notebooks/*.py")), ids=name_of)
def test_a_notebook_runs(notebook: Path, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matplotlib.use("Agg")
    runpy.run_path(str(notebook))
    assert capsys.readouterr().out


def test_the_page_of_the_own_loop_shows_the_lines_that_the_example_changes() -> None:
    (diff,) = [text for kind, text in blocks(DOCS / "own-loop.md") if kind == "diff"]
    for sign, name in (("+", "plain_loop"), ("-", "plain_loop_before")):
        shown = [line[1:] for line in diff.splitlines() if line.startswith(sign)]
        lines = (ROOT / "examples" / f"{name}.py").read_text("utf-8").splitlines()
        assert [line for line in shown if line not in lines] == []
    assert sum(line[0] in "+-" for line in diff.splitlines()) == 6


def test_the_figure_of_a_generation_is_what_its_script_draws() -> None:
    drawn = runpy.run_path(str(DOCS / "figures" / "generation.py"))["draw"]()
    assert drawn == (DOCS / "figures" / "generation.svg").read_text("utf-8")
    assert "A copy that fails a case is out." in drawn


def test_the_reference_shows_every_public_name_once() -> None:
    text = "".join(page.read_text("utf-8") for page in DOCS.glob("api/*.md"))
    text = text.replace("gradlex.evolve.", "gradlex.")  # the function, not its module
    shown = re.findall(r"^::: (\S+)$|`(gradlex\.[a-z]+\.[A-Z]+)`", text, re.MULTILINE)
    assert sorted(map("".join, shown)) == sorted(f"{room}.{name}" for room, names in NAMES.items() for name in names)


SLOW = [pytest.mark.slow]
LIBRARIES = {"gradlex.integrations.deap": "deap", "gradlex.integrations.pymoo": "pymoo"}
OBJECTS = [(room, name) for room, names in NAMES.items() for name in names if not name.isupper()]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("room", "name"),
    [
        pytest.param(*each, marks=[pytest.mark.slow] if each[1] in ("compare", "LexicaseClassifier") else [])
        for each in OBJECTS
    ],
)
def test_the_examples_of_a_public_name_are_true(room: str, name: str, desk: Path) -> None:
    pytest.importorskip(LIBRARIES.get(room, "numpy"))
    found = getattr(importlib.import_module(room), name)
    for test in doctest.DocTestFinder(exclude_empty=True).find(found, name, globs={}):
        said = io.StringIO()
        doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(test, out=said.write)
        assert said.getvalue() == ""


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("<p>| a | b | | --- | --- |</p>", "a table"),
        ("<details>**bold**</details>", "bold text"),
        ("<p>[here](there.md)</p>", "a link"),
        ("<p>```python</p>", "code"),
    ],
)
def test_raw_markdown_on_a_built_page_is_found(content: str, kind: str, tmp_path: Path) -> None:
    faults = runpy.run_path(str(DOCS / "check_site.py"))["faults"]
    page = tmp_path / "index.html"
    page.write_text(f'<link rel="icon"><div class="md-content">{content}<pre>**this** is code</pre></div>')
    assert [kind in fault for fault in faults(page)] == [True]
    page.write_text('<link rel="icon"><div class="md-content"><p>words</p><pre>**this** is code</pre></div>')
    assert faults(page) == []
