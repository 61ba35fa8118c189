"""Printed configurations as flat settings: Namespace(...), nested dicts, JSON, dataclass reprs, bare keyword lists.

One pass over tokens, nothing is evaluated, and what is cut or foreign ends the reading without spoiling what stands
before it: dumps in logs are often truncated or have other processes' lines inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct, field

from oomdoctor.job.model import Value
from oomdoctor.patterns import late
from oomdoctor.units import LARGEST_NUMBER

TEXT_CAP = 200
LIST_CAP = 80
DEPTH = 24

_TOKEN = late(
    r"""(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"""|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<sign>[,:=])|(?P<word>[^\s'"()\[\]{},:=]+)|(?P<quote>['"])""",
    re.DOTALL,
)
_INT = late(r"[+-]?\d{1,18}\Z")
_FLOAT = late(r"[+-]?(?:\d{1,30}\.\d{0,30}|\.\d{1,30}|\d{1,30})(?:[eE][+-]?\d{1,3})?\Z")
_WORDS: dict[str, Value] = {"true": True, "false": False, "none": None, "null": None}
_UNREAD = object()


def typed(word: str) -> Value:
    """The value that an unquoted word stands for."""
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if _INT.match(word):
        return int(word)
    if _FLOAT.match(word) and abs(number := float(word)) <= LARGEST_NUMBER:
        return number
    return word[:TEXT_CAP]


class Entry(Struct, frozen=True):
    """One name and value of a dump, with the place of the name in the text."""

    name: str
    value: Value
    offset: int


class _Frame(Struct):
    bracket: str
    path: tuple[str, ...]
    begin: int
    silent: bool  # inside a list: names there would collide
    word: str = ""  # what may turn out to be a name
    word_at: int = 0
    key: str | None = None
    key_at: int = 0
    value: object = _UNREAD
    strings: list[str] = field(default_factory=list)

    def entry(self) -> Entry | None:
        if self.key is None or self.value is _UNREAD or self.silent:
            return None
        value = self.value
        assert isinstance(value, str | int | float | bool) or value is None
        return Entry(".".join((*self.path, self.key)), value, self.key_at)

    def reset(self) -> None:
        self.word, self.key, self.value = "", None, _UNREAD
        self.strings.clear()

    def take(self, token: re.Match[str]) -> None:
        if token.lastgroup == "string":
            self._take_string(token[0][1:-1], token.start())
        elif token.lastgroup == "word":
            self._take_word(token[0], token.start())
        elif token.lastgroup == "sign" and self.key is None and self.word:
            self.key, self.key_at = self.word, self.word_at

    def _take_string(self, text: str, at: int) -> None:
        if self.key is None:
            self.word, self.word_at = text, at
            return
        # pprint breaks long strings in pieces that stand one after the other
        self.strings.append(text)
        self.value = "".join(self.strings)[:TEXT_CAP]

    def _take_word(self, word: str, at: int) -> None:
        if self.key is None:
            self.word, self.word_at = word, at
        elif self.value is _UNREAD:
            self.value = typed(word)


def entries(text: str, start: int = 0, *, bare: bool = False) -> Iterator[Entry]:
    """The settings of the dump whose first bracket is the next one after `start`.

    `bare` reads `a=1, b='x', ...` without a bracket around it, up to the end of the text.
    """
    stack = [_Frame("(", (), start, False)] if bare else []
    for token in _TOKEN.finditer(text, start):
        kind = token.lastgroup
        if kind == "quote":  # a string that never ends: the dump is cut
            return
        if kind == "open":
            if len(stack) >= DEPTH:
                return
            stack.append(_open(token[0], token.start(), stack[-1] if stack else None))
        elif kind == "close" and stack:
            closed = stack.pop()
            yield from _read(closed)
            if not stack:
                return
            _close(closed, stack[-1], text[closed.begin : token.end()])
        elif stack and token[0] == ",":
            yield from _read(stack[-1])
        elif stack:
            stack[-1].take(token)
    for frame in reversed(stack):
        yield from _read(frame)


def _open(bracket: str, at: int, parent: _Frame | None) -> _Frame:
    if parent is None:
        return _Frame(bracket, (), at, False)
    parent.value = _UNREAD  # what stood there was the class name: Namespace, ServerArgs
    parent.strings.clear()
    path = (*parent.path, parent.key) if parent.key is not None else parent.path
    return _Frame(bracket, path, at, parent.silent or bracket == "[" or parent.key is None)


def _close(closed: _Frame, parent: _Frame, text: str) -> None:
    if closed.bracket == "[" and parent.key is not None and len(text) <= LIST_CAP:
        parent.value = text


def _read(frame: _Frame) -> Iterator[Entry]:
    entry = frame.entry()
    frame.reset()
    if entry is not None:
        yield entry


def strings(text: str, start: int = 0) -> Iterator[tuple[str, int]]:
    """The quoted strings of a printed list, each with its place, up to the list's end."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token.lastgroup == "quote":
            return
        if token.lastgroup == "string":
            yield token[0][1:-1], token.start()
        elif token.lastgroup == "open":
            depth += 1
        elif token.lastgroup == "close":
            depth -= 1
            if depth <= 0:
                return
