"""What Slurm keeps of a job: `sacct`, `sstat`, `scontrol show job`, `seff`.

15.08 to 26.05. A value that is too long for its column is cut and marked with a plus sign: "OUT_OF_ME+". MaxRSS is the
largest task's, sampled every 30 seconds. `0:125` is Slurm's mark of an OOM kill; `0:9` is any SIGKILL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from oomdoctor.families import Family
from oomdoctor.families.container import EndRecord, LimitKill
from oomdoctor.families.echoes import ADVICE, COMMENT, SOURCE, echo
from oomdoctor.families.event import Event, Lookalike, Place, Read
from oomdoctor.families.lines import place_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import BINARY, size

CHARACTERS: Final = 2000
MOST_ROWS: Final = 2000
RECORD_LINES: Final = 40
OF_AN_OOM_KILL: Final = 125
CUT: Final = "+"

_HEAD = late(r"^\s{0,20}(?:JobID|JobId)(?:Raw)?(?:\s|\||$)")
_RULES = late(r"^[\s-]{8,}$")
_ROW = late(r"^\s{0,20}(?P<job>\d{1,12}(?:[_+]\d{1,6})?)(?P<step>\.[\w+]{1,20})?(?=\s|\||$)")
_BARE_ROW = late(
    r"^\s{0,20}\d{1,12}[\w.]{0,20}(?:\s|\|)[^\n]{0,200}\b(?:OUT_OF_MEMORY\b|OUT_OF_ME\+)"
    r"|^\s{0,20}\d{1,12}[\w.]{0,20}\s[^\n]{0,200}\sOOM\s{1,20}[\d:-]{4,20}\s"  # squeue
)
_MAIL = late(r"\b(?:State[=:]\s{0,4}OUT_OF_MEMORY\b(?! \()|Run time [^\n]{0,80}OUT_OF_MEMORY\b)")
_ID = late(r"(?:^|Job_id=)\s{0,4}(\d{1,12}(?:_\d{1,6})?(?:\.\w{1,12})?)\b")
_EXIT = late(r"^(\d{1,3}):(\d{1,3})$")
_QUANTITY = late(r"^(\d{1,20}(?:\.\d{1,12})?)([KMGTP]?)n?$")  # "200Gn" is of each node, "4Gc" of each CPU
_CONTROLLED = late(r"\bJobState=([A-Z_]{2,30})")
_KEYS = late(r"\b(JobId|ExitCode|StartTime|EndTime|BatchHost|MinMemoryNode|AllocTRES)=(\S{1,300})")
_TRES = late(r"\bmem=(\d{1,20}(?:\.\d{1,6})?[KMGT]?)\b")
_SEFF = late(r"^\s{0,8}State: ([A-Z_]{2,30}) \(exit code (\d{1,3})\)")
_SEFF_JOB = late(r"^\s{0,8}Job ID: (\d{1,12})")
# "GB" is 1024 MB here
_UTILIZED = late(r"\bMemory Utilized: (\d{1,12}(?:\.\d{1,6})?) ([KMGTP]?)B")
_EFFICIENCY = late(r"\bMemory Efficiency: [\d.]{1,8}% of (\d{1,12}(?:\.\d{1,6})?) ([KMGTP]?)B")
HELPER: Final = mark("Slurm recorded an OOM kill of a helper process; the job completed")


class Row(Struct, frozen=True):
    """One line of a table, by the names in its header."""

    line: Line
    job: str
    step: str  # ".batch", ".0"; "" of the job itself
    said: Mapping[str, str]

    @property
    def state(self) -> str:
        return self.said.get("State", "")

    @property
    def exit(self) -> tuple[int, int] | None:
        return _codes(self.said.get("ExitCode", ""))

    @property
    def killed(self) -> bool:
        """Whether Slurm says that it was OOM-killed."""
        return self.state.startswith("OUT_OF_ME") or (self.exit or (0, 0))[1] == OF_AN_OOM_KILL


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text[:CHARACTERS]
    if _HEAD.match(text):
        yield from _table(page, index)
    elif controlled := _CONTROLLED.search(text):
        yield _controlled(page, index, controlled[1])
    elif state := _SEFF.match(text):
        yield _seff(page, index, state[1], int(state[2]))
    elif _tells(text) and index not in page.once(_rows_of_tables):
        job = _ID.search(text)
        yield _kill(place_of(page, line), job[1] if job else None, line.mark.time, {})


def _tells(text: str) -> bool:
    """Whether a row without its header, or a mail, says that a job was OOM-killed."""
    told = _BARE_ROW.search(text) or _MAIL.search(text)
    return told is not None and echo(text) not in {ADVICE, COMMENT, SOURCE}


def _table(page: Page, index: int) -> Iterator[Read]:
    rows = list(_rows(page, index))
    for job in dict.fromkeys(row.job for row in rows):
        own = [row for row in rows if row.job == job]
        whole = next((row for row in own if not row.step), own[0])
        killed = [row for row in own if row.killed]
        if killed and whole.state.startswith("COMPLETED"):
            yield Lookalike(place_of(page, killed[0].line), HELPER)
        elif killed:
            yield from (_killed(page, row, own) for row in killed)
        if (whole.state and not whole.killed) or (not whole.said.get("ExitCode") and _peak(own)):
            yield _ended(page, whole, own)


def _rows(page: Page, index: int) -> Iterator[Row]:
    """The rows below a header: of bars with --parsable, else as wide as the rules below the names."""
    head = page.lines[index].text[:CHARACTERS]
    below = page.lines[index + 1 : index + 1 + MOST_ROWS]
    ruled = bool(below) and _RULES.match(below[0].text) is not None
    for line in below[1:] if ruled else below:
        text = line.text[:CHARACTERS]
        named = _ROW.match(text)
        if named is None:
            break
        said = _cells(head, below[0].text if ruled else "", text)
        yield Row(line, named["job"], named["step"] or "", said)


def _cells(head: str, rules: str, row: str) -> dict[str, str]:
    if "|" in head:
        return dict(zip(head.split("|"), row.split("|"), strict=False))
    if not rules:
        names, cells = head.split(), row.split()
        return dict(zip(names, cells, strict=True)) if len(names) == len(cells) else {}
    spans = [match.span() for match in re.finditer(r"-{2,60}", rules[:CHARACTERS])]
    return {head[start:end].strip(): row[start:end].strip() for start, end in spans}


def _rows_of_tables(page: Page) -> frozenset[int]:
    """The lines that stand in a table with a header."""
    found: set[int] = set()
    numbers = {line.number: index for index, line in enumerate(page.lines)}
    for index, line in enumerate(page.lines):
        if "Job" in line.text and _HEAD.match(line.text[:CHARACTERS]):
            found |= {numbers[row.line.number] for row in _rows(page, index)}
    return frozenset(found)


def _killed(page: Page, row: Row, own: Sequence[Row]) -> Event:
    said = {**_memory(own), "peak_bytes": _bytes(row.said.get("MaxRSS")) or (_peak(own) if not row.step else None)}
    return _kill(place_of(page, row.line), row.job + row.step, row.said.get("End"), said)


def _kill(at: Place, job: str | None, time: str | None, said: Mapping[str, Any]) -> LimitKill:
    return LimitKill(
        at=at, time=time, manager="slurm", tool="sacct", strength=2, job=job, reason="OUT_OF_MEMORY", **said
    )


def _ended(page: Page, row: Row, own: Sequence[Row]) -> Event:
    code, signal = row.exit or (None, None)
    return EndRecord(
        at=place_of(page, row.line),
        time=row.said.get("End"),
        manager="slurm",
        tool="sacct" if row.state else "sstat",
        state=row.state or None,
        exit_code=code,
        signal=signal or next((each.exit[1] for each in own if each.exit and each.exit[1]), None),
        job=row.job,
        peak_bytes=_peak(own),
        **_memory(own),
    )


def _memory(own: Sequence[Row]) -> dict[str, Any]:
    """What the job had and when it ran, which stands in its first row."""
    first = own[0].said
    nodes = first.get("NodeList")
    return {
        "requested_bytes": next((asked for row in own if (asked := _bytes(row.said.get("ReqMem")))), None),
        "started": first.get("Start"),
        "host": nodes if nodes and "[" not in nodes and "," not in nodes else None,
    }


def _peak(own: Sequence[Row]) -> int | None:
    return max((peak for row in own if (peak := _bytes(row.said.get("MaxRSS")))), default=None)


def _bytes(figure: str | None) -> int | None:
    """Nothing of a figure that is cut, and 0 is none: not sampled, or all of the node."""
    match = _QUANTITY.match((figure or "").strip())
    return size(match[1], match[2], BINARY) or None if match else None


def _codes(figure: str) -> tuple[int, int] | None:
    match = _EXIT.match(figure.strip())
    return (int(match[1]), int(match[2])) if match else None


def _controlled(page: Page, index: int, state: str) -> Event:
    """scontrol's record: several lines of pairs, with the job's number in the first."""
    lines = page.lines[max(0, index - 6) : index + RECORD_LINES]
    said = dict(reversed([pair for line in lines for pair in _KEYS.findall(line.text[:CHARACTERS])]))
    tres = _TRES.search(said.get("AllocTRES", ""))
    code, signal = _codes(said.get("ExitCode", "")) or (None, None)
    shared: dict[str, Any] = {
        "at": place_of(page, page.lines[index]),
        "time": said.get("EndTime"),
        "manager": "slurm",
        "tool": "scontrol",
        "job": said.get("JobId"),
        "host": said.get("BatchHost"),
        "started": said.get("StartTime"),
        "requested_bytes": _bytes(said.get("MinMemoryNode")) or _bytes(tres[1] if tres else None),
    }
    if state == "OUT_OF_MEMORY" or signal == OF_AN_OOM_KILL:
        return LimitKill(strength=2, reason="OUT_OF_MEMORY", **shared)
    return EndRecord(state=state, exit_code=code, signal=signal, **shared)


def _seff(page: Page, index: int, state: str, code: int) -> Event:
    """The sampled peak, and what was asked for."""
    lines = page.after(index, 12)
    last = next((n for n, line in enumerate(lines) if "Memory Efficiency" in line.text), 0)
    text = "\n".join(line.text[:CHARACTERS] for line in lines[: last + 1])
    used, asked = _UTILIZED.search(text), _EFFICIENCY.search(text)
    above = (_SEFF_JOB.match(line.text) for line in page.before(index, 6))
    shared: dict[str, Any] = {
        "at": place_of(page, lines[0], lines[last]),
        "time": lines[0].mark.time,
        "manager": "slurm",
        "tool": "seff",
        "job": next((match[1] for match in above if match), None),
        "peak_bytes": size(used[1], used[2], BINARY) if used else None,
        "requested_bytes": size(asked[1], asked[2], BINARY) if asked else None,
    }
    if state == "OUT_OF_MEMORY":
        return LimitKill(reason=state, **shared)
    return EndRecord(state=state, exit_code=code, **shared)


FAMILY = Family(
    name="slurm_record",
    anchors=("OUT_OF_ME",),
    triggers=("JobID", "JobId", "JobState=", "OUT_OF_ME", " OOM ", "State: "),
    read=read,
)
