"""What a message says, as data: the base of all events. Events hold printed numbers only; what is missing is None."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from inspect import get_annotations
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from msgspec import Struct

PROOF: Final = 2  # the strength from which an event shows a memory failure rather than hints at a death
# Pools that fill up together: a cgroup's limit, /dev/shm and the object store are all the host's memory.
SIDES: Final[Mapping[str, str]] = {
    "host_ram": "host", "cgroup": "host", "object_store": "host", "shm": "host", "pinned": "host",
    "gpu": "device", "kv_cache": "device",
    "scheduling": "scheduling",
    "none": "none",
}  # fmt: skip
RAM: Final = ("host_ram", "cgroup")  # a machine's, and what a limit leaves of it
Role = Literal["root", "cascade", "confirmation", "advice", "context"]


class Process(Struct, frozen=True):
    pid: int | None = None
    name: str | None = None
    role: str | None = None  # "engine", "policy", "reward", ...: told from the name by job.roles
    rank: int | None = None
    node: str | None = None  # an IP address or a node id
    gpu: int | None = None


NOBODY = Process()


class Place(Struct, frozen=True):
    file: str
    line: int
    end_line: int
    text: str  # the line as it stands in the log, sanitized
    below: tuple[tuple[int, str], ...] = ()  # the message's other lines, alike, each with its number


class Frame(Struct, frozen=True):
    """One frame of a Python traceback."""

    file: str
    line: int
    function: str
    code: str = ""

    @property
    def path(self) -> str:
        """The file with slashes, whatever system it is from."""
        return self.file.replace("\\", "/")


class Surroundings(Struct, frozen=True):
    """What stands around an event; the reader of stages and the causes look here. Never printed."""

    before: tuple[str, ...] = ()  # clean lines of the same writer, nearest last
    held_back: tuple[str, ...] = ()  # those of them that Ray printed later than their writer
    after: tuple[str, ...] = ()
    below: tuple[str, ...] = ()  # the next lines, whoever wrote them
    trace: tuple[Frame, ...] = ()  # the traceback that the event ends, innermost last
    cut: bool = False  # the traceback breaks off before its innermost frames
    time: str | None = None  # the last that is printed above
    later: str | None = None  # the first that is printed below


NOTHING_AROUND = Surroundings()


_Figure = TypeVar("_Figure")
Usage = Annotated[_Figure, "usage"]  # a size or share that says how much was in use, free, asked for
Threshold = Annotated[_Figure, "threshold"]  # the limit that was held against the usage
_PARTS: Final = {"Usage": "usage", "Threshold": "threshold"}


class Event(Struct, frozen=True, kw_only=True):
    """Base of one struct per kind of message.

    A subclass sets `family` and `kind`, gives `pool`, `role` and `strength` their usual values, and adds the
    message's own figures as `Usage`, `Threshold` or plainly (these appear under `fields` in the report). Names of
    sizes end in `_bytes`.
    """

    family: ClassVar[str] = ""
    kind: ClassVar[str] = ""
    in_traceback: ClassVar[bool] = False  # it is a line of its traceback, which has no exception
    once_a_log: ClassVar[bool] = False  # however many lines tell of it, and with whatever figures

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
    around: Surroundings = NOTHING_AROUND

    @property
    def proves(self) -> bool:
        """Whether it shows by itself that memory failed."""
        return self.role == "root" and self.strength >= PROOF

    def is_another(self, known: Event) -> bool:  # noqa: ARG002  (of a shortage it depends on that)
        """Whether it tells of something else than the first known message of its log, which tells of a failure."""
        return self.read_as is None

    def identity(self) -> str:
        """Equal for two prints of the same happening. Kinds that are printed more or less whole override it."""
        if self.once_a_log:
            return f"{self.family} {self.kind}"
        told = [self.figures(part) for part in ("usage", "threshold", "fields")]
        return f"{self.family} {self.kind} {self.process.pid} {self.process.rank} {told}"

    def complement(self, other: Event) -> Event:  # noqa: ARG002  (two prints are whole, but for a few kinds)
        """With what another print of the same happening tells besides."""
        return self

    def figures(self, part: str) -> dict[str, Any]:
        """The event's own values of one part ("usage", "threshold", "fields"), without those that are missing."""
        said = ((name, getattr(self, name)) for name in _names(type(self), part))
        return {name: value for name, value in said if value is not None and value != ()}


@cache
def _names(kind: type[Event], part: str) -> tuple[str, ...]:
    """The fields that a kind of event has of its own, of this part: as they are annotated, which takes a tenth of the
    time that working out the types does."""
    told = {name: text for base in reversed(kind.__mro__) for name, text in get_annotations(base).items()}
    own = [name for name in kind.__struct_fields__ if name not in Event.__struct_fields__]
    return tuple(name for name in own if _PARTS.get(told[name].partition("[")[0], "fields") == part)


class Lookalike(Struct, frozen=True):
    """Memory words that are no memory failure, and why not."""

    at: Place
    why: str


Read = Event | Lookalike
