"""Nothing that a terminal, an editor or a reader would obey passes the border."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomdoctor.text import disarm, sanitize

ESC = "\x1b"


@pytest.mark.parametrize(
    ("dangerous", "safe"),
    [
        (f"{ESC}[2J{ESC}[1;31mred{ESC}[0m", "red"),
        (f"a{ESC}[?1049hb", "ab"),
        (f"{ESC}]0;a title\x07text", "text"),
        (f"{ESC}]8;;http://evil.example/{ESC}\\link{ESC}]8;;{ESC}\\", "link"),
        (f"{ESC}Pq#0;2;0;0;0{ESC}\\text", "text"),
        (f"{ESC}(Btext{ESC}c", "text"),
        ("\x9b31mtext\x9d", "text"),
        ("cut off \x1b[3", "cut off "),
        ("a\x0bb\x0cc\x08\x0e\x1f\x7f", "a b c"),  # of ASCII alone
        ("a\x0bb\x0cc\x08\x0e\x1f\x7f\xe9", "a b c\xe9"),
        ("cut off \x1b", "cut off "),
        ("a\x00b\x07c\x7fd\x80e", "abcde"),
        ("\u202eyromem\u202c \u2066x\u2069", "yromem x"),
        ("o\u200bu\u200dt\ufeff of\xad mem\u2060ory", "out of memory"),
        ("a\U000e0041b", "ab"),
        ("a\U000e0101\ufe01b\u034f\u3164\u115fc\U0001d173", "abc"),
        ("a\ud800b", "a\ufffdb"),
        ("page\x0cbreak\u2028line\x85next", "page break line next"),
    ],
)
def test_what_could_be_obeyed_is_gone(dangerous: str, safe: str) -> None:
    assert disarm(dangerous) == safe


@pytest.mark.parametrize(
    "text", ["tab\there", "two\nlines", "bar\rbar", "内存 █ é 🦥 ⚠\ufe0f", "[31m not an escape", "x[0]"]
)
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert disarm(text) == text


def test_one_line_stays_one_line() -> None:
    assert sanitize("a\r\nb\nc") == "a  b c"


def test_a_long_line_is_cut_and_says_so() -> None:
    assert sanitize("x" * 50, limit=10) == "x" * 9 + "…"
    assert sanitize("x" * 10, limit=10) == "x" * 10


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\x1b[]P\\;0m\x9b\x07\u202e"))))
def test_nothing_invisible_is_left_of_any_text(text: str) -> None:
    clean = sanitize(text)
    clean.encode("utf-8")
    kept = {character for character in clean if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")}
    assert kept <= {"\t"}
    assert sanitize(clean) == clean
