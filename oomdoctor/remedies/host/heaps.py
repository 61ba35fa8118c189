"""A heap that the system refuses, made smaller."""

from __future__ import annotations

from typing import Final

from oomdoctor.language import say
from oomdoctor.remedies.proposal import Case, Proposal
from oomdoctor.signs.heaps import refused_heap
from oomdoctor.units import MIB, show

_LEAST: Final = 64 * MIB


def smaller_heap(case: Case) -> Proposal | None:
    """Half of what was refused, in whole MiB."""
    refused, row = refused_heap(case.crash), case.row
    if refused is None or row is None:
        return None
    size = refused.tried_bytes or 0
    half = size // 2 // MIB
    if half * MIB < _LEAST:
        return Proposal(setting=row.setting)
    return Proposal(
        current=size,
        suggested=f"{half}m",
        derivation=f"{show(size)} / 2 = {show(half * MIB)}",
        assumes=(say("half is a guess: what is free is not in the log"),),
    )
