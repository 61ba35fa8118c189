"""rocm-smi and amd-smi: bytes in rocm-smi; amd-smi's "GB" counts 1024s as its "MB" does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from oomdoctor.families.gpu_table import Card, CardProcess, Found
from oomdoctor.patterns import late
from oomdoctor.streams import Line
from oomdoctor.units import size

CHARACTERS: Final = 400
ROCM: Final = "rocm-smi"
AMD: Final = "amd-smi"
_TOTAL: Final = "VRAM Total Memory (B)"
_USED: Final = "VRAM Total Used Memory (B)"
_PLAIN = late(r"^GPU\[(?P<gpu>\d{1,3})\]\s{0,8}: VRAM Total (?P<used>Used )?Memory \(B\): (?P<bytes>\d{1,18})\s{0,4}$")
_CARD_NAME = late(r"card(?P<gpu>\d{1,3})")
_PROCESS = late(
    r"^\s{0,4}(?P<pid>\d{1,9})\s{1,12}(?P<name>\S.{0,40}?)\s{1,20}\d{1,3}\s{1,12}(?P<bytes>\d{1,18})\s{1,12}\d{1,18}\b"
)
_SHARE = late(r"^\s{0,4}(?P<gpu>\d{1,3})\s.{0,160}?\s(?P<used>[\d.]{1,9})/(?P<total>[\d.]{1,9}) (?P<unit>[KMGT]?B)\b")
_AMOUNT = late(r"(?P<number>[\d.]{1,9}) (?P<unit>[KMGT]?B)\b")
_FIRST_NUMBER = late(r"^\s{0,4}(?P<gpu>\d{1,3})\s")
_KEY = late(r"^\s{0,20}(?P<key>[A-Z_]{3,20}):\s{0,4}(?P<value>[^\n]{0,80}?)\s{0,4}$")


def plain(lines: Sequence[Line]) -> Found | None:
    """`rocm-smi --showmeminfo vram`."""
    said: dict[int, dict[str, int]] = {}
    end = lines[0].end
    for line in lines:
        match = _PLAIN.match(line.text[:CHARACTERS])
        if match is None:
            break
        said.setdefault(int(match["gpu"]), {})["used" if match["used"] else "total"] = int(match["bytes"])
        end = line.end
    return _cards(said, end)


def table(lines: Sequence[Line]) -> Found | None:
    """The same with --csv."""
    names = lines[0].text[:CHARACTERS].strip().split(",")
    said: dict[int, dict[str, int]] = {}
    end = lines[0].end
    for line in lines[1:]:
        row = dict(zip(names, line.text[:CHARACTERS].strip().split(","), strict=False))
        card = _CARD_NAME.fullmatch(row.get("device", ""))
        if card is None:
            break
        said[int(card["gpu"])] = _sizes(row)
        end = line.end
    return _cards(said, end)


def document(lines: Sequence[Line]) -> Found | None:
    """The same with --json: one line."""
    try:
        read: Any = json.loads(lines[0].text)
    except ValueError:
        return None
    rows = read.items() if isinstance(read, dict) else ()
    said = {
        int(card["gpu"]): _sizes(row)
        for name, row in rows
        if isinstance(row, dict) and (card := _CARD_NAME.fullmatch(name)) is not None
    }
    return _cards(said, lines[0].end)


def _sizes(row: dict[str, Any]) -> dict[str, int]:
    named = {"total": str(row.get(_TOTAL, "")), "used": str(row.get(_USED, ""))}
    return {name: int(value) for name, value in named.items() if value.isdecimal()}


def _cards(said: dict[int, dict[str, int]], end: int) -> Found | None:
    cards = [
        Card(gpu=gpu, used_bytes=sizes.get("used"), total_bytes=sizes.get("total"))
        for gpu, sizes in said.items()
        if sizes
    ]
    return Found(end=end, cards=tuple(cards), tool=ROCM) if cards else None


def processes(lines: Sequence[Line]) -> Found | None:
    """`rocm-smi --showpids`: the fourth column is bytes; how many GPUs a process is on, not which."""
    found = []
    end = lines[0].end
    for line in lines[1:]:
        row = _PROCESS.match(line.text[:CHARACTERS])
        if row is None:
            break
        found.append(CardProcess(gpu=None, pid=int(row["pid"]), name=row["name"], used_bytes=int(row["bytes"])))
        end = line.end
    return Found(end=end, processes=tuple(found), tool=ROCM) if found else None


def monitor(lines: Sequence[Line]) -> Found | None:
    """`amd-smi monitor`: "41.2/191.7 GB", in older releases a column for what is used and one for the whole."""
    names = [name for name in lines[0].text[:CHARACTERS].split() if name.startswith("VRAM_")]
    cards = []
    end = lines[0].end
    for line in lines[1:]:
        number = _FIRST_NUMBER.match(line.text[:CHARACTERS])
        sizes = _of_row(line.text[:CHARACTERS], names) if number is not None else None
        if number is None or sizes is None:
            break
        cards.append(Card(gpu=int(number["gpu"]), used_bytes=sizes[0], total_bytes=sizes[1]))
        end = line.end
    return Found(end=end, cards=tuple(cards), tool=AMD) if cards else None


def _of_row(text: str, names: Sequence[str]) -> tuple[int | None, int | None] | None:
    share = _SHARE.match(text)
    if share is not None:
        return size(share["used"], share["unit"]), size(share["total"], share["unit"])
    amounts = [size(amount["number"], amount["unit"]) for amount in _amounts(text)]
    named = dict(zip([name for name in names if not name.endswith("%")], amounts, strict=False))
    return (named.get("VRAM_USED"), named.get("VRAM_TOTAL")) if named else None


def _amounts(text: str) -> Iterator[re.Match[str]]:
    return _AMOUNT.finditer(text)


def listing(lines: Sequence[Line]) -> Found | None:
    """`amd-smi process`: keys and values, indented below the number of each GPU."""
    found: list[CardProcess] = []
    said: dict[str, str] = {}
    gpu: int | None = None
    end = lines[0].end
    for line in [*lines, None]:
        row = _KEY.match(line.text[:CHARACTERS]) if line is not None else None
        if row is None or row["key"] in ("GPU", "PROCESS_INFO"):
            found += _listed(gpu, said)
            said = {}
        if row is None or line is None:
            break
        if row["key"] == "GPU":
            gpu = int(row["value"]) if row["value"].isdecimal() else None
        else:
            said[row["key"]] = row["value"]
            end = line.end
    return Found(end=end, processes=tuple(found), tool=AMD) if found else None


def _listed(gpu: int | None, said: dict[str, str]) -> Iterator[CardProcess]:
    pid, held = said.get("PID", ""), _AMOUNT.match(said.get("VRAM_MEM", ""))
    if pid.isdecimal():
        used = size(held["number"], held["unit"]) if held is not None else None
        name = said.get("NAME", "").replace("N/A", "")
        yield CardProcess(gpu=gpu, pid=int(pid), name=name, used_bytes=used)
