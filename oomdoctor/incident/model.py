"""One crash, as the causes see it: its events with their roles, its context, and where the memory was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, TypeVar

from oomdoctor.families.event import Event, Frame, Lookalike
from oomdoctor.incident.names import AT_KILLS
from oomdoctor.incident.trend import Shape
from oomdoctor.language import say
from oomdoctor.records import dataclass

Value = str | int | float | bool | None
Basis = Literal["printed", "derived", "assumed", "unknown"]
E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Setting:
    """One option of the job as the log states it, or what was handed over beside the log."""

    name: str  # as in the log without dashes: "vllm_gpu_memory_utilization", "actor_rollout_ref.rollout.n"
    value: Value
    file: str
    line: int
    written: str | None = None  # as a launch line spells it, up to its value: "--block-size ", "trainer.nnodes="
    mentioned: bool = False  # no flag and no dump: the line only speaks of it
    outside: str | None = None  # where it is from if not from the log: "run.sh line 12", "--assume"

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        if self.outside is None:
            return say("line {line}", line=self.line)
        return say("{source}, not the log", source=self.outside)


@dataclass(frozen=True, slots=True)
class Context:
    """What the log says about the job."""

    frameworks: Mapping[str, str | None] = field(default_factory=dict)  # name → version, None when not printed
    settings: Mapping[str, Setting] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    hardware: Mapping[str, Value] = field(default_factory=dict)
    processes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # who writes: name → pids
    exit_codes: tuple[int, ...] = ()  # as printed: 137, and Python's -9
    progress: Mapping[str, int] = field(default_factory=dict)  # the last that is printed: "step", or "done" and "total"
    files: frozenset[str] = frozenset()  # those of the job, where several jobs may be read; else none
    memory: tuple[Trajectory, ...] = ()  # figures that the job itself prints of its memory, however often
    outside: Mapping[str, str] = field(default_factory=dict)  # versions and models not from the log → where from
    heard: list[Setting] | None = None  # takes the settings from outside the log that are asked for

    def setting(self, *names: str) -> Setting | None:
        """The first of these settings that the log states, whatever stands before its last dot and however it is
        spelled: `gpu_memory_utilization` finds `--gpu-memory-utilization` and `rollout.gpu_memory_utilization`.
        What stands outside the log counts where the log has none of them."""
        found = None
        for name in names:
            wanted = name.replace("-", "_").lower()
            for known, setting in self.settings.items():
                if found is not None and setting.outside is not None:
                    continue
                spelled = known.replace("-", "_").lower()
                if spelled == wanted or spelled.endswith("." + wanted):
                    if setting.outside is None:
                        return setting
                    found = setting
        if found is not None and self.heard is not None:
            self.heard.append(found)
        return found


@dataclass(frozen=True, slots=True)
class LedgerRow:
    what: str
    bytes: int | None
    basis: Basis
    line: int | None = None
    derivation: str | None = None  # the formula with its figures, where it is not printed itself


@dataclass(frozen=True, slots=True)
class Ledger:
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


@dataclass(frozen=True, slots=True)
class Point:
    step: int | None
    bytes: int
    line: int
    text: str | None = None  # the place in the program that the print names: only prints of one place are alike


def counted(points: Sequence[Point]) -> list[int] | None:
    """Their steps; None where not all name one, or where the job counts anew."""
    steps = [point.step for point in points if point.step is not None]
    return steps if len(steps) == len(points) and all(b > a for a, b in pairwise(steps)) else None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A memory figure that the log prints again and again."""

    what: str
    pool: str
    points: tuple[Point, ...]
    growth_bytes: int | None = None  # per step (or per print, where no step stands), None where it does not grow
    file: str = ""
    shape: Shape = "few"
    growth_low_bytes: int | None = None  # the ends of the growth's interval; also where growth is open
    growth_high_bytes: int | None = None
    reached_bytes: int | None = None  # how high it stood last, of a sawtooth the last peak
    limit_bytes: int | None = None  # how much there is in all, where the same print says it
    prints: int = 0  # how often it is printed; of many prints not all are points

    @property
    def grown(self) -> int:
        """How much came between the first print and the highest of the last ones."""
        return max(self.points[-1].bytes, self.reached_bytes or 0) - self.points[0].bytes

    def room(self, limit: int) -> int:
        """What is left up to a limit."""
        return limit - (self.reached_bytes or self.points[-1].bytes)

    @property
    def shows_a_whole(self) -> bool:
        """Whether a leak would show in it: not in the row of one process, nor in what stood there at kills, which is
        the limit each time."""
        return not self.what.startswith("PID ") and not self.what.endswith(AT_KILLS)

    @property
    def per(self) -> str:
        """What the growth is for: "step", or "print" where the log does not count steps."""
        return "step" if counted(self.points) else "print"


@dataclass(frozen=True)
class Crash:
    """One incident."""

    events: tuple[Event, ...]  # with their roles, in the order of the log
    root: Event
    pool: str
    stage: str
    context: Context = field(default_factory=Context)
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

    def ledger(self, pool: str) -> Ledger | None:
        return next((ledger for ledger in self.ledgers if ledger.pool == pool), None)

    def setting(self, *names: str) -> Setting | None:
        return self.context.setting(*names)

    def frames(self) -> Iterator[Frame]:
        """The frames of the root's traceback, innermost first."""
        return reversed(self.root.around.trace)

    def in_trace(self, pattern: str) -> Frame | None:
        """The innermost frame whose file, function or code line holds the pattern."""
        wanted = re.compile(pattern)
        return next((f for f in self.frames() if wanted.search(f"{f.file} {f.function} {f.code}")), None)

    def mentions(self, pattern: str) -> str | None:
        """The line nearest before the root (or the root itself, or a line after it) that holds the pattern."""
        wanted = re.compile(pattern)
        return next((line for line in self._nearby if wanted.search(line)), None)

    @cached_property
    def _nearby(self) -> tuple[str, ...]:
        around = self.root.around
        return (self.root.at.text, *reversed(around.before), *around.after)
