"""What a collector puts before every line of a traceback, whatever it is, and behind it.

Nobody can list what stands in front of lines. What stands alike in front of a frame's head and of the next one is such
a margin; where it differs, it does so in words that hold a digit: a time, a number, a pid. What all of these lines end
with alike is its other side: the border of a box, the rest of a JSON record.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from oomdoctor.patterns import late

SIGNS: Final = ("File ", "Traceback (", ".py:")
WIDEST: Final = 160  # characters of a margin
NEAR: Final = 20  # lines from one frame's head to the next
BEHIND: Final = 12  # lines that an exception's text may take behind the last frame
MOST: Final = 6  # margins of one page
LETTERS: Final = 3  # from which on a margin is known anywhere in the page, not only beside a traceback
LINES: Final = 3  # that have to end alike

# A frame's head, with what JSON and CSV make of its quotes; that of pytest and rich; the head of a traceback
_FRAME = late(
    r'File \\{0,3}"{1,2}[^"\n]{1,400}"{1,2}, line \d{1,7},? in [\w.<>]{1,200}'
    r"|(?<!\S)[^\s:\"]{1,200}\.py:\d{1,7}:? in [\w.<>]{1,200}"
)
_HEAD = late(r"Traceback \(most recent call (?:last|first)\):?")
_TOKEN = re.compile(r"(?P<word>[0-9A-Za-z]*[0-9][0-9A-Za-z]*)|(?P<blank>\s+)|[^\W\d_]+|.", re.DOTALL)
_A_WORD, _A_BLANK = "0", " "
_PATTERNS = {_A_WORD: re.compile("[0-9A-Za-z]+"), _A_BLANK: re.compile(r"\s+")}
_PATH = re.compile(r"[/~.]|[A-Za-z]:\\")
_RETURNS = 2  # of a word to a value that it had before: then it is no time and no number, but whose line it is

_Form = tuple[str, ...]


class Bare(Struct, frozen=True):
    """A line without its margin, and what the margin says of its writer."""

    text: str
    writer: str


class _Mark(Struct, frozen=True):
    """Where a line shows a traceback."""

    index: int
    start: int
    end: int
    frame: bool


class _Cut(Struct, frozen=True):
    """A line's margin: up to where it goes, and its words that differ from line to line."""

    end: int
    words: tuple[str, ...]


def margins(texts: Sequence[str]) -> Mapping[int, Bare]:
    """The lines that have a margin, by their indexes, each without it."""
    bare: dict[int, Bare] = {}
    forms = _forms(texts)
    for form in sorted(forms, key=len, reverse=True):
        everywhere = sum(character.isalpha() for token in form for character in token) >= LETTERS
        for stretch in _stretches(forms[form]):
            cuts = dict(_beside(form, stretch, texts))
            side = _Side(texts, cuts, stretch)
            for index, cut in _cuts(form, texts, range(len(texts))) if everywhere else cuts.items():
                if index not in bare:
                    bare[index] = side.without(texts[index], cut)
            if everywhere:
                break
    return bare


def _form(text: str) -> _Form:
    """The margin's words and signs; what is no word with a digit and no blank stands as it is."""
    form: list[str] = []
    for m in _TOKEN.finditer(text):
        if m["word"] or m["blank"]:
            form.append(_A_WORD if m["word"] else _A_BLANK)
        elif form and form[-1] not in (_A_WORD, _A_BLANK):
            form[-1] += m[0]
        else:
            form.append(m[0])
    return tuple(form)


def _cut(form: _Form, text: str) -> _Cut | None:
    """The margin of this form, where the text begins with one."""
    at = _blanks(text)
    words = []
    for token in form:
        pattern = _PATTERNS.get(token)
        if pattern is None:
            if not text.startswith(token, at):
                return None
            at += len(token)
            continue
        match = pattern.match(text, at, at + WIDEST)
        if match is None:
            return None
        at = match.end()
        if token == _A_WORD:
            words.append(match[0])
    inside = form[-1][-1].isalnum() and text[at : at + 1].isalnum()
    return None if inside else _Cut(at, tuple(words))


def _cuts(form: _Form, texts: Sequence[str], indexes: range) -> Iterator[tuple[int, _Cut]]:
    for index in indexes:
        if (cut := _cut(form, texts[index])) is not None:
            yield index, cut


def _beside(form: _Form, stretch: Sequence[_Mark], texts: Sequence[str]) -> Iterator[tuple[int, _Cut]]:
    """The lines of this form from the first mark to the last, and those right behind."""
    first, last = stretch[0].index, stretch[-1].index
    yield from _cuts(form, texts, range(first, last + 1))
    for index in range(last + 1, min(last + 1 + BEHIND, len(texts))):
        cut = _cut(form, texts[index])
        if cut is None:
            return
        yield index, cut


def _forms(texts: Sequence[str]) -> dict[_Form, list[_Mark]]:
    """The marks of tracebacks, by the form of what stands before them."""
    forms: dict[_Form, list[_Mark]] = {}
    for mark in _marks(texts):
        before = texts[mark.index][: mark.start].strip()
        if before and not _PATH.match(before):
            for form in _forms_of(before, mark):
                if form in forms or len(forms) < MOST:
                    forms.setdefault(form, []).append(mark)
    return forms


def _forms_of(before: str, mark: _Mark) -> Iterator[_Form]:
    """`grep -n -A` writes a colon behind a line that matches, and a dash behind the lines below it."""
    form = _form(before)
    yield form
    if not mark.frame and form[-2:] == (_A_WORD, ":"):
        yield tuple(token.removesuffix(":") + "-" if token.endswith(":") else token for token in form)


def _marks(texts: Sequence[str]) -> Iterator[_Mark]:
    for index, text in enumerate(texts):
        if any(sign in text for sign in SIGNS):
            shown = text[: 4 * WIDEST]
            frame = _FRAME.search(shown)
            match = frame or _HEAD.search(shown)
            if match and match.start() <= WIDEST:
                yield _Mark(index, match.start(), match.end(), frame is not None)


def _stretches(marks: Sequence[_Mark]) -> Iterator[list[_Mark]]:
    """Marks that stand near one another, at least two, and not only titles."""
    stretch = [marks[0]]
    for before, mark in pairwise((*marks, _Mark(sys.maxsize, 0, 0, frame=False))):
        if mark.index - before.index > NEAR:
            if len(stretch) > 1 and any(each.frame for each in stretch):
                yield stretch
            stretch = []
        stretch.append(mark)


class _Side:
    """What the lines of a traceback have in common beside the form of their margin."""

    def __init__(self, texts: Sequence[str], cuts: Mapping[int, _Cut], stretch: Sequence[_Mark]) -> None:
        full = {index: cut for index, cut in cuts.items() if texts[index][cut.end :].strip()}
        self._indent = min((_blanks(texts[index][cut.end :]) for index, cut in full.items()), default=0)
        self._who = _who([cut.words for cut in cuts.values()])
        shown = {mark.index: mark.end for mark in stretch}
        tails = [_tail(texts[index], max(cut.end, shown.get(index, 0))) for index, cut in full.items()]
        self._close = _common(tails) if len(tails) >= LINES else ()
        self._quotes = texts[stretch[0].index][: stretch[0].start].endswith('"')

    def without(self, text: str, cut: _Cut) -> Bare:
        tail = _tail(text, cut.end)[: len(self._close)] if self._close else []
        if tail and tuple(kind for kind, _ in tail) == self._close:
            text = text[: len(text) - sum(length for _, length in tail)]
        rest = text[cut.end :]
        rest = rest[min(_blanks(rest), self._indent) :].rstrip()
        plain = rest.replace('\\"', '"').replace('""', '"') if self._quotes else rest
        return Bare(plain, " ".join(cut.words[position] for position in self._who))


def _blanks(text: str) -> int:
    return len(text) - len(text.lstrip())


def _who(lines: Sequence[tuple[str, ...]]) -> tuple[int, ...]:
    """The words by which writers come apart that print at once."""
    return tuple(n for n in range(len(lines[0])) if _returns([words[n] for words in lines]) >= _RETURNS)


def _returns(values: Sequence[str]) -> int:
    seen: set[str] = set(values[:1])
    count = 0
    for before, value in pairwise(values):
        count += value != before and value in seen
        seen.add(value)
    return count


def _tail(text: str, start: int) -> list[tuple[str, int]]:
    """The kinds of the last words and signs of a text, and their lengths, last first."""
    shown = text[max(start, len(text) - WIDEST) :]
    kinds = [(_A_WORD if m["word"] else _A_BLANK if m["blank"] else m[0], len(m[0])) for m in _TOKEN.finditer(shown)]
    return kinds[::-1]


def _common(tails: Sequence[Sequence[tuple[str, int]]]) -> _Form:
    common = []
    for kinds in zip(*tails, strict=False):
        if len({kind for kind, _ in kinds}) > 1:
            break
        common.append(kinds[0][0])
    return tuple(common)
