"""Where a message stands and who wrote it, told from its lines."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final

from oomdoctor.families.event import Place, Process
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

_LINES_OF_ONE: Final = 40  # messages that are longer have tables, whose figures are rows of the report
SIGKILL_CODES: Final = (-9, 137)  # as Python and as a shell count it

# A training loop that goes on
# A loss that is printed, and none of a source line: "loss.backward()", "loss = criterion(out, y)", "return loss, out"
_LOSS = r"\bloss\b(?!\.[a-z_]|[,)\]]|\s{0,2}=\s{0,2}(?!nan|inf|tensor)[A-Za-z_(])"
# A step, and not a name that begins with one: "/models/step-2.1-q5.gguf", "Step-2.1-Mini"
_STEP = (
    r"(?i:(?<!\*\*\* )\b(?:(?<![/\\])|(?!\w{4,9}-))(?!\w{4,9}-\d[\d.]{0,8}-[a-z])"
    r"(?:step|epoch|iter(?:ation)?)\b\W{0,4}\d)"
)
PROGRESS = late(_LOSS + r"|\d{1,3}%\||\b(?:it/s|s/it)\b|" + _STEP)


def place_of(page: Page, first: Line, last: Line | None = None) -> Place:
    return Place(page.file, first.number, (last or first).end, first.raw, _below(page, first, last))


def _below(page: Page, first: Line, last: Line | None) -> tuple[tuple[int, str], ...]:
    """The lines behind the first up to the last, of the same writer and bare ones."""
    if last is None or last.number <= first.number:
        return ()
    begin = bisect_right(page.lines, first.number, key=lambda line: line.number)
    lines = takewhile(lambda line: line.number <= last.number, page.lines[begin : begin + _LINES_OF_ONE])
    return tuple((line.number, line.raw) for line in lines if line.writer in ("", first.writer))


def block_of(page: Page, index: int, most: int, goes_on: Callable[[str], object]) -> list[Line]:
    """The line and those below it that go on, the last of which is not empty."""
    lines = page.after(index, most)
    kept = 1
    for position, line in enumerate(lines[1:], start=1):
        text = line.text.strip()
        if not goes_on(text):
            break
        if text:
            kept = position + 1
    return lines[:kept]


def process_of(line: Line, gpu: int | None = None) -> Process:
    """Who wrote the line, as its decorations say."""
    return Process(pid=line.mark.pid, name=line.mark.name, rank=line.mark.rank, node=line.mark.ip, gpu=gpu)


# What a program does where memory cannot be locked: TensorRT's samples say it on the next line, as others advise
PAGEABLE: Final = (
    r"\b(?i:using|allocating) (?i:pageable|unpinned|non-pinned)\b"
    r"|\b(?i:allocate|use) (?i:the )?(?i:pageable|unpinned|non-pinned) (?:\w{1,8} ){0,2}instead\b"
)

_ENDS = late(
    r"Traceback \(most recent|^\s{0,8}(?:\w{1,60}\.){0,6}\w{0,60}Error\b: \S|\b(?:Killed|Aborted)\b|terminate called"
    r"|\bencountered a fatal error\b"
)
LINES_BEHIND: Final = 1000


_OF_GGML = late(r"(?i)ggml|gguf|\bllama_|llama\.cpp|llama-(?:server|cli|bench|cpp)|whisper[._]")


def is_of_ggml(page: Page) -> bool:
    """Whether the log shows a program that is built on ggml: others run on the same drivers."""
    return any(_OF_GGML.search(line.text[:400]) for line in page.lines)


def goes_on(page: Page, index: int) -> bool:
    """Whether there is progress behind the line before anything ends."""
    progress, end = (_behind(page.once(lines), index) for lines in (_lines_of_progress, _lines_of_ends))
    return progress < end and progress <= index + LINES_BEHIND


def goes_on_to_the_end(page: Page, index: int) -> bool:
    """Whether there is progress behind the line, and nothing of a program ends there."""
    return goes_on(page, index) and _behind(page.once(_lines_of_ends), index) == sys.maxsize


def _behind(indexes: Sequence[int], index: int) -> int:
    """The first of them behind the index."""
    position = bisect_right(indexes, index)
    return indexes[position] if position < len(indexes) else sys.maxsize


def _lines_of_progress(page: Page) -> list[int]:
    return [index for index, line in enumerate(page.lines) if PROGRESS.search(line.text[:400])]


def _lines_of_ends(page: Page) -> list[int]:
    return [index for index, line in enumerate(page.lines) if _ENDS.search(line.text[:400])]


# After a kernel's fault the driver refuses every call of the process; "device-side assertions" is advice of any
DEVICE_FAULT: Final = r"illegal (?:memory access|read or write)|unspecified launch failure|device-side assert triggered"
FAULT_LINES: Final = 40

# PyTorch's DataParallel and its data loader, above the traceback of one of their threads
_REPLICA = late(r"Caught \w{1,60} in (?:replica \d{1,3} on|pin memory thread for) device (\d{1,3})\.")
REPLICA_LINES: Final = 60


# ONNX Runtime's and CNTK's checks: "CUDA failure 2: out of memory ; GPU=1 ; hostname=..."
_CHECKED = late(r" ; GPU=(\d{1,3}) ; ")


def card_of_line(page: Page, index: int) -> int | None:
    """The card that the line names, or that of the thread whose traceback it ends."""
    named = _CHECKED.search(page.lines[index].text[:1200])
    return int(named[1]) if named else _card_of_replica(page, index)


def _card_of_replica(page: Page, index: int) -> int | None:
    for line in reversed(page.before(index, REPLICA_LINES)):
        if match := _REPLICA.search(line.text[:300]):
            return int(match[1])
        if line.text.startswith("Traceback ("):
            return None
    return None
