from __future__ import annotations

import io
import sys

import pytest

from oomdoctor.cli import out


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """In the test itself: pytest puts its own streams in place after the fixtures."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


def test_short_work_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    progress = out.progress()
    assert progress is not None
    for _ in range(1000):
        progress(1_000_000)
    progress.done()
    assert terminal.getvalue() == ""


def test_long_work_shows_progress_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(out.Progress, "PATIENCE_S", 0.0)
    progress = out.progress()
    assert progress is not None
    progress(3 * 1024**3)
    progress(4 * 1024**3)  # within the pause
    progress.done()
    assert terminal.getvalue().split("\r") == ["", "read 3.00 GiB    ", " " * 20, ""]


def test_no_progress_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert out.progress() is None
    monkeypatch.setattr(sys, "stderr", None)
    assert out.progress() is None


@pytest.mark.parametrize(
    ("choice", "environ", "color", "unicode"),
    [
        ("auto", {"TERM": "xterm"}, True, True),
        ("auto", {"TERM": "xterm", "NO_COLOR": "1"}, False, True),
        ("auto", {"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ("auto", {"TERM": "dumb"}, False, False),
        ("auto", {"TERM": "dumb", "FORCE_COLOR": "1"}, True, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": "1", "FORCE_COLOR": "1"}, False, True),
        ("never", {"TERM": "xterm", "FORCE_COLOR": "1"}, False, True),
        ("always", {"TERM": "dumb", "NO_COLOR": "1"}, True, False),
    ],
)
def test_the_look_of_a_terminal(
    monkeypatch: pytest.MonkeyPatch, choice: str, environ: dict[str, str], color: bool, unicode: bool
) -> None:
    a_terminal(monkeypatch)
    look = out.style(choice, environ=environ)
    assert (look.color, look.unicode) == (color, unicode)
    in_a_file = out.style(choice, to_file=True, environ=environ)
    assert (in_a_file.color, in_a_file.unicode) == (choice == "always", False)


@pytest.mark.parametrize(
    ("columns", "width"), [("", 100), ("132", 132), ("7", 20), ("0", 100), ("-5", 100), ("x", 100)]
)
def test_the_width(monkeypatch: pytest.MonkeyPatch, columns: str, width: int) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert out.style("auto", environ={"COLUMNS": columns}).width == width
