"""What slots are made of: a question about the crash, or about what is found in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from oomdoctor.families.event import Event
from oomdoctor.incident.model import Crash

T = TypeVar("T")
E = TypeVar("E", bound=Event)

Slot = Callable[[Crash], str | None]


def about(find: Callable[[Crash], T | None]) -> Callable[[Callable[[T], str | None]], Slot]:
    """A slot about what is found in the crash; it has no answer where nothing is."""

    def slot_of(tell: Callable[[T], str | None]) -> Slot:
        @wraps(tell)
        def slot(crash: Crash) -> str | None:
            found = find(crash)
            return tell(found) if found is not None else None

        return slot

    return slot_of


def where(sign: Callable[[Crash], object | None]) -> Callable[[Slot], Slot]:
    """A slot that has an answer only where a sign is seen."""

    def slot_of(tell: Slot) -> Slot:
        @wraps(tell)
        def slot(crash: Crash) -> str | None:
            return tell(crash) if sign(crash) is not None else None

        return slot

    return slot_of


def first(kind: type[E]) -> Callable[[Crash], E | None]:
    """The first event of a kind."""
    return lambda crash: crash.first(kind)


def root(kind: type[E]) -> Callable[[Crash], E | None]:
    """The event that began the crash, where it is of a kind."""
    return lambda crash: crash.root if isinstance(crash.root, kind) else None
