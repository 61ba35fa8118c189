"""The error that a log ends with, whatever it is about: what is said of a job that did not die of memory."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.event import Place
from oomdoctor.patterns import late
from oomdoctor.streams import Page

LAST_LINES: Final = 60  # what is printed further up was survived
_ERROR: Final = late(
    r"(?:\w{1,60}\.){0,8}(?!Warning)[A-Z]\w{0,60}(?:Error|Exception)\b(?::|$)"  # the last line of a traceback
    r"|.{0,120}\b(?:Segmentation fault|Floating point exception|Bus error|Illegal instruction)\b"
    r"|.{0,400}\bAssertion .{1,200} failed\b"
    r"|(?i:fatal(?: error)?|panic|failed): \S|Error (?:executing|in|while|running|loading)\b"
    r"|.{0,120}\b(?:CUDA|HIP|NCCL) error[: ]|.{0,200}\bNCCL operations have failed\b"
)


def ending(page: Page) -> Place | None:
    """The first error among the last lines of the last page of a log."""
    for line in page.lines[-LAST_LINES:]:
        if _ERROR.match(line.text.strip()) is not None:
            return Place(page.file, line.number, line.end, line.text)
    return None


__all__ = ["ending"]
