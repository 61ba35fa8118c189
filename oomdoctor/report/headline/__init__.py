"""The headline of a diagnosis: who, which memory, how much, doing what.

A cause's table holds its headlines, the best first: texts with {slots}. A slot is a question about the crash: a public
function of one of the rooms here, which answers in a few words, or with None where the log does not say. A part in
[brackets] falls away where one of its slots has no answer; a headline whose other slots have none is not used.

    "Activations do not fit on {gpu}[ {doing}][: {requested} requested, {free} free]"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from string import Formatter
from types import FunctionType, ModuleType
from typing import Final

from oomdoctor import language
from oomdoctor.causes import Cause
from oomdoctor.incident.model import Crash
from oomdoctor.language import translated
from oomdoctor.patterns import late
from oomdoctor.report.headline import (
    deaths,
    engine,
    gpu,
    growth,
    host,
    job,
    kills,
    limits,
    made,
    nearby,
    offload,
    ray,
    release,
    requests,
    scheduling,
    shm,
    sizes,
    snapshot,
    visibility,
    work,
)
from oomdoctor.report.headline.slot import Slot

ROOMS: Final = (
    job, gpu, sizes, release, engine, visibility, host, growth, kills, limits, deaths, requests, work, offload, ray,
    shm, scheduling, snapshot, made, nearby,
)  # fmt: skip

_OPTIONAL: Final = late(r"\[([^\[\]]{1,200})\]")


def headline(cause: Cause, crash: Crash) -> str:
    """The first headline of the cause that this crash can fill; its title where it can fill none."""
    answers = _Answers(crash)
    told = (_filled(text, answers) for text in cause.headlines)
    return next((words for words in told if words is not None), None) or translated(cause.title)


def filled(text: str, crash: Crash) -> str | None:
    """The text with its slots filled in, and without the parts that cannot be; None where the rest cannot be."""
    return _filled(text, _Answers(crash))


def names(text: str) -> Iterator[str]:
    """The slots of a text."""
    return (name for _, name, _, _ in Formatter().parse(text) if name is not None)


@cache
def slots() -> Mapping[str, Slot]:
    """All slots, by name."""
    return {name: slot for room in ROOMS for name, slot in slots_of(room).items()}


def slots_of(room: ModuleType) -> Mapping[str, Slot]:
    """The slots of a room, by name: its public functions."""
    return {
        name: each
        for name, each in vars(room).items()
        if isinstance(each, FunctionType) and each.__module__ == room.__name__ and not name.startswith("_")
    }


class _Answers(dict[str, str | None]):
    """What the slots say of a crash, each asked once and only where a text needs it."""

    def __init__(self, crash: Crash) -> None:
        super().__init__()
        self._crash = crash

    def __missing__(self, name: str) -> str | None:
        self[name] = slots()[name](self._crash)
        return self[name]

    def to_all_of(self, text: str) -> bool:
        """Whether each slot of a text has one."""
        return all(self[name] for name in names(text))


def _filled(text: str, answers: _Answers) -> str | None:
    text = translated(text)
    if not answers.to_all_of(_OPTIONAL.sub("", text)):
        return None
    whole = _OPTIONAL.sub(lambda part: part[1] if answers.to_all_of(part[1]) else "", text)
    return language.filled(whole, answers)


__all__ = ["ROOMS", "filled", "headline", "names", "slots", "slots_of"]
