"""nvidia-smi's tables: who holds how much of which card. Healthy runs fill their cards, so this is context."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Place, Process, Read, Role
from oomdoctor.patterns import late
from oomdoctor.records import dataclass
from oomdoctor.streams import Line, Page
from oomdoctor.units import size


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    gpu: int | None
    used_bytes: int | None
    total_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CardProcess:
    gpu: int | None
    pid: int
    name: str
    used_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTable(Event):
    """One print of the table, or of a --query-gpu / --query-compute-apps list."""

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
_PROCESS_HEAD = late(r"^\|\s{1,4}GPU\s.{0,60}\bPID\b")
_QUERY_CARD = late(r"^\s*(?P<gpu>\d{1,3}), (?P<used>\d{1,9}) MiB, (?P<total>\d{1,9}) MiB\s*$")
_QUERY_APP = late(r"^\s*(?P<pid>\d{1,10}), (?P<name>[^,]{1,200}), (?P<used>\d{1,9}) MiB\s*$")
TABLE_LINES = 400
ROW_CHARACTERS = 300


def read(page: Page, index: int) -> Iterator[Read]:
    lines = page.after(index, TABLE_LINES)
    first = lines[0]
    if "memory.used [MiB]" in first.text or "used_gpu_memory [MiB]" in first.text:
        table = _csv(lines)
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
        cells = text.split("|")[1:-1]
        if _PROCESS_HEAD.match(text):
            listing = True
        elif match := _PROCESS.match(text):
            processes.append(_process(match))
        elif _NONE_RUNNING in text:
            none_running = True
        elif memory := next((m for cell in cells if (m := _CELL.match(cell))), None):
            cards.append(Card(gpu=gpu, used_bytes=_mib(memory["used"]), total_bytes=_mib(memory["total"])))
        elif cells and (head := _CARD_HEAD.match(cells[0])):
            gpu = int(head["gpu"])
        end = line.end if text else end
    if not cards and not processes:
        return None
    return tuple(cards), tuple(processes), (not processes and not none_running) if listing else None, end


def _process(match: re.Match[str]) -> CardProcess:
    used = match["used"]
    return CardProcess(
        gpu=int(match["gpu"]),
        pid=int(match["pid"]),
        name=match["name"].strip(),
        used_bytes=_mib(used) if used else None,
    )


def _csv(lines: Sequence[Line]) -> Table | None:
    cards: list[Card] = []
    processes: list[CardProcess] = []
    end = lines[0].end
    for line in lines[1:]:
        if match := _QUERY_CARD.match(line.text):
            cards.append(Card(gpu=int(match["gpu"]), used_bytes=_mib(match["used"]), total_bytes=_mib(match["total"])))
        elif match := _QUERY_APP.match(line.text):
            processes.append(
                CardProcess(gpu=None, pid=int(match["pid"]), name=match["name"], used_bytes=_mib(match["used"]))
            )
        else:
            break
        end = line.end
    return (tuple(cards), tuple(processes), None, end) if cards or processes else None


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
        "index, memory.used [MiB]",
        "used_gpu_memory [MiB]",
    ),
    read=read,
)
