"""Line breaks that a paste or a collector took from a traceback: a blank stands there, or the two characters of \\n."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from oomdoctor.patterns import late

SIGN: Final = ", line "  # in the head of each frame

_EXCEPTION = r"(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Za-z_]\w{0,60}(?:Error|Exception|Interrupt)"
_FRAME = r'File "[^"\n]{1,400}", line \d{1,7},? in (?:<\w{1,40}>|[\w.<>]{1,200})'
# In the path of a Windows file another name follows the sign of a break.
_WRITTEN = late(
    r"(?:\\{1,3}r)?\\{1,3}n"
    rf"(?=[\s\"',\])}}]|File |Traceback |During handling |The above exception |{_EXCEPTION}\b|$)"
)
_RECORD = late(r"(?<=\S )\(\w{1,60} (?:rank=\d{1,6} )?pid=\d{1,10}[^()\n]{0,80}\) \S")
_WRITERS = late(r"(?:^|(?<=\S ))\(\w{1,60} (?:rank=\d{1,6} )?pid=\d{1,10}[^()\n]{0,80}\) (?=[^\s(])")
PID: Final = " pid="  # in the names of Ray's writers
SEVERAL: Final = 3  # writers on one line: a message of one may name another
_PADDING: Final = " " * 8  # what a terminal's rows are filled up with, and some copy along
# Python's logging without a format of its own
_ROW = late(rf"(?<! ){_PADDING} {{0,400}}(?=(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.]{{1,80}}:)")
_PART = late(
    rf"{_FRAME}|Traceback \(most recent call (?:last|first)\):?"
    r"|During handling of the above exception, another exception occurred:"
    r"|The above exception was the direct cause of the following exception:"
    rf"|(?<![\w.]){_EXCEPTION}(?:\(\w{{1,60}}\))?: "
)
_HEAD = late(_FRAME)
_LISTED = late(r"[\"'],? ?b?[\"']|\[b?[\"']")  # between the strings of a list
_CLOSED = "\"'])}, "  # what closes a list or a record
_TRIMMED = " ;,\t"  # what may stand instead of a break
_INDENT = "    "


def lost(text: str) -> bool:
    """Whether the line holds more of a traceback than a line does."""
    return text.count(SIGN) > 1 or (SIGN in text and "recent call " in text)


def records(text: str) -> list[str]:
    """The lines of such a line, as far as breaks are written out or its writer's name stands before each."""
    if "\\n" in text:
        pieces = _WRITTEN.split(text.replace('\\"', '"'))
        pieces = [piece[match.end() :] if (match := _LISTED.match(piece)) else piece for piece in pieces]
        return [piece for piece in pieces if piece.strip(_CLOSED)]
    starts = [match.start() for match in _RECORD.finditer(text)]
    return _cut(text, starts) if starts else [text]


def of_writers(text: str) -> list[str]:
    """What each of several writers said, where a line that begins with the name of one holds those of others."""
    starts = [match.start() for match in _WRITERS.finditer(text)]
    return _cut(text, starts[1:]) if len(starts) >= SEVERAL and not starts[0] else [text]


def may_hold_several(text: str) -> bool:
    """Whether a line of the text may hold what several writers said, or several rows."""
    return PID in text or _ROW.search(text) is not None


def of_rows(text: str) -> list[str]:
    """The messages of one line that a terminal had shown in rows, each filled up with blanks."""
    return [row for row in _ROW.split(text) if row] or [text]


def parts(text: str) -> list[str]:
    """Frames, each head and its source on a line of its own, and what stands before and behind them."""
    starts = [match.start() for match in _PART.finditer(text)]
    if not starts or (len(starts) == 1 and not _HEAD.search(text)):
        return [text]
    return [line for part in _cut(text, starts) for line in _of_frame(part)]


def _cut(text: str, starts: list[int]) -> list[str]:
    return [text[start:end] for start, end in pairwise((0, *starts, len(text)))]


def _of_frame(part: str) -> list[str]:
    head = _HEAD.match(part)
    if head is None:
        return [part.rstrip(_TRIMMED)] if part.strip(_TRIMMED) else []
    code = part[head.end() :].strip(_TRIMMED)
    return [head[0], _INDENT + code] if code else [head[0]]
