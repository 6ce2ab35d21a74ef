"""Pages in a real browser: nothing is loaded, nothing fails, every chart is drawn and can be read in every way."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from gradlex.report import write_experiment_page, write_run_page

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip install '.[dev]')")
axe = pytest.importorskip("axe_core_python", reason="needs axe-core-python (pip install '.[dev]')")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt-get install chromium")

_spec = importlib.util.spec_from_file_location("pages", Path(__file__).with_name("pages.py"))
pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pages)

DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def run_page(tmp_path_factory):
    return write_run_page(pages.train(tmp_path_factory.mktemp("run") / "digits"))


@pytest.fixture(scope="module")
def experiment_page(make_experiment, tmp_path_factory):
    seeds = {"sgd": [68.0, 67.2], "sgd-matched": [71.0, 70.1], "lexicase": [70.3, None]}
    plan = make_experiment(tmp_path_factory.mktemp("experiment"), "compare", seeds)
    return write_experiment_page(plan.root)[0]


@pytest.fixture(params=["run", "experiment"])
def page_file(request):
    return request.getfixturevalue(f"{request.param}_page")


@pytest.fixture
def look(browser):
    """Opens a file; fails the test at the end if anything was requested or went wrong."""
    contexts, wrong = [], []

    def opened(path, *, size=DESKTOP, scheme="light"):
        context = browser.new_context(viewport=size, color_scheme=scheme)
        context.set_default_timeout(300_000)  # a busy machine may take long
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: request.url == path.as_uri() or wrong.append(request.url))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [each for each in wrong if not each.startswith("data:image/png;base64,")] == []


def test_every_chart_is_drawn(page_file, look):
    page = look(page_file)
    drawn = page.evaluate(
        """() => [...document.querySelectorAll("figure.chart")].map((figure) => {
            const box = figure.querySelector("svg").getBoundingClientRect();
            const paths = [...figure.querySelectorAll("svg path:not(.grid)")];
            return [Math.min(box.width, box.height), paths.map((path) => {
                const style = getComputedStyle(path);
                return [path.getAttribute("d"), style.stroke, parseFloat(style.strokeWidth)];
            })];
        })"""
    )
    assert len(drawn) >= 2
    for size, paths in drawn:
        assert size > 100
        assert paths
        for path, stroke, width in paths:
            assert path.startswith("M")
            assert "NaN" not in path
            assert stroke.startswith("rgb")
            assert width > 1
    pictures = page.evaluate("() => [...document.images].map((image) => image.naturalWidth)")
    assert all(pictures)


def test_a_pointer_shows_the_numbers_of_a_point(page_file, look):
    page = look(page_file)
    for plot in page.locator(".plot").all():
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.5 * box["height"])
        assert plot.locator(".tip").is_visible()
        assert any(character.isdigit() for character in plot.locator(".tip").inner_text())
    page.mouse.move(0, 0)
    assert page.locator(".plot .tip:visible").count() == 0


def test_the_arrow_keys_walk_along_a_chart(run_page, look):
    page = look(run_page)
    walk = page.locator(".walk").first
    walk.focus()
    last = walk.get_attribute("aria-valuetext")
    assert last.startswith("generation 6: test ")
    page.keyboard.press("ArrowLeft")
    assert walk.get_attribute("aria-valuetext").startswith("generation 4: test ")
    assert page.locator(".plot").first.locator(".tip").is_visible()


def test_a_seed_of_an_experiment_links_to_its_run(experiment_page, look):
    page = look(experiment_page)
    point = page.locator("a.point").first
    point.scroll_into_view_if_needed()
    point.hover()
    assert page.locator("figure.intervals > .tip:visible").inner_text().startswith("seed 0: ")
    for address in page.evaluate("() => [...document.links].map((link) => link.href)"):
        if not address.startswith(f"{experiment_page.as_uri()}#"):
            assert Path(address.removeprefix("file://")).exists()


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_a_page_is_accessible_and_fits_the_screen(page_file, look, size, scheme):
    page = look(page_file, size=size, scheme=scheme)
    width = page.evaluate("() => document.documentElement.scrollWidth")
    assert width <= size["width"]
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("() => axe.run()")
    told = [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]]
    assert told == []
    assert len(found["passes"]) > 15


def test_a_page_without_scripts_still_shows_its_charts_and_tables(run_page, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(run_page.as_uri())
    assert page.locator("svg path.line").first.is_visible()
    page.locator("figure.chart summary").first.click()
    assert page.locator("figure.chart table").first.is_visible()
    context.close()


def test_a_page_can_be_printed(page_file, look):
    page = look(page_file)
    assert page.pdf().startswith(b"%PDF")
