"""Patterns do what `re` does, on short texts and long ones, and a hostile text cannot keep them busy."""

from __future__ import annotations

import re

import pytest

from oomdoctor import patterns
from oomdoctor.patterns import LONG, AnyOf, late

# Tries every way to split the run of letters before it gives up: with `re`, longer than anybody waits.
HOSTILE = r"(?:a+)+!"
BAIT = "a" * LONG + "b!"


@pytest.mark.parametrize("filler", ["", "." * LONG])
def test_short_and_long_texts_give_what_re_gives(filler: str) -> None:
    text = f"{filler}pid=12, pid=345"
    pattern = r"pid=(\d{1,9})"
    found = late(pattern).search(text)
    assert found is not None
    expected = re.search(pattern, text)
    assert expected is not None
    assert (found[0], found[1], found.span()) == (expected[0], expected[1], expected.span())
    assert [m[1] for m in late(pattern).finditer(text)] == ["12", "345"]
    assert late(pattern).findall(text) == ["12", "345"]
    assert late(pattern).match(text, len(filler)) is not None
    assert (late(pattern).match(text) is None) == bool(filler)
    assert late(pattern).fullmatch(text) is None


def test_flags_count_on_both_sides_of_the_border() -> None:
    for text in ("OOM", "." * LONG + "OOM"):
        assert late("oom", re.IGNORECASE).search(text)
        assert late("oom").search(text) is None


def test_a_hostile_text_does_not_match_instead_of_taking_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "PATIENCE", 0.05)
    assert late(HOSTILE).search(BAIT) is None
    assert late(HOSTILE).match(BAIT) is None
    assert late(HOSTILE).fullmatch(BAIT) is None
    assert list(late(HOSTILE).finditer(BAIT)) == []
    assert late(HOSTILE).findall(BAIT) == []


def test_the_pattern_and_what_is_rarely_used_are_there() -> None:
    assert late("a b").pattern == "a b"
    assert late(r"\s+").split("a  b") == ["a", "b"]
    assert late(r"\d").sub("#", "a1b2") == "a#b#"


def test_a_pattern_is_compiled_when_it_is_first_used() -> None:
    lazy = late(r"(?P<n>\d+) gib", re.IGNORECASE)
    assert "search" not in vars(lazy)
    found = lazy.search("12 GiB")
    assert found is not None
    assert found["n"] == "12"
    assert "search" in vars(lazy)
    assert lazy.groupindex == {"n": 1}
    with pytest.raises(re.error):
        late("(").search("")


ALTERNATIVES = (r"\bkilled\b", r"kill\w*", r"(?:pid|PID) \d", r"\d+ killed", r"x*")


@pytest.mark.parametrize(
    "text", ["", "pid 7 killed", "7 killed by PID 8", "killing pid 9", "skill", "PID x", "unkilled 3"]
)
@pytest.mark.parametrize("count", range(1, len(ALTERNATIVES) + 1))
def test_any_of_them_is_the_match_of_all_in_one(text: str, count: int) -> None:
    wanted = re.search("|".join(ALTERNATIVES[:count]), text)
    found = AnyOf(*ALTERNATIVES[:count]).search(text)
    assert (found and (found.span(), found.re.pattern)) == (
        wanted and (wanted.span(), first_of(text, wanted.start(), count))
    )


def first_of(text: str, start: int, count: int) -> str:
    return next(one for one in ALTERNATIVES[:count] if re.compile(one).match(text, start))
