"""Buffers of a fixed size that a simulator fills: what does not fit is dropped, and the simulation goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Read, Role, Usage
from oomdoctor.families.lines import place_of, process_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page

CHARACTERS: Final = 600


class BufferOverflow(Event, frozen=True, kw_only=True):
    """A step had more contacts, pairs or constraints than its buffer holds."""

    family = "sim_buffer"
    kind = "buffer-overflow"

    role: Role = "context"
    pool: str = "gpu"

    program: str
    buffer: str  # as the program itself calls the setting
    needed: Usage[int | None] = None  # at least: the largest that was printed

    def identity(self) -> str:
        """Each step that overflows prints its own figure."""
        return f"{self.family} {self.kind} {self.program} {self.buffer}"

    def complement(self, other: Event) -> Event:
        assert isinstance(other, BufferOverflow)
        return replace(self, at=other.at, needed=other.needed) if (other.needed or 0) > (self.needed or 0) else self


# PxgNarrowphaseCore.cpp, PxgDynamicsContext.cpp: forces are held by contact, friction by patch
_OF_PHYSX: Final = {
    "contact": "maxRigidContactCount", "force": "maxRigidContactCount",
    "patch": "maxRigidPatchCount", "friction patch": "maxRigidPatchCount",
}  # fmt: skip
_CONFIG: Final = r"Px[Gg](?:pu)?DynamicsMemoryConfig::(?P<buffer>\w{4,60})"
_OVERFLOWS: Final = tuple(
    (program, late(pattern))
    for program, pattern in (
        # NVIDIA-Omniverse/PhysX, 4.1 to 5.6: gpunarrowphase, gpubroadphase, gpusimulationcontroller, lowlevel
        (
            "PhysX",
            (
                r"\b(?P<kind>Contact|Force|Friction patch|Patch) buffer overflow detected, please increase its size"
                r"(?: to at least (?P<needed>\d{1,12}))?"
            ),
        ),
        ("PhysX", rf"{_CONFIG} buffer overflow detected, please increase its size to at least (?P<needed>\d{{1,12}})"),
        ("PhysX", rf"\bincrease {_CONFIG}(?: buffers)? to (?:at least )?(?P<needed>\d{{1,12}})"),
        # google-deepmind/mujoco_warp, 3.3 to 3.12: forward.py, collision_convex.py, collision_flex.py
        (
            "MuJoCo Warp",
            (
                r"\boverflow(?: in [\w -]{1,40})? - please increase (?:nconmax (?:to|beyond) \d{1,12} or )?"
                r"(?P<buffer>n[a-z_]{1,16}max(?:_nnz)?) (?:to|beyond) (?P<needed>\d{1,12})"
            ),
        ),
    )
)


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    found = overflow_in(line.text)
    if found is None:
        return
    program, match = found
    figures = match.groupdict()
    needed = figures["needed"]
    yield BufferOverflow(
        at=place_of(page, line),
        time=line.mark.time,
        process=process_of(line),
        program=program,
        buffer=figures.get("buffer") or _OF_PHYSX[match["kind"].lower()],
        needed=int(needed) if needed is not None else None,
    )


def overflow_in(text: str) -> tuple[str, re.Match[str]] | None:
    """Whose buffer overflowed by this line, and what it says of it."""
    matches = ((program, pattern.search(text[:CHARACTERS])) for program, pattern in _OVERFLOWS)
    return next(((program, match) for program, match in matches if match is not None), None)


FAMILY = Family(
    name="sim_buffer",
    anchors=("buffer overflow detected, please", "DynamicsMemoryConfig::", " - please increase n"),
    triggers=("buffer overflow detected, please", "DynamicsMemoryConfig::", " - please increase n"),
    read=read,
)

__all__ = ["FAMILY", "BufferOverflow", "overflow_in"]
