"""A setting of the job that its program could not read and left aside: how it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from oomdoctor.families.ollama import NotUnderstood
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies.proposal import Proposal

# Numbers of bytes that keep some of the GPU free: envconfig/config.go of Ollama since 0.3.7, where Uint64() reads it
_OF_BYTES: Final = ("OLLAMA_GPU_OVERHEAD",)
_SIZE: Final = late(r"(\d{1,6}) ?([KMGT])(?:i?B)?", re.IGNORECASE)
_UNITS: Final = "KMGT"
_STEP: Final = 1024


def of_bytes(crash: Crash) -> Proposal | None:
    """The size that somebody wrote with its unit, in bytes; the last one, where it was tried more than once."""
    found = list(_sizes(crash)) if crash.pool == "gpu" else []
    if not found:
        return None
    event, number, power = found[-1]
    size = number * _STEP**power
    return Proposal(
        action=say(
            "Set {variable} in bytes: {value} was not understood (line {line}) and no memory is kept free",
            variable=event.variable,
            value=event.value,
            line=event.at.line,
        ),
        setting=event.variable,
        current=event.value,
        suggested=size,
        snippet=f"export {event.variable}={size}",
        derivation=f"{number} x {' x '.join([str(_STEP)] * power)} = {size}",
        cost=say("fewer layers on the GPU: slower steps"),
    )


def _sizes(crash: Crash) -> Iterator[tuple[NotUnderstood, int, int]]:
    for event in crash.every(NotUnderstood):
        size = _SIZE.fullmatch(event.value)
        if event.variable in _OF_BYTES and size is not None:
            yield event, int(size[1]), _UNITS.index(size[2].upper()) + 1


__all__ = ["of_bytes"]
