"""What systemd keeps of a unit's end (`systemctl status`, `show`), and of processes that dumped core.

`Result` is "oom-kill" where the kernel or systemd-oomd killed a process of the unit. A SIGKILL leaves no core.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from oomdoctor.families import Family
from oomdoctor.families.container import EndRecord, LimitKill
from oomdoctor.families.event import Event, Process, Read, Role
from oomdoctor.families.kernel import UserspaceKill
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page
from oomdoctor.units import BINARY, size

CHARACTERS: Final = 600
SHOWN: Final = 300  # lines of `systemctl show`
STATUS: Final = 30
AT_THE_LIMIT: Final = 0.95
NEVER: Final = 1 << 62  # "infinity" as a number
OOM_KILL: Final = "oom-kill"
SIGKILL: Final = 9

_RESULT = late(r"^Result=([a-z-]{3,30})$")
_PAIR = late(
    r"^(Id|MemoryPeak|MemoryMax|MemorySwapMax|ExecMainPID|ExecMainStatus|ExecMainExitTimestamp"
    r"|ExecMainStartTimestamp)=(\S.{0,200})$"
)
_ACTIVE = late(r"^\s{0,12}Active: failed \(Result: ([a-z-]{3,30})\)(?: since ([^;\n]{8,60});)?")
_MAIN = late(r"^\s{0,12}Main PID: (\d{1,9}) \(code=killed, (?:signal|status)=(\w{1,9}(?:/\w{1,9})?)\)")
_MEMORY = late(r"^\s{0,12}Mem(?:ory)?(?: peak)?: (\d{1,9}(?:\.\d{1,3})?)([BKMGT])\b")
_UNIT = late(r"^\W{0,4}([\w@.:\\-]{1,120}\.(?:service|scope|slice))\b")
_CORE = late(
    r"^(?P<time>[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S{1,6})\s{1,12}(?P<pid>\d{1,9})\s{1,12}\d{1,10}"
    r"\s{1,12}\d{1,10}"
    r"\s{1,12}(?P<signal>SIG[A-Z]{3,5}|\d{1,2})\s{1,12}(?:present|missing|none|inaccessible|truncated|error|journal|-|\*)"
    r"\s{1,12}(?P<exe>/\S{1,300})"
)


class CoreDump(Event, frozen=True, kw_only=True):
    """A process that ended itself or touched a bad address: systemd-coredump kept it, so it was not SIGKILLed."""

    family = "systemd_unit"
    kind = "core-dump"

    role: Role = "context"

    signal: str
    program: str


_SIGNALS: Final = {"4": "SIGILL", "5": "SIGTRAP", "6": "SIGABRT", "7": "SIGBUS", "8": "SIGFPE", "11": "SIGSEGV"}


def read(page: Page, index: int) -> Iterator[Read]:
    text = page.lines[index].text[:CHARACTERS]
    if result := _RESULT.match(text):
        yield from _ended(page, index, result[1], _shown(page, index), "systemctl show")
    elif active := _ACTIVE.match(text):
        yield from _ended(page, index, active[1], {**_status(page, index), "time": active[2] or ""}, "systemctl status")
    elif core := _CORE.match(text):
        signal = _SIGNALS.get(core["signal"], core["signal"])
        yield CoreDump(
            at=place_of(page, page.lines[index]),
            time=core["time"],
            process=Process(pid=int(core["pid"]), name=core["exe"].rsplit("/", 1)[-1]),
            signal=signal,
            program=core["exe"].rsplit("/", 1)[-1],
        )


def _ended(page: Page, index: int, result: str, said: Mapping[str, str], tool: str) -> Iterator[Read]:
    line = page.lines[index]
    if result == "success":
        return
    peak, limit = _bytes(said.get("MemoryPeak")), _bytes(said.get("MemoryMax"))
    pid = said.get("ExecMainPID", "")
    shared: dict[str, Any] = {
        "at": place_of(page, line, page.lines[min(index + 2, len(page.lines) - 1)]),
        "time": said.get("ExecMainExitTimestamp") or said.get("time") or line.mark.time,
        "process": Process(pid=int(pid) if pid.isdecimal() and pid != "0" else None),
        "peak_bytes": peak,
    }
    started = said.get("ExecMainStartTimestamp")
    if result != OOM_KILL:
        signal = SIGKILL if said.get("ExecMainStatus") in ("9", "KILL", "9/KILL") else None
        yield EndRecord(
            manager="systemd", tool=tool, state=result, signal=signal, limit_bytes=limit, started=started, **shared
        )
    elif limit and peak and peak >= AT_THE_LIMIT * limit:
        yield LimitKill(manager="systemd", tool=tool, reason=result, limit_bytes=limit, started=started, **shared)
    else:
        yield UserspaceKill(killer="systemd", strength=2, unit=said.get("Id"), **shared)


def _shown(page: Page, index: int) -> dict[str, str]:
    lines = page.lines[max(0, index - SHOWN) : index + SHOWN]
    pairs = (_PAIR.match(line.text[:CHARACTERS]) for line in lines)
    return {pair[1]: pair[2] for pair in pairs if pair}


def _status(page: Page, index: int) -> dict[str, str]:
    said: dict[str, str] = {}
    for line in page.lines[index + 1 : index + STATUS]:
        text = line.text[:CHARACTERS]
        if main := _MAIN.match(text):
            said.update(ExecMainPID=main[1], ExecMainStatus=main[2])
        elif memory := _MEMORY.match(text):
            said["MemoryPeak"] = memory[1] + memory[2]
    for line in reversed(page.lines[max(0, index - 6) : index]):
        if unit := _UNIT.match(line.text[:CHARACTERS]):
            said["Id"] = unit[1]
    return said


def _bytes(figure: str | None) -> int | None:
    """`[not set]`, `infinity` and the largest number of 64 bits are none."""
    match = re.fullmatch(r"(\d{1,20}(?:\.\d{1,3})?)([BKMGT]?)", figure or "")
    found = size(match[1], match[2] if match[2] != "B" else "", BINARY) if match else None
    return found if found is not None and found < NEVER else None


FAMILY = Family(
    name="systemd_unit",
    anchors=("=oom-kill", "Result: oom-kill"),
    triggers=("Result=", "(Result: ", " present ", " missing ", " inaccessible ", " truncated "),
    read=read,
)
