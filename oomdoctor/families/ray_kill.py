"""Ray's memory monitor: the kill and its table of memory users, from Ray 0.8 to 2.60."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor import grammars
from oomdoctor.families import Family
from oomdoctor.families.event import Event, Lookalike, Process, Read, Role, Threshold, Usage
from oomdoctor.families.lines import place_of
from oomdoctor.families.remote_call import call_of, raised_by_ray
from oomdoctor.language import mark
from oomdoctor.patterns import late, remembered
from oomdoctor.streams import Line, Page
from oomdoctor.units import BINARY, size

# A kill of 2.57 and later lists every worker that was considered, one a line.
BLOCK_LINES: Final = 400
HEAD_CHARACTERS: Final = 40_000
# Lines of others that stand between those of a message without ending it.
STRANGERS: Final = 3
LINES_BETWEEN: Final = 3  # a line and the message that it begins, at most

# "GB" is GiB in all of these messages.
UNITS: Final = BINARY


BEFORE_KILLS: Final = "G0"  # up to 2.0 a task raised the error itself, and nobody was killed


class Row(Struct, frozen=True, kw_only=True):
    """One row of the table of the largest memory users. Pages of the object store count for whoever touched them."""

    pid: int | None  # None where the rows are run together and the number in front is not the process's alone
    bytes: int | None
    command: str


class Victim(Struct, frozen=True, kw_only=True):
    """A worker that Ray killed to free memory: the newest one, rarely the one that held the memory."""

    pid: int | None = None
    name: str | None = None  # the task's or the actor's creation task's
    bytes: int | None = None
    worker_id: str | None = None
    task_id: str | None = None
    actor_id: str | None = None


class NodeOutOfMemory(Event, frozen=True, kw_only=True):
    """Ray's monitor found the node over its threshold: with the workers it killed, or only the table of users."""

    family = "ray_kill"
    kind = "node-out-of-memory"

    pool: str = "host_ram"
    strength: int = 3

    used_bytes: Usage[int | None] = None
    total_bytes: Usage[int | None] = None  # the node's memory or the container's limit, whichever is less
    used_fraction: Usage[float | None] = None
    shared_bytes: Usage[int | None] = None  # what the object store had in shared memory (0.8 to 2.0)
    object_store_bytes: Usage[int | None] = None
    object_store_capacity_bytes: Usage[int | None] = None
    fraction: Threshold[float | None] = None
    bytes: Threshold[int | None] = None
    generation: str | None = None  # "G0" to "G5", None where only the table stands in the log
    node_id: str | None = None
    victims: tuple[Victim, ...] = ()
    considered: int | None = None  # how many workers the killing policy looked at
    retriable: bool | None = None
    reason: str | None = None
    call: str | None = None  # what the killed process was called for, where an exception around the message says it
    trigger_bytes: int | None = None  # the usage that made the monitor act, a moment before `used_bytes`
    cut: bool | None = None  # the table's first rows are missing: the largest user may be among them
    rows: tuple[Row, ...] = ()

    def identity(self) -> str:
        """A kill is embedded in exceptions, banners and three kinds of files, more or less whole."""
        if self.used_bytes is None:
            return Event.identity(self)
        return f"{self.family} {self.node_id} {[v.pid for v in self.victims]} {self.used_bytes}"


class UsageAboveThreshold(Event, frozen=True, kw_only=True):
    """raylet.out's line in exact bytes, just before a kill (or again and again, where nobody can be killed)."""

    family = "ray_kill"
    kind = "usage-above-threshold"

    role: Role = "confirmation"
    pool: str = "host_ram"
    strength: int = 2

    used_bytes: Usage[int | None] = None
    total_bytes: Usage[int | None] = None
    fraction: Threshold[float | None] = None
    bytes: Threshold[int | None] = None
    nobody_to_kill: bool | None = None  # "no workers are available for killing"


class KillCount(Event, frozen=True, kw_only=True):
    """The once-a-minute "N Workers (tasks / actors) killed due to memory pressure (OOM)": often all a driver sees."""

    family = "ray_kill"
    kind = "kill-count"

    pool: str = "host_ram"
    strength: int = 2

    killed: int | None = None
    crashed: int | None = None  # of other reasons
    node_id: str | None = None


class MonitorStarted(Event, frozen=True, kw_only=True):
    """raylet.out's line about the monitor: threshold and the memory Ray sees. With `disabled`, nobody watches."""

    family = "ray_kill"
    kind = "monitor-started"

    role: Role = "context"
    pool: str = "host_ram"

    total_bytes: Usage[int | None] = None
    fraction: Threshold[float | None] = None
    bytes: Threshold[int | None] = None
    disabled: bool | None = None


_HEAD = late(
    r"System memory low at node|(?<!is )running low on memory|Memory on the node \("
    r"|\bMore than \d{1,3}% of the memory on\b"
)
# Ray before 2.1 (the driver's monitor raised it inside the task)
_OLD_NAME = late(r"\bRayTaskError\(RayOutOfMemoryError\): ")
# ... and from 2.1 on, where the task that was killed was called by another one; PyTorch's error has the same name.
_NAME: Final = "RayTaskError(OutOfMemoryError): "
_END = late(r"^(?:Refer to the documentation on how to|In addition, (?:up to |~))")
_KNOWN = late(
    r"^(?:Memory on the node|OOM kill reason|Object store memory|- \w|\(global lru\)|Eviction Stats|Ray killed"
    r"|Considered workers|Selected to kill|\((?:Task|Actor|Worker)\b|\]|Total non-selected|To see more|Top \d+"
    r"|node\s|PID\s+MEM|-{3}$)"
)
_TABLE = late(r"Top \d{1,3} memory users|top \d{1,3} memory consumers are|\bPID\s{1,12}MEM(?:\(GB\))?\s{1,12}COMMAND")
_HEADER = late(r"\bPID\s{1,12}MEM\(GB\)\s{1,12}COMMAND\b")
_ROW = late(r"^\s{0,16}(\d{1,8})[\t ]{1,12}(\d{1,6}\.\d{1,2})\s?(GiB|GB)?[\t ]{1,12}(\S.*)$")
_JOINED_ROWS = late(r"[,;] (?=\d{1,8}[\t ]{1,12}\d{1,6}\.\d\d[\t ])")
_GLUED_ROW = late(r"\d{1,16}\t(\d{1,6}\.\d\d)\t([^\t]{1,200}?)(?=\d{1,16}\t|\d{0,12}PID\t|Refer to|$)")
_ADVICE = late(r"[,;]?\s{0,8}Refer to the documentation\b.*", re.DOTALL)
# A worker that the killing policy looked at, as 2.55 and later list them
_CONSIDERED = late(r"\((?:Task: |Actor\(|Worker with no lease).{0,2000}\bactual memory used=\d[\d.]{0,11}[KMGT]?i?B")
_SELECTED: Final = "Selected to kill:"
CONSIDERED_GAP: Final = 3  # lines between two of them that were cut
# The rows of Ray's table, largest first: TopNMemoryDebugString(10) of src/ray/common/memory_monitor.cc, and
# get_top_n_memory_usage(n=10) of ray/_private/memory_monitor.py before 2.1
TOP: Final = 10
_FOLD = late(r"\\?\n\s*(?:\\(?= ))?")


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    if _HEAD.search(line.text):
        if not _inside_another(page, index):
            yield _kill(page, _block(page, index), line.mark.time or _stamped_above(page, index))
    elif _HEADER.search(line.text) or _END.match(line.text.strip()):
        rows = _table_alone(page, index)
        if rows:
            yield _table(page, rows)
    elif _CONSIDERED.search(line.text):
        yield from _considered_alone(page, index)
    elif _OLD_NAME.search(line.text) or (_NAME in line.text and raised_by_ray(page, index)):
        yield from _without_its_words(page, index)
    else:
        yield from _short(page, index)


@remembered
def _is_head(text: str) -> bool:
    return _HEAD.search(text) is not None


@remembered
def _is_part(text: str) -> bool:
    return bool(_KNOWN.match(text) or _ROW.match(text))


# --- the kill and its table


def _block(page: Page, index: int) -> list[Line]:
    """The lines of the message that begins at the index."""
    lines = page.after(index, BLOCK_LINES)
    if _is_quoted(lines[0].text):
        return _quoted(lines)
    kept, strangers = 1, 0
    on_node = "Memory on the node (" in lines[0].text
    for position, line in enumerate(lines[1:], start=1):
        text = line.text.strip()
        if _END.match(text):
            return lines[: position + 1]
        if _is_head(text):
            if on_node or "Memory on the node (" not in text:
                break
            on_node = True
        if _is_part(text):
            kept, strangers = position + 1, 0
        elif text:
            strangers += 1
            if strangers > STRANGERS or text.startswith("Traceback (most recent"):
                break
    return lines[:kept]


def _is_quoted(text: str) -> bool:
    """The whole message on one line, its line ends written as backslash and n."""
    return "\\n" in text


def _quoted(lines: Sequence[Line]) -> list[Line]:
    """The lines of a quoted message: one, or until the quotation mark that closes a folded YAML text."""
    if lines[0].text.count('"') != 1:
        return [lines[0]]
    for position, line in enumerate(lines[1:60], start=1):
        if line.text.rstrip().endswith('"'):
            return list(lines[: position + 1])
    return [lines[0]]


def _text(lines: Sequence[Line]) -> str:
    text = "\n".join(line.text for line in lines)
    if not _is_quoted(lines[0].text):
        return text
    text = _FOLD.sub("", text)
    # Ray escapes twice in events/event_RAYLET.log: a backslash is left after one reading.
    return text.replace("\\\\n", "\n").replace("\\n", "\n").replace("\\\\t", "\t").replace("\\t", "\t")


def _inside_another(page: Page, index: int) -> bool:
    """Ray prefixes only the first line of a message: the others name no writer and may look like a new one."""
    if page.lines[index].writer:
        return False
    for earlier in range(index - 1, max(-1, index - BLOCK_LINES), -1):
        if _is_head(page.lines[earlier].text):
            return any(line.number == page.lines[index].number for line in _block(page, earlier))
    return False


def _stamped_above(page: Page, index: int) -> str | None:
    """The time of Ray's own line that the message continues: raylet.out begins it with a line break or two."""
    for line in reversed(page.before(index, LINES_BETWEEN)):
        if line.mark.source and ".cc:" in line.mark.source:
            return line.mark.time
        if line.text.strip():
            break
    return None


def _kill(page: Page, lines: Sequence[Line], time: str | None) -> NodeOutOfMemory:
    text = _text(lines)
    start = _HEAD.search(text)
    text = text[start.start() :] if start else text
    table = _TABLE.search(text)
    head, tail = (text[: table.start()], text[table.start() :]) if table else (text, "")
    found = _Reading()
    for name, values in _clauses(head[:HEAD_CHARACTERS]) + _clauses(_after_table(tail)):
        found.take(name, values)
    rows = _rows(tail) or _glued_rows(lines[0].text) or found.rows()
    proves = bool(rows or found.workers or "used_bytes" in found.figures)
    victims = found.victims()
    first = victims[0] if victims else Victim()
    mark = lines[0].mark
    generation = found.generation(head)
    return NodeOutOfMemory(
        at=place_of(page, lines[0], lines[-1]),
        time=time,
        process=Process(pid=first.pid, name=first.name, node=found.ip or found.node_id or mark.ip),
        strength=3 if proves else 2,
        pool="cgroup" if found.figures.get("reason") == "cgroup" else "host_ram",
        victims=victims,
        rows=rows,
        node_id=found.node_id,
        call=_call(page, lines, victims, rows),
        generation=generation,
        retriable=found.retriable if generation in ("G1", "G2", "G3") else None,
        considered=len(found.workers) if len(found.workers) > len(victims) else None,
        **found.figures,
    )


def _call(page: Page, lines: Sequence[Line], victims: Sequence[Victim], rows: Sequence[Row]) -> str | None:
    killed = {victim.pid for victim in victims if victim.pid is not None}
    return call_of(page, lines, killed or {row.pid for row in rows if row.pid is not None})


def _after_table(tail: str) -> str:
    match = re.search(r"Refer to the documentation|In addition, (?:up to |~)", tail)
    return tail[match.start() :][:2000] if match else ""


# A session folder holds every kill three times and more, and the same advice behind each.
@lru_cache(maxsize=512)
def _clauses(text: str) -> tuple[grammars.Clause, ...]:
    return tuple(grammars.said("ray_kill", text))


class _Reading:
    """What the clauses of one message say, taken in order."""

    def __init__(self) -> None:
        self.figures: dict[str, Any] = {}
        self.ip: str | None = None
        self.node_id: str | None = None
        self.retriable: bool | None = None
        self.workers: list[Victim] = []
        self.selected: set[int] = set()
        self._words: set[str] = set()

    def take(self, name: str, values: tuple[str, ...]) -> None:
        self._words.add(name)
        if name in ("selected", "worker"):
            self._open(name)
        elif name in _OF_WORKER and values:
            self._tell(name, values[0])
        elif name == "killing":
            self.workers.append(Victim(name=values[0].rsplit(" ", 1)[1]))
        elif name in ("node_ip", "low_at") and values:
            self.ip = self.ip or values[0]
        elif name == "node_id":
            self.node_id = self.node_id or values[0]
        elif name in _RETRIABLE:
            self.retriable = _RETRIABLE[name]
        elif name in _FIGURES:
            for key, value in _FIGURES[name](values).items():
                if value is not None:
                    self.figures.setdefault(key, value)

    def _open(self, name: str) -> None:
        if name == "selected":  # stands before the worker
            self.selected.add(len(self.workers))
        else:
            self.workers.append(Victim())

    def _tell(self, name: str, value: str) -> None:
        if not self.workers:
            return
        key, convert = _OF_WORKER[name]
        told = convert(value)
        if getattr(self.workers[-1], key) is None:
            self.workers[-1] = replace(self.workers[-1], **{key: told})

    def victims(self) -> tuple[Victim, ...]:
        """Those selected; without such a list, all that are named."""
        chosen = [w for n, w in enumerate(self.workers) if n in self.selected] if self.selected else self.workers
        return tuple(victim for victim in chosen if victim != Victim())

    def rows(self) -> tuple[Row, ...]:
        """The workers that the policy looked at, where no table names others and they have half of what was in use."""
        sized = [Row(pid=w.pid, bytes=w.bytes, command=w.name or "") for w in self.workers if w.bytes and w.pid]
        used = self.figures.get("used_bytes") or 0
        return tuple(sized) if len(sized) > 1 and sum(row.bytes or 0 for row in sized) >= used / 2 else ()

    def generation(self, head: str) -> str | None:
        if "more_than" in self._words:
            return BEFORE_KILLS
        if "trigger" in self._words or "cgroup_bound" in self._words:
            return "G4" if "; OOM kill reason" in head else "G5"
        if "many_killed" in self._words or "based on the killing policy" in head:
            return "G3"
        if any(w.pid for w in self.workers):
            return "G2"
        return "G1" if self._words & {"used", "used_words"} else None


def _number(text: str) -> int | None:
    digits = text.replace(",", "").removesuffix(" bytes")
    return int(digits) if digits.isdecimal() else None


def _bytes(text: str) -> int | None:
    match = re.match(r"(-?[\d,.]+)\s*(\w+)", text)
    return size(match[1], match[2], UNITS) if match else None


def _fraction(text: str) -> float | None:
    bare = text.strip("()%,")
    try:
        value = float(bare)
    except ValueError:
        return None
    if value < 0:
        return None
    return value / 100 if text.endswith("%") else value


def _each(*keys_and_readers: tuple[str, Any]) -> Any:
    """The values of a clause, in order, under these names."""

    def take(values: tuple[str, ...]) -> dict[str, Any]:
        return {key: read_it(value) for (key, read_it), value in zip(keys_and_readers, values, strict=False)}

    return take


def _pair(values: tuple[str, ...]) -> dict[str, Any]:
    """ "(7.36 / 23.54 GB)": one unit for both."""
    if len(values) < 2:
        return {}
    total = re.match(r"([\d.,]+)\s*(\w+)", values[1])
    if total is None:
        return {}
    return {"used_bytes": size(values[0], total[2], UNITS), "total_bytes": size(total[1], total[2], UNITS)}


_OF_WORKER: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "task_id": ("task_id", str),
    "actor_id": ("actor_id", str),
    "worker_id": ("worker_id", str),
    "name": ("name", lambda text: text.split("=", 1)[1]),
    "pid": ("pid", _number),
    "worker_used": ("bytes", _bytes),
}

# The advice behind the table speaks of retries only where the victim had none left; the clause comes after "advice".
_RETRIABLE: Final = {"advice": True, "not_retriable": False}

_FIGURES: Final = {
    "used": _each(("used_bytes", _bytes), ("total_bytes", _bytes), ("used_fraction", _fraction)),
    "of_threshold": _each(("fraction", _fraction)),
    "trigger": lambda values: {
        **_each(("trigger_bytes", _bytes), ("bytes", _bytes))(values),
        "reason": "threshold",
    },
    "of_total": _each(("fraction", _fraction)),
    "cgroup_bound": lambda _: {"reason": "cgroup"},
    "store_used": _each(("object_store_bytes", _number)),
    "store_capacity": _each(("object_store_capacity_bytes", _number)),
    "used_words": _each(("used_bytes", _bytes), ("total_bytes", _bytes), ("used_fraction", _fraction)),
    "exceeds": _each(("fraction", _fraction)),
    "more_than": _each(("fraction", _fraction)),
    "pair": _pair,
    "shared": _each(("shared_bytes", _bytes)),
}


def _rows(table: str) -> tuple[Row, ...]:
    """The rows of a table, whatever stands between them."""
    table = _ADVICE.sub("", table)
    if table.count("\n") < 2:  # 2.55 writes ", " between the rows, 2.56 "; "
        table = _JOINED_ROWS.sub("\n", table)
    found: dict[int, Row] = {}
    for line in table.split("\n"):
        row = _ROW.match(line)
        if row is not None:
            command = row[4].strip().rstrip(",;").strip()
            found.setdefault(
                int(row[1]), Row(pid=int(row[1]), bytes=size(row[2], row[3] or "GB", UNITS), command=command)
            )
    return tuple(found.values())


def _glued_rows(line: str) -> tuple[Row, ...]:
    """The rows of a table whose line ends are lost, in whatever order."""
    found = tuple(
        Row(pid=None, bytes=size(row[1], "GB", UNITS), command=row[2].strip()) for row in _GLUED_ROW.finditer(line)
    )
    return found if len(found) > 1 else ()


# --- a table without its message: pasted alone, or what is left of it in a job's last lines


def _table_alone(page: Page, index: int) -> list[Line]:
    """The header (if there) and the rows around the index, unless they belong to a message or repeat its rows."""
    line = page.lines[index]
    if _inside_another(page, index) or _follows_message(page, index):
        return []
    if _HEADER.search(line.text):
        lines = [line, *_run_of_rows(page.after(index, BLOCK_LINES)[1:])]
    else:
        lines = [*_run_of_rows(page.before(index, 40)[::-1])][::-1]
    rows = [found.text.strip() for found in lines if _ROW.match(found.text)]
    known = page.once(_first_places)
    return lines if any(known[row] >= lines[0].number for row in rows) else []


def _first_places(page: Page) -> dict[str, int]:
    """The number of the first line with a row's text."""
    places: dict[str, int] = {}
    for line in page.lines:
        if _ROW.match(line.text):
            places.setdefault(line.text.strip(), line.number)
    return places


def _run_of_rows(lines: Sequence[Line]) -> Iterator[Line]:
    for line in lines:
        if _ROW.match(line.text):
            yield line
        elif line.text.strip():
            return


def _follows_message(page: Page, index: int) -> bool:
    """The lines of a writer: is the nearest message above them still open at the index?"""
    number = page.lines[index].number
    for earlier in range(index - 1, max(-1, index - BLOCK_LINES), -1):
        line = page.lines[earlier]
        if line.writer == page.lines[index].writer and _is_head(line.text):
            return any(known.number == number for known in _block(page, earlier))
    return False


def _table(page: Page, lines: Sequence[Line]) -> NodeOutOfMemory:
    first = lines[0]
    rows = _rows("\n".join(line.text for line in lines))
    headed = _HEADER.search(first.text) is not None
    return NodeOutOfMemory(
        at=place_of(page, first, lines[-1]),
        time=first.mark.time,
        process=Process(node=first.mark.ip),
        rows=rows,
        call=_call(page, lines, (), rows),
        cut=None if headed or _is_whole(rows) else True,
    )


def _is_whole(rows: Sequence[Row]) -> bool:
    """As many rows as Ray prints, the largest first: only the header above them is missing."""
    sizes = [row.bytes or 0 for row in rows]
    return len(rows) == TOP and sizes == sorted(sizes, reverse=True)


def _considered_alone(page: Page, index: int) -> Iterator[Read]:
    """The list of workers that the policy looked at, without the message that it belongs to."""
    if _inside_another(page, index) or _follows_message(page, index):
        return
    lines = page.after(index, BLOCK_LINES)
    last = 0
    for position, line in enumerate(lines):
        if _CONSIDERED.search(line.text):
            last = position
        elif position - last > CONSIDERED_GAP or _is_head(line.text):
            break
    listed = lines[: last + 1]
    kill = _kill(page, listed, lines[0].mark.time)
    if any(_SELECTED in line.text for line in listed):
        yield kill
    else:  # the killed ones stood in what is lost
        node = Process(node=lines[0].mark.ip)
        cut = True if kill.rows else None
        yield replace(kill, victims=(), considered=len(kill.rows) or None, generation=None, process=node, cut=cut)


# --- the lines of one sentence


def _short(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    found = dict(_clauses(_sentence(page, index)[:2000]))
    at = place_of(page, line)
    node = found.get("node_ip", ())
    process = Process(node=node[0] if node else line.mark.ip)
    if "count" in found:
        killed = _first(found, "count", _number)
        crashed = _first(found, "crashed", _number)
        if killed == 0:
            yield Lookalike(at, mark("Ray's count of dead workers: none was OOM-killed"))
            return
        yield KillCount(
            at=at,
            time=line.mark.time,
            process=process,
            killed=killed,
            crashed=crashed,
            node_id=_first(found, "node_id", str),
        )
    elif "idle" in found:
        yield Lookalike(at, mark("Ray ends a worker that is idle; no work is lost"))
    elif "reading" in found or "nobody" in found:
        if killed := _first(found, "selecting", _number):
            yield KillCount(at=at, time=line.mark.time, process=process, killed=killed)
        yield UsageAboveThreshold(
            at=at,
            time=line.mark.time,
            process=process,
            used_bytes=_first(found, "reading", _number),
            total_bytes=_first(found, "total_bytes", _number),
            bytes=_first(found, "threshold_bytes", _number),
            fraction=_first(found, "threshold_fraction", _fraction),
            nobody_to_kill=True if "nobody" in found else None,
        )
    elif "started" in found or "disabled" in found:
        yield MonitorStarted(
            at=at,
            time=line.mark.time,
            process=process,
            bytes=_first(found, "started", _bytes),
            fraction=_first(found, "of_memory", _fraction),
            total_bytes=_first(found, "memory_total", _number),
            disabled=True if "disabled" in found else None,
        )


def _without_its_words(page: Page, index: int) -> Iterator[Read]:
    """The name of the exception alone, where its own words do not follow."""
    line = page.lines[index]
    if any(_is_head(below.text) for below in page.after(index, BLOCK_LINES)[1:]):
        return
    yield NodeOutOfMemory(
        at=place_of(page, line),
        time=line.mark.time,
        process=Process(node=line.mark.ip),
        strength=2,
        generation=None if _NAME in line.text else BEFORE_KILLS,
    )


def _sentence(page: Page, index: int) -> str:
    """The line, with the one above it where it begins in the middle of the sentence."""
    line = page.lines[index]
    if "killed due to memory pressure" not in line.text or "Workers (tasks /" in line.text:
        return line.text
    above = page.lines[index - 1] if index else None
    return f"{above.text} {line.text.strip()}" if above is not None else line.text


def _first(found: dict[str, tuple[str, ...]], name: str, convert: Any) -> Any:
    values = found.get(name, ())
    return convert(values[0]) if values else None


FAMILY = Family(
    name="ray_kill",
    anchors=(
        "low on memory",
        "OutOfMemory",
        "memory pressure",
        "MEM(GB)",
        "emory usage above threshold",
        "actual memory used=",
    ),
    triggers=(
        "System memory low at node",
        "running low on memory",
        "Memory on the node (",
        "of the memory on",
        "killed due to memory pressure",
        "MEM(GB)",
        "emory usage above threshold",
        "Refer to the documentation on how to address",
        "actual memory used=",
        "RayTaskError(RayOutOfMemoryError)",
        "RayTaskError(OutOfMemoryError)",
        "Currently used memory:",
        "idle worker to kill",
        "MemoryMonitor initialized",
        "MemoryMonitor disabled",
    ),
    read=read,
)
