"""What redaction reads is what a terminal shows, and what a file holds."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomdoctor.redaction import Redactor
from oomdoctor.redaction.views import shown
from oomdoctor.text import disarm

TOKEN = "hf_" + "abcdefGHIJKLmnopQRSTuvwxYZ01234567"
EMOJI = "\ufe0f"  # a terminal gets it; it takes no room
ESC = "\x1b"


def at_a_terminal(text: str) -> str:
    return disarm(text).replace(EMOJI, "").replace("\ufffd", "?")


def as_read(text: str) -> str:
    view = shown(text)
    assert [view.start(at) for at in range(len(view.text))] == sorted(view.start(at) for at in range(len(view.text)))
    return "".join("?" if "\ud800" <= letter <= "\udfff" or letter == "\ufffd" else letter for letter in view.text)


@pytest.mark.slow
def test_no_character_is_shown_by_one_and_left_out_by_the_other() -> None:
    for first in range(0, sys.maxunicode + 1, 0x1000):
        text = "".join(f"a{chr(code)}b\n" for code in range(first, first + 0x1000) if code not in (0x1B, 0x9B))
        assert as_read(text) == at_a_terminal(text), hex(first)


@given(
    st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\x1b\x9b[]PX^_\\;0?m()78c\x07\x9c\x0b\x0c\u034f\n")))
)
def test_no_sequence_is_shown_by_one_and_left_out_by_the_other(text: str) -> None:
    if not any(sign in text for sign in ("^[[", "#033[", "\\")):  # sequences that are written out
        assert as_read(text) == at_a_terminal(text)


@pytest.mark.parametrize(
    "between",
    [
        *("\u034f", "\ufe00", "\ufe0e", EMOJI, "\u3164", "\u115f", "\U000e0041", "\U000e0101", "\U0001d173"),
        "\u061c",
        *(
            f"{ESC}Pq#0{ESC}\\",
            f"{ESC}_x{ESC}\\",
            f"{ESC}^x\x07",
            f"{ESC}Xx\x9c",
            f"{ESC}]0;x\x07",
            "\x9b31m",
            f"{ESC}%G",
        ),
        *(f"{ESC}[31m", "^[[31m", "\\u001b[31m", "\x0c", "\x0b", "\u2028", "\x85", "\x00", "\xad"),
    ],
)
def test_nothing_of_a_token_is_left_that_a_terminal_joins(between: str) -> None:
    text = f"with {between.join((TOKEN[:9], TOKEN[9:20], TOKEN[20:]))} now\n"
    assert Redactor().text(text) == "with <TOKEN hf> now\n"
    assert Redactor().text(f"x{between}\n{text}") == f"x{between}\nwith <TOKEN hf> now\n"


@pytest.mark.parametrize("before", ["\x0c", "\x0b", "\x85", "\u2028"])
def test_what_begins_behind_another_end_of_a_line_is_one(before: str) -> None:
    assert Redactor().text(f"page{before}{TOKEN}\n") == f"page{before}<TOKEN hf>\n"


@pytest.mark.parametrize(
    ("text", "out"),
    [
        (f"{ESC}]0;{TOKEN}\x07step 1\n", f"{ESC}]0;<TOKEN hf>\x07step 1\n"),
        (f"{ESC}P{TOKEN}\nstep 1\n", f"{ESC}P<TOKEN hf>\nstep 1\n"),
        (
            f"{ESC}]8;;http://10.0.0.3/?api_key=abcdef1234567890{ESC}\\here{ESC}]8;;{ESC}\\ now\n",
            f"{ESC}]8;;http://10.0.0.3/?api_key=<SECRET>{ESC}\\here{ESC}]8;;{ESC}\\ now\n",
        ),
        (f"a{ESC}[1m{ESC}]0;/home/mireille/x\x07b\n", f"a{ESC}[1m{ESC}]0;/home/<USER-1>/x\x07b\n"),
    ],
)
def test_what_a_title_or_a_link_hides_goes_too(text: str, out: str) -> None:
    assert Redactor().text(text) == out


@pytest.mark.parametrize(
    "text",
    [
        f"{ESC}]0;training step 3\x07{ESC}[32mloss 0.25{ESC}[0m\n",
        f"{ESC}]8;;file:///data/train.py{ESC}\\train.py{ESC}]8;;{ESC}\\:12\n",
        "⚠\ufe0f 12.5 GiB of 80 GiB ✔\ufe0e\npage 1\x0cpage 2\u2028page 3\n",
        "hf_\u034ftransfer hf\x0c_abcdef\n",
        "a\x1b\nb\x9b\nc\x1b[\n",
    ],
)
def test_other_texts_with_signs_stay_as_they_are(text: str) -> None:
    assert Redactor().text(text) == text
