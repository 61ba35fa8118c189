"""nvidia-smi's tables and lists, gpustat's and rocm-smi's: who holds how much of which card.

Healthy runs fill their cards, so this is context."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Place, Process, Read, Role
from oomdoctor.patterns import late, remembered
from oomdoctor.streams import Line, Page
from oomdoctor.units import size


class Card(Struct, frozen=True, kw_only=True):
    gpu: int | None
    used_bytes: int | None
    total_bytes: int | None
    mig: str | None = None  # of a slice: its instance, "1/0"


class CardProcess(Struct, frozen=True, kw_only=True):
    gpu: int | None
    pid: int
    name: str
    used_bytes: int | None


class GpuTable(Event, frozen=True, kw_only=True):
    """One print of the table, or of a list."""

    family = "nvidia_smi"
    kind = "gpu-table"

    role: Role = "context"
    pool: str = "gpu"

    cards: tuple[Card, ...] = ()
    processes: tuple[CardProcess, ...] = ()
    # An empty body is "cannot see them" (another container's), "No running processes found" is "there are none"
    processes_hidden: bool | None = None


_MIB = r"(?P<{}>\d{{1,9}})\s{{0,3}}MiB"
_CELL = late(r"^\s*" + _MIB.format("used") + r"\s{0,3}/\s{0,3}" + _MIB.format("total") + r"\s*$")
_CARD_HEAD = late(r"^\s{0,4}(?P<gpu>\d{1,3})\s{1,4}\S")
_CARD_ROW = late(r"^\|\s{1,4}(?:N/A|ERR!|\d{1,3}%)\s")
_PROCESS = late(
    r"^\|\s{1,8}(?P<gpu>\d{1,3})\s{1,80}(?:(?:N/A|\d{1,3})\s{1,80}(?:N/A|\d{1,3})\s{1,80})?(?P<pid>\d{1,10})\s{1,80}(?:C|G|M\+C|C\+G)\s{1,80}"
    r"(?P<name>\S.{0,200}?)\s{1,80}(?:(?P<used>\d{1,9})MiB|N/A)\s{0,80}\|"
)
_NONE_RUNNING = "No running processes found"
_LISTING = "processes"
_PROCESS_HEAD = late(r"^\|\s{1,4}GPU\s.{0,60}\bPID\b")
_SLICE = late(r"^\s{0,4}(?P<gpu>\d{1,3})\s{1,6}(?P<gi>\d{1,3})\s{1,6}(?P<ci>\d{1,3})\s{1,6}\d{1,3}\s{0,6}$")
_COMMAND = late(r"nvidia-smi\b[^\n]{0,200}--query-(?:gpu|compute-apps)=(?P<names>[\w.,]{1,300})")
_LIST_HEAD = late(r"^\s*[a-z][\w.]{1,40}(?: \[[\w%]{1,6}\])?(?:, [a-z][\w.]{1,40}(?: \[[\w%]{1,6}\])?){1,30}\s{0,4}$")
_LIST_SIZE = late(r"(\d{1,9})(?: MiB)?$")
_GPUSTAT = late(
    r"^\s{0,4}\[(?P<gpu>\d{1,3})\] [^|\n]{1,80}\|[^|\n]{0,60}['°]C[^|\n]{0,60}"
    r"\| {0,8}(?P<used>\d{1,9}) / {1,8}(?P<total>\d{1,9}) MB"
)
_GPUSTAT_PROCESS = late(r"(?P<name>[\w.@:+-]{1,60})/(?P<pid>\d{1,10})\((?P<used>\d{1,9})M\)")
_ROCM = late(r"^GPU\[(?P<gpu>\d{1,3})\]\s{0,8}: VRAM Total (?P<used>Used )?Memory \(B\): (?P<bytes>\d{1,18})\s{0,4}$")
TABLE_LINES = 400
ROW_CHARACTERS = 300


def read(page: Page, index: int) -> Iterator[Read]:
    lines = page.after(index, TABLE_LINES)
    first = lines[0]
    if "nvidia-smi" in first.text and (command := _COMMAND.search(first.text)):
        table = _listed(lines, tuple(command["names"].split(",")))
    elif _LIST_HEAD.match(first.text):
        table = _listed(lines, _names(first.text))
    elif _GPUSTAT.match(first.text):
        table = _gpustat(lines)
    elif _ROCM.match(first.text):
        table = _rocm(lines)
    else:
        # A paste that starts at the memory cell has the card's number in the row above.
        table = _table([*page.before(index, 1), *lines] if _CARD_ROW.match(first.text.strip()) else lines)
    if table is None:
        return
    cards, processes, hidden, end = table
    yield GpuTable(
        at=Place(page.file, first.number, end, first.raw),
        time=first.mark.time,
        process=Process(node=first.mark.ip),
        cards=cards,
        processes=processes,
        processes_hidden=hidden,
    )


Table = tuple[tuple[Card, ...], tuple[CardProcess, ...], bool | None, int]


def _table(lines: Sequence[Line]) -> Table | None:
    cards: list[Card] = []
    processes: list[CardProcess] = []
    gpu = None
    listing = none_running = False
    end = lines[0].end
    for line in lines:
        text = line.text[:ROW_CHARACTERS].strip()
        if text and not text.startswith(("|", "+")):
            break
        row = _row(text)
        if isinstance(row, CardProcess):
            processes.append(row)
        elif isinstance(row, Card):
            cards.append(row if row.mig else replace(row, gpu=gpu))
        elif isinstance(row, int):
            gpu = row
        else:
            listing = listing or row == _LISTING
            none_running = none_running or row == _NONE_RUNNING
        end = line.end if text else end
    if not cards and not processes:
        return None
    return tuple(cards), tuple(processes), (not processes and not none_running) if listing else None, end


@remembered
def _row(text: str) -> CardProcess | Card | int | str | None:
    """What a row says: a process, a card's memory, the number of the card whose rows follow, that a list begins."""
    cells = text.split("|")[1:-1]
    if _PROCESS_HEAD.match(text):
        return _LISTING
    if match := _PROCESS.match(text):
        return _process(match)
    if _NONE_RUNNING in text:
        return _NONE_RUNNING
    head = _CARD_HEAD.match(cells[0]) if cells else None
    return _card(cells) or (int(head["gpu"]) if head else None)


def _card(cells: Sequence[str]) -> Card | None:
    memory = next((m for cell in cells if (m := _CELL.match(cell))), None)
    if memory is None or not cells[0].strip():  # below a slice's memory stands its BAR1
        return None
    part = _SLICE.match(cells[0])
    return Card(
        gpu=int(part["gpu"]) if part else None,
        mig=f"{part['gi']}/{part['ci']}" if part else None,
        used_bytes=_mib(memory["used"]),
        total_bytes=_mib(memory["total"]),
    )


def _process(match: re.Match[str]) -> CardProcess:
    used = match["used"]
    return CardProcess(
        gpu=int(match["gpu"]),
        pid=int(match["pid"]),
        name=match["name"].strip(),
        used_bytes=_mib(used) if used else None,
    )


def _listed(lines: Sequence[Line], names: tuple[str, ...]) -> Table | None:
    """A --query-gpu or --query-compute-apps list, with whatever columns it was asked for."""
    cards: list[Card] = []
    processes: list[CardProcess] = []
    end = lines[0].end
    for line in lines[1:]:
        if _LIST_HEAD.match(line.text) and _names(line.text) == names:
            continue  # below the command that asked for them
        values = line.text[:ROW_CHARACTERS].strip().split(", ")
        if len(values) != len(names) or _LIST_HEAD.match(line.text):
            break
        row = dict(zip(names, values, strict=True))
        used, total = _size_in(row, "memory.used"), _size_in(row, "memory.total")
        number = row.get("index", "")
        pid = row.get("pid", "")
        if pid.isdecimal():
            held = _size_in(row, "used_gpu_memory") or _size_in(row, "used_memory")
            name = row.get("process_name") or row.get("name") or ""
            processes.append(CardProcess(gpu=None, pid=int(pid), name=name, used_bytes=held))
        elif used is not None or total is not None:
            gpu = int(number) if number.isdecimal() else None
            cards.append(Card(gpu=gpu, used_bytes=used, total_bytes=total))
        end = line.end
    return (tuple(cards), tuple(processes), None, end) if cards or processes else None


def _names(head: str) -> tuple[str, ...]:
    return tuple(name.split(" [")[0].strip() for name in head.split(","))


def _size_in(row: dict[str, str], name: str) -> int | None:
    match = _LIST_SIZE.match(row.get(name, ""))
    return _mib(match[1]) if match else None


def _gpustat(lines: Sequence[Line]) -> Table:
    """Its "MB" and "M" are MiB."""
    cards: list[Card] = []
    processes: list[CardProcess] = []
    end = lines[0].end
    for line in lines:
        match = _GPUSTAT.match(line.text)
        if match is None:
            break
        gpu = int(match["gpu"])
        cards.append(Card(gpu=gpu, used_bytes=_mib(match["used"]), total_bytes=_mib(match["total"])))
        processes += [
            CardProcess(gpu=gpu, pid=int(one["pid"]), name=one["name"], used_bytes=_mib(one["used"]))
            for one in _GPUSTAT_PROCESS.finditer(line.text[: 4 * ROW_CHARACTERS])
        ]
        end = line.end
    return tuple(cards), tuple(processes), None, end


def _rocm(lines: Sequence[Line]) -> Table:
    totals: dict[int, int] = {}
    used: dict[int, int] = {}
    end = lines[0].end
    for line in lines:
        match = _ROCM.match(line.text)
        if match is None:
            break
        (used if match["used"] else totals)[int(match["gpu"])] = int(match["bytes"])
        end = line.end
    cards = (Card(gpu=gpu, used_bytes=used.get(gpu), total_bytes=totals.get(gpu)) for gpu in {**totals, **used})
    return tuple(cards), (), None, end


def _mib(number: str) -> int | None:
    return size(number, "MiB")


FAMILY = Family(
    name="nvidia_smi",
    anchors=(),
    triggers=(
        "| NVIDIA-SMI ",
        "| Processes:  ",
        "MiB / ",
        "MiB |",
        "memory.used [MiB]",
        "memory.total [MiB]",
        "used_gpu_memory [MiB]",
        "used_memory [MiB]",
        "--query-gpu=",
        "--query-compute-apps=",
        "'C, ",
        "°C, ",
        ": VRAM Total ",
    ),
    read=read,
)
