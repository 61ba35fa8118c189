"""The diagnosis block of a Markdown draft: found between its markers, or put behind the log that it is about.

The rest of the file stays byte for byte. No line number stands in the block, so that it stays the same wherever it is.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from oomdoctor import street
from oomdoctor.aside import replace
from oomdoctor.helpers.answers import block as diagnosis_of
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.redaction import Redactor
from oomdoctor.report.words import root_of
from oomdoctor.sources import InMemory, Source

BEGIN: Final = "<!-- oomdoctor: diagnosis, kept by `oomdoctor draft` -->"
END: Final = "<!-- oomdoctor: end of the diagnosis -->"
NO_LOGS: Final = frozenset({"diff", "patch", "markdown", "md"})
_FINGERPRINT: Final = late(r"\bv1:[0-9a-f]{16}\b")
_FENCE: Final = late(r"([ \t]{0,40})(`{3,}(?=[^`]*\Z)|~{3,})[ \t]*([^\s`]{0,40})")


class BrokenMarkersError(ValueError):
    """The markers of the block are not a pair; the text says which line."""


class Fence(Struct, frozen=True):
    """A fenced block of a document."""

    text: str
    last: int  # the index of its closing line


class Document(Struct, frozen=True):
    lines: tuple[str, ...]  # with their ends
    fences: tuple[Fence, ...]
    block: tuple[int, int] | None  # the indices of the markers
    is_told: bool  # it has a fingerprint already, as the drafts of `oomdoctor issue` have


def refreshed(text: str, *, redact: bool = True) -> str:
    """The document with its diagnosis; as it is where it has no log of a crash, or its diagnosis without markers."""
    document = read(text)
    if not document.fences or (document.is_told and document.block is None):
        return text
    report = street.report_on([_source(number, fence) for number, fence in enumerate(document.fences)], ())
    if not report.incidents:
        return text
    root = root_of(report, report.incidents[0])
    behind = document.fences[int(root.file) if root else 0].last
    if redact:
        redactor = Redactor()
        for fence in document.fences:
            redactor.learn(fence.text)
        report = redactor.report(report)
    end = "\r\n" if document.lines[0].endswith("\r\n") else "\n"
    block = [f"{line}{end}" for line in (BEGIN, *diagnosis_of(report.incidents[0]).split("\n"), END)]
    lines = list(document.lines)
    if document.block:
        first, last = document.block
        block[-1] = block[-1] if lines[last].endswith("\n") else END
        lines[first : last + 1] = block
    else:
        before = [end] if lines[behind].endswith("\n") else [end, end]
        lines[behind + 1 : behind + 1] = [*before, *block]
    return "".join(lines)


def read(text: str) -> Document:
    """Where the fences and the markers are; a marker inside a fence is part of somebody's log."""
    lines = tuple(io.StringIO(text, newline="\n"))
    fences: list[Fence] = []
    begin: int | None = None
    block: tuple[int, int] | None = None
    is_told = False
    number = 0
    while number < len(lines):
        line = lines[number].strip()
        if line == BEGIN and begin is None and block is None:
            begin = number
        elif line == END and begin is not None:
            block = (begin, number)
            begin = None
        elif line in (BEGIN, END):
            raise BrokenMarkersError(
                say("line {number}: {mark} without the other one; remove it, or both", number=number + 1, mark=line)
            )
        elif (opened := _FENCE.match(lines[number].rstrip("\r\n"))) is not None:
            last = _closing(lines, number, opened[2])
            if begin is None and last < len(lines) and opened[3].lower() not in NO_LOGS:
                inside = (_without(one, len(opened[1])) for one in lines[number + 1 : last])
                fences.append(Fence("".join(inside), last))
            number = last
        else:
            is_told = is_told or (begin is None and _FINGERPRINT.search(line) is not None)
        number += 1
    if begin is not None:
        raise BrokenMarkersError(
            say("line {number}: {mark} without its end; remove it, or both", number=begin + 1, mark=BEGIN)
        )
    return Document(lines, tuple(fences), block, is_told)


def _closing(lines: Sequence[str], opening: int, mark: str) -> int:
    """The line that closes a fence; a fence that is not closed goes on to the end, and what is behind it is in it."""
    for number in range(opening + 1, len(lines)):
        line = lines[number].strip()
        if line.startswith(mark) and not line.strip(mark[0]):
            return number
    return len(lines)


def _without(line: str, indent: int) -> str:
    return line[min(indent, len(line) - len(line.lstrip(" \t"))) :]


def _source(number: int, fence: Fence) -> Source:
    return InMemory(str(number), None, data=fence.text.encode("utf-8", "surrogateescape"))


def refresh(path: Path, *, redact: bool = True) -> bool:
    """Whether the file was changed."""
    before = path.read_bytes()
    text = before.decode("utf-8", "surrogateescape")
    after = refreshed(text, redact=redact).encode("utf-8", "surrogateescape")
    if after != before:
        replace(path, after)
    return after != before
