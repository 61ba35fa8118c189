"""Huawei's npu-smi and Intel's xpu-smi: what each NPU or GPU holds, and for whom.

Of a 910B only the HBM counts, of a 310P only the other column: the one that is not there is 0 of 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oomdoctor.families.gpu_table import Card, CardProcess, Found
from oomdoctor.patterns import late
from oomdoctor.streams import Line
from oomdoctor.units import size

CHARACTERS: Final = 300
NPU: Final = "npu-smi"
XPU: Final = "xpu-smi"
_HEAD = late(r"^\|\s{1,4}(?P<npu>\d{1,3})\s{1,12}(?P<name>[A-Za-z0-9][\w-]{1,20})\s{1,20}\|")
_CHIP = late(r"^\|\s{1,4}\d{1,3}\s{1,30}(?:\d{1,3}\s{1,30})?\|\s{1,4}[0-9A-Fa-f]{4}:")
_PAIR = late(r"(?P<used>\d{1,9})\s{0,8}/\s{0,8}(?P<total>\d{1,9})")
_PROCESS = late(
    r"^\|\s{1,4}(?P<npu>\d{1,3})\s{1,30}\d{1,3}\s{1,30}\|\s{1,4}(?P<pid>\d{1,9})\s{1,30}\|(?:\s{1,4}\d{1,9}\s{1,30}\|)?"
    r"\s{1,4}(?P<name>\S.{0,60}?)\s{1,40}\|\s{1,4}(?P<used>\d{1,9})\s{1,40}\|"
)
_OF_DUMP = late(r"^\s{0,4}[\d:.T-]{5,30}, {1,8}(?P<gpu>\d{1,3}), {1,8}(?P<used>[\d.]{1,12})\s{0,4}$")
_OF_PS = late(
    r"^\s{0,4}(?P<pid>\d{1,9})\s{1,20}(?P<name>\S.{0,60}?)\s{1,30}(?P<gpu>\d{1,3})\s{1,20}\d{1,12}\s{1,20}(?P<kib>\d{1,12})\s{0,8}$"
)
_STATISTIC = late(
    r"^\|\s{1,4}(?P<key>Device ID|GPU Memory Used \(MiB\))\s{1,40}\|\s{1,4}(?P<value>[\d.]{1,12})\s{1,90}\|"
)


def npus(lines: Sequence[Line]) -> Found | None:
    cards: list[Card] = []
    processes: list[CardProcess] = []
    number: int | None = None
    end = lines[0].end
    for line in lines:
        text = line.text[:CHARACTERS].strip()
        if text and not text.startswith(("|", "+")):
            break
        end = line.end if text else end
        if (process := _PROCESS.match(text)) is not None:
            used = size(process["used"], "MiB")
            npu, pid = int(process["npu"]), int(process["pid"])
            processes.append(CardProcess(gpu=npu, pid=pid, name=process["name"], used_bytes=used))
        elif _CHIP.match(text):
            cards += [card for card in (_chip(number, text),) if card is not None]
        elif (head := _HEAD.match(text)) is not None:
            number = int(head["npu"])
    if not cards and not processes:
        return None
    return Found(end=end, cards=tuple(cards), processes=tuple(processes), tool=NPU)


def _chip(number: int | None, text: str) -> Card | None:
    pairs = [pair for pair in _PAIR.finditer(text.split("|")[-2]) if int(pair["total"])]
    if not pairs:
        return None
    used, total = (size(pairs[-1][name], "MiB") for name in ("used", "total"))
    return Card(gpu=number, used_bytes=used, total_bytes=total)


def xpus(lines: Sequence[Line]) -> Found | None:
    """`xpu-smi dump -m 18`, `ps` (its sizes are KiB) and `stats`."""
    cards: dict[int, Card] = {}
    processes: list[CardProcess] = []
    device: int | None = None
    end = lines[0].end
    for line in lines:
        text = line.text[:CHARACTERS]
        if (row := _OF_DUMP.match(text)) is not None:
            cards[int(row["gpu"])] = _used(int(row["gpu"]), row["used"])
        elif (row := _OF_PS.match(text)) is not None:
            held = size(row["kib"], "KiB")
            processes.append(CardProcess(gpu=int(row["gpu"]), pid=int(row["pid"]), name=row["name"], used_bytes=held))
        elif (row := _STATISTIC.match(text)) is not None:
            if row["key"] == "Device ID":
                device = int(row["value"]) if row["value"].isdecimal() else None
            else:
                cards[device or 0] = _used(device or 0, row["value"])
        elif (cards or processes) and not text.startswith(("|", "+")):
            break
        end = line.end
    if not cards and not processes:
        return None
    return Found(end=end, cards=tuple(cards.values()), processes=tuple(processes), tool=XPU)


def _used(gpu: int, mib: str) -> Card:
    return Card(gpu=gpu, used_bytes=size(mib, "MiB"), total_bytes=None)
