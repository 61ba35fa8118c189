"""How a piece of memory compares with all that there is: into how many parts it goes where a half is still more than
there is room for, and whether it is too little to matter."""

from __future__ import annotations

from typing import Final, NamedTuple

from oomdoctor.families.event import SIDES
from oomdoctor.families.llama_cpp import Buffer, BufferRefused, LoadPlan
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import total_bytes
from oomdoctor.language import say
from oomdoctor.remedies.engine.known import card_total
from oomdoctor.signs.model_size import parameters_printed
from oomdoctor.signs.set_limits import address_limit
from oomdoctor.units import show

_MOST: Final = 64  # parts
_COMPUTE: Final = "compute"  # a buffer
_WEIGHTS: Final = "weights"
_LITTLE: Final = 0.05
_WIDEST: Final = 4  # bytes of a parameter


class Room(NamedTuple):
    """What there may be of a piece, and the formula of it."""

    bytes: int
    formula: str


def parts(tried: int, limit: int, at_once: int = 1) -> int:
    """A power of two: so many pieces of a size, each in as many parts, take half of a process' memory at most."""
    count = 2
    while count * limit < 2 * at_once * tried:
        count *= 2
    return count


def limit(crash: Crash) -> int | None:
    """The memory that a process of the job has: by a limit on address space, else of the machine."""
    return address_limit(crash) or total_bytes(crash)


def parts_of_a_buffer(crash: Crash) -> tuple[int, Room] | None:
    """Of ggml's compute buffer that was refused, where a half of it is more than there is room for."""
    root = crash.root
    if not isinstance(root, BufferRefused) or root.what != _COMPUTE or not root.tried_bytes:
        return None
    room = _room(crash, root)
    if room is None or root.tried_bytes <= 2 * room.bytes:
        return None
    count = parts(root.tried_bytes, 2 * room.bytes)
    return (count, room) if count <= _MOST else None


def weights_are_little(crash: Crash) -> bool:
    """Whether all weights that the log prints are a small part of the memory, or of what was refused: fewer bits, a
    smaller model or another way to load them change next to nothing."""
    loaded = [one.held_bytes or 0 for one in crash.every(Buffer) if one.what == _WEIGHTS]
    weights = sum(loaded) or _WIDEST * (parameters_printed(crash) or 0)
    asked = getattr(crash.root, "tried_bytes", None) or 0
    memory = card_total(crash) if SIDES.get(crash.pool) == "device" else limit(crash)
    return 0 < weights < _LITTLE * max(memory or 0, asked)


def _room(crash: Crash, root: BufferRefused) -> Room | None:
    """Of the host half of the limit, since a process has more than one buffer; of a device what was free before its
    weights and its cache."""
    if root.pool == "host_ram":
        most = limit(crash)
        return Room(most // 2, say("half of {limit}", limit=show(most))) if most else None
    plan = next((one for one in reversed(crash.every(LoadPlan)) if one.device == root.device and one.free_bytes), None)
    if root.device is None or plan is None or plan.free_bytes is None:
        return None
    loaded = (one for one in crash.every(Buffer) if one.device == root.device and one.at.line > plan.at.line)
    held = sum(one.held_bytes or 0 for one in loaded)
    left = plan.free_bytes - held
    formula = say("{free} free - {held} held", free=show(plan.free_bytes), held=show(held))
    return Room(left, formula) if held and left > 0 else None


__all__ = ["Room", "limit", "parts", "parts_of_a_buffer", "weights_are_little"]
