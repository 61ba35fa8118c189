"""The limits of a process: `ulimit` in any shell, and `/proc/PID/limits`.

A shell counts most sizes in KiB, the kernel's table in bytes. The limits of a new shell need not be those of the job:
only the table of the job's own process shows these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Process, Read, Role, Threshold
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import KIB, size

ROWS: Final = 24
CHARACTERS: Final = 300
LINES_TO_ANSWER: Final = 2


class ProcessLimits(Event, frozen=True, kw_only=True):
    """What one print says. A limit that is printed and not set stands in `unlimited`."""

    family = "process_limits"
    kind = "process-limits"

    role: Role = "context"
    pool: str = "host_ram"

    source: str  # "shell", or "process" where the kernel's table of one process prints them
    address_space_bytes: Threshold[int | None] = None
    locked_bytes: Threshold[int | None] = None
    data_bytes: Threshold[int | None] = None
    stack_bytes: Threshold[int | None] = None
    processes: Threshold[int | None] = None
    open_files: Threshold[int | None] = None
    unlimited: tuple[str, ...] = ()


_UNLIMITED: Final = "unlimited"
_VALUE: Final = r"(?P<value>\d{1,20}|unlimited)"
# The words of bash, dash and zsh, and those of the kernel's table
_NAMES: Final[Mapping[str, str]] = {
    "virtual memory": "address_space", "vmemory": "address_space", "address space": "address_space",
    "max locked memory": "locked", "locked memory": "locked", "locked-in-memory size": "locked",
    "data seg size": "data", "data": "data", "max data size": "data", "max address space": "address_space",
    "stack size": "stack", "stack": "stack", "max stack size": "stack",
    "max user processes": "processes", "process": "processes", "processes": "processes", "max processes": "processes",
    "open files": "open_files", "nofiles": "open_files", "file descriptors": "open_files",
    "max open files": "open_files",
}  # fmt: skip
_OPTIONS: Final = {"v": "address_space", "l": "locked", "d": "data", "s": "stack", "u": "processes", "n": "open_files"}
_COUNTED: Final = ("processes", "open_files")
_OF_THE_KERNEL = late(
    r"^\s{0,4}(?P<name>Max [a-z ]{4,20}?)\s{2,30}"
    + _VALUE
    + r"\s{1,30}(?:\d{1,20}|unlimited)(?:\s{1,20}[a-z]{1,12})?\s{0,12}$"
)
_OF_BASH = late(
    r"^\s{0,4}(?P<name>[A-Za-z][A-Za-z -]{2,28}?)\s{1,40}\([^()\n]{0,30}-[A-Za-z]\)\s{1,8}" + _VALUE + r"\s{0,4}$"
)
_OF_ZSH = late(
    r"^\s{0,4}-[A-Za-z]: (?P<name>[a-z][a-z -]{2,28}?)(?: \((?:kbytes|seconds|blocks|bytes)\))?\s{1,40}"
    + _VALUE
    + r"\s{0,4}$"
)
_OF_DASH = late(
    r"^\s{0,4}(?P<name>[a-z][a-z ]{2,20}?)(?:\((?:kbytes|seconds|blocks)\))?\s{1,20}" + _VALUE + r"\s{0,4}$"
)
_SHELLS: Final = (_OF_BASH, _OF_ZSH, _OF_DASH)
_COMMAND = late(r"(?:^|[$#%>] |[;&|] {0,2}|\+ )ulimit (?:-[SH] {1,2})?-(?P<option>[vldsun])\s{0,4}$")
# What a shell was told, by a prompt or its trace before it: a script's text need not have run
_SET = late(
    r"(?:^|\s)(?:[$#%>] |\+{1,3} )ulimit (?:-[SH] {1,2})?-[SH]?(?P<option>[vldsun]) {1,2}(?P<value>\d{1,15}|unlimited)"
    r"\s{0,4}(?:$|[;&|])"
)
# What a program says that it has set of itself and its workers: resource.setrlimit
_OF_A_PROGRAM = late(
    r"\bRLIMIT_AS\b(?: (?:is|of|to|set to|limited to)\b)?[ =:(]{1,3}"
    r"(?P<number>\d{1,12}(?:\.\d{1,3})?) ?(?P<unit>[KMGT]i?B)\b"
)
_NOT_SET = "cannot modify limit"
_ANSWER = late(r"^\s{0,4}" + _VALUE + r"\s{0,4}$")
_TABLE_OF = late(r"/proc/(?P<pid>\d{1,9})/limits")
_ANY_ROW: Final = (_OF_THE_KERNEL, *_SHELLS)


def read(page: Page, index: int) -> Iterator[Read]:
    text = page.lines[index].text[:CHARACTERS]
    if (command := _COMMAND.search(text)) is not None:
        yield from _answer(page, index, _OPTIONS[command["option"]])
    elif (told := _SET.search(text)) is not None:
        if _NOT_SET not in page.after(index, 2)[-1].text[:CHARACTERS]:
            line = page.lines[index]
            yield _limits(page, line, line, "shell", {_OPTIONS[told["option"]]: told["value"]})
    elif (set_by := _OF_A_PROGRAM.search(text)) is not None:
        line, limit = page.lines[index], size(set_by["number"], set_by["unit"])
        yield ProcessLimits(at=place_of(page, line), time=line.mark.time, source="process", address_space_bytes=limit)
    else:
        yield from _table(page, index)


def _answer(page: Page, index: int, name: str) -> Iterator[Read]:
    """One figure, below the command that asked for it."""
    line = page.lines[index]
    for below in page.after(index, LINES_TO_ANSWER + 1)[1:]:
        if (said := _ANSWER.match(below.text[:CHARACTERS])) is not None:
            yield _limits(page, line, below, "shell", {name: said["value"]})
            return


def _table(page: Page, index: int) -> Iterator[Read]:
    """Rows of one kind, from their first on."""
    lines = page.after(index, ROWS)
    pattern = next((one for one in _ANY_ROW if _named(one, lines[0])), None)
    if pattern is None:
        return
    said: dict[str, str] = {}
    last = lines[0]
    for line in lines:
        row = pattern.match(line.text[:CHARACTERS])
        if row is None:
            break
        if (name := _NAMES.get(row["name"].strip().lower())) is not None:
            said.setdefault(name, row["value"])
            last = line
    source = "process" if pattern is _OF_THE_KERNEL else "shell"
    yield _limits(page, lines[0], last, source, said, _pid(page, index))


def _named(pattern: re.Pattern[str], line: Line) -> bool:
    row = pattern.match(line.text[:CHARACTERS])
    return row is not None and row["name"].strip().lower() in _NAMES


def _limits(page: Page, first: Line, last: Line, source: str, said: Mapping[str, str], pid: int | None = None) -> Event:
    factor = 1 if source == "process" else KIB
    figures: dict[str, Any] = {
        name if name in _COUNTED else f"{name}_bytes": int(value) * (1 if name in _COUNTED else factor)
        for name, value in said.items()
        if value != _UNLIMITED
    }
    return ProcessLimits(
        at=place_of(page, first, last),
        time=first.mark.time,
        process=Process(pid=pid),
        source=source,
        unlimited=tuple(name for name, value in said.items() if value == _UNLIMITED),
        **figures,
    )


def _pid(page: Page, index: int) -> int | None:
    """Of the command that printed the table, where it stands above."""
    above = (_TABLE_OF.search(line.text[:CHARACTERS]) for line in page.lines[max(0, index - ROWS) : index])
    return next((int(match["pid"]) for match in above if match is not None), None)


FAMILY = Family(
    name="process_limits",
    anchors=(),
    triggers=(
        "ulimit -",
        "RLIMIT_AS",
        "Max address space",
        "Max locked memory",
        "Max data size",
        "Max cpu time",
        "Max processes  ",
        "Max open files  ",
        # rows of bash, whatever of its listing was kept and however its blanks were
        "kbytes, -",
        "(-u) ",
        "(-n) ",
        "virtual memory   ",
        "max locked memory   ",
        "data seg size   ",
        "vmemory(kbytes)",
        "locked memory(kbytes)",
        "address space (kbytes)",
        "locked-in-memory size (kbytes)",
    ),
    read=read,
)
