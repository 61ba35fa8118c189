"""Lines that are a known message but for a word: swapped for another, left out, or put in.

`wordings.txt` holds the first lines of the messages of all fixtures, and lines that look like them and tell of no
failure. A line that nobody reads is compared with them word by word. Where all but one place agrees, and what is
different there does not carry the meaning, the line is read again with the known words in that place: its family then
finds the figures, too. The words that say what ran out, and every "no", "not" and "if", have to agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import cache, lru_cache
from heapq import nlargest
from operator import itemgetter
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from oomdoctor.patterns import late

WORDINGS: Final = Path(__file__).parent / "wordings.txt"
TABLE: Final = WORDINGS.with_suffix(".json")
NO_FAILURE: Final = "-"
LONGEST: Final = 300  # characters of a line that are compared
FEWEST: Final = 3  # words that agree
AGREEMENT: Final = 0.6  # of the words of both
SWAPPED: Final = 2  # words of the known message that may be other ones
PUT_IN: Final = 6  # words that may stand in between
CLOSEST: Final = 12  # messages with the most words in common are compared
CANDIDATES: Final = 60  # of which some have a part of a name in common instead

_WORD = late(r"[A-Za-z]+(?:'[a-z]{1,2})?")
_DIGIT = late(r"\d")
_PART_OF_A_NAME = late(r"[\w./-]{0,80}[\d/_][\w./-]{0,80}|\w+(?:\.\w+)+|\w{25,}")
# What a message is about. It has to be there, as itself or as one of these.
_TELLING: Final = {
    word: frozenset(others.split()) | {word}
    for word, others in {
        "memory": "mem ram vram storage", "oom": "", "outofmemory": "", "heap": "", "swap": "", "shared": "",
        "allocate": "reserve obtain get", "allocation": "reservation request", "alloc": "malloc", "pinned": "locked",
        "cache": "store pool", "blocks": "pages", "block": "page", "space": "room storage", "disk": "drive",
        "killed": "", "sigkill": "", "kill": "", "unexpectedly": "suddenly", "store": "storage",
        "exhausted": "depleted full", "full": "exhausted", "capacity": "size", "limit": "cap bound",
        "exceeded": "", "exceed": "", "larger": "bigger greater", "less": "lower smaller",
        "gpu": "device card accelerator", "gpus": "devices cards", "cpu": "host", "available": "free left",
        "free": "available", "argument": "", "algorithm": "",
    }.items()
}  # fmt: skip
_ABOUT: Final = frozenset().union(*_TELLING.values())
# Words that turn the meaning, on either side
_TURNS: Final = frozenset(
    ("no", "not", "non", "none", "never", "neither", "nor", "nothing", "without", "rather", "instead", "longer",
     "nearly", "almost", "formerly", "previously", "expected", "simulated", "fake", "mock", "test", "example", "if",
     "when", "unless", "until", "would", "should", "may", "might", "could", "can", "able", "avoid", "prevent", "retry",
     "retrying", "skip", "skipping", "skipped", "ignored", "ignoring", "recovered", "resolved", "fixed", "fits", "fine",
     "ok", "kept", "sufficient", "plenty", "empty", "smaller", "passed", "managed", "success", "successfully",
     "succeeded", "succeeds", "isn't", "wasn't", "aren't", "weren't", "don't", "didn't", "doesn't", "hasn't")
)  # fmt: skip


Places = dict[str, list[int]]  # by a word, the lines of the file that it is in


class Wording(Struct, frozen=True):
    family: str
    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]


class Likeness(Struct, frozen=True):
    family: str
    text: str  # the line with the known words in the place that differs
    known: str  # the message that it is like


class Compared(Struct, frozen=True):
    agreement: float  # the part of the words that both have
    known: Wording
    place: tuple[int, int] | None = None  # the words that differ: the first, and the one behind the last
    there: str = ""  # what the known message has there


def likeness(line: str) -> Likeness | None:
    """The known message that the line is but for one place; None where there is none, or one that tells of no failure
    is as near."""
    given = wording("", line[:LONGEST])
    if len(given.words) < FEWEST or _ABOUT.isdisjoint(given.words):
        return None
    found = _likest(given.words, cut=len(given.text) == LONGEST)
    if found is None or found.known.family == NO_FAILURE:
        return None
    return Likeness(found.known.family, _as_known(given, found) + line[LONGEST:], found.known.text)


def comparable(known: Wording) -> bool:
    """Whether a message has enough words, and one that says what it is about."""
    return len(known.words) >= FEWEST and not _TELLING.keys().isdisjoint(known.words)


def wording(family: str, text: str) -> Wording:
    """The text with its words: those of the language, not names of files, of variables and of versions."""
    names = [match.span() for match in _PART_OF_A_NAME.finditer(text)]
    words, spans = [], []
    for match in _WORD.finditer(text):
        while names and names[0][1] <= match.start():
            names.pop(0)
        if not names or match.end() <= names[0][0]:
            words.append(match[0].lower())
            spans.append(match.span())
    return Wording(family, text, tuple(words), tuple(spans))


@lru_cache(1024)  # a program repeats itself, with other figures
def _likest(words: tuple[str, ...], *, cut: bool) -> Compared | None:
    """The known message that most of these words are of; `cut` says that the line has more of them."""
    found = [compared for known in _near(words) if (compared := _compared(words, known, cut=cut))]
    return max(found, key=lambda one: (one.agreement, one.known.family == NO_FAILURE), default=None)


def _compared(words: tuple[str, ...], known: Wording, *, cut: bool) -> Compared | None:
    """The words beside the known ones; None where more than one place differs, or the meaning."""
    codes = SequenceMatcher(None, words, known.words, autojunk=False).get_opcodes()
    if codes[-1][0] != "equal" and (cut or len(known.text) == LONGEST):
        codes.pop()  # one of the two is cut there
    places = [code for code in codes if code[0] != "equal"]
    same = sum(code[2] - code[1] for code in codes if code[0] == "equal")
    agreement = 2 * same / (sum(code[2] - code[1] + code[4] - code[3] for code in codes) or 1)
    if same < FEWEST or agreement < AGREEMENT or len(places) > 1:
        return None
    if not places:
        return Compared(agreement, known)
    _, first, last, known_first, known_last = places[0]
    if not _means_the_same(words[first:last], known.words[known_first:known_last]):
        return None
    there = _between(known, known_first, known_last)
    if _DIGIT.search(there):
        return None  # figures of another log
    return Compared(agreement, known, (first, last), there)


def _as_known(given: Wording, found: Compared) -> str:
    """The text with the known words in the place that differs."""
    if found.place is None:
        return given.text
    start, end = _edges(given, *found.place)
    return given.text[:start] + found.there + given.text[end:]


def _means_the_same(given: Sequence[str], known: Sequence[str]) -> bool:
    if len(known) > SWAPPED or len(given) > PUT_IN or _TURNS.intersection((*given, *known)):
        return False
    return all(_TELLING[word].intersection(given) for word in known if word in _TELLING)


def _between(known: Wording, first: int, last: int) -> str:
    start, end = _edges(known, first, last)
    return known.text[start:end]


def _edges(it: Wording, first: int, last: int) -> tuple[int, int]:
    """From the end of the word before to the beginning of the word behind."""
    start = it.spans[first - 1][1] if first else 0
    end = it.spans[last][0] if last < len(it.spans) else len(it.text)
    return start, end


def _near(words: tuple[str, ...]) -> Iterable[Wording]:
    """The messages with the most words in common."""
    lines, places, given = _lines(), _places(), set(words)
    common: Counter[int] = Counter()
    for word in dict.fromkeys(words):
        common.update(places.get(word, ()))
    read: list[tuple[int, Wording]] = []
    for line, most in common.most_common(CANDIDATES):
        if sum(has >= most for has, _ in read) >= CLOSEST:
            break  # none of the others has more
        one = _read(lines[line])
        read.append((len(given.intersection(one.words)), one))
    return [one for _, one in nlargest(CLOSEST, read, key=itemgetter(0))]


@cache
def _lines() -> list[str]:
    lines = WORDINGS.read_text(encoding="utf-8").splitlines()
    return list(dict.fromkeys(line for line in lines if not line.startswith("#")))


@cache
def _places() -> Places:
    """From the table that a wheel brings along, which takes a tenth of the time."""
    return msgspec.json.decode(TABLE.read_bytes(), type=Places) if TABLE.is_file() else _indexed()


def written() -> bytes:
    """The table, as the wheel has it."""
    return msgspec.json.encode(_indexed())


def _indexed() -> Places:
    """The lines by their words and by the parts of their names, which are told apart in candidates only."""
    places: Places = {}
    for place, line in enumerate(_lines()):
        for word in sorted({*_WORD.findall(line.partition("\t")[2].lower())}):
            places.setdefault(word, []).append(place)
    return places


@cache
def _read(line: str) -> Wording:
    family, _, text = line.partition("\t")
    return wording(family, text)


__all__ = ["NO_FAILURE", "TABLE", "WORDINGS", "Likeness", "comparable", "likeness", "wording", "written"]
