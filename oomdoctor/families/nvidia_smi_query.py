"""`nvidia-smi -q`, `pmon` and `dmon`: what each card holds, and for whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from oomdoctor.families.gpu_table import Card, CardProcess, Found
from oomdoctor.patterns import late
from oomdoctor.streams import Line
from oomdoctor.units import size

CHARACTERS: Final = 200
_KEY = late(r"^(?P<indent>\s{0,40})(?P<key>[A-Za-z][\w /.()-]{1,60}?)(?:\s{1,60}:\s?(?P<value>[^\n]{0,120}?))?\s{0,4}$")
_CARD = late(r"^\s{0,4}GPU (?:[0-9A-Fa-f]{8}|[0-9A-Fa-f]{4}):[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d\s{0,4}$")
_MIB = late(r"(?P<figure>\d{1,9}) MiB")
_FRAME_BUFFER: Final = "FB Memory Usage"
_PID: Final = "Process ID"
_TITLE: Final = "NVSMI LOG"
_SLICE: Final = "MIG Device"


class _Block(Struct):
    """Keys below a heading, or those of one process."""

    number: int  # of the card among those that are printed
    name: str
    of_slice: bool
    said: dict[str, str] = field(default_factory=dict)


def query(lines: Sequence[Line]) -> Found | None:
    """-q: blocks of the same keys for the card's memory, for its window on the bus, for each slice."""
    end, blocks = _blocks(lines)
    cards = [card for block in blocks for card in _card(block)]
    processes = [process for block in blocks for process in _process(block)]
    if not cards and not processes:
        return None
    head = blocks[0].said
    if head.get("Attached GPUs") != str(blocks[-1].number + 1):  # -i picks cards: their order then says nothing
        cards = [replace(card, gpu=None) for card in cards]
        processes = [replace(process, gpu=None) for process in processes]
    return Found(end=end, time=head.get("Timestamp"), cards=tuple(cards), processes=tuple(processes))


def _blocks(lines: Sequence[Line]) -> tuple[int, list[_Block]]:
    """All blocks, the head's first, and the line that they end at."""
    blocks = [_Block(-1, "", of_slice=False)]
    end = lines[0].end
    for line in lines:
        text, last = line.text[:CHARACTERS], blocks[-1]
        row = _KEY.match(text)
        if _CARD.match(text):
            blocks.append(_Block(last.number + 1, "", of_slice=False))
        elif row is None:
            if text.strip().strip("=") and _TITLE not in text:
                break
        elif row["value"] is None:
            blocks.append(_Block(last.number, row["key"], of_slice=last.of_slice or row["key"] == _SLICE))
        else:
            if row["key"] == _PID:
                blocks.append(_Block(last.number, _PID, of_slice=False))
            blocks[-1].said[row["key"]] = row["value"]
            end = line.end
    return end, blocks


def _card(block: _Block) -> Iterator[Card]:
    used, total = _mib(block.said.get("Used")), _mib(block.said.get("Total"))
    if block.name == _FRAME_BUFFER and (used is not None or total is not None):
        part = "" if block.of_slice else None
        yield Card(gpu=max(block.number, 0), used_bytes=used, total_bytes=total, mig=part)


def _process(block: _Block) -> Iterator[CardProcess]:
    pid = block.said.get(_PID, "")
    if pid.isdecimal():
        held, name = _mib(block.said.get("Used GPU Memory")), block.said.get("Name", "")
        yield CardProcess(gpu=max(block.number, 0), pid=int(pid), name=name, used_bytes=held)


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
