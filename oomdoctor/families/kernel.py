"""The kernel's out-of-memory killer, and those that kill for memory from user space: systemd-oomd, earlyoom.

For the causes: `KernelKill.process` is the victim, and the victim need not be the culprit; `invoker` only asked for
the page that was not there. `tasks` names the biggest tasks of the cgroup (where `constraint` says MEMCG) or of the
whole machine, biggest first, in bytes: group them by name to tell one hog from many workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor import grammars
from oomdoctor.families import Family
from oomdoctor.families.event import Event, Lookalike, Process, Read, Threshold, Usage
from oomdoctor.families.lines import place_of
from oomdoctor.families.sentences import bytes_of
from oomdoctor.language import mark
from oomdoctor.patterns import late, remembered
from oomdoctor.streams import Line, Page
from oomdoctor.units import KIB

DUMP_LINES: Final = 8000  # a machine with thousands of tasks lists them all
SILENT_LINES: Final = 300  # of call traces, zones and statistics between the telling lines of a dump
MOST_TASKS: Final = 64
PAGE: Final = 4 * KIB
PAGES: Final = (4 * KIB, 16 * KIB, 64 * KIB)  # x86, and what some ARM and POWER kernels use


class Task(Struct, frozen=True, kw_only=True):
    """One row of the dump's table. The kernel counts pages; these are bytes."""

    pid: int
    name: str  # cut after 15 characters
    rss_pages: int  # as it is printed: anonymous memory where the kernel tells it apart, else everything resident
    rss_bytes: int
    swap_bytes: int
    total_vm_pages: int | None = None  # address space, never memory in use
    swap_pages: int | None = None


class KernelKill(Event, frozen=True, kw_only=True):
    """One act of the kernel's OOM killer, from the dump, the kill line or the reaper's line alone."""

    family = "kernel"
    kind = "oom-kill"

    pool: str = "host_ram"  # "cgroup" where a limit below the machine's was hit
    strength: int = 3

    total_vm_bytes: Usage[int | None] = None  # address space, never memory in use
    anon_rss_bytes: Usage[int | None] = None
    file_rss_bytes: Usage[int | None] = None
    shmem_rss_bytes: Usage[int | None] = None
    pgtables_bytes: Usage[int | None] = None
    used_bytes: Usage[int | None] = None  # of the cgroup
    group_anon_bytes: Usage[int | None] = None  # what it is made of: of its processes,
    group_file_bytes: Usage[int | None] = None  # of files, with the shared memory,
    group_shmem_bytes: Usage[int | None] = None  # and of /dev/shm, tmpfs and Ray's object store alone
    group_swap_bytes: Usage[int | None] = None  # beside them
    total_bytes: Usage[int | None] = None  # of the machine
    free_swap_bytes: Usage[int | None] = None
    total_swap_bytes: Usage[int | None] = None
    limit_bytes: Threshold[int | None] = None  # of the cgroup
    constraint: str | None = None  # "CONSTRAINT_MEMCG", "CONSTRAINT_NONE", ...
    global_oom: bool | None = None
    cgroup: str | None = None  # whose limit was hit
    task_cgroup: str | None = None
    oom_score_adj: str | None = None  # as printed: "-997"
    # mm/oom_kill.c from 2.6.36 to 5.0, of who is killed for himself: a thousand times the share of what is full (RAM
    # and swap, or a group's limit), and oom_score_adj on top
    score: int | None = None
    uid: int | None = None
    invoker: str | None = None
    invoker_pid: int | None = None
    host: str | None = None  # as the journal names it
    tasks: tuple[Task, ...] = ()
    tasks_listed: int | None = None

    def identity(self) -> str:
        """The dump, the kill line quoted elsewhere and the reaper's line tell of the same victim."""
        return f"{self.family} {self.kind} {self.process.pid} {self.process.name} {self.invoker_pid}"

    def complement(self, other: Event) -> Event:
        """In a journal that is printed upside down the figures of a kill and its reason are apart."""
        missing = {
            name: value
            for part in ("usage", "threshold", "fields")
            for name, value in other.figures(part).items()
            if getattr(self, name) in (None, ())
        }
        return replace(self, **missing)


class UserspaceKill(Event, frozen=True, kw_only=True):
    """systemd-oomd or earlyoom killed for memory, or systemd says that the kernel did."""

    family = "kernel"
    kind = "userspace-kill"

    pool: str = "host_ram"
    strength: int = 3

    killer: str  # "systemd-oomd", "earlyoom", "systemd"
    rss_bytes: Usage[int | None] = None
    available_bytes: Usage[int | None] = None
    peak_bytes: Usage[int | None] = None  # of the unit
    pressure_fraction: Usage[float | None] = None
    used_bytes: Usage[int | None] = None
    total_bytes: Usage[int | None] = None
    swap_used_bytes: Usage[int | None] = None
    swap_total_bytes: Usage[int | None] = None
    limit_fraction: Threshold[float | None] = None
    signal: str | None = None
    unit: str | None = None  # the unit or cgroup
    pressed: str | None = None  # the cgroup whose tasks waited for memory
    processes: int | None = None  # of the unit, all of them killed

    def identity(self) -> str:
        """earlyoom sends SIGKILL where SIGTERM was not enough."""
        if self.process.pid is None:
            return Event.identity(self)
        return f"{self.family} {self.kind} {self.process.pid} {self.process.name}"


_ROW = late(r"\[\s{0,9}(\d{1,9})\]((?:[ \t]{1,24}-?\d{1,20}){5,12})[ \t]{1,24}(\S[^\n]{0,60})$")
_HEADER = late(r"\[\s{0,6}pid\s{0,6}\]\s{1,6}uid\s{1,6}tgid\s{1,6}total_vm\s[a-z_ ]{10,200}")
# What a terminal's width has left of a row, and the line below it
_CUT_ROW = late(r"\[\s{0,9}\d{1,9}\](?:[ \t]{1,24}-?\d{1,20}){3,12}\s{0,4}$")
_REST_OF_A_ROW = late(r"^\s{0,4}(?:-?\d{1,20}[ \t]{1,24}){0,8}[^\s\d\[][^\s\[]{0,40}$")
# The columns of a row whose header is not there, told from their number.
_COLUMNS: Final = {
    7: ("uid", "tgid", "total_vm", "rss", "pgtables_bytes", "swapents", "oom_score_adj"),
    8: ("uid", "tgid", "total_vm", "rss", "nr_ptes", "nr_pmds", "swapents", "oom_score_adj"),
    10: ("uid", "tgid", "total_vm", "rss", "rss_anon", "rss_file", "rss_shmem", "pgtables_bytes", "swapents",
         "oom_score_adj"),
}  # fmt: skip

# mm/show_mem.c, right above the table
_SUMMARY: Final = 12  # lines
_OF_THE_MACHINE = late(r"\b(?:Free|Total) swap {0,4}= |\b\d{1,15} pages RAM\b")
_INVOKED = " invoked oom-killer"
_VICTIM = late(r"\bKill(?:ed)? process (\d{1,9})(?:, UID \d{1,10},)? \(")
# Red Hat's 2.6.32 prints the user between the number and the name
_USER_BETWEEN = late(r"(?<= process )(\d{1,9}), (UID \d{1,10}), (\([^\n]{1,40}?\)) ")
_SACRIFICE = late(r"\bKill process \d{1,9} \(")
# It names who was killed, also where it got no memory back (mm/oom_kill.c, since 4.6)
_REAPED = late(r"\boom_reaper: (?:reaped process |unable to reap pid:)(\d{1,9}) \(")
# All of a group die with the victim (mm/oom_kill.c, since 4.19); where the paste begins here, nothing else tells of it
_GROUP_DIES = late(r"\bTasks in /\S{0,400} are going to be killed due to memory\.oom\.group set")
_TELLING = late(
    r"memory\.oom\.group set"
    r"|invoked oom-killer|\bPID: \d|\bmemory: usage|Free swap|Total swap|pages RAM|oom-kill:constraint="
    r"|^\s{0,60}(?:total_)?(?:anon|file|shmem|swap|rss|cache) \d{1,20}$|\bcache:\d{1,20}KB"
    r"|Memory cgroup (?:stats for|out of mem)"
    r"|\bmem_cgroup_(?:out_of_memory|oom_synchronize)\b|as a result of limit of|no killable processes"
    r"|Kill(?:ed)? process \d|reaped process \d|unable to reap pid:\d"
)
# What a group's dump says of itself, where neither its head nor the kill is there.
_AT_ITS_LIMIT = late(
    r"\bkilled as a result of limit of /|\bmemory: usage (\d{1,15})kB, limit \1kB, failcnt [1-9]"
    r"|\bmemory\+swap: usage (\d{1,15})kB, limit \2kB(?:$|, failcnt [1-9])"
)
_LEFT = ("anon_rss_bytes", "file_rss_bytes", "shmem_rss_bytes")
_TRACE_OF_A_LIMIT = (
    "mem_cgroup_out_of_memory",
    "mem_cgroup_oom_synchronize",
    "try_charge_memcg",
    "Memory cgroup stats for",
    "Memory cgroup out of mem",
    "due to memory.oom.group set",
)
_PREFIX = late(r"^.{0,120}(?:kernel: |\]\s)|^.{0,2000}?\"(?:msg|MESSAGE)\"\s{0,4}:\s{0,4}\"")

_FIELD = late(r"\"(__REALTIME_TIMESTAMP|_HOSTNAME)\" ?: ?\"([\w.-]{1,253})\"")
_OOMD = late(r"\b(?:Killed|Marked) /?\S{1,400} (?:for killing )?due to memory (?:pressure|used)")
# The line is long, and journalctl cuts it at the terminal's width
_OOMD_CUT = late(r"(?:^|\bsystemd-oomd\[\d{1,9}\]: )Killed /[^\s>]{1,400}(?:$|[> ])")
_OOMD_ITSELF: Final = "systemd-oomd"
_EARLYOOM = late(
    r"sending SIG(?:TERM|KILL) to process \d{1,9} |Killing process '[^'\n]{1,40}' with signal"
    r"|\bkilling process \d{1,9} \"[^\"\n]{1,40}\" with signal"  # 1.1
)
_SYSTEMD = late(
    r"has been killed by the OOM killer|OOM killer killed some processes in this unit|Failed with result 'oom-kill'"
    r"|systemd-oomd killed \d{1,6} process"
)
_SAME_UNIT_LINES = 8
_OOMDS_LINES: Final = 8  # one for each process that it kills stands between
# What stands in a report of the kernel's and nowhere else: the killer's own functions, the title of its table
_INSIDE = late(
    r"\b(?:mem_cgroup_)?out_of_memory(?:\.\w{1,12})?\+0x|Tasks state \(memory values in pages\)"
    r"|Memory cgroup stats for /"
)
# The line of a kill for pressure is the longer one, and journalctl cuts it; what was found stands above it, too
_PRESSED = late(
    r"\b[Mm]emory pressure for (/\S{1,400}) (?:is|being) (\d{1,3}(?:\.\d{1,2})?%) > (\d{1,3}(?:\.\d{1,2})?%) for"
)
# What systemd-oomd lists of each group before it kills one
_CANDIDATES: Final = 60
_PATH = late(r"\bPath: (/\S{1,400})")
_SWAP = late(r"\bSwap Usage: (\d{1,6}(?:\.\d{1,3})?[BKMGT])\b")
_KILLED_OF_UNIT = late(r"systemd-oomd killed (\d{1,6}) process")
_PANIC = late(r"Kernel panic - not syncing: (?:[Oo]ut of memory|System is deadlocked on memory)")
_BY_HAND = late(r"order=-1\b|\bsysrq: Manual OOM execution")
_FRAGMENTED = late(r"page allocation (?:failure|stalls)\b.{0,40}order[:=]\s?\d")


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text
    if _OOMD.search(text) or (_OOMD_ITSELF in line.raw and _OOMD_CUT.search(text)):
        yield _oomd(page, index)
    elif _EARLYOOM.search(text):
        yield _earlyoom(page, index)
    elif _SYSTEMD.search(text):
        yield _systemd(page, index)
    elif _FRAGMENTED.search(text):
        at = place_of(page, page.lines[index])
        yield Lookalike(at, mark("the kernel found no contiguous pages for a driver; no process was killed for memory"))
    elif _BY_HAND.search(text):
        at = place_of(page, page.lines[index], _dump(page, index)[-1])
        yield Lookalike(at, mark("a user told the kernel to kill (SysRq f); memory need not have been short"))
    elif (_tells_of_a_kill(text) and not _killed_before(page, index)) or _is_beheaded(page, index):
        yield _kernel(page, index)


def _tells_of_a_kill(text: str) -> bool:
    return (
        _INVOKED in text
        or "oom-kill:constraint=" in text
        or "Out of memory and no killable processes" in text
        or _AT_ITS_LIMIT.search(text) is not None
        or _PANIC.search(text) is not None
        or any(pattern.search(text) for pattern in (_HEADER, _VICTIM, _REAPED, _GROUP_DIES))
    )


def _is_beheaded(page: Page, index: int) -> bool:
    """Whether the line is in a report of a kill, and the paste begins below its head."""
    if not _INSIDE.search(page.lines[index].text):
        return False
    return not any(
        _tells_of_a_kill(line.text) or _INSIDE.search(line.text) for line in page.before(index, SILENT_LINES)
    )


def _killed_before(page: Page, index: int) -> bool:
    """The reaper's line confirms a kill, and so does what is said of the victim's group; alone they are its trace."""
    text = page.lines[index].text
    reaped = _REAPED.search(text)
    if reaped is None and _GROUP_DIES.search(text) is None:
        return False
    killed = (_VICTIM.search(line.text) for line in page.lines[max(0, index - 60) : index])
    return any(match is not None and (reaped is None or match[1] == reaped[1]) for match in killed)


def _kernel(page: Page, index: int) -> KernelKill:
    lines = _dump(page, index)
    figures = _figures(_told([*_summary_above(page, index), *lines]))
    if _REAPED.search(lines[0].text):
        for name in _LEFT:  # what the victim still held after it was reaped, not what it held
            figures.pop(name, None)
    named = any(words in line.text for line in lines for words in _TRACE_OF_A_LIMIT)
    named = named or any(_AT_ITS_LIMIT.search(line.text) for line in lines)
    rows = _rows([*_rows_above(page, index), *lines])
    page_bytes = _page_bytes(rows, figures)
    if ram := figures.pop("pages_of_ram", None):
        figures["total_bytes"] = ram * page_bytes
    limited = figures.pop("in_memcg", False) or figures.get("constraint") == "CONSTRAINT_MEMCG"
    if limited or (named and not figures.get("global_oom")):
        figures["pool"] = "cgroup"
    victim = Process(pid=figures.pop("pid", None), name=figures.pop("name", None), node=lines[0].mark.ip)
    return KernelKill(
        at=place_of(page, lines[0], lines[-1]),
        time=lines[0].mark.time or _of_json(lines[0], "__REALTIME_TIMESTAMP"),
        process=victim,
        host=lines[0].mark.host or _of_json(lines[0], "_HOSTNAME"),
        strength=3 if victim.pid is not None else 2,  # cut, or held back by the limit on the rate of messages
        tasks=_biggest(rows, page_bytes),
        tasks_listed=len(rows) or None,
        **figures,
    )


def _of_json(line: Line, name: str) -> str | None:
    """What `journalctl -o json` says beside the message."""
    found = (match[2] for match in _FIELD.finditer(line.text[:4000]) if match[1] == name)
    return next(found, None)


def _dump(page: Page, index: int) -> list[Line]:
    """The lines from this one to the kill line (before 5.1 there are two of them), or as far as the dump is there."""
    lines = page.after(index, DUMP_LINES)
    last = 0
    for position, line in enumerate(lines):
        if position and (_INVOKED in line.text or (_is_header(line.text) and _is_header(lines[0].text))):
            break
        if position - last > SILENT_LINES:
            break
        if _is_telling(line.text):
            last = position
        if _is_victim(line.text):
            after = lines[position + 1].text if position + 1 < len(lines) else ""
            if not (_SACRIFICE.search(line.text) and _VICTIM.search(after)):
                break
    return lines[: last + 1] if last else [lines[0], *_second_half(page, index)]


def _second_half(page: Page, index: int) -> list[Line]:
    """The other line of a kill, where a paste has its first one without the stamp that this one has."""
    first, below = page.lines[index].text, page.lines[index + 1 : index + 2]
    if not below or _SACRIFICE.search(first) is None:
        return []
    one, other = _VICTIM.search(first), _VICTIM.search(below[0].text)
    return below if one is not None and other is not None and one[1] == other[1] else []


@remembered
def _is_header(text: str) -> bool:
    return _HEADER.search(text) is not None


@remembered
def _is_telling(text: str) -> bool:
    return bool(_TELLING.search(text) or _ROW.search(text) or _CUT_ROW.search(text))


@remembered
def _is_victim(text: str) -> bool:
    return bool(_VICTIM.search(text) or _REAPED.search(text))


def _told(lines: Sequence[Line]) -> str:
    texts = (line.text[:1200].strip() for line in lines if _TELLING.search(line.text))
    return "\n".join(_USER_BETWEEN.sub(r"\1 \3 \2, ", text) for text in texts)


def _figures(text: str) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    seen: set[str] = set()
    for name, values in grammars.clauses("kernel", text):
        seen.add(name)
        if name in _OF_THE_VICTIM and not seen & {"victim", "task"}:
            continue  # the head of the dump says the same of who asked
        if name == "victim" and figures.get("pid", int(values[0])) != int(values[0]):
            figures.pop("score", None)  # of its parent, whose child was sacrificed
        if name in _READERS and values:
            figures.update(_READERS[name](values))  # what the kill line says stands last and wins
    task, pid = figures.pop("task", None), figures.pop("task_pid", None)
    figures.setdefault("name", task)
    figures.setdefault("pid", pid)
    if (limit_of := figures.pop("limit_of", None)) is not None:
        figures.setdefault("cgroup", limit_of)
        figures["in_memcg"] = True
    return {key: value for key, value in figures.items() if value is not None}


def _memory(values: tuple[str, ...]) -> dict[str, Any]:
    figures = {"used_bytes": bytes_of(values[0])}
    if len(values) > 1:
        figures["limit_bytes"] = bytes_of(values[1])
    return figures


def _of_group(values: tuple[str, ...]) -> int | None:
    """ "anon 4096", "rss:4KB"."""
    return bytes_of(values[0].replace(":", " ").split()[-1])


def _victim(values: tuple[str, ...]) -> dict[str, Any]:
    return {"pid": int(values[0]), "name": values[1][1:-1] if len(values) > 1 else None}


def _invoker(values: tuple[str, ...]) -> dict[str, Any]:
    name = _PREFIX.sub("", values[0]).strip()
    return {"invoker": name if len(name) <= 15 else name.split()[-1][-15:]}


_READERS: Final[dict[str, Any]] = {
    "asker": _invoker,
    "asker_pid": lambda v: {"invoker_pid": int(v[0])},
    "memory": _memory,
    "group_anon": lambda v: {"group_anon_bytes": _of_group(v)},
    "group_file": lambda v: {"group_file_bytes": _of_group(v)},
    "group_shmem": lambda v: {"group_shmem_bytes": _of_group(v)},
    "group_swap": lambda v: {"group_swap_bytes": _of_group(v)},
    "swap_free": lambda v: {"free_swap_bytes": bytes_of(v[0])},
    "swap_total": lambda v: {"total_swap_bytes": bytes_of(v[0])},
    "ram": lambda v: {"pages_of_ram": int(v[0])},
    "constraint": lambda v: {"constraint": v[0]},
    "global_oom": lambda _: {"global_oom": True},
    "cgroup": lambda v: {"cgroup": v[0]},
    "task_cgroup": lambda v: {"task_cgroup": v[0]},
    "limit_of": lambda v: {"limit_of": v[0]},
    "in_memcg": lambda _: {"in_memcg": True},
    "task": lambda v: {"task": v[0]},
    "task_pid": lambda v: {"task_pid": int(v[0])},
    "uid": lambda v: {"uid": int(v[0])},
    "victim": _victim,
    "total_vm": lambda v: {"total_vm_bytes": bytes_of(v[0])},
    "anon_rss": lambda v: {"anon_rss_bytes": bytes_of(v[0])},
    "file_rss": lambda v: {"file_rss_bytes": bytes_of(v[0])},
    "shmem_rss": lambda v: {"shmem_rss_bytes": bytes_of(v[0])},
    "pgtables": lambda v: {"pgtables_bytes": bytes_of(v[0])},
    "score_adj": lambda v: {"oom_score_adj": v[0]},
    "score": lambda v: {"score": int(v[0])},
}


_OF_THE_VICTIM: Final = {"uid", "score_adj"}


# The table of tasks


def _rows_above(page: Page, index: int) -> list[Line]:
    """The rows that lead up to a kill line, where the head of the dump was cut off."""
    start = index
    while start > 0 and (_is_of_a_table(page.lines[start - 1].text) or _is_wrapped(page.lines[start - 2 : start])):
        start -= 1
    return page.lines[start:index]


def _is_of_a_table(text: str) -> bool:
    return any(pattern.search(text) for pattern in (_ROW, _HEADER, _CUT_ROW))


def _is_wrapped(lines: Sequence[Line]) -> bool:
    """Whether they are one row that a terminal has broken in two."""
    if len(lines) < 2 or _CUT_ROW.search(lines[0].text) is None:
        return False
    return _REST_OF_A_ROW.match(lines[1].text) is not None and _ROW.search(_joined(lines)) is not None


def _joined(lines: Sequence[Line]) -> str:
    return " ".join((lines[0].text.rstrip(), lines[1].text.lstrip()))


def _summary_above(page: Page, index: int) -> list[Line]:
    """What a dump says of swap and RAM above its table, where the paste begins below the dump's head."""
    if not _is_header(page.lines[index].text):
        return []
    return [line for line in page.lines[max(0, index - _SUMMARY) : index] if _OF_THE_MACHINE.search(line.text)]


def _rows(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Each row by its header's names: the columns changed with 4.15 and with 6.8."""
    columns: tuple[str, ...] = ()
    rows = []
    for position, line in enumerate(lines):
        header = _HEADER.search(line.text)
        if header is not None:
            columns = tuple(header[0].split("]", 1)[1].split())[:-1]
            continue
        pair = lines[position : position + 2]
        row = _ROW.search(_joined(pair) if _is_wrapped(pair) else line.text)
        if row is None:
            continue
        figures = [int(figure) for figure in row[2].split()]
        names = columns if len(columns) == len(figures) else _COLUMNS.get(len(figures), ())
        if "rss" in names:
            rows.append(
                {"pid": int(row[1]), "name": row[3].strip().rstrip('"'), **dict(zip(names, figures, strict=True))}
            )
    return rows


def _page_bytes(rows: Sequence[dict[str, Any]], figures: dict[str, Any]) -> int:
    """The size of a page: the victim's row counts them, its kill line says kB. 4 KiB where one of them is missing."""
    anonymous = figures.get("anon_rss_bytes")
    row = next((row for row in rows if row["pid"] == figures.get("pid") and row.get("rss_anon")), None)
    if row is None or not anonymous:
        return PAGE
    return min(PAGES, key=lambda page: abs(row["rss_anon"] * page - anonymous))


def _biggest(rows: Sequence[dict[str, Any]], page_bytes: int) -> tuple[Task, ...]:
    tasks = [
        Task(
            pid=row["pid"],
            name=row["name"],
            rss_pages=row.get("rss_anon", row["rss"]),
            rss_bytes=row.get("rss_anon", row["rss"]) * page_bytes,
            swap_bytes=row.get("swapents", 0) * page_bytes,
            total_vm_pages=row.get("total_vm"),
            swap_pages=row.get("swapents"),
        )
        for row in rows
    ]
    tasks.sort(key=lambda task: (-task.rss_bytes - task.swap_bytes, task.pid))
    return tuple(tasks[:MOST_TASKS])


# User space


def _oomd(page: Page, index: int) -> UserspaceKill:
    first = page.lines[index]
    values = _values(first.text)
    pressed, pressure = _pressed(page, index)
    limit = values.get("oomd_limit") or pressure[1:]
    memory, swap = values.get("oomd_memory", ()), values.get("oomd_swap", ())
    return UserspaceKill(
        at=place_of(page, first),
        time=first.mark.time,
        killer="systemd-oomd",
        unit=values["oomd_unit"][0] if values.get("oomd_unit") else None,
        pressed=pressed,
        pressure_fraction=_fraction(pressure[:1]),
        limit_fraction=_fraction(limit),
        used_bytes=_whole(memory[:1]),
        total_bytes=_whole(memory[1:]),
        swap_used_bytes=_whole(swap[:1]),
        swap_total_bytes=_whole(swap[1:]),
    )


def _pressed(page: Page, index: int) -> tuple[str | None, tuple[str, ...]]:
    """The group under pressure, and its pressure with the limit: of this kill, not of the one before."""
    above = takewhile(lambda text: not _OOMD.search(text), _texts_above(page, index, _OOMDS_LINES))
    for text in (page.lines[index].text, *above):
        if "due to memory used" not in text and (match := _PRESSED.search(text)) is not None:
            return match[1], (match[2], match[3])
    return None, ()


def _earlyoom(page: Page, index: int) -> UserspaceKill:
    first = page.lines[index]
    # of this kill, not of the one before: its limits, and what was free
    above = _values(" ".join(takewhile(lambda text: not _EARLYOOM.search(text), _texts_above(page, index))))
    values = {**above, **_values(first.text)}
    memory = values.get("early_memory", ())
    return UserspaceKill(
        at=place_of(page, first),
        time=first.mark.time,
        process=Process(pid=_whole(values.get("early_victim", ())), name=_unquoted(values.get("early_name", ()))),
        killer="earlyoom",
        signal=_sent(values),
        available_bytes=bytes_of(f"{memory[0]} MiB") if memory else None,
        total_bytes=bytes_of(memory[1]) if len(memory) > 1 else None,
        rss_bytes=bytes_of(values["vm_rss"][0]) if values.get("vm_rss") else None,
        limit_fraction=_fraction(values.get("available", ())),
    )


def _texts_above(page: Page, index: int, count: int = 3) -> list[str]:
    return [line.text for line in reversed(page.before(index, count))]


def _sent(values: dict[str, tuple[str, ...]]) -> str | None:
    if named := values.get("signal"):
        return named[0]
    return {"15": "SIGTERM", "9": "SIGKILL"}.get("".join(values.get("early_signal", ())))


def _systemd(page: Page, index: int) -> UserspaceKill:
    """systemd says up to three times of one unit that it died of the killer, and how many processes it had."""
    first = last = page.lines[index]
    peak: tuple[str, ...] = ()
    unit = _values(first.text).get("unit", ("",))[0]
    for line in page.lines[index + 1 : index + 1 + _SAME_UNIT_LINES]:
        if not unit or f"{unit}: " not in line.text:
            continue
        if " memory peak" in line.text:
            peak = _values(line.text).get("unit_peak", ())
        if peak or _SYSTEMD.search(line.text):
            last = line
    return UserspaceKill(
        at=place_of(page, first, last),
        time=first.mark.time,
        killer="systemd",
        strength=2,
        unit=unit or None,
        peak_bytes=bytes_of(peak[0]) if peak else None,
        swap_used_bytes=_swap_of(page, index, unit),
        processes=_whole(killed.groups()) if (killed := _KILLED_OF_UNIT.search(first.text)) else None,
    )


def _swap_of(page: Page, index: int, unit: str) -> int | None:
    """What systemd-oomd says of this unit's swap in its list of candidates above."""
    path = ""
    for line in page.lines[max(0, index - _CANDIDATES) : index]:
        if named := _PATH.search(line.text):
            path = named[1]
        elif unit and path.endswith(f"/{unit}") and (swap := _SWAP.search(line.text)):
            return bytes_of(swap[1])
    return None


def _values(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, values in grammars.clauses("kernel", text[:2000]):
        found.setdefault(name, values)
    return found


def _fraction(values: tuple[str, ...]) -> float | None:
    return round(float(values[0].rstrip("%")) / 100, 6) if values else None


def _whole(values: tuple[str, ...]) -> int | None:
    return int(values[0]) if values else None


def _unquoted(values: tuple[str, ...]) -> str | None:
    return values[0].strip("\"'") if values else None


FAMILY = Family(
    name="kernel",
    anchors=(
        "oom-kill",
        "Killed",
        "Kill process",
        "Out of memory",
        "oom_reaper",
        "systemd-oomd",
        "sending SIG",
        "Killing process '",
        "killing process ",
        "Kernel panic - ",
        "memory.oom.group set",
        "as a result of limit of",
        "kB, failcnt ",
        "memory+swap: usage ",
        "out_of_memory+0x",
        "out_of_memory.cold+0x",
        "Tasks state (memory values in pages)",
        "Memory cgroup stats for /",
    ),
    triggers=(
        "out_of_memory+0x",
        "out_of_memory.",
        "Tasks state (memory",
        "Memory cgroup stats for /",
        "invoked oom-killer",
        "oom-kill:constraint=",
        "Killed process",
        "Kill process",
        "total_vm",
        "killed as a result of limit of",
        "kB, failcnt ",
        "memory+swap: usage ",
        "oom_reaper: reaped",
        "oom_reaper: unable to reap",
        "memory.oom.group set",
        "Out of memory and no killable processes",
        "killed by the OOM killer",
        "OOM killer killed",
        "result 'oom-kill'",
        "systemd-oomd killed",
        "due to memory pressure",
        "due to memory used",
        "Killed /",
        "sending SIGTERM to process",
        "sending SIGKILL to process",
        "Killing process '",
        "killing process ",
        "page allocation failure",
        "Kernel panic - not syncing",
        "Manual OOM execution",
    ),
    read=read,
)
