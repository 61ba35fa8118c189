"""Lines of a report on a terminal: where they end, what stands before and behind them, in which style."""

from __future__ import annotations

import io
from contextvars import copy_context

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from oomdoctor.columns import cells
from oomdoctor.language import CHINESE, use
from oomdoctor.report.lines import Line, drawn

WORDS = "The pool of 64.00 GiB is full: loader 7 asked for 3.50 GiB"


def rows(line: Line, width: int) -> list[str]:
    return drawn([line], width=width, color=False).splitlines()


def test_what_fits_stays_in_one_row() -> None:
    assert rows(Line(((WORDS, ""),)), len(WORDS)) == [WORDS]
    assert rows(Line(((WORDS, ""),), most=1), len(WORDS)) == [WORDS]


def test_a_row_ends_at_a_word_and_is_indented() -> None:
    assert rows(Line(((WORDS, ""),), indent=2), 26) == [
        "  The pool of 64.00 GiB is", "  full: loader 7 asked for", "  3.50 GiB",
    ]  # fmt: skip


def test_one_blank_too_many_is_none() -> None:
    assert rows(Line((("asked for ", ""),)), 9) == ["asked for"]
    assert rows(Line((("asked for ", ""),)), 8) == ["asked", "for"]


def test_what_is_behind_the_last_row_is_told_by_dots() -> None:
    assert rows(Line(((WORDS, ""),), most=2), 26) == ["The pool of 64.00 GiB is", "full: loader 7 asked fo..."]


def test_what_is_to_be_copied_is_not_broken() -> None:
    assert rows(Line(((WORDS, "cyan"),), whole=True), 12) == [WORDS]


def test_a_word_that_fits_no_row_is_broken() -> None:
    assert rows(Line((("at /data/" + "a" * 12, ""),)), 8) == ["at", "/data/aa", "a" * 8, "aa"]


def test_a_tab_goes_on_to_the_next_eighth_cell() -> None:
    assert rows(Line((("4117\t301.22\tpython", ""),)), 40) == ["4117    301.22  python"]
    assert rows(Line((("PID ", "bold"), ("4117\tpython", ""))), 40) == ["PID 4117        python"]


def test_nothing_is_a_blank_line() -> None:
    assert drawn([Line(), Line()], width=20, color=True) == "\n\n"


def test_each_part_has_its_style_in_every_row() -> None:
    line = Line((("Full: ", "bold red"), ("pool of 64 GiB", ""), (" (7)", "dim")))
    assert drawn([line], width=14, color=True) == (
        "\x1b[1;31mFull: \x1b[0mpool of\n64 GiB\x1b[2m (7)\x1b[0m\n"
    )  # fmt: skip


def test_a_row_in_chinese_ends_between_two_signs() -> None:
    def told() -> list[str]:
        use(CHINESE)
        return rows(Line((("内存池已满：加载进程请求更多内存", ""),), most=2), 13)

    found = copy_context().run(told)
    assert found == ["内存池已满：", "加载进程请..."]
    assert max(map(cells, found)) <= 13


@pytest.mark.parametrize("color", [False, True])
@settings(max_examples=150, deadline=None)
@given(
    parts=st.lists(
        st.tuples(st.text("ab .内é7", max_size=24), st.sampled_from(["", "bold", "dim", "cyan"])), max_size=4
    ),
    width=st.integers(20, 40),
    indent=st.sampled_from([0, 2, 5]),
)
def test_it_draws_what_rich_does(parts: list[tuple[str, str]], width: int, indent: int, color: bool) -> None:
    text = Text()
    for part in parts:
        text.append(*part)
    canvas = io.StringIO()
    console = Console(file=canvas, width=width, force_terminal=color, color_system="standard" if color else None)
    console.print(Padding(text, (0, 0, 0, indent)))
    wanted = [line.rstrip() for line in plain(canvas.getvalue()).split("\n")[:-1]]
    found = plain(drawn([Line(tuple(parts), indent)], width=width, color=color)).split("\n")[:-1]
    assert [row for row in found if row] == [row for row in wanted if row]


def plain(text: str) -> str:
    """Without the codes, of which rich has some around blanks that nobody sees."""
    return Text.from_ansi(text, end="").plain + "\n" if "\x1b" in text else text
