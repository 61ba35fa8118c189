"""What a log without a memory failure says of memory all the same: a warning that nothing came of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from oomdoctor import spellings
from oomdoctor.families.event import Event, Lookalike
from oomdoctor.families.ray_store import StoreTooLarge
from oomdoctor.families.sim_buffer import BufferOverflow
from oomdoctor.job.model import Context
from oomdoctor.language import say
from oomdoctor.units import show

_LARGER_BUFFERS: Final = "resize-sim-buffers"  # a knob


def only_slower(events: Iterable[Event]) -> Lookalike | None:
    """Ray's warning that its object store is on disk: python/ray/_private/services.py."""
    stores = (event for event in events if isinstance(event, StoreTooLarge) and event.refused is False)
    store = next(stores, None)
    if store is None or store.shm_bytes is None:
        return None
    why = say(
        "Ray keeps its object store on disk, because /dev/shm has only {size}: slower, but nothing failed; a larger "
        "/dev/shm (docker run --shm-size) avoids it",
        size=show(store.shm_bytes),
    )
    return Lookalike(store.at, why)


def only_dropped(events: Iterable[Event], context: Context) -> Iterator[Lookalike]:
    """Buffers of a simulator that were too small for a step: it goes on without what did not fit."""
    for event in events:
        if isinstance(event, BufferOverflow):
            yield Lookalike(event.at, _larger_buffer(event, context))


def _larger_buffer(event: BufferOverflow, context: Context) -> str:
    if event.needed is None:
        return say(
            "a buffer of {program} that has a fixed size is too small: what does not fit is dropped, and the "
            "simulation is wrong; no memory ran out: raise {buffer}, or simulate fewer worlds",
            program=event.program,
            buffer=event.buffer,
        )
    power = _power_of_two(event.needed)
    return say(
        "a buffer of {program} that has a fixed size is too small: what does not fit is dropped, and the simulation is "
        "wrong; no memory ran out: set {setting} (2**{power}, the next power of two for the {needed} "
        "that it needed), or simulate fewer worlds",
        program=event.program,
        setting=_setting(event.buffer, 1 << power, context),
        power=power,
        needed=f"{event.needed:,}",
    )


def _power_of_two(needed: int) -> int:
    """The exponent of the least one that holds it: so are such sizes given, and a later step may need more."""
    return max(needed - 1, 0).bit_length()


def _setting(buffer: str, size: int, context: Context) -> str:
    """How a framework of the log spells it, else as the simulator itself does: maxRigidPatchCount is
    max_rigid_patch_count in Python."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", buffer).lower()
    rows = (line.split("|") for framework in context.frameworks for line in spellings.lines(framework))
    options = (write.strip() for knob, write, *_ in rows if knob.strip() == _LARGER_BUFFERS)
    option = next((one for one in options if re.search(rf"(?<![a-z])(?:gpu_)?{name}={{}}", one)), f"{buffer}={{}}")
    return option.format(size)


__all__ = ["only_dropped", "only_slower"]
