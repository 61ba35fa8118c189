"""How many of the messages that upstream programs print are read rightly, each alone.

    python -m benchmarks.catalogue [--list] [PROGRAM ...]          # fixtures/catalogue/*.toml, or some of its programs
    python -m benchmarks.catalogue [--list] --file MESSAGES.jsonl  # another catalogue: an object on each line

A message of a catalogue is what a program prints and what an expert says of that text alone: "oom", "pressure" (short,
but the work goes on) or "no-oom". Printed are, for each program and for all, of how many messages the failure is
detected, a right cause stands first with the right pool, and of how many others the tool stays quiet.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from oomdoctor.causes import causes
from oomdoctor.report.vocabulary import POOLS
from oomdoctor.sources import InMemory
from oomdoctor.street import report_on

CATALOGUE = Path(__file__).parent.parent / "fixtures" / "catalogue"
KINDS = (
    "PyTorch and its backends",
    "Ray and RL",
    "training",
    "inference engines",
    "pictures and video",
    "JAX and TensorFlow",
    "data and numbers",
    "communication and drivers",
    "runtimes and allocators",
    "kernel, containers and schedulers",
)
IDS = frozenset(cause.id for cause in causes())

Expected = Literal["oom", "pressure", "no-oom"]


class CatalogueError(ValueError):
    """A catalogue that is not as it should be; the text says where and why."""


class Message(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a program prints, and what an expert says of that text alone."""

    file: str  # of the program's repository
    first: str = ""  # release that prints it
    last: str = ""  # release that prints it; "" where the newest still does
    template: str  # {} stands for a value
    rendered: str  # as a user sees it
    expect: Expected
    causes: tuple[str, ...] = ()  # which may stand first
    pool: str | tuple[str, ...] = ""
    inconclusive: bool = False  # whether that is a fair answer, too
    gap: str = ""  # why the tool is known not to be right here

    @property
    def pools(self) -> tuple[str, ...]:
        return (self.pool,) if isinstance(self.pool, str) else self.pool

    def faults(self) -> Iterator[str]:
        """What no label may be."""
        failed = self.expect == "oom"
        yield from (f"no cause is called {cause!r}" for cause in self.causes if cause not in IDS)
        if failed != bool(self.causes) or failed != bool(self.pool):
            yield f"{self.expect!r} with causes {list(self.causes)} and pool {self.pool!r}"
        yield from (f"no pool is called {pool!r}" for pool in self.pools if failed and pool not in POOLS)
        if failed and self.inconclusive:
            yield "a memory failure is not inconclusive"


class Program(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of the catalogue."""

    program: str
    repository: str
    kind: str
    message: tuple[Message, ...]

    def faults(self) -> Iterator[str]:
        if self.kind not in KINDS:
            yield f"no kind is called {self.kind!r}"
        for message in self.message:
            yield from (f"{message.template[:60]!r}: {fault}" for fault in message.faults())


class Foreign(Struct, frozen=True, kw_only=True):
    """A line of another catalogue."""

    project: str
    file: str
    ref: str = ""
    template: str
    rendered: str
    expect: Expected
    causes: tuple[str, ...] = ()
    pool: str | tuple[str, ...] = ""
    inconclusive_ok: bool = False

    def message(self) -> Message:
        names = ("file", "template", "rendered", "expect", "causes", "pool")
        alike = {name: getattr(self, name) for name in names}
        return Message(first=self.ref, inconclusive=self.inconclusive_ok, **alike)


class Answer(Struct, frozen=True):
    """What the tool says of a text: its verdict, and what stands first."""

    verdict: str
    cause: str = ""
    pool: str = ""


def program_in(path: Path) -> Program:
    """A file of the catalogue; a CatalogueError says what is wrong with it."""
    try:
        program = msgspec.toml.decode(path.read_bytes(), type=Program)
    except msgspec.DecodeError as error:
        raise CatalogueError(f"{path.name}: {error}") from error
    if faults := list(program.faults()):
        raise CatalogueError("\n".join(f"{path.name}: {fault}" for fault in faults))
    return program


def programs(folder: Path = CATALOGUE) -> list[Program]:
    """All of the catalogue, in order of kind and name."""
    every = [program_in(path) for path in folder.glob("*.toml")]
    return sorted(every, key=lambda program: (KINDS.index(program.kind), program.program.lower()))


def foreign(path: Path) -> dict[str, list[Message]]:
    """The messages of another catalogue by their programs."""
    messages: dict[str, list[Message]] = defaultdict(list)
    for line in path.read_bytes().splitlines():
        row = msgspec.json.decode(line, type=Foreign)
        messages[row.project].append(row.message())
    return messages


def answer(text: str) -> Answer:
    """What the tool says of this text alone."""
    log = InMemory("message.log", None, data=(text + "\n").encode("utf-8", "surrogateescape"))
    report = report_on([log], ())
    shown = report.incidents[0].diagnoses if report.incidents else ()
    first = next(iter(shown), None)
    return Answer(report.verdict, first.cause, first.pool) if first is not None else Answer(report.verdict)


def judged(message: Message, said: Answer) -> dict[str, bool]:
    """What of an answer is right, by what is asked of such a message."""
    if message.expect == "oom":
        detected = said.verdict == "oom"
        right = {"cause": said.cause in message.causes, "pool": said.pool in message.pools}
        return {"detected": detected} | {name: detected and it for name, it in right.items()}
    if message.expect == "pressure":
        return {"pressure": said.verdict != "oom"}
    return {"quiet": said.verdict == "no-oom" or (message.inconclusive and said.verdict == "inconclusive")}


def wrong(message: Message, said: Answer) -> str:
    """What of an answer is not right, with the answer; "" where all is."""
    names = [name for name, right in judged(message, said).items() if not right]
    if not names:
        return ""
    wanted = " ".join((message.expect, "/".join(message.causes), "/".join(message.pools))).strip()
    answered = " ".join(msgspec.structs.astuple(said)).strip()
    return f"{', '.join(names)}: {answered} (want {wanted}): {message.template[:110]!r}"


MEASURES = ("detected", "cause", "pool", "quiet", "pressure")


class Tally:
    """How many of how many are right, by measure."""

    def __init__(self) -> None:
        self.right: dict[str, int] = defaultdict(int)
        self.all: dict[str, int] = defaultdict(int)

    def add(self, judgement: Mapping[str, bool]) -> None:
        for name, right in judgement.items():
            self.right[name] += right
            self.all[name] += 1

    def line(self) -> str:
        return "  ".join(f"{name} {self.right[name]}/{self.all[name]}" for name in MEASURES if self.all[name])

    def shares(self) -> Iterator[str]:
        for name in MEASURES:
            share = f"{self.right[name] / self.all[name]:.1%}" if self.all[name] else "-"
            yield f"{name:>10}: {self.right[name]}/{self.all[name]}  {share}"


def measure(messages: Mapping[str, Iterable[Message]], *, listed: bool) -> Iterator[str]:
    """The figures of each program and of all, a line each, and each message that is not fully right."""
    tallies = {"all": Tally()}
    for program, some in messages.items():
        tallies[program] = Tally()
        for message in some:
            said = answer(message.rendered)
            for tally in (tallies["all"], tallies[program]):
                tally.add(judged(message, said))
            if listed and (difference := wrong(message, said)):
                yield f"{program}: {difference}"
    every = tallies.pop("all")
    width = max(map(len, tallies), default=0)
    yield from (f"{program:<{width}}  {tally.line()}" for program, tally in tallies.items())
    yield from every.shares()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.catalogue", description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="some of them, by name")
    parser.add_argument("--file", type=Path, help="another catalogue: a JSON object on each line")
    parser.add_argument("--list", action="store_true", help="print each message that is not fully right")
    options = parser.parse_args()
    messages: Mapping[str, Iterable[Message]] = (
        foreign(options.file) if options.file else {program.program: program.message for program in programs()}
    )
    asked = {name.lower() for name in options.programs}
    if unknown := asked - {name.lower() for name in messages}:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    some = {name: messages[name] for name in messages if not asked or name.lower() in asked}
    sys.stdout.writelines(f"{line}\n" for line in measure(some, listed=options.list))
    return 0


if __name__ == "__main__":
    sys.exit(main())
