"""The page of a run and the page of an experiment: one file with what matters on top, the same bytes every time."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from gradlex import Recipe
from gradlex.errors import InputError
from gradlex.report import summary, write_experiment_page, write_run_page
from gradlex.report.figures import COLORS, VERDICTS, color_of, line_of


class Page(HTMLParser):
    """What a page shows: its text outside and inside of folded parts, its tags, its addresses."""

    def __init__(self, path):
        super().__init__()
        self.stack, self.tags, self.addresses, self.images = [], [], [], []
        self.shown, self.folded = "", ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in ("meta", "img", "path", "use", "rect"):
            self.stack.append(tag)
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "style"):
                self.addresses.append(value)
            if tag == "img" and name == "src":
                self.images.append(value)

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop() != tag:
            pass

    def handle_data(self, data):
        if "style" in self.stack:
            return
        if "details" in self.stack and "summary" not in self.stack:
            self.folded += data
        else:
            self.shown += data


def svgs(path):
    return re.findall(r"<svg.*?</svg>", path.read_text(encoding="utf-8"), re.DOTALL)


def test_the_page_of_an_experiment_starts_with_the_plot_and_a_sentence_for_each_comparison(experiment):
    path = write_experiment_page(experiment)
    page = Page(path)
    assert path == experiment / "report.html"
    before = path.read_text().split("<details>")[0]
    assert before.index("<svg") < before.index("<p>Worse: lexicase 61.5%, SGD with as many samples 63.5%.")
    assert "<p>Better: lexicase 61.5%, SGD 60.4%." in before
    assert "-2.05  worse" in before
    assert page.tags.count("details") == 6
    assert "Results and cost" in page.shown
    assert "critical path, thousands" in page.folded
    assert "critical path" not in page.shown


def test_the_page_of_a_run_shows_what_it_reached_and_how_selection_went(experiment):
    page = Page(write_run_page(experiment / "lexicase" / "seed0"))
    for words in ("lexicase: mlp on moons", "61.0%", "Finished after four generations.", "1 min 30 s"):
        assert words in page.shown
    assert "How four selections ended: one left 100%." in page.shown
    assert "training loss: mean and range of the candidates" in page.shown
    assert "epochs: 4" in page.folded
    assert "epochs: 4" not in page.shown


def test_a_run_without_selection_says_so(experiment):
    page = Page(write_run_page(experiment / "sgd" / "seed0"))
    assert "Each generation had one candidate: plain SGD, with nothing to select." in page.shown
    assert "cases used" not in page.shown


@pytest.mark.parametrize("write", [write_run_page, write_experiment_page])
def test_a_page_made_again_has_the_same_bytes(experiment, tmp_path, write):
    folder = experiment if write is write_experiment_page else experiment / "lexicase" / "seed0"
    first, again = write(folder, tmp_path / "a.html"), write(folder, tmp_path / "b.html")
    assert first.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("write", [write_run_page, write_experiment_page])
def test_a_page_loads_nothing_and_runs_nothing(experiment, write):
    page = Page(write(experiment if write is write_experiment_page else experiment / "lexicase" / "seed0"))
    assert {"script", "link", "iframe"}.isdisjoint(page.tags)
    assert [each for each in page.addresses if "//" in each or "url(" in each.replace("url(#", "")] == []


HOSTILE = '<script>alert(1)</script>$x_1$ & "quoted" {{ 7 * 7 }}'


def test_names_from_outside_are_text_on_a_page(tmp_path, make_experiment, make_run):
    folder = make_experiment(
        tmp_path / "e",
        {"sgd": [0.5, 0.6], "a<b": [0.6, 0.7]},
        pairs=[("a<b", "sgd")],
        title=HOSTILE,
        setting=HOSTILE,
        note=HOSTILE,
        command=HOSTILE,
    )
    run = make_run(
        tmp_path / "run",
        0.5,
        model={"name": HOSTILE},
        recipe={"selection": HOSTILE},
        data={"name": HOSTILE},
        environment={HOSTILE: HOSTILE},
    )
    for path in (write_experiment_page(folder), write_run_page(run)):
        page = Page(path)
        assert "script" not in page.tags
        assert HOSTILE in page.shown
    assert "a<b minus SGD" in Page(folder / "report.html").shown


def test_a_name_that_matplotlib_has_no_glyphs_for_gives_no_warning(tmp_path, make_experiment):
    folder = make_experiment(
        tmp_path / "e", {"sgd": [0.5, 0.6], "\u65b9\u6cd5": [0.6, 0.7]}, pairs=[("\u65b9\u6cd5", "sgd")]
    )
    assert "\u65b9\u6cd5 minus SGD" in Page(write_experiment_page(folder)).shown  # a warning is an error in tests


def test_a_user_s_own_matplotlib_settings_change_nothing(experiment, tmp_path):
    import matplotlib as mpl

    first = write_experiment_page(experiment, tmp_path / "a.html").read_bytes()
    with mpl.rc_context({"lines.linewidth": 9, "font.size": 20, "svg.fonttype": "path", "axes.facecolor": "red"}):
        assert write_experiment_page(experiment, tmp_path / "b.html").read_bytes() == first


def test_figures_have_no_background_and_text_that_follows_the_page(experiment):
    for drawing in svgs(write_experiment_page(experiment)):
        assert "<text" in drawing
        assert "#ffffff" not in drawing
        assert "fill: #000000" not in drawing


def test_every_method_has_one_color_and_none_has_that_of_an_answer():
    assert color_of("sgd") == color_of("sgd-matched") == COLORS["sgd"]
    assert color_of("branched-average") == color_of("average")
    assert line_of("lexicase") == line_of("branched-lexicase") == "-" != line_of("lexicase-survive")
    assert len({*COLORS.values(), *VERDICTS.values()}) == len(COLORS) + len(VERDICTS)
    others = {color_of(name) for name in ("mine", "yours", "theirs", "adamw", "x", "y", "z")}
    assert others <= set(COLORS.values()) - {COLORS["sgd"]}


def test_curves_keep_the_color_of_their_method(experiment):
    page = write_experiment_page(experiment).read_text()
    drawing = page[page.index("Learning curves") :]
    assert drawing.count(f"stroke: {COLORS['sgd']}") >= 2
    assert f"stroke: {COLORS['lexicase']}" in drawing
    assert not any(color in drawing for color in VERDICTS.values())


def test_ticks_of_samples_are_plain_numbers(experiment):
    for path in experiment.glob("*/*/result.json"):
        path.write_text(path.read_text().replace("4000", "40000000000"))
    texts = re.findall(r"<text[^>]*>(.*?)</text>", "".join(svgs(write_experiment_page(experiment))))
    assert "40,000,000" in texts
    assert [text for text in texts if re.search(r"\de[+\d]", text)] == []


@pytest.mark.parametrize(
    "losses", [[2.5, 0.4, 0.03], [0.9, 0.85, 0.8], [1e-7, 1e3], [0.0, 0.0], [-1.5, 2.0], [None, 0.5], [None, None]]
)
def test_any_losses_are_drawn_with_plain_numbers(tmp_path, make_run, make_generation, losses):
    lines = [make_generation(number, losses=[loss] * 4) for number, loss in enumerate(losses, start=1)]
    page = write_run_page(make_run(tmp_path / "run", 0.9, lines=lines))
    texts = re.findall(r"<text[^>]*>(.*?)</text>", svgs(page)[0])
    assert len([text for text in texts if re.search(r"\d", text)]) >= 4
    assert [text for text in texts if "$" in text] == []


def saturated(make_generation, last, first_exhausted):
    return [
        make_generation(number, reason="exhausted" if number >= first_exhausted else "sole_survivor")
        for number in range(1, last + 1)
    ]


def test_a_saturated_run_says_so(tmp_path, make_run, make_generation):
    run = make_run(tmp_path / "run", 1.0, lines=saturated(make_generation, 20, first_exhausted=9))
    flat = make_run(tmp_path / "flat", 1.0, lines=saturated(make_generation, 20, first_exhausted=1))
    late = make_run(tmp_path / "late", 1.0, lines=saturated(make_generation, 20, first_exhausted=20))
    shown = {each.name: Page(write_run_page(each)).shown for each in (run, flat, late)}
    assert "Saturated from generation 9 on" in shown["run"]
    assert "Saturated from generation 1 on" in shown["flat"]
    assert "Saturated" not in shown["late"]


def test_the_cases_that_eliminated_most_candidates_come_first(tmp_path, make_run, make_generation):
    lines = [
        make_generation(1, survivors=[[2, [0, 1]], [9, [1]]], deciding=[5, 8]),
        make_generation(2, survivors=[[4, [1]]], deciding=[5]),
        make_generation(3, survivors=[[4, [1, 2]]], deciding=[8, 11], reason="all_failed"),
        make_generation(4, survivors=[], deciding=[11], reason="all_failed"),
    ]
    run = make_run(tmp_path / "run", 0.9, lines=lines)
    page = re.sub(r"\s+", " ", Page(write_run_page(run)).shown)
    first, second = page.split("Cases that decided most in the second half")
    assert "5 eliminated case 5" in first.replace("eliminatedcase", "eliminated case")
    assert "1 eliminated case 8" in first.replace("eliminatedcase", "eliminated case")
    assert "2 eliminatedcase 8" in second.replace(" case", "case")
    assert "all failed it 2xcase 11" in second.replace(" case 11", "case 11")
    assert "eliminated: 5 (5), 8 (3)." in summary(run).replace("\n", " ")


def test_a_candidate_that_diverged_is_eliminated_by_no_case(tmp_path, make_run, make_generation):
    line = make_generation(1, survivors=[[4, [1]]], deciding=[7], losses=[0.5, None, 0.4, 0.3])
    assert "they eliminated: 7 (2)." in summary(make_run(tmp_path / "run", 0.9, lines=[line])).replace("\n", " ")


def test_decisive_cases_are_pictures_where_the_data_is_found_again(tmp_path, make_run, make_generation):
    from PIL import Image

    from gradlex.data import prepare

    parts = prepare(None, Recipe(dataset="digits"))
    lines = [make_generation(1, survivors=[[4, [1]]], deciding=[17])]
    recipe = {"dataset": "digits"}
    data = {"name": "digits", "fingerprint": parts.fingerprint}
    run = make_run(tmp_path / "run", 0.9, lines=lines, recipe=recipe, data=data)
    page = Page(write_run_page(run))
    (address,) = page.images
    content = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    inputs, targets = parts.train.clean(np.array([17]))
    picture = np.asarray(Image.open(io.BytesIO(content)), dtype=float)
    expected = inputs[0, 0].numpy().astype(float)
    assert np.corrcoef(picture.ravel(), expected.ravel())[0, 1] > 0.999
    assert f">{int(targets[0])}</strong>" in (run / "report.html").read_text()
    other = make_run(tmp_path / "other", 0.9, lines=lines, recipe=recipe, data={"fingerprint": "other"})
    assert Page(write_run_page(other)).images == []


def test_a_page_of_what_is_no_run_or_experiment_is_an_error(tmp_path, make_run):
    with pytest.raises(InputError, match=r"run\.json cannot be read"):
        write_run_page(tmp_path)
    with pytest.raises(InputError, match=r"has no experiment\.json"):
        write_experiment_page(tmp_path)
    with pytest.raises(InputError, match="neither a run nor an experiment"):
        summary(tmp_path)
    with pytest.raises(InputError, match="has no generation yet"):
        write_run_page(make_run(tmp_path / "new", 0.5, lines=[], finished=False))


def test_a_summary_fits_80_columns(experiment, tmp_path, make_run):
    long = make_run(tmp_path / "long", 0.5, model={"name": "m" * 70}, data={"name": "d" * 30})
    for path in (experiment, experiment / "lexicase" / "seed0", experiment / "sgd" / "seed0", long):
        assert max(map(len, summary(path).splitlines())) <= 80


def test_the_summary_of_one_method_starts_with_its_results(tmp_path, make_experiment):
    folder = make_experiment(tmp_path / "e", {"lexicase": [0.5, 0.6]})
    assert summary(folder).startswith("Does it help?\n\nResults and cost\n")


def test_a_summary_shows_nothing_in_a_notebook_until_it_is_printed(experiment, monkeypatch):
    shown = []
    notebook = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setattr("builtins.get_ipython", lambda: notebook, raising=False)
    monkeypatch.setattr("rich.jupyter.display", lambda *given: shown.append(given))
    assert "Results and cost" in summary(experiment)
    assert shown == []


def test_a_summary_says_how_far_an_unfinished_run_is(tmp_path, make_run, make_generation):
    run = make_run(tmp_path / "run", 0.5, lines=[make_generation(1), make_generation(2)], finished=False)
    assert "Not finished: 2 of four generations." in summary(run)
