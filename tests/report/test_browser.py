"""Pages in a real browser: they fit every screen, load nothing, and can be read in the dark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gradlex.report import write_experiment_page, write_run_page

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WITHOUT = pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt-get install chromium")
pytestmark = [pytest.mark.slow, WITHOUT]

RESULTS = Path(__file__).parents[2] / "results"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module", params=["run", "experiment"])
def page_file(request, tmp_path_factory):
    file = tmp_path_factory.mktemp("pages") / "page.html"
    if request.param == "run":
        return write_run_page(RESULTS / "paper" / "lexicase" / "seed0", file)
    return write_experiment_page(RESULTS / "paper", file)


@pytest.fixture
def look(browser, page_file):
    contexts, wrong = [], []

    def opened(size, scheme="light"):
        context = browser.new_context(viewport=size, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("request", lambda request: request.url == page_file.as_uri() or wrong.append(request.url))
        page.goto(page_file.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def unfold(page):
    page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true })")


def test_a_page_is_at_most_6000_pixels_tall_on_a_desktop(look):
    page = look(DESKTOP)
    heights = [page.evaluate("() => document.documentElement.scrollHeight")]
    unfold(page)
    heights.append(page.evaluate("() => document.documentElement.scrollHeight"))
    assert heights[0] < heights[1] <= 6000


@pytest.mark.parametrize("folded", [True, False])
def test_a_phone_scrolls_a_page_in_one_direction_only(look, folded):
    page = look(PHONE)
    if not folded:
        unfold(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    drawn = "() => [...document.querySelectorAll('svg')]"
    widths = page.evaluate(f"{drawn}.map((each) => each.getBoundingClientRect().width)")
    assert widths
    assert max(widths) <= 390


def test_text_of_figures_follows_the_page_in_the_dark(look):
    colors = "() => [...document.querySelectorAll('svg text, h1')].map((each) => getComputedStyle(each)"
    for scheme in ("light", "dark"):
        page = look(DESKTOP, scheme)
        found = page.evaluate(f"{colors}[each.localName === 'h1' ? 'color' : 'fill'])")
        assert len(found) > 5
        assert len(set(found)) == 1


def test_text_of_figures_can_be_read_on_a_phone(look):
    page = look(PHONE)
    heights = page.evaluate(
        "() => [...document.querySelectorAll('figure svg text')].map((each) => each.getBoundingClientRect().height)"
    )
    assert min(heights) >= 9


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_page_is_accessible(look, size, scheme):
    axe = pytest.importorskip("axe_core_python", reason="needs axe-core-python")
    page = look(size, scheme)
    unfold(page)
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("() => axe.run()")
    assert [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]] == []
    assert len(found["passes"]) > 10
