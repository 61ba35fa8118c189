"""One crash, as the causes see it: its events with their roles, its context, and where the memory was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct, field

from oomdoctor.families.event import Event, Frame, Lookalike
from oomdoctor.job.doing import Doing, doing_of_crash
from oomdoctor.job.job import Job
from oomdoctor.job.model import Context, Setting, Trajectory

Basis = Literal["printed", "derived", "assumed", "unknown"]
E = TypeVar("E", bound=Event)


# Names of rows: ids, which are translated where they are shown
LIVE: Final = "live tensors"
UNALLOCATED: Final = "reserved but unallocated"


class LedgerRow(Struct, frozen=True):
    what: str
    bytes: int | None
    basis: Basis
    line: int | None = None
    derivation: str | None = None  # the formula with its figures, where it is not printed itself


class Ledger(Struct, frozen=True):
    """Where the memory of one device or node was. Rows add up to the total, or the rest is unexplained."""

    pool: str
    device: str
    total_bytes: int | None
    rows: tuple[LedgerRow, ...]

    @property
    def unexplained_bytes(self) -> int | None:
        known = [row.bytes for row in self.rows]
        if self.total_bytes is None or None in known:
            return None
        return self.total_bytes - sum(b for b in known if b is not None)


class Crash(Struct, frozen=True, dict=True):
    """One incident."""

    events: tuple[Event, ...]  # with their roles, in the order of the log
    root: Event
    pool: str
    stage: str
    context: Context = field(default_factory=Context)
    job: Job = field(default_factory=Job)
    ledgers: tuple[Ledger, ...] = ()
    trajectory: Trajectory | None = None
    lookalikes: tuple[Lookalike, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether the root itself shows that memory (or a resource) ran out; a bare kill does not."""
        return self.root.strength >= 2

    def every(self, kind: type[E]) -> list[E]:
        return list(self._of_kind(kind))

    def first(self, kind: type[E]) -> E | None:
        return next(iter(self._of_kind(kind)), None)

    def _of_kind(self, kind: type[E]) -> list[E]:
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = [event for event in self.events if isinstance(event, kind)]
        return known

    @cached_property
    def _kinds(self) -> dict[type[Event], list[Any]]:
        """The events of the kinds that were asked for: rules ask again and again, of hundreds of events."""
        return {}

    @cached_property
    def seen(self) -> dict[Any, Any]:
        """What the signs that were asked for have answered."""
        return {}

    @cached_property
    def doing(self) -> Doing:
        """What the job was doing: of its events that show it, the root's word first."""
        own = [
            event
            for event in self.events
            if event.role in ("root", "confirmation", "cascade") and event is not self.root
        ]
        return doing_of_crash((self.root, *own), self.stage)

    def ledger(self, pool: str) -> Ledger | None:
        return next((ledger for ledger in self.ledgers if ledger.pool == pool), None)

    def setting(self, *names: str) -> Setting | None:
        return self.context.setting(*names)

    def frames(self) -> Iterator[Frame]:
        """The frames of the root's traceback, innermost first."""
        return reversed(self.root.around.trace)

    def in_trace(self, pattern: str) -> Frame | None:
        """The innermost frame whose file (with slashes, on Windows, too), function or code line holds the pattern."""
        if not self.root.around.trace:
            return None  # a pattern takes a while to compile, and most deaths have no traceback
        wanted = re.compile(pattern)
        return next((f for f in self.frames() if wanted.search(f"{f.path} {f.function} {f.code}")), None)

    def mentions(self, pattern: str) -> str | None:
        """The line nearest before the root (or the root itself, or a line after it) that holds the pattern."""
        if pattern not in self._mentioned:
            wanted = re.compile(pattern)
            self._mentioned[pattern] = next((line for line in self._nearby if wanted.search(line)), None)
        return self._mentioned[pattern]

    def shows(self, pattern: str) -> bool:
        """Whether a frame or a line near the root holds the pattern."""
        return self.in_trace(pattern) is not None or self.mentions(pattern) is not None

    @cached_property
    def _mentioned(self) -> dict[str, str | None]:
        """What was found for the patterns that were asked for: several signs ask the same."""
        return {}

    @cached_property
    def _nearby(self) -> tuple[str, ...]:
        around = self.root.around
        return (self.root.at.text, *reversed(around.before), *around.after)
