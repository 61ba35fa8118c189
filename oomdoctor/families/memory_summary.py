"""The table of `torch.cuda.memory_summary()`: healthy scripts print it too, so it is context and no failure.

Only where a log ends with a table that counts refused requests, it is the last word of a job that ran out: fairseq
prints it then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oomdoctor import grammars
from oomdoctor.families import Family
from oomdoctor.families.event import Event, Process, Read, Role, Usage
from oomdoctor.families.lines import place_of
from oomdoctor.families.sentences import bytes_of
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

TABLE_LINES: Final = 120  # twice the rows there are: a narrow terminal wraps each
CHARACTERS: Final = 12_000
TITLE: Final = "PyTorch CUDA memory summary, device ID"
FIRST_ROW: Final = "Allocated memory"


class MemorySummary(Event, frozen=True, kw_only=True):
    """The caching allocator's account of one device. Figures are floored to the row's unit."""

    family = "memory_summary"
    kind = "memory-summary"

    role: Role = "context"
    pool: str = "gpu"

    allocated_bytes: Usage[int | None] = None
    peak_allocated_bytes: Usage[int | None] = None
    active_bytes: Usage[int | None] = None
    peak_active_bytes: Usage[int | None] = None
    requested_bytes: Usage[int | None] = None  # what tensors asked for, before rounding; from 2.0 on
    peak_requested_bytes: Usage[int | None] = None
    reserved_bytes: Usage[int | None] = None
    peak_reserved_bytes: Usage[int | None] = None
    non_releasable_bytes: Usage[int | None] = None  # parts of blocks in use: what is truly fragmented
    peak_non_releasable_bytes: Usage[int | None] = None
    ooms: int | None = None
    retries: int | None = None

    @property
    def idle_bytes(self) -> int | None:
        """What is reserved and in no tensor."""
        if self.reserved_bytes is None or self.allocated_bytes is None:
            return None
        return max(self.reserved_bytes - self.allocated_bytes, 0)


_ROWS: Final = frozenset({"allocated", "active", "requested", "reserved", "non_releasable"})
_COUNTS: Final = frozenset({"ooms", "retries", "gpu"})
# A line of the table, or what a narrow terminal left of one
_OF_TABLE: Final = late(r"^\s{0,8}\||^[\s=+-]{3}|\|\s{0,4}$|^[\s\d|KMGTiB=-]{1,80}$")


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    if TITLE not in line.text and (FIRST_ROW not in line.text or _has_title(page, index)):
        return
    lines = _table(page, index)
    figures = _figures(_joined(lines)[:CHARACTERS])
    gpu = figures.pop("gpu", None)
    if not any(name.endswith("_bytes") for name in figures):
        return
    mark = line.mark
    last_word = bool(figures.get("ooms")) and _ends_with_tables(page, lines[-1])
    yield MemorySummary(
        at=place_of(page, line, lines[-1]),
        role="root" if last_word else "context",
        strength=1 if last_word else 0,
        time=mark.time,
        process=Process(pid=mark.pid, name=mark.name, rank=mark.rank, node=mark.ip, gpu=gpu),
        **figures,
    )


def _has_title(page: Page, index: int) -> bool:
    """The row belongs to a table that was read from its title on."""
    for line in reversed(page.before(index, 8)):
        if TITLE in line.text:
            return True
        if not _OF_TABLE.search(line.text):
            return False
    return False


def _table(page: Page, index: int) -> list[Line]:
    lines: list[Line] = []
    for line in page.after(index, TABLE_LINES):
        again = bool(lines) and (TITLE in line.text)
        if again or (lines and line.text.strip() and not _OF_TABLE.search(line.text)):
            break
        lines.append(line)
    while len(lines) > 1 and not lines[-1].text.strip():
        lines.pop()
    return lines


def _ends_with_tables(page: Page, last: Line) -> bool:
    below = [line.text for line in page.lines if line.number > last.number]
    return all(not text.strip() or TITLE in text or _OF_TABLE.search(text) for text in below)


def _joined(lines: list[Line]) -> str:
    """The rows on one line. Where one does not end at the table's edge a narrow terminal broke it, even in a number."""
    return "".join(line.text if line.text.rstrip()[-1:] not in ("|", "") else f"{line.text} " for line in lines)


def _figures(text: str) -> dict[str, Any]:
    """The current and the peak value of each row; the first print of a row counts."""
    figures: dict[str, Any] = {}
    for name, values in grammars.said("memory_summary", text):
        if name in _COUNTS and values:
            figures.setdefault(name, int(values[0]))
        elif name in _ROWS and values and f"{name}_bytes" not in figures:
            cells = [cell.strip() for cell in values[0].split("|") if cell.strip()]
            figures[f"{name}_bytes"] = bytes_of(cells[0])
            if len(cells) > 1:
                figures[f"peak_{name}_bytes"] = bytes_of(cells[1])
    return figures


FAMILY = Family(
    name="memory_summary",
    anchors=(TITLE,),
    triggers=(TITLE, FIRST_ROW),
    read=read,
)
