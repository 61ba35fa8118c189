"""The headline of a diagnosis: who, which memory, how much, doing what.

A cause's table holds its headlines, the best first: texts with {slots}. A slot is a question about the crash that a
function of its name answers in a few words, or with None where the log does not say. A part in [brackets] falls away
where one of its slots has no answer; a headline whose other slots have none is not used.

    "Activations do not fit on {gpu}[ {doing}][: {requested} requested, {free} free]"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from string import Formatter
from typing import Final

from oomdoctor import language
from oomdoctor.causes import Cause
from oomdoctor.incident.model import Crash
from oomdoctor.language import translated
from oomdoctor.patterns import late
from oomdoctor.report.headline import (
    died,
    engine,
    gpu,
    growth,
    host,
    job,
    kills,
    limits,
    offload,
    placing,
    ray,
    release,
    requests,
    shm,
    sizes,
    snapshot,
    work,
)

Slot = Callable[[Crash], str | None]

ROOMS: Final = (
    job, gpu, sizes, release, engine, host, growth, kills, limits, died, requests, work, offload, ray, shm, placing,
    snapshot,
)  # fmt: skip

_OPTIONAL: Final = late(r"\[([^\[\]]{1,200})\]")


def headline(cause: Cause, crash: Crash) -> str:
    """The first headline of the cause that this crash can fill; its title where it can fill none."""
    for text in cause.headlines:
        words = filled(text, crash)
        if words is not None:
            return words
    return translated(cause.title)


def filled(text: str, crash: Crash) -> str | None:
    """The text with its slots filled in, and without the parts that cannot be; None where the rest cannot be."""
    told = {name: slots()[name](crash) for name in names(text)}
    whole = _OPTIONAL.sub(lambda part: part[1] if _answered(part[1], told) else "", translated(text))
    return language.filled(whole, told) if _answered(whole, told) else None


def names(text: str) -> Iterator[str]:
    """The slots of a text."""
    return (name for _, name, _, _ in Formatter().parse(text) if name is not None)


@cache
def slots() -> Mapping[str, Slot]:
    """All slots, by name."""
    return {name: slot for room in ROOMS for name, slot in room.SLOTS.items()}


def _answered(text: str, told: Mapping[str, str | None]) -> bool:
    return all(told[name] for name in names(text))


__all__ = ["ROOMS", "filled", "headline", "names", "slots"]
