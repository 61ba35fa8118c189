"""What is printed beside a failure: its line, the few above and below it, and the place in a source that they name."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.event import Event
from oomdoctor.patterns import late

_LINES: Final = 3  # before the failure and after it
_CHARACTERS: Final = 400
# A C++ or CUDA file with its line: "solver/field.cuh:83", "at field.cu line 83", "File: field.cu" above "Line: 83"
_SOURCE: Final = late(
    r"(?<![\w.-])(?P<file>[\w.-]{1,60}\.(?:cuh?|cpp|cxx|cc|h|hpp|hip|hxx|f90|F90|jl|inl))"
    r"(?:[:(]|[\"']?,?\s{1,220}(?:at )?[Ll]ine:? {1,40})(?P<line>\d{1,6})\b"
)
# Where allocators and loggers of the frameworks say that they failed, which is no place of the job
_OF_AN_ALLOCATOR: Final = late(
    r"(?i)alloc|error|exception|check|assert|^(?:op_kernel|bfc_\w{1,30}|pool_\w{1,30}|memory\w{0,30}|ggml-cuda|"
    r"CUDA\w{0,30}|Context|Module|driver|logging|gpu_executor|stream\w{0,30})\.\w{2,3}$"
)
_IN_ONE_PIECE: Final = late(
    r"(?i)\blargest (?:contiguous|free|available)? ?(?:region|block|chunk|piece)[^\n]{0,24}? (?:is|of|:) ?"
    r"(?P<size>\d{1,6}(?:\.\d{1,3})? ?[KMG](?:i?B)?)\b"
)


def source_beside(event: Event) -> str | None:
    """The line of a program in C++ or CUDA that failed: "field.cuh:83"."""
    for text in around(event):
        found = next((each for each in _SOURCE.finditer(text) if not _OF_AN_ALLOCATOR.search(each["file"])), None)
        if found is not None:
            return f"{found['file']}:{found['line']}"
    return None


def largest_piece(event: Event) -> str | None:
    """The largest piece that was free, where the failure names it."""
    own, below, _ = around(event)
    found = _IN_ONE_PIECE.search(f"{own}\n{below}")
    return found["size"] if found is not None else None


def around(event: Event) -> tuple[str, str, str]:
    """The failure's own line, those below it, and those above it."""
    above, below = event.around.before[-_LINES:], event.around.after[:_LINES]
    return event.at.text[:_CHARACTERS], _joined(below), _joined(above)


def _joined(lines: tuple[str, ...]) -> str:
    return "\n".join(line[:_CHARACTERS] for line in lines)
