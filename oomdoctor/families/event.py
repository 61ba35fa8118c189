"""What a message says, as data: the base of all events. Events hold printed numbers only; what is missing is None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from functools import cache
from typing import Any, ClassVar, Final, Literal

from oomdoctor.records import dataclass

PROOF: Final = 2  # the strength from which an event shows a memory failure rather than hints at a death
# Pools that fill up together: a cgroup's limit, /dev/shm and the object store are all the host's memory.
SIDES: Final[Mapping[str, str]] = {
    "host_ram": "host", "cgroup": "host", "object_store": "host", "shm": "host", "pinned": "host",
    "gpu": "device", "kv_cache": "device",
    "scheduling": "scheduling",
    "none": "none",
}  # fmt: skip
Role = Literal["root", "cascade", "confirmation", "advice", "context"]


@dataclass(frozen=True, slots=True)
class Process:
    pid: int | None = None
    name: str | None = None
    role: str | None = None  # "engine", "policy", "reward", ...: told from the name by job.roles
    rank: int | None = None
    node: str | None = None  # an IP address or a node id
    gpu: int | None = None


NOBODY = Process()


@dataclass(frozen=True, slots=True)
class Place:
    file: str
    line: int
    end_line: int
    text: str  # the line as it stands in the log, sanitized


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a Python traceback."""

    file: str
    line: int
    function: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands around an event; the reader of stages and the causes look here. Never printed."""

    before: tuple[str, ...] = ()  # clean lines of the same writer, nearest last
    after: tuple[str, ...] = ()
    below: tuple[str, ...] = ()  # the next lines, whoever wrote them
    trace: tuple[Frame, ...] = ()  # the traceback that the event ends, innermost last
    cut: bool = False  # the traceback breaks off before its innermost frames


NOTHING_AROUND = Surroundings()


def usage() -> Any:
    """A size or share that says how much was in use, free, asked for. Names of sizes end in `_bytes`."""
    return field(default=None, metadata={"part": "usage"})


def threshold() -> Any:
    """The limit that was held against the usage."""
    return field(default=None, metadata={"part": "threshold"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of one dataclass per kind of message.

    A subclass sets `family` and `kind`, gives `pool`, `role` and `strength` their usual values, and adds the
    message's own figures with `usage()`, `threshold()` or plainly (these appear under `fields` in the report).
    """

    family: ClassVar[str] = ""
    kind: ClassVar[str] = ""

    at: Place
    process: Process = NOBODY
    time: str | None = None
    role: Role = "root"
    pool: str = "none"
    stage: str = "unknown"
    # How much it proves: 3 names pool and victim with numbers, 2 names memory without numbers,
    # 1 a kill or a hint, 0 secondary.
    strength: int = 0
    repeats: int = 1  # how often the same message stands in the log
    read_as: str | None = None  # the known message that a line in other words was taken for
    around: Surroundings = field(default=NOTHING_AROUND, repr=False, compare=False)

    @property
    def proves(self) -> bool:
        """Whether it shows by itself that memory failed."""
        return self.role == "root" and self.strength >= PROOF

    def is_another(self, known: Event) -> bool:  # noqa: ARG002  (of a shortage it depends on that)
        """Whether it tells of something else than the first known message of its log, which tells of a failure."""
        return self.read_as is None

    def identity(self) -> str:
        """Equal for two prints of the same happening. Kinds that are printed more or less whole override it."""
        told = [self.figures(part) for part in ("usage", "threshold", "fields")]
        return f"{self.family} {self.kind} {self.process.pid} {self.process.rank} {told}"

    def figures(self, part: str) -> dict[str, Any]:
        """The event's own values of one part ("usage", "threshold", "fields"), without those that are missing."""
        kind: Any = type(self)
        said = ((name, getattr(self, name)) for name in _names(kind, part))
        return {name: value for name, value in said if value is not None and value != ()}


@cache
def _names(kind: Any, part: str) -> tuple[str, ...]:
    """The fields that a kind of event has of its own, of this part."""
    own = {f.name for f in fields(Event)}
    return tuple(f.name for f in fields(kind) if f.name not in own and f.metadata.get("part", "fields") == part)


@dataclass(frozen=True, slots=True)
class Lookalike:
    """Memory words that are no memory failure, and why not."""

    at: Place
    why: str


Read = Event | Lookalike
