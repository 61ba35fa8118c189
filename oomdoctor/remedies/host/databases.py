"""What a database sets aside when it starts, made smaller."""

from __future__ import annotations

from typing import Final

from oomdoctor.language import say
from oomdoctor.remedies.proposal import Case, Proposal
from oomdoctor.signs.databases import requested, set_aside
from oomdoctor.units import MIB, show

_OF_INNODB: Final = "InnoDB"
_LEAST: Final = 128 * MIB  # the default of innodb_buffer_pool_size and of shared_buffers


def smaller_pool(case: Case) -> Proposal | None:
    """Half of what was refused; where no size is printed, the default."""
    found, row = set_aside(case.crash), case.row
    if found is None or row is None:
        return None
    size = requested(case.crash) or 0
    if size <= _LEAST:
        return Proposal(setting=row.setting) if size else Proposal(suggested=row.set or None)
    half = max(size // 2, _LEAST) // MIB
    then = f"{half}M" if found[0] == _OF_INNODB else f"{half}MB"
    assumed = say("half is a guess: what is free is not in the log")
    return Proposal(
        current=size,
        suggested=then,
        derivation=f"{show(size)} / 2 = {show(half * MIB)}",
        assumes=(assumed,) if found[0] == _OF_INNODB else (assumed, say("the shared buffers are most of it")),
    )
