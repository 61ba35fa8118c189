"""Signs: named questions about a crash. Each is answered once a crash, for every cause whose table asks it.

A sign is a function from the crash to what is seen, with the sentence that says so and the events that show it; None
where it is not seen. Its name is the question: `others_hold_as_much`. Its docstring says with which threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import wraps

from msgspec import Struct

from oomdoctor.families.event import Event
from oomdoctor.incident.model import Crash


class Grade(IntEnum):
    """How sure one sign alone makes of a cause: of a hundred crashes with it, about so many have the cause."""

    PROVES = 93  # the printed figures decide it by arithmetic
    NAMES = 75  # the traceback or the message names it
    POINTS = 55  # several things point to it
    HINTS = 38  # one does
    LEFT = 20  # nothing else is left

    def lowered(self, steps: int) -> Grade:
        """So many grades below, the lowest at least."""
        grades = list(Grade)
        return grades[min(grades.index(self) + steps, len(grades) - 1)]


class Seen(Struct, frozen=True, kw_only=True):
    """A sign that is seen."""

    words: str  # for a person: a sentence or two with the figures
    evidence: tuple[Event, ...] = ()
    against: tuple[str, ...] = ()  # what weakens this very sign, in words
    shows_memory: bool = False  # it shows that memory ran out, even where the crash's root is only a death or a hint
    unsure: bool = False  # other failures look the same, or what would tell is missing: likely at most
    used_bytes: int | None = None  # memory in use before the failure, where no event of the evidence has a figure
    pool: str | None = None  # where it differs from the crash's
    stage: str | None = None
    knobs: tuple[str, ...] = ()  # where what is seen says what to change first
    next_evidence: tuple[str, ...] = ()  # commands that would prove it, where the log does not


Sign = Callable[[Crash], Seen | None]


def sign(question: Sign) -> Sign:
    """The question, asked once of each crash."""

    @wraps(question)
    def once(crash: Crash) -> Seen | None:
        if question not in crash.seen:
            crash.seen[question] = question(crash)
        seen: Seen | None = crash.seen[question]
        return seen

    return once


__all__ = ["Grade", "Seen", "Sign", "sign"]
