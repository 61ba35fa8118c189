"""`nvidia-smi -q`, `pmon` and `dmon`: what each card holds, and for whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from oomdoctor.families.gpu_table import Card, CardProcess, Found
from oomdoctor.patterns import late
from oomdoctor.streams import Line
from oomdoctor.units import size

CHARACTERS: Final = 200
_KEY = late(r"^(?P<indent>\s{0,40})(?P<key>[A-Za-z][\w /.()-]{1,60}?)(?:\s{1,60}:\s?(?P<value>[^\n]{0,120}?))?\s{0,4}$")
_CARD = late(r"^\s{0,4}GPU (?:[0-9A-Fa-f]{8}|[0-9A-Fa-f]{4}):[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d\s{0,4}$")
_MIB = late(r"(?P<figure>\d{1,9}) MiB")
_FRAME_BUFFER: Final = "FB Memory Usage"
_OTHER_BLOCKS: Final = ("BAR1 Memory Usage", "Conf Compute Protected Memory Usage")
_SLICE: Final = "MIG Device"


def query(lines: Sequence[Line]) -> Found | None:
    """-q: blocks of the same keys for the card's memory, for its window on the bus, for each slice."""
    cards: list[Card] = []
    processes: list[CardProcess] = []
    time = None
    attached = number = 0
    block = part = ""
    said: dict[str, str] = {}
    end = lines[0].end
    for line in [*lines, None]:
        text = line.text[:CHARACTERS] if line is not None else ""
        row = _KEY.match(text)
        key, value = (row["key"], row["value"]) if row is not None else ("", None)
        ends_block = line is None or _CARD.match(text) or (row is not None and value is None) or key == "Process ID"
        if ends_block:
            cards += _card(block, part, number - 1, said)
            processes += _process(block, number - 1, said)
            said = {}
        if line is None or (
            row is None and text.strip() and not text.strip().startswith("=") and not _CARD.match(text)
        ):
            break
        if _CARD.match(text):
            number += 1
            block = part = ""
        elif key == "Process ID":
            block = key
        elif row is not None and value is None:
            part = key if key == _SLICE else part
            block = key
        if value is not None:
            said[key] = value
            time = value if key == "Timestamp" else time
            attached = int(value) if key == "Attached GPUs" and value.isdecimal() else attached
            end = line.end
    if not cards and not processes:
        return None
    known = attached == number
    return Found(
        end=end,
        time=time,
        cards=tuple(card if known else _nameless(card) for card in cards),
        processes=tuple(processes) if known else tuple(_of_any(process) for process in processes),
    )


def _nameless(card: Card) -> Card:
    """-i picks cards: their order then says nothing."""
    return Card(gpu=None, used_bytes=card.used_bytes, total_bytes=card.total_bytes, mig=card.mig)


def _of_any(process: CardProcess) -> CardProcess:
    return CardProcess(gpu=None, pid=process.pid, name=process.name, used_bytes=process.used_bytes)


def _card(block: str, part: str, number: int, said: dict[str, str]) -> Iterator[Card]:
    used, total = _mib(said.get("Used")), _mib(said.get("Total"))
    if block == _FRAME_BUFFER and (used is not None or total is not None):
        yield Card(gpu=max(number, 0), used_bytes=used, total_bytes=total, mig="" if part == _SLICE else None)


def _process(block: str, number: int, said: dict[str, str]) -> Iterator[CardProcess]:
    pid = said.get("Process ID", "")
    if block == "Process ID" and pid.isdecimal():
        held = _mib(said.get("Used GPU Memory"))
        yield CardProcess(gpu=max(number, 0), pid=int(pid), name=said.get("Name", ""), used_bytes=held)


def _mib(value: str | None) -> int | None:
    match = _MIB.fullmatch(value or "")
    return size(match["figure"], "MiB") if match is not None else None


# --- pmon, dmon: a row for each card every second, in columns that their header names


def monitor(lines: Sequence[Line]) -> Found | None:
    """The last row of each process, or of each card."""
    names = lines[0].text[:CHARACTERS].lstrip("# ").split()
    cards: dict[int, Card] = {}
    processes: dict[tuple[int, int], CardProcess] = {}
    end = lines[0].end
    for line in lines[1:]:
        text = line.text[:CHARACTERS]
        if text.lstrip().startswith("#"):
            continue
        row = dict(zip(names, text.split(None, len(names) - 1), strict=False))
        gpu, held, pid = row.get("gpu", ""), row.get("fb", ""), row.get("pid", "")
        if len(row) != len(names) or not gpu.isdecimal():
            break
        end = line.end
        used = size(held, "MiB") if held.isdecimal() else None
        if pid.isdecimal():
            name = row.get("command", "").strip()
            processes[int(gpu), int(pid)] = CardProcess(gpu=int(gpu), pid=int(pid), name=name, used_bytes=used)
        elif "pid" not in row and used is not None:
            cards[int(gpu)] = Card(gpu=int(gpu), used_bytes=used, total_bytes=None)
    if not cards and not processes:
        return None
    return Found(end=end, cards=tuple(cards.values()), processes=tuple(processes.values()))
