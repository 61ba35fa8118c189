"""A pattern matches no text that holds none of the words that it needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oomdoctor import needed, wheel
from oomdoctor.needed import MOST, MOST_TEXTS, Needed, worked_out
from oomdoctor.patterns import LONG, late

Known = Callable[..., bytes]
TOP = Path(__file__).parent.parent
LINES = sorted(
    {line for path in TOP.glob("fixtures/*/*.log") for line in path.read_text("utf-8", "replace").split("\n")}
)

# None where a text may match without any word that could be looked for.
PATTERNS: dict[str, tuple[str, ...] | None] = {
    # optional, repeated, one of several
    r"killed?": ("kille",),
    r"(?:out of )?memory": ("memory",),
    r"(?:out of )?m?": None,
    r"\w+": None,
    r"(?:out of )*": None,
    r"(?:out of )+\d": ("out of ",),
    r"(?:ab){2,3}": ("abab",),
    r"(?:ab){0,3}c": None,
    r"(?:ab){0,3}cd": ("cd",),
    r"(?:ab){9}": ("ab",),
    r"died|killed": ("died", "killed"),
    r"died|killed|\d": None,
    r"died|": None,
    r"(?:GPU|CUDA) memory": ("CUDA memory", "GPU memory"),
    r"(?:GPU|CUDA) \d": ("CUDA ", "GPU "),
    r"[Kk]illed": ("Killed", "killed"),
    r"[Kk]\d": None,
    r"[^K]illed": ("illed",),
    r"[a-k]illed": ("illed",),
    # what says nothing of the text itself
    r"(?!raise )Error": ("Error",),
    r"(?!Error)": None,
    r"(?<!Error)": None,
    r"(?<!Not)Error": ("Error",),
    r"(?=Error)\w": ("Error",),
    r"(?<=Error)\w": ("Error",),
    r"(?=Error)?\w": None,
    r"^ab\Bcd$": ("abcd",),
    r"(ab|c)\1": None,
    r"(?P<x>ab)?(?(x)cd|ef)": None,
    # parts that stand behind each other, the longest of them, the fewest
    r"at \d+ bytes": (" bytes",),
    r"ab.cdef": ("cdef",),
    r"(?:aaa|bbb).cdef": ("cdef",),
    r"killed.*(?:memory|process)": ("killed",),
    # in letters of either case
    r"(?i)Killed": ("killed",),
    r"(?i:Killed)": ("killed",),
    r"(?i:Killed) BY": (" BY",),
    r"x(?i:Killed)": ("xkilled",),
    r"(?i:Killed)|DIED": ("died", "killed"),
    r"(?i)(?-i:Killed)": ("killed",),
    r"(?i:größe)": None,
    r"größe": ("größe",),
    r"(?i:größe) of": (" of",),
    # many
    "|".join(f"{n:02}word" for n in range(MOST)): tuple(f"{n:02}word" for n in range(MOST)),
    "|".join(f"{n:02}word" for n in range(MOST + 1)): None,
    "(?:ab|cd|ef|gh|ij)(?:ab|cd|ef|gh|ij)": ("ab", "cd", "ef", "gh", "ij"),
}


@pytest.mark.parametrize(("pattern", "words"), PATTERNS.items())
def test_the_words_that_a_pattern_needs(pattern: str, words: tuple[str, ...] | None) -> None:
    found = worked_out(pattern, 0)
    assert (found and found.words) == words
    assert MOST_TEXTS < 25  # as in the last row, whose pieces together stand for 25 texts


def test_a_flag_counts_as_what_stands_in_the_pattern_does() -> None:
    assert worked_out("Killed", 0) == Needed(("Killed",))
    assert worked_out("Killed", re.IGNORECASE) == worked_out("(?i)Killed", 0) == Needed(("killed",), small=True)
    assert worked_out("K i l l e d  # by whom", re.VERBOSE) == Needed(("Killed",))


@pytest.mark.parametrize("pattern", [pattern for pattern, words in PATTERNS.items() if words])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_matches_holds_one(pattern: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(pattern))
    assert re.search(pattern, text)
    assert late(pattern).search(text)


@pytest.mark.parametrize("every", [25, pytest.param(1, marks=pytest.mark.slow)])
def test_no_pattern_matches_a_line_without_its_words(every: int) -> None:
    patterns = sorted(set(wheel._patterns()))
    assert len(patterns) > 1000
    lines = [(line, line.lower()) for line in LINES[::every] if len(line) < LONG]
    missed = []
    for pattern, flags in patterns[::every]:
        if words := worked_out(pattern, flags):
            search = re.compile(pattern, flags).search
            missed += [
                (pattern, line)
                for line, small in lines
                if not any(word in (small if words.small else line) for word in words.words)
                and (line.isascii() or not words.small)
                and search(line)
            ]
    assert missed == []


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Known]:
    """Makes a table of these patterns, as a wheel has one; a checkout has none."""

    def write(*patterns: tuple[str, int]) -> bytes:
        table = tmp_path / "needed.json"
        table.write_bytes(needed.written(patterns))
        monkeypatch.setattr(needed, "TABLE", table)
        needed._table.cache_clear()
        return table.read_bytes()

    yield write
    needed._table.cache_clear()


@pytest.mark.parametrize(
    ("pattern", "text", "other"),
    [("Killed", "was Killed", "was killed"), ("(?i)killed", "was KILLED", "was KILL"), (r"(?i)\bk", "K", "x")],
)
def test_each_method_answers_as_res_does_with_a_word_and_without(
    pattern: str, text: str, other: str, known: Known
) -> None:
    known((pattern, 0))
    asked, plain = late(pattern), re.compile(pattern)
    for given_text in (other, text, other):
        assert [m.span() for m in asked.finditer(given_text)] == [m.span() for m in plain.finditer(given_text)]
        assert asked.findall(given_text) == plain.findall(given_text)
        for method in ("search", "match", "fullmatch"):
            one, another = getattr(asked, method)(given_text), getattr(plain, method)(given_text)
            assert (one and one.span()) == (another and another.span())


def test_a_letter_beyond_ascii_may_be_what_a_small_one_is_for(known: Known) -> None:
    known(("(?i)kelvin", 0), ("(?i)sum", 0))
    assert late("(?i)kelvin").search("\u212aelvin")
    assert late("(?i)sum").search("\u017fum")


def test_a_pattern_is_not_compiled_for_texts_without_its_words(known: Known) -> None:
    known((r"killed (\d+)", 0))
    asked = late(r"killed (\d+)")
    assert asked.search("nothing here") is None
    assert "_compiled" not in vars(asked)
    assert asked.search("killed 12")
    assert "_compiled" in vars(asked)


def test_bytes_are_searched_as_they_are() -> None:
    assert late(rb"killed").search(b"was killed")
    assert late(rb"killed").search(b"was") is None


def test_a_wheel_has_them_and_asks_for_no_others(known: Known) -> None:
    table = known(("Killed", 0), ("died", int(re.IGNORECASE)), (r"\d", 0))
    assert table == b'{"0":{"Killed":[["Killed"],false]},"2":{"died":[["died"],true]}}'
    assert needed.needed("Killed", 0) == Needed(("Killed",))
    assert needed.needed("died", int(re.IGNORECASE)) == Needed(("died",), small=True)
    assert needed.needed("another", 0) is None
