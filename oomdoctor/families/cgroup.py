"""The files of a control group, however they are printed: by `grep .`, `head`, `cat` below its command, or bare.

`oom_kill` counts kills by any OOM killer of the kernel, a machine-wide one too. Version 2 raises `oom` only at the
level whose limit was hit and above; version 1 raises `failcnt` only at that level, and `oom_kill` only where the victim
was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field

from oomdoctor.families import Family
from oomdoctor.families.container import LimitKill, MemoryLimit
from oomdoctor.families.event import Event, Read, Role, Threshold, Usage
from oomdoctor.families.lines import place_of
from oomdoctor.families.proc_vmstat import is_asked
from oomdoctor.families.prompt import commands_of, host_of
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

FIRST: Final = "first"
AGAIN: Final = "again"
NO_LIMIT: Final = 1 << 62  # version 1 prints the largest number of pages
AT_THE_LIMIT: Final = 0.95
CHARACTERS: Final = 600
MOST_FILES: Final = 40
# Lines between two files of one group
GAP: Final = 80  # memory.stat has sixty lines


class GroupCounters(MemoryLimit, frozen=True, kw_only=True):
    """What the files say of a group in which they count no kill: its limit, its peak, its counters."""

    family = "cgroup"
    kind = "group-counters"

    role: Role = "context"

    used_bytes: Usage[int | None] = None
    peak_bytes: Usage[int | None] = None
    shmem_bytes: Usage[int | None] = None
    oom: int | None = None  # how often the limit was hit and nothing could be reclaimed
    kills: int | None = None
    failcnt: int | None = None  # how often the limit was touched; page cache does it, too
    group: str | None = None  # the folder
    host: str | None = None  # of the prompt above
    # "first" where the job's lines and another print follow; "again" of that one: its kills are those in between
    turn: str | None = None


class KillOutsideLimit(Event, frozen=True, kw_only=True):
    """The group's processes were OOM-killed, and not for the group's own limit: a limit above it, or the machine."""

    family = "cgroup"
    kind = "kill-outside-limit"

    pool: str = "host_ram"
    strength: int = 2

    kills: int
    limit_bytes: Threshold[int | None] = None
    peak_bytes: Usage[int | None] = None
    group: str | None = None
    host: str | None = None


class Shown(Struct):
    """One print of the files of one group."""

    folder: str
    first: int  # index of its first line, or of the command that printed it
    last: int
    host: str | None = None
    values: dict[str, int | None] = field(
        default_factory=dict
    )  # "memory.max", "memory.events oom_kill"; None: no limit
    lines: dict[str, int] = field(default_factory=dict)

    def of(self, *names: str) -> int | None:
        return next((value for name in names if (value := self.values.get(name)) is not None), None)


_FILE = r"memory\.[a-z_]{2,24}(?:\.[a-z_]{2,24}){0,2}"
_NAMED = late(
    rf"^(?:- )?(?P<folder>(?:[\w./@:\\-]{{0,300}}/)?)(?P<file>{_FILE})(?::| ?= ?|: "
    r"| (?=(?:[a-z_]{1,40} )?(?:max|\d{1,20})$))(?P<value>(?:[a-z_]{1,40} )?\w{1,24})$"
)
# The counters of a group's events on one line: "oom 1 oom_kill 1", "memory.events: low=0 oom=2 oom_kill=2"
_COUNTERS = late(
    r"^(?:(?P<folder>(?:[\w./@:\\-]{0,300}/)?)(?P<file>memory\.events(?:\.local)?)(?::| ?=|: | ) ?)?"
    r"(?P<pairs>\{?(?:['\"]?[a-z_]{2,40}['\"]?(?: ?[=:] ?| )\d{1,20}[,;]? ?){1,12}\}?)$"
)
_COUNTER = late(r"([a-z_]{2,40})['\"]?(?: ?[=:] ?| )(\d{1,20})")
_TITLE = late(rf"^==> (?P<folder>(?:[\w./@:\\-]{{0,300}}/)?)(?P<file>{_FILE}) <==$")
_PATH = late(rf"^[\"']?(?P<folder>(?:[\w./@:\\${{}}-]{{0,300}}/)?)(?P<file>{_FILE})[\"']?$")
_MISSING = late(
    rf"^(?:cat|grep|head|tail): (?:cannot open ['‘])?(?P<folder>(?:[\w./@:\\-]{{0,300}}/)?)(?P<file>{_FILE})['’:]"
)
_BRACES = late(r"^([^{}]{0,200})\{([\w.,]{1,200})\}([^{}]{0,60})$")
_NUMBER = late(r"^\s{0,8}(?P<value>max|\d{1,20})\s{0,8}$")
_PAIR = late(r"^\s{0,8}(?P<key>[a-z_]{2,40}) (?P<value>\d{1,20})\s{0,8}$")
# Files of several lines, by the keys that tell them apart where no name stands there
_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "memory.stat": frozenset({"hierarchical_memory_limit", "hierarchical_memsw_limit"}),
    "memory.oom_control": frozenset({"oom_kill_disable", "under_oom", "oom_kill"}),
    "memory.events": frozenset({"low", "high", "max", "oom", "oom_kill", "oom_group_kill", "sock_throttled"}),
}
_OF_SEVERAL_LINES: Final = ("memory.events", "memory.events.local", "memory.oom_control", "memory.stat",
                            "memory.swap.events", "memory.numa_stat")  # fmt: skip
_OF_VERSION_1: Final = ("_in_bytes", ".failcnt", ".oom_control")
_HITS: Final = ("memory.events oom", "memory.events.local oom", "memory.failcnt")
_PRINTERS: Final = frozenset({"cat", "grep", "head", "tail", "more"})


def read(page: Page, index: int) -> Iterator[Read]:
    shown = page.once(_by_line).get(index)
    event = _event(page, shown) if shown is not None else None
    if event is not None:
        yield event


def _by_line(page: Page) -> dict[int, Shown]:
    return {_telling(shown): shown for shown in page.once(_prints)}


def _telling(shown: Shown) -> int:
    """The line to quote: the count of kills where there is one."""
    counts = (name for name in shown.lines if name.endswith(" oom_kill"))
    return shown.lines.get(next(counts, ""), shown.first)


def _turn(page: Page, shown: Shown) -> tuple[str | None, Shown | None]:
    """Which print of the group it is, where the job's lines stand between two, and the one before."""
    alike = [one for one in page.once(_prints) if one.folder == shown.folder and {*one.lines} & {*shown.lines}]
    place = alike.index(shown)
    before = next((one for one in alike[:place] if _ran_between(page, one, shown)), None)
    if before is not None:
        return AGAIN, before
    return (FIRST if any(_ran_between(page, shown, one) for one in alike[place + 1 :]) else None), None


def _ran_between(page: Page, one: Shown, other: Shown) -> bool:
    """Whether anything but commands stands between two prints."""
    between = (line.text.strip() for line in page.lines[one.last + 1 : other.first])
    return any(text and not host_of(text) and not _paths_of(text) and not _MISSING.match(text) for text in between)


def _event(page: Page, shown: Shown) -> Event | None:
    """What the files say."""
    turn, before = _turn(page, shown)
    kills = _kills(shown)
    if before is not None and kills is not None:
        kills = max(0, kills - (_kills(before) or 0))
    limit, peak = _limit(shown), shown.of("memory.peak", "memory.max_usage_in_bytes")
    oom = shown.of("memory.events oom", "memory.events.local oom")
    line = page.lines[_telling(shown)]
    said: dict[str, Any] = {
        "at": place_of(page, line, max((line, page.lines[shown.last]), key=lambda one: one.number)),
        "time": line.mark.time,
        "limit_bytes": limit,
        "peak_bytes": peak,
        "group": shown.folder or None,
        "host": shown.host or line.mark.host,
    }
    if kills and turn != FIRST:
        if _is_outside(shown, limit, peak):
            return KillOutsideLimit(kills=kills, **said)
        return LimitKill(manager="kernel", tool="cgroup", kills=kills, strength=3 if oom and limit else 2, **said)
    used = shown.of("memory.current", "memory.usage_in_bytes")
    if (limit, peak, used, kills, oom) == (None,) * 5:
        return None
    stated = str(limit) if limit is not None else None
    return GroupCounters(
        kills=kills,
        oom=oom,
        failcnt=shown.of("memory.failcnt"),
        used_bytes=used,
        shmem_bytes=shown.of("memory.stat shmem", "memory.stat total_shmem"),
        stated=stated,
        turn=turn,
        **said,
    )


def _kills(shown: Shown) -> int | None:
    counts = [value for name, value in shown.values.items() if name.endswith(" oom_kill") and value is not None]
    return max(counts, default=None)


def _limit(shown: Shown) -> int | None:
    limits = [
        value
        for name in ("memory.max", "memory.limit_in_bytes", "memory.stat hierarchical_memory_limit")
        if (value := shown.values.get(name)) is not None
    ]
    return min((limit for limit in limits if limit < NO_LIMIT), default=None)


def _is_outside(shown: Shown, limit: int | None, peak: int | None) -> bool:
    """Whether the group's own limit was not hit; a pod's may have the same size as its container's."""
    hits = [value for name in _HITS if (value := shown.values.get(name)) is not None]
    if not hits or any(hits):
        return False
    return limit is None or peak is None or peak < AT_THE_LIMIT * limit


class _Reader:
    """Goes down a page and puts each value to its file."""

    def __init__(self) -> None:
        self.prints: list[Shown] = []
        self.queue: list[tuple[str, str]] = []  # files that a command above prints without their names
        self.title: tuple[str, str] | None = None
        self.bare: str | None = None  # the file that nameless lines with these keys belong to
        self.host: str | None = None
        self.asked: int | None = None  # the index of the command
        self.foreign = False  # lines of /proc/vmstat, which counts kills in the same words

    def take(self, index: int, line: Line) -> None:
        text = line.text[:CHARACTERS].strip()
        if not text:
            return
        if values := _named_values(text):
            self._values(index, values)
        elif titled := _TITLE.match(text):
            self.title, self.bare, self.asked = (titled["folder"], titled["file"]), None, index
            self.queue.clear()
        elif missing := _MISSING.match(text):
            self.queue = [pair for pair in self.queue if pair != (missing["folder"], missing["file"])]
        elif is_asked(text):
            self._end()
            self.foreign = True
        elif paths := _paths_of(text):
            self.foreign = False
            self.queue, self.title, self.bare = paths[:MOST_FILES], None, None
            self.host, self.asked = host_of(text), index
        elif (single := _NUMBER.match(text)) and (place := self._place(None)):
            self._value(index, *place, single["value"])
            self.title = None
        elif pair := _PAIR.match(text):
            place = None if self.foreign else self._place(pair["key"])
            self.foreign = place is None
            if place is not None:
                self._value(index, *place, f"{pair['key']} {pair['value']}")
        else:
            self._end()

    def _end(self) -> None:
        """What stands here is of no file."""
        self.title, self.bare, self.asked, self.host, self.foreign = None, None, None, None, False
        self.queue.clear()

    def _place(self, key: str | None) -> tuple[str, str] | None:
        """The file of a line without a name: by its title, by the command's order, by its key."""
        if self.title is not None:
            return self.title
        while self.queue:
            folder, file = self.queue[0]
            if (file in _OF_SEVERAL_LINES) == (key is not None):
                if key is None:
                    self.queue.pop(0)
                return folder, file
            if key is None and self._has(folder, file):
                self.queue.pop(0)  # the lines of this file have come to their end
                continue
            return None
        if key is None:
            return None
        self.bare = self.bare if key in _KEYS.get(self.bare or "", ()) else _file_with(key)
        return ("", self.bare) if self.bare else None

    def _has(self, folder: str, file: str) -> bool:
        last = self.prints[-1] if self.prints else None
        return last is not None and last.folder == folder and any(name.startswith(f"{file} ") for name in last.lines)

    def _values(self, index: int, values: Iterable[tuple[str, str, str]]) -> None:
        for folder, file, value in values:
            self._value(index, folder, file, value)

    def _value(self, index: int, folder: str, file: str, value: str) -> None:
        key, _, figure = value.rpartition(" ")
        if not (figure == "max" or figure.isdecimal()):
            return
        name = f"{file} {key}".strip()
        shown = self._print(index, folder, name)
        shown.last, shown.lines[name] = index, index
        shown.values[name] = int(figure) if figure.isdecimal() else None

    def _print(self, index: int, folder: str, name: str) -> Shown:
        last = self.prints[-1] if self.prints else None
        one = last is not None and last.folder == folder and name not in last.lines and index - last.last <= GAP
        if last is not None and one and not _is_of_another_version(last, name):
            return last
        self.prints.append(Shown(folder, index if self.asked is None else self.asked, index, self.host))
        return self.prints[-1]


def _named_values(text: str) -> list[tuple[str, str, str]]:
    """What a line says that names its file, or the counters of the events: folder, file and value."""
    if (named := _NAMED.match(text)) is not None:
        return [(named["folder"], named["file"], named["value"])]
    return _counters(text)


def _counters(text: str) -> list[tuple[str, str, str]]:
    """The counters of a group's events that stand on one line, of which kills are one."""
    found = _COUNTERS.match(text) if "oom_kill" in text else None
    pairs = _COUNTER.findall(found["pairs"]) if found is not None else []
    if found is None or not {key for key, _ in pairs} <= _KEYS["memory.events"]:
        return []
    if found["file"] is None and len(pairs) == 1:
        return []  # a line of the file itself
    return [(found["folder"] or "", found["file"] or "memory.events", f"{key} {value}") for key, value in pairs]


def _is_of_another_version(shown: Shown, name: str) -> bool:
    versions = {_version(each) for each in shown.lines} - {None}
    return bool(versions) and _version(name) not in (None, *versions)


def _version(name: str) -> int | None:
    """Of cgroups; both have a memory.stat."""
    file = name.partition(" ")[0]
    if file == "memory.stat":
        return None
    return 1 if file.endswith(_OF_VERSION_1) else 2


def _file_with(key: str) -> str | None:
    return next((file for file, keys in _KEYS.items() if key in keys and key != "max"), None)


def _paths_of(text: str) -> list[tuple[str, str]]:
    """The files that a command on this line prints."""
    found = []
    for words in commands_of(text):
        if words[0] not in _PRINTERS:
            continue
        for word in words[1:]:
            matches = (_PATH.match(path) for path in _each(word))
            found += [(match["folder"], match["file"]) for match in matches if match]
    return found


def _each(word: str) -> Iterable[str]:
    """The words that a shell makes of one with braces."""
    braces = _BRACES.match(word)
    return [f"{braces[1]}{part}{braces[3]}" for part in braces[2].split(",")] if braces else [word]


def _prints(page: Page) -> list[Shown]:
    reader = _Reader()
    for index, line in enumerate(page.lines):
        reader.take(index, line)
    return reader.prints


FAMILY = Family(
    name="cgroup",
    anchors=("oom_kill", "memory.max_usage_in_bytes"),
    triggers=(
        "oom_kill ",
        "oom_kill=",
        "oom_kill:",
        "oom_kill'",
        'oom_kill"',
        "memory.max",
        "memory.{",
        "memory.peak",
        "memory.current",
        "memory.events",
        "memory.stat",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "memory.failcnt",
        "memory.oom_control",
        "hierarchical_memory_limit",
    ),
    read=read,
)
