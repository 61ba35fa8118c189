"""The plain part of YAML in which configurations are written: nested keys and scalars, each with its line.

Lists have no names and are passed over. What this reader does not know (anchors, tags, merged keys, several documents)
it refuses with the line, instead of reading half of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from oomdoctor.job.literals import TEXT_CAP, entries, typed
from oomdoctor.job.model import Value
from oomdoctor.language import mark, say, translated
from oomdoctor.patterns import late

DEPTH: Final = 32
_KEY: Final = late(
    r"""(?P<key>"[^"]{1,200}"|'[^']{1,200}'|[^\s"'\[\]{}#&*!|>%@`,:][^"'#\n]{0,200}?)\s{0,20}:(?=\s|$)"""
)
_BLOCK: Final = late(r"[|>][+\-0-9]{0,3}\s{0,20}(?:#.*)?$")
_QUOTED: Final = late(r"""(?:"((?:[^"\\]|\\.){0,4000})"|'((?:[^']|''){0,4000})')\s{0,40}(?:#.*)?$""")
_COMMENT: Final = late(r"(?:^|\s)#.*$", re.DOTALL)
_WORDS: Final[dict[str, Value]] = {"yes": True, "on": True, "no": False, "off": False, "~": None, "": None}
_UNKNOWN: Final = {
    "&": mark("an anchor"),
    "*": mark("an alias"),
    "!": mark("a tag"),
    "%": mark("a directive"),
    "?": mark("a key in parts"),
}


class UnreadableYamlError(ValueError):
    """Raised with the line and what stands there."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(say("line {line}: {why}", line=line, why=why))


class Stated(Struct, frozen=True):
    """One key with a scalar value."""

    name: str  # dotted
    value: Value
    line: int


def read(text: str) -> Iterator[Stated]:
    """The scalars of the document, in its order."""
    parents: list[tuple[int, str]] = []
    passed_over: int | None = None  # the indentation of the key whose list or text is passed over
    for number, indent, body in _lines(text):
        if passed_over is not None and indent > passed_over:
            continue
        passed_over = None
        if body == "-" or body.startswith("- "):
            passed_over = indent
            continue
        while parents and parents[-1][0] >= indent:
            parents.pop()
        key, value = _parted(body, number)
        if _BLOCK.match(value):
            passed_over = indent
        elif _COMMENT.sub("", value):
            yield from _scalars(".".join([*(name for _, name in parents), key]), value, number)
        elif len(parents) < DEPTH:
            parents.append((indent, key))
        else:
            raise UnreadableYamlError(number, say("more than {depth} keys inside each other", depth=DEPTH))


def _lines(text: str) -> Iterator[tuple[int, int, str]]:
    """The lines that say something: number, indentation, and what stands there."""
    begun = False
    for number, line in enumerate(text.split("\n"), start=1):
        body = line.strip()
        if not body or body.startswith("#") or (body == "---" and not begun):
            continue
        begun = True
        indent = len(line) - len(line.lstrip(" "))
        if line[indent] == "\t":
            raise UnreadableYamlError(number, say("a tab where YAML wants blanks"))
        if body in ("---", "..."):
            raise UnreadableYamlError(number, say("a second document; keep the one that the job used"))
        yield number, indent, body


def _parted(body: str, number: int) -> tuple[str, str]:
    match = _KEY.match(body)
    if match is None:
        raise UnreadableYamlError(number, _unknown(body[0]) if body[0] in _UNKNOWN else say("no `key: value`"))
    key = match["key"].strip("\"'")
    if key == "<<":
        raise UnreadableYamlError(number, say("a merged key (<<), which this reader does not know"))
    return key, body[match.end() :].strip()


def _unknown(sign: str) -> str:
    return say("{what}, which this reader does not know", what=translated(_UNKNOWN[sign]))


def _scalars(path: str, value: str, number: int) -> Iterator[Stated]:
    if value[0] in "&*!":
        raise UnreadableYamlError(number, _unknown(value[0]))
    if value[0] == "{":
        if not _COMMENT.sub("", value).endswith("}"):
            raise UnreadableYamlError(number, say("a {{ that is not closed on its line"))
        yield from (Stated(f"{path}.{entry.name}", _plain(entry.value), number) for entry in entries(value))
        return
    if value[0] == "[":
        return
    if quoted := _QUOTED.match(value):
        yield Stated(path, (quoted[1] if quoted[1] is not None else quoted[2].replace("''", "'"))[:TEXT_CAP], number)
        return
    if value[0] in "\"'":
        raise UnreadableYamlError(number, say("a quoted text that does not end on its line"))
    yield Stated(path, _plain(typed(_COMMENT.sub("", value).strip())), number)


def _plain(value: Value) -> Value:
    """YAML's other words for true, false and nothing."""
    return _WORDS.get(value.lower(), value) if isinstance(value, str) else value
