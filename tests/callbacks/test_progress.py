from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gradlex import Record
from gradlex.callbacks import Progress
from gradlex.callbacks.callback import LiveRun

Make = Callable[..., Record]
Live = Callable[..., LiveRun]


def watch(run: LiveRun, records: list[Record]) -> None:
    progress = Progress()
    progress.on_start(run)
    for record in records:
        progress.on_generation(record, run)
    progress.on_end(run)


def shown(capsys: pytest.CaptureFixture[str]) -> tuple[str, list[str]]:
    """The header, and the lines below the titles."""
    header, _, table = capsys.readouterr().out.partition("\n\n")
    return header, table.splitlines()[1:]


def test_a_short_run_leaves_a_line_for_each_generation(
    live: Live, record: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    watch(live(epochs=5), [record(number) for number in range(1, 6)])
    _, lines = shown(capsys)
    assert [line.split()[0] for line in lines] == ["1/5", "2/5", "3/5", "4/5", "5/5"]
    assert lines[0].endswith("1: one left after 13 cases")


@pytest.mark.parametrize("epochs", [39, 40, 41, 60, 100, 333, 1000])
@pytest.mark.parametrize("every", [1, 3, 7, 1000])
def test_a_long_run_leaves_20_to_41_lines(
    live: Live, record: Make, capsys: pytest.CaptureFixture[str], epochs: int, every: int
) -> None:
    metrics = {"test": {"accuracy": 0.9}}
    records = [record(n, metrics=metrics if n % every == 0 else {}) for n in range(1, epochs + 1)]
    watch(live(epochs=epochs, parts=("test",)), records)
    _, lines = shown(capsys)
    assert 20 <= len(lines) <= 41
    assert lines[-1].split()[0] == f"{epochs}/{epochs}"


def test_metrics_stand_below_their_part_in_per_cent(
    live: Live, record: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = {"validation": {"accuracy": 0.975}, "test": {"accuracy": 0.5}}
    watch(live(parts=("validation", "test")), [record(metrics=metrics)])
    titles, line = capsys.readouterr().out.splitlines()[-2:]
    assert titles.split() == ["generation", "loss", "val", "accuracy", "test", "accuracy", "parent"]
    assert line[: titles.index("val accuracy") + len("val accuracy")].endswith(" 97.5%")
    assert line[: titles.index("test accuracy") + len("test accuracy")].endswith(" 50.0%")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reason": "all_failed", "cases_used": 1}, "1: all failed after 1 case"),
        ({"reason": "exhausted", "cases_used": 1437}, "1: tied on all 1,437 cases"),
        ({"reason": "best_mean", "cases_used": 100}, "1: best mean of 100 cases"),
        ({"reason": "random", "cases_used": 0}, "1: random"),
        ({"reason": "average", "weights": (0.5, 0.5)}, "average of 2"),
        ({"losses": (0.5,), "chosen": 0, "weights": (1,), "reason": "only_candidate"}, "0.5000"),
        ({"losses": (0.5, None)}, "diverged  1: one left after 13 cases"),
    ],
)
def test_a_line_says_how_the_parent_was_selected(
    live: Live, record: Make, capsys: pytest.CaptureFixture[str], changes: dict[str, object], words: str
) -> None:
    watch(live(), [record(**changes)])
    assert shown(capsys)[1][-1].rstrip().endswith(f"  {words}")


def test_the_header_says_what_a_generation_is_worth_and_where_the_run_is(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    watch(live(path=tmp_path / "runs" / "mine", parts=("validation", "test")), [])
    assert shown(capsys)[0].splitlines() == [
        "lexicase with 4 candidates: auto on digits, 100 samples",
        "5 epochs, batches of 10, float32 on CPU with 1 thread",
        "A generation moves the parent by 3 steps; an epoch of SGD takes 10.",
        "Folder: runs/mine",
    ]


def test_plain_sgd_has_no_candidates_to_speak_of(live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    watch(live(selection="sgd"), [])
    header, _ = shown(capsys)
    assert header.startswith("sgd: auto on digits")
    assert "candidates" not in header
    assert "moves the parent" not in header


def test_every_line_fits_80_columns(
    live: Live, record: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    metrics = {"validation": {"accuracy": 1.0}, "test": {"accuracy": 1.0}}
    records = [record(n, metrics=metrics, reason="exhausted", cases_used=50_000) for n in range(1, 1001)]
    run = live(
        epochs=1000,
        parts=("validation", "test"),
        selection="downsampled-lexicase(share=0.1)",
        model="efficientnetb0",
    )
    watch(run, records)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_resumed_run_goes_on_after_the_last_generation(
    live: Live, record: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    run = live(epochs=100)
    run.history.extend(record(n) for n in range(1, 51))
    watch(run, [record(n) for n in range(51, 101)])
    first = shown(capsys)[1][0]
    assert int(re.match(r" *(\d+)/100", first)[1]) > 51  # type: ignore[index]


def test_a_terminal_gets_a_bar_below_the_lines_that_stay(
    live: Live, record: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    watch(live(epochs=2), [record(1), record(2)])
    printed = capsys.readouterr().out
    assert "━" in printed  # the bar
    assert "\x1b[2K" in printed.partition("2/2")[2]  # its line is cleared at the end
    assert "1: one left after 13 cases" in printed
