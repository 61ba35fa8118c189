"""nvidia-smi's tables and lists, gpustat's, and those of other vendors' tools: who holds how much of which card.

Healthy runs fill their cards, so this is context."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from oomdoctor.families import Family, amd_smi, lsof, npu_smi, nvidia_smi_query
from oomdoctor.families.event import Place, Process, Read
from oomdoctor.families.gpu_table import Card, CardProcess, Found, GpuTable
from oomdoctor.patterns import late, remembered
from oomdoctor.streams import Line, Page
from oomdoctor.units import size

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
_NAMED = late(
    r"^\s{0,4}(?:GPU (?P<gpu>\d{1,3}): .{1,80} \(UUID: GPU-[0-9a-f-]{4,40}\)"
    r"|MIG .{1,60} \(UUID: MIG-[\w/-]{4,80}\))\s{0,4}$"
)
_CLOCK = late(r"[A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4}")
TABLE_LINES = 400
TITLE_ABOVE = 12
_MAKERS: Final = {"| HL-SMI ": "hl-smi", "| CNMON ": "cnmon"}
QUERY_LINES = 4000  # -q prints some 200 for each card
ROW_CHARACTERS = 300


def read(page: Page, index: int) -> Iterator[Read]:
    first = page.lines[index]
    words, reader = next(((words, read) for words, read in _READERS if words in first.text), ("", None))
    above = page.before(index, _ABOVE.get(words, 0)) if words in _ABOVE else []
    found = reader([*above, *page.after(index, QUERY_LINES)]) if reader is not None else _listed_or_table(page, index)
    if found is None:
        return
    yield GpuTable(
        at=Place(page.file, first.number, found.end, first.raw),
        time=first.mark.time or found.time or _printed(page, index),
        process=Process(node=first.mark.ip),
        tool=found.tool,
        cards=found.cards,
        processes=found.processes,
        processes_hidden=found.hidden,
    )


def _printed(page: Page, index: int) -> str | None:
    """The table's time stands alone above its border."""
    above = (line.raw[:ROW_CHARACTERS].strip() for line in reversed(page.lines[max(0, index - 2) : index]))
    return next((text for text in above if _CLOCK.fullmatch(text)), None)


def _listed_or_table(page: Page, index: int) -> Found | None:
    lines = page.after(index, TABLE_LINES)
    first = lines[0]
    if "nvidia-smi" in first.text and (command := _COMMAND.search(first.text)):
        return _listed(lines, tuple(command["names"].split(",")))
    if _LIST_HEAD.match(first.text):
        return _listed(lines, _names(first.text))
    if _GPUSTAT.match(first.text):
        return _gpustat(lines)
    # A paste that starts at the memory cell has the card's number in the row above.
    found = _table([*page.before(index, 1), *lines] if _CARD_ROW.match(first.text.strip()) else lines)
    return replace(found, tool=_maker(page, index)) if found is not None else None


def _maker(page: Page, index: int) -> str | None:
    """The tool of another maker that prints such a table, by its title."""
    titles = [line.text[:ROW_CHARACTERS] for line in page.lines[max(0, index - TITLE_ABOVE) : index + 1]]
    return next((tool for words, tool in _MAKERS.items() if any(words in title for title in titles)), None)


def _named_cards(lines: Sequence[Line]) -> Found | None:
    """`nvidia-smi -L`: which cards there are, and nothing of their memory."""
    cards = []
    end = lines[0].end
    for line in lines:
        match = _NAMED.match(line.text[:ROW_CHARACTERS])
        if match is None:
            break
        if match["gpu"]:
            cards.append(Card(gpu=int(match["gpu"]), used_bytes=None, total_bytes=None))
        end = line.end
    return Found(end=end, cards=tuple(cards)) if cards else None


# Words that have the number of their GPU above them, within so many lines.
_ABOVE: Final = {"PROCESS_INFO:": 1, "| GPU Memory Used (MiB)": 8}
_READERS: Final[tuple[tuple[str, Callable[[Sequence[Line]], Found | None]], ...]] = (
    ("NVSMI LOG", nvidia_smi_query.query),
    ("FB Memory Usage", nvidia_smi_query.query),
    ("# gpu ", nvidia_smi_query.monitor),
    ("(UUID: GPU-", _named_cards),
    ("device,VRAM Total Memory (B)", amd_smi.table),
    ('"VRAM Total Memory (B)"', amd_smi.document),
    (": VRAM Total ", amd_smi.plain),
    ("PROCESS NAME", amd_smi.processes),
    ("VRAM_USAGE", amd_smi.monitor),
    ("VRAM_USED", amd_smi.monitor),
    ("PROCESS_INFO:", amd_smi.listing),
    ("| npu-smi ", npu_smi.npus),
    ("| NPU  ", npu_smi.npus),
    ("| GPU Memory Used (MiB)", npu_smi.xpus),
    ("GPU Memory Used (MiB)", npu_smi.xpus),
    ("DeviceID       SHR", npu_smi.xpus),
    (" /dev/accel", lsof.holders),
    (" /dev/vfio/", lsof.holders),
    (" /dev/tenstorrent/", lsof.holders),
)


def _table(lines: Sequence[Line]) -> Found | None:
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
    hidden = (not processes and not none_running) if listing else None
    return Found(end=end, cards=tuple(cards), processes=tuple(processes), hidden=hidden)


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


def _listed(lines: Sequence[Line], names: tuple[str, ...]) -> Found | None:
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
    return Found(end=end, cards=tuple(cards), processes=tuple(processes)) if cards or processes else None


def _names(head: str) -> tuple[str, ...]:
    return tuple(name.split(" [")[0].strip() for name in head.split(","))


def _size_in(row: dict[str, str], name: str) -> int | None:
    match = _LIST_SIZE.match(row.get(name, ""))
    return _mib(match[1]) if match else None


def _gpustat(lines: Sequence[Line]) -> Found:
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
    return Found(end=end, cards=tuple(cards), processes=tuple(processes))


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
        "VRAM Total Memory (B)",
        "PROCESS NAME",
        "VRAM_USAGE",
        "VRAM_USED",
        "PROCESS_INFO:",
        "NVSMI LOG",
        "FB Memory Usage",
        "# gpu ",
        "(UUID: GPU-",
        "| npu-smi ",
        "| NPU  ",
        "GPU Memory Used (MiB)",
        "DeviceID       SHR",
        " /dev/accel",
        " /dev/vfio/",
        " /dev/tenstorrent/",
        "MiB/ ",
    ),
    read=read,
)
