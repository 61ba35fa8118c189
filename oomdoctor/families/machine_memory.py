"""What the tools of a machine print of its memory: free, top, ps, vmstat, sar, dstat, collectl, /proc/meminfo, psutil,
Windows, and a program's own "used / total". Healthy machines print the same, so this is context."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Process, Read, Role, Threshold, Usage
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import KIB, size

BLOCK_LINES: Final = 1000
FREE_ROWS: Final = 7  # with -l, -t and -v
MOST_PROCESSES: Final = 40  # of one table, the largest
ROW_CHARACTERS: Final = 400
MONTHS: Final = 12
WHOLE: Final = 100  # per cent


class MachineProcess(Struct, frozen=True, kw_only=True):
    """A row of top or ps. Shared pages count for each process that touches them."""

    pid: int
    bytes: int
    command: str


ABOVE_THE_JOB: Final = 3  # lines: the head of a table and its rows


class MachineMemory(Event, frozen=True, kw_only=True):
    """One print; of a tool that prints a row every few seconds, its last row."""

    family = "machine_memory"
    kind = "machine-memory"

    role: Role = "context"
    pool: str = "host_ram"

    # "free", "top", "ps", "vmstat", "sar", "dstat", "collectl", "meminfo", "psutil", "windows", "docker", "program"
    tool: str
    total_bytes: Usage[int | None] = None
    used_bytes: Usage[int | None] = None
    free_bytes: Usage[int | None] = None
    available_bytes: Usage[int | None] = None
    cached_bytes: Usage[int | None] = None  # with the buffers, where they share a column
    buffers_bytes: Usage[int | None] = None
    used_fraction: Usage[float | None] = None
    used_without_cache_bytes: Usage[int | None] = None  # free up to 3.3.9 has a row for it
    swap_total_bytes: Usage[int | None] = None
    swap_used_bytes: Usage[int | None] = None
    # /proc/meminfo: what is neither cache nor any process's alone, and what may be promised (free -v says that, too)
    shared_bytes: Usage[int | None] = None
    unreclaimable_bytes: Usage[int | None] = None
    huge_pages_bytes: Usage[int | None] = None
    committed_bytes: Usage[int | None] = None
    commit_limit_bytes: Threshold[int | None] = None
    processes: tuple[MachineProcess, ...] = ()

    @property
    def share(self) -> float | None:
        """How much of the machine is in use beside its cache; None where the print does not say."""
        if self.tool == "sar":
            return self._share_beside_available
        if self.used_fraction is not None:
            return self.used_fraction
        total, used = self.total_bytes or self._sum_bytes, self.in_use_bytes
        return used / total if total and used is not None else None

    @property
    def is_above_the_job(self) -> bool:
        """Whether nothing of a job stands above a print without a time: it is of some moment before the job."""
        return self.time is None and self.at.line <= ABOVE_THE_JOB

    @property
    def is_of_a_record(self) -> bool:
        """Whether it is a row of sar's own record of a day, which no job prints."""
        return self.tool == "sar" and self.process.node is not None and self.time is not None

    @property
    def _sum_bytes(self) -> int | None:
        """What there is, where the parts are printed: all that is in use, in the cache and free."""
        if self.used_bytes is None or self.free_bytes is None:
            return None
        return self.used_bytes + self.free_bytes + self._cache

    @property
    def _share_beside_available(self) -> float | None:
        """sar prints no total, and its share counts the cache up to version 12."""
        if not self.used_bytes or self.used_fraction is None or self.available_bytes is None:
            return None
        return 1 - self.available_bytes * self.used_fraction / self.used_bytes

    @property
    def in_use_bytes(self) -> int | None:
        """What is in use beside the cache."""
        if self.total_bytes and self.available_bytes is not None:
            return self.total_bytes - self.available_bytes
        if self.used_without_cache_bytes is not None or self.used_bytes is None:
            return self.used_without_cache_bytes
        return self.used_bytes - self._cache if self.counts_cache else self.used_bytes

    @property
    def counts_cache(self) -> bool:
        """Whether "used" is all that is not free, as old tools count it."""
        if self.total_bytes is None or self.free_bytes is None or self.used_bytes is None:
            return False
        rest = self.total_bytes - self.free_bytes - self.used_bytes
        return self._cache <= self.used_bytes and 2 * abs(rest) < self._cache

    @property
    def _cache(self) -> int:
        return (self.cached_bytes or 0) + (self.buffers_bytes or 0)


class Reading(Struct, frozen=True):
    """A row of figures, and the line it stands on."""

    line: Line
    figures: Mapping[str, Any]
    time: str | None = None  # with its day, where the head of the print has it
    host: str | None = None


class Print(Struct, frozen=True):
    """What one tool prints at a place of the log."""

    tool: str
    readings: Sequence[Reading]
    processes: tuple[MachineProcess, ...] = ()


_FIGURE: Final = r"\d{1,15}(?:[.,]\d{1,3})?(?:[KMGTkmgt]i?B?|B)?"
# Its words are translated, its columns are not.
_FREE_ROW: Final = late(rf"^\s*(?:Mem|Speicher|Память|内存)\s?[:：]((?:\s+{_FIGURE}){{3,7}})\s*$")
_SWAP_ROW: Final = late(rf"^\s*(?:Swap|Auslagerungsspeicher|Подкачка|交换)\s?[:：]((?:\s+{_FIGURE}){{3}})\s*$")
_TOTAL_ROW: Final = late(rf"^\s*(?:Total|Low|High|Gesamt)\s?:((?:\s+{_FIGURE}){{3}})\s*$")
_CACHE_ROW: Final = late(rf"^\s*-/\+ \S{{1,20}}?:?\s+({_FIGURE})\s+{_FIGURE}\s*$")
_HEADED: Final = late(r"^\s*(?:total\s+used\s+free|free\s+used\s+total|used\s+free\s+total)\b[a-z/\s]{0,80}$")
_HEADED_ROW: Final = late(
    rf"^\s*(?P<label>[A-Za-z][\w ]{{0,20}}:?\s+)?(?P<figures>{_FIGURE}(?:\s+{_FIGURE}){{2,7}})\s*$"
)
_SWAP_LABEL: Final = late(r"(?i)^\s*s(?:wap)?\b")
_TOP: Final = late(
    r"\b(?:(?P<unit>[KMGT]iB) )?Mem ?:\s{1,8}(?P<figures>[\d.,]{1,15}[kKmMgGt]? ?(?:\+ ?)?total,.{10,200})"
)
_TOP_SWAP: Final = late(
    r"\b(?:(?P<unit>[KMGT]iB) )?Swap:\s{1,8}(?P<figures>[\d.,]{1,15}[kKmMgGt]? ?(?:\+ ?)?total,.{10,200})"
)
_TOP_FIGURE: Final = late(r"([\d.,]{1,15}?)([kKmMgGt]?) ?\+? ?(total|used|free|buff/cache|buffers|cached|avail Mem)")
_MACOS: Final = late(r"\bPhysMem: ([\d.]{1,8}[KMGT]) used \([^)]{1,80}\), ([\d.]{1,8}[KMGT]) unused")
_PSUTIL: Final = late(
    r"\bsvmem\(total=(?P<total>\d{1,16}), available=(?P<available>\d{1,16}), percent=(?P<percent>[\d.]{1,6}), "
    r"used=(?P<used>\d{1,16}), free=(?P<free>\d{1,16})"
)
_COMMIT_ROW: Final = late(rf"^\s*Comm\s?[:：]((?:\s+{_FIGURE}){{3}})\s*$")
_MEMINFO: Final = late(r"^\s*(?P<key>[A-Z]\w{1,20}(?:\(\w{1,8}\))?):\s+(?P<figure>\d{1,15})(?P<kib> kB)?\s*$")
_MEMINFO_KEYS: Final = {
    "MemTotal": "total", "MemFree": "free", "MemAvailable": "available", "Cached": "cached", "Buffers": "buffers",
    "SwapTotal": "swap_total", "Shmem": "shared", "SUnreclaim": "unreclaimable", "CommitLimit": "commit_limit",
    "Committed_AS": "committed",
}  # fmt: skip
# Format-List of PowerShell, and `wmic os get ... /value`
_WINDOWS_ROW: Final = late(r"^\s*(?P<key>[A-Z]\w{10,30})\s*[:=]\s*(?P<figure>\d{1,15})\s*$")
_OF_WINDOWS: Final = ("TotalVisibleMemorySize", "FreePhysicalMemory", "TotalVirtualMemorySize", "FreeVirtualMemory")
_HOST: Final = r"(?:host|system|cpu|main|node|physical|virtual)[ _]"
_NUMBER: Final = late(r"\d{1,16}(?:\.\d{1,16})?")
_WORD: Final = rf"(?<![\w.-])(?:{_HOST})?(?:ram|memory|mem)(?:[ _](?:usage|used|utili[sz]ation|in use|percent))?"
_RATIO: Final = late(
    rf"(?i){_WORD}(?: on this node)?\s?[:=]?\s{{0,3}}(?P<used>\d{{1,7}}(?:\.\d{{1,6}})?)\s?(?P<unit>[KMGT]i?B)?\s?/\s?"
    r"(?P<total>\d{1,7}(?:\.\d{1,6})?)\s?(?P<of>[KMGT]i?B)\b(?:\s?\(\s?(?P<percent>\d{1,3}(?:\.\d{1,4})?)\s?%)?"
)
_USED_AND_FREE: Final = late(
    rf"(?i){_WORD}\s?[:=]?\s{{0,3}}used\s?[:=]\s?(?P<used>\d{{1,7}}(?:\.\d{{1,6}})?)\s?(?P<unit>[KMGT]i?B),?\s{{1,4}}"
    r"free\s?[:=]\s?(?P<free>\d{1,7}(?:\.\d{1,6})?)\s?(?P<of>[KMGT]i?B)\b"
)
_PERCENT: Final = late(
    rf"(?i){_WORD}\s?(?:[:=]|is\b|at\b)\s{{0,3}}(?P<percent>\d{{1,3}}(?:\.\d{{1,20}})?)\s?%"
    r"|(?<![\w.])(?:ram|mem|memory)_(?:util_)?(?:percent|pct)\"?\s?[:=]\s?(?P<bare>\d{1,3}(?:\.\d{1,20})?)(?![\w.]*%)"
)
_OTHERS_MEMORY: Final = late(
    r"(?i)gpu|cuda|vram|npu|hbm|hpu|\bkv|cache|swap|object|plasma|shm|heap|limit|threshold|card|/dev/"
)
_OF_A_CARD: Final = late(r"(?i).{0,6}(?:gpu|cuda|vram|card)")
_PROCESSES: Final = late(r"^\s*(?=.{0,200}\bPID\b)(?=.{0,200}\b(?:RSS|RES)\b).{0,200}\b(?:COMMAND|CMD|ARGS|NAME)\s*$")
_KIB_OR_UNIT: Final = late(r"^(\d{1,15}(?:[.,]\d{1,3})?)([kmgtKMGT]?)$")
_CONTAINER: Final = late(
    r"\s(?P<used>[\d.]{1,10}[KMGT]?i?B) / (?P<limit>[\d.]{1,10}[KMGT]?i?B)\s{1,12}(?P<percent>[\d.]{1,6})%"
)
_DSTAT: Final = late(r"\bused\s{1,4}free\s{1,4}(?:buff\s{1,4}cach|cach\s{1,4}avai)\b")
_RECORD: Final = late(
    r"^\s{0,4}Linux \S{1,80} \((?P<host>[\w.-]{1,80})\)\s{1,8}"
    r"(?:(?P<iso>\d{4}-\d\d-\d\d)|(?P<first>\d\d)/(?P<second>\d\d)/(?P<year>\d{4}))\s"
)
_SAR_CLOCK: Final = late(r"^\s{0,4}(?P<hour>\d\d):(?P<rest>\d\d:\d\d)(?: (?P<half>AM|PM))?\s")
_CLOCK: Final = late(r"^#?(?:\d{1,2}:\d\d:\d\d|AM|PM|Time)$")
_PLAIN: Final = late(rf"^{_FIGURE}$")

# free prints no unit after -b, -m, -g and nothing; no machine that trains has less than 2 GiB, or more than 10 TiB.
_UNITS: Final = ((1e10, ""), (2e6, "KiB"), (2e3, "MiB"))


def _print(page: Page, index: int) -> Print | None:
    """What a tool prints from this line on; None where none begins."""
    text = page.lines[index].text[:ROW_CHARACTERS]
    for words, reader in _READERS:
        if any(word in text for word in words) and (found := reader(page, index)) is not None:
            return found
    return None


def every(page: Page, index: int) -> Iterator[MachineMemory]:
    """The rows of what a tool prints from this line on."""
    found = _print(page, index)
    if found is None:
        return
    for reading in found.readings:
        figures = dict(reading.figures)
        fraction = figures.pop("percent", None)
        line = reading.line
        yield MachineMemory(
            at=place_of(page, line),
            time=reading.time or line.mark.time or page.lines[index].mark.time,
            process=Process(node=line.mark.ip or line.mark.host or reading.host),
            tool=found.tool,
            used_fraction=_fraction(fraction),
            processes=found.processes,
            **_sized(figures),
        )


def _fraction(percent: str | None) -> float | None:
    """With the digits that are printed, and no more."""
    if percent is None or _NUMBER.fullmatch(percent) is None:
        return None
    return round(float(percent) / 100, len(percent.partition(".")[2]) + 2)


def _sized(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name}_bytes": int(value) for name, value in figures.items()}


def read(page: Page, index: int) -> Iterator[Read]:
    rows = list(every(page, index))
    if rows and rows[0].tool == "docker":  # a row for each container
        yield max(rows, key=lambda row: row.share or 0)
    elif rows and rows[0].is_of_a_record:  # the last row may be hours behind the failure
        yield from rows
    else:
        yield from rows[-1:]


# --- free, and tables with its words


def _free(page: Page, index: int) -> Print | None:
    line = page.lines[index]
    match = _FREE_ROW.match(line.text[:ROW_CHARACTERS])
    if match is None:
        return None
    words = match[1].split()
    unit = _unit_without_suffix(words[0])
    sizes = [_size(word, unit) for word in words]
    figures = _named(_columns(page, index, sizes), sizes)
    for below in page.after(index, FREE_ROWS)[1:]:
        if swap := _SWAP_ROW.match(below.text[:ROW_CHARACTERS]):
            total, used, _ = (_size(word, unit) for word in swap[1].split())
            figures |= _named(("swap_total", "swap_used"), (total, used))
        elif cache := _CACHE_ROW.match(below.text[:ROW_CHARACTERS]):
            figures |= _named(("used_without_cache",), (_size(cache[1], unit),))
        elif commit := _COMMIT_ROW.match(below.text[:ROW_CHARACTERS]):
            limit, committed, _ = (_size(word, unit) for word in commit[1].split())
            figures |= _named(("commit_limit", "committed"), (limit, committed))
        elif _TOTAL_ROW.match(below.text[:ROW_CHARACTERS]) is None:
            break
    return Print("free", (Reading(line, figures),))


def _columns(page: Page, index: int, sizes: Sequence[int | None]) -> tuple[str, ...]:
    """Up to 3.3.9 the last two of six are buffers and cache, and what is used counts them; -w parts them."""
    new = ("total", "used", "free", "", "cached", "available")
    if len(sizes) == len(new) + 1:
        return ("total", "used", "free", "", "buffers", "cached", "available")
    if len(sizes) < len(new):
        return new[:3]
    head = page.lines[index - 1].text if index else ""
    total, used, free = (value or 0 for value in sizes[:3])
    old = "buffers" in head if "total" in head else abs(total - used - free) <= total / 1000 and bool(sizes[4])
    return ("total", "used", "free", "", "buffers", "cached") if old else new


def _headed(page: Page, index: int) -> Print | None:
    """A header with free's words, and below it rows under other names: memory, and swap."""
    if not _HEADED.match(page.lines[index].text[:ROW_CHARACTERS]):
        return None
    names = [_OF_HEADER.get(word, "") for word in page.lines[index].text.split()]
    figures: dict[str, Any] = {}
    last = None
    for line in page.after(index, 4)[1:]:
        row = _HEADED_ROW.match(line.text[:ROW_CHARACTERS])
        if row is None or _FREE_ROW.match(line.text[:ROW_CHARACTERS]):
            break
        words = row["figures"].split()
        unit = _unit_without_suffix(words[names.index("total")] if len(words) > names.index("total") else words[0])
        sizes = [_size(word, unit) for word in words]
        if _SWAP_LABEL.match(row["label"] or ""):
            swap = dict(zip(names, sizes, strict=False))
            figures |= _named(("swap_total", "swap_used"), (swap.get("total"), swap.get("used")))
        elif last is None:
            figures |= _named(names, sizes)
        last = line
    return Print("free", (Reading(last, figures),)) if last is not None and "total" in figures else None


_OF_HEADER: Final = {
    "total": "total", "used": "used", "free": "free", "buffers": "buffers", "cached": "cached", "cache": "cached",
    "buff/cache": "cached", "available": "available",
}  # fmt: skip


# --- top, ps


def _top(page: Page, index: int) -> Print | None:
    line = page.lines[index]
    match = _TOP.search(line.text[:ROW_CHARACTERS])
    if match is None:
        return None
    figures = _of_top(match)
    for at, below in enumerate(page.after(index, 12)[1:], start=1):
        if swap := _TOP_SWAP.search(below.text[:ROW_CHARACTERS]):
            beside = _of_top(swap)
            figures |= _named(("swap_total", "swap_used"), (beside.get("total"), beside.get("used")))
            figures |= {name: beside[name] for name in ("available", "cached") if name in beside}
        elif _PROCESSES.match(below.text[:ROW_CHARACTERS]):
            return Print("top", (Reading(line, figures),), _rows(page.after(index, BLOCK_LINES)[at:]))
        elif below.text.strip() and at > 2:
            break
    return Print("top", (Reading(line, figures),))


def _of_top(match: re.Match[str]) -> dict[str, Any]:
    figures = {}
    for number, unit, name in _TOP_FIGURE.findall(match["figures"]):
        key = {"buff/cache": "cached", "avail Mem": "available"}.get(name, name)
        figures[key] = size(_plain(number), unit or match["unit"] or "KiB")
    return {name: value for name, value in figures.items() if value is not None}


def _macos(page: Page, index: int) -> Print | None:
    match = _MACOS.search(page.lines[index].text[:ROW_CHARACTERS])
    if match is None:
        return None
    used, free = _size(match[1], ""), _size(match[2], "")
    return Print("top", (Reading(page.lines[index], _named(("used", "free"), (used, free))),))


def _ps(page: Page, index: int) -> Print | None:
    """ps; top's table belongs to the summary above it."""
    if not _PROCESSES.match(page.lines[index].text[:ROW_CHARACTERS]):
        return None
    if any(_TOP.search(line.text[:ROW_CHARACTERS]) for line in page.before(index, 12)):
        return None
    lines = page.after(index, BLOCK_LINES)
    rows = _rows(lines)
    return Print("ps", (Reading(lines[0], {}),), rows) if rows else None


def _rows(lines: Sequence[Line]) -> tuple[MachineProcess, ...]:
    """The largest of the processes below this header, whatever its columns."""
    names = lines[0].text.split()
    pid, held = names.index("PID"), names.index("RSS" if "RSS" in names else "RES")
    found = []
    for line in lines[1:]:
        cells = line.text[:ROW_CHARACTERS].split(None, len(names) - 1)
        figure = _KIB_OR_UNIT.match(cells[held]) if len(cells) == len(names) else None
        if figure is None or not cells[pid].isdecimal():
            break
        held_bytes = size(_plain(figure[1]), figure[2] or "KiB") or 0
        found.append(MachineProcess(pid=int(cells[pid]), bytes=held_bytes, command=cells[-1].strip()))
    return tuple(sorted(found, key=lambda row: -row.bytes)[:MOST_PROCESSES])


# --- tools that print a row every few seconds


def _vmstat(page: Page, index: int) -> Print | None:
    columns = {"swpd": "swap_used", "free": "free", "buff": "buffers", "cache": "cached"}
    return _columned(page, index, "vmstat", columns, "KiB")


def _sar(page: Page, index: int) -> Print | None:
    """Up to version 11 what is used counts the cache: only a column of what is available says how full it is."""
    columns = {"kbmemfree": "free", "kbavail": "available", "kbmemused": "used", "%memused": "percent",
               "kbbuffers": "buffers", "kbcached": "cached"}  # fmt: skip
    found = _columned(page, index, "sar", columns, "KiB")
    head = _record_above(page, index)
    if found is None or head is None:
        return found
    readings = [_dated(reading, *head) for reading in found.readings if not reading.line.text.startswith("Average")]
    return Print("sar", readings) if readings else None


def _record_above(page: Page, index: int) -> tuple[str, str] | None:
    """The day and the machine, of the head that stands above each table of a record."""
    above = (_RECORD.match(line.text[:ROW_CHARACTERS]) for line in reversed(page.lines[max(0, index - 300) : index]))
    head = next((match for match in above if match is not None), None)
    if head is None:
        return None
    day = head["iso"] or _iso(int(head["first"]), int(head["second"]), int(head["year"]))
    return day, head["host"]


def _iso(first: int, second: int, year: int) -> str:
    """Month and day as the United States write them, unless the first cannot be a month."""
    month, day = (second, first) if first > MONTHS else (first, second)
    return f"{year:04}-{month:02}-{day:02}"


def _dated(reading: Reading, day: str, host: str) -> Reading:
    clock = _SAR_CLOCK.match(reading.line.text)
    if clock is None:
        return reading
    hour = int(clock["hour"]) % 12 + (12 if clock["half"] == "PM" else 0) if clock["half"] else int(clock["hour"])
    return Reading(reading.line, reading.figures, f"{day} {hour:02}:{clock['rest']}", host)


def _collectl(page: Page, index: int) -> Print | None:
    return _columned(page, index, "collectl", {"Free": "free", "Buff": "buffers", "Cach": "cached"}, "KiB")


def _columned(page: Page, index: int, tool: str, columns: Mapping[str, str], unit: str) -> Print | None:
    """Rows of as many words as their header has, counted from its first column on."""
    head = [word.lstrip("#") for word in page.lines[index].text[:ROW_CHARACTERS].split() if not _CLOCK.match(word)]
    if not columns.keys() & set(head):
        return None
    readings = []
    for line in page.after(index, BLOCK_LINES)[1:]:
        words = [word for word in line.text[:ROW_CHARACTERS].split() if not _CLOCK.match(word)]
        if len(words) != len(head) or not all(_PLAIN.match(word) for word in words):
            break
        cells = {columns[name]: word for name, word in zip(head, words, strict=True) if name in columns}
        figures = {name: _size(word, unit) for name, word in cells.items() if name != "percent"}
        share = {"percent": _plain(cells["percent"])} if "percent" in cells else {}
        readings.append(Reading(line, {**_named(figures.keys(), figures.values()), **share}))
    return Print(tool, readings) if readings else None


def _dstat(page: Page, index: int) -> Print | None:
    cells = page.lines[index].text[:ROW_CHARACTERS].split("|")
    at = next((number for number, cell in enumerate(cells) if _DSTAT.search(cell)), None)
    if at is None:
        return None
    names = [{"buff": "buffers", "cach": "cached", "avai": "available"}.get(word, word) for word in cells[at].split()]
    readings = []
    for line in page.after(index, BLOCK_LINES)[1:]:
        row = line.text[:ROW_CHARACTERS].split("|")
        words = row[at].split() if len(row) == len(cells) else []
        if len(words) != len(names) or not all(_PLAIN.match(word) for word in words):
            break
        readings.append(Reading(line, _named(names, [_size(word, "") for word in words])))
    return Print("dstat", readings) if readings else None


# --- one line, or one figure a line


def _meminfo(page: Page, index: int) -> Print | None:
    """The table, or the rows of it that somebody has picked."""
    said: dict[str, int] = {}
    last = page.lines[index]
    for line in page.after(index, 60):
        match = _MEMINFO.match(line.text[:ROW_CHARACTERS])
        if match is None:
            break
        said[match["key"]] = int(match["figure"])
        if match["key"] in (*_MEMINFO_KEYS, *_HUGE):
            last = line
    figures = _named(_MEMINFO_KEYS.values(), (_kib(said.get(key)) for key in _MEMINFO_KEYS))
    pages = [said.get(name) for name in _HUGE]
    if all(pages):
        figures["huge_pages"] = _kib((pages[0] or 0) * (pages[1] or 0))
    return Print("meminfo", (Reading(last, figures),)) if len(figures) > 1 or _OWN_KEYS & figures.keys() else None


_HUGE: Final = ("HugePages_Total", "Hugepagesize")
# Words of no other table: one row of them is enough.
_OWN_KEYS: Final = frozenset({"commit_limit", "committed", "unreclaimable", "shared", "huge_pages"})


def _windows(page: Page, index: int) -> Print | None:
    """Win32_OperatingSystem's figures, one below the other and all in KiB; "virtual" is RAM and page file together."""
    said: dict[str, int] = {}
    last = page.lines[index]
    for line in page.after(index, len(_OF_WINDOWS)):
        match = _WINDOWS_ROW.match(line.text[:ROW_CHARACTERS])
        if match is None or match["key"] not in _OF_WINDOWS:
            break
        said[match["key"]] = int(match["figure"]) * KIB
        last = line
    total, free, limit, left = (said.get(key) for key in _OF_WINDOWS)
    if total is None or free is None:
        return None
    figures = _named(("total", "available"), (total, free))
    if limit is not None and left is not None:
        figures |= _named(("commit_limit", "committed"), (limit, limit - left))
    return Print("windows", (Reading(last, figures),))


def _kib(figure: int | None) -> int | None:
    return size(figure, "KiB") if figure is not None else None


def _psutil(page: Page, index: int) -> Print | None:
    match = _PSUTIL.search(page.lines[index].text)
    if match is None:
        return None
    figures = _named(
        ("total", "available", "used", "free"), map(int, match.group("total", "available", "used", "free"))
    )
    return Print("psutil", (Reading(page.lines[index], figures),))


def _own(page: Page, index: int) -> Print | None:
    """A program's own "RAM: 61.2 / 64.0 GB" or "memory usage: 97 %", where it is not the card's."""
    line = page.lines[index]
    text = line.text[:ROW_CHARACTERS]
    if not any(sign in text for sign in ("%", "/", "percent", "pct", "free")):
        return None  # a trainer prints its card's memory on every line
    match = _RATIO.search(text) or _PERCENT.search(text) or _USED_AND_FREE.search(text)
    if match is None or _OTHERS_MEMORY.search(text[: match.end()]) or _OF_A_CARD.match(text, match.end()):
        return None
    figures: dict[str, Any] = {}
    said = match.groupdict()
    if said.get("total"):
        sizes = (size(said["used"], said["unit"] or said["of"]), size(said["total"], said["of"]))
        figures |= _named(("used", "total"), sizes)
    elif said.get("free"):
        figures |= _named(("used", "free"), (size(said["used"], said["unit"]), size(said["free"], said["of"])))
    if (share := said.get("percent") or said.get("bare")) and float(share) <= WHOLE:
        figures["percent"] = share
    return Print("program", (Reading(line, figures),)) if figures else None


def _docker(page: Page, index: int) -> Print | None:
    """docker stats: how full the container's limit is, or the machine where it has none."""
    if "MEM USAGE / LIMIT" not in page.lines[index].text:
        return None
    readings = []
    for line in page.after(index, BLOCK_LINES)[1:]:
        row = _CONTAINER.search(line.text[:ROW_CHARACTERS])
        if row is None:
            break
        used, limit = _size(row["used"], ""), _size(row["limit"], "")
        readings.append(Reading(line, {**_named(("used", "total"), (used, limit)), "percent": row["percent"]}))
    return Print("docker", readings) if readings else None


# --- figures


def _named(names: Iterable[str], sizes: Iterable[int | None]) -> dict[str, Any]:
    """The figures that are there, without the columns that nobody asks for."""
    return {name: value for name, value in zip(names, sizes, strict=False) if name and value is not None}


def _size(word: str, unit: str) -> int | None:
    digits = word.rstrip("KMGTkmgtiB")
    return size(_plain(digits), word[len(digits) :] or unit)


def _plain(number: str) -> str:
    """Some languages write the decimal point as a comma."""
    return number.replace(",", ".")


def _unit_without_suffix(total: str) -> str:
    number = _plain(total)
    return unit_of_free(float(number)) if _NUMBER.fullmatch(number) else ""


def unit_of_free(total: float) -> str:
    """What free counts in, by how much it says there is in all."""
    return next((unit for least, unit in _UNITS if total >= least), "GiB")


_ROWS_OF_MEMINFO: Final = ("Shmem:", "HugePages_Total:", "SUnreclaim:", "CommitLimit:", "Committed_AS:")
_READERS: Final[tuple[tuple[tuple[str, ...], Callable[[Page, int], Print | None]], ...]] = (
    (("Mem:", "Mem :", "Speicher:", "Память:", "内存"), _top),
    (("Mem:", "Speicher:", "Память:", "内存"), _free),
    (("total",), _headed),
    (("PhysMem: ",), _macos),
    ((" RSS ", " RES "), _ps),
    (("swpd",), _vmstat),
    (("kbmemfree",), _sar),
    (("used  free  ",), _dstat),
    (("Free Buff Cach",), _collectl),
    (("MemTotal:", *_ROWS_OF_MEMINFO), _meminfo),
    (("TotalVisibleMemorySize",), _windows),
    (("svmem(",), _psutil),
    (("MEM USAGE / LIMIT",), _docker),
    (("emory", "mem", "Mem", "RAM", "ram"), _own),
)  # fmt: skip

# Words that lead to a print. A program's own lines are many in a healthy log; these are what they have in common.
TRIGGERS: Final = (
    "Mem:", "Mem :", "Speicher:", "Память:", "内存", "PhysMem: ", " RSS ", " RES ", "swpd", "kbmemfree",
    "used  free  ", "total used free", "total	used	free", "buffers", "Free Buff Cach", "MemTotal:", "svmem(",
    "TotalVisibleMemorySize",
    "emory usage", "emory used", "emory_usage", "emory util", "emory percent", "mem usage", "RAM", "ram usage",
    "ram_util_percent", "ram_percent", "ram_pct", "ram:", "em: ", "emory: ", "em_percent", "emory_percent", "mem=",
    "MEM USAGE / LIMIT", *_ROWS_OF_MEMINFO,
)  # fmt: skip

FAMILY = Family(name="machine_memory", anchors=(), triggers=TRIGGERS, read=read)
