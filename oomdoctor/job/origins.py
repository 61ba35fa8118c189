"""Where files come from, as far as their names and lines tell: two of different origins are of two jobs.

What tells is the Ray cluster, the Slurm job or torchrun's run that a file is of, the program that its tracebacks begin
in, and when it was written. A file that says nothing of a cluster is of the one whose nodes it names, or else of the
one that the files around it are of.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Final

from msgspec import Struct, field

from oomdoctor.families.event import Process
from oomdoctor.job.moments import Moment, moment, seconds_between
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

# Programs that write rarely, and clocks that are a little off, leave gaps within one job.
FAR: Final = 2 * 3600
# What is written between other hours may be so by another time zone's clock.
FURTHEST_ZONES: Final = 26 * 3600
KINDS: Final = ("cluster", "session", "slurm", "run")
MOST_TIMES: Final = 20  # tried at each end of a page: seconds since a boot are no moment
MOST: Final = 8  # of one kind that a file tells of; one that tells of more is of no single job
MOST_NODES: Final = 256  # that a file names

_SESSION = late(r"session_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_\d{1,9}_\d{1,10}")
_SLURM_FILE = late(r"slurm-(\d{1,12}(?:_\d{1,9})?)(?:[-.].{0,200})?")
_SLURM_SAYS = late(r"\bSLURM_JOB_?ID[=: '\"]{1,5}(\d{1,12})|\bStepId=(\d{1,12}(?:_\d{1,9})?)[.+]|\bJOB (\d{1,12}) ON ")
_CLUSTER = late(r"Setting cluster ID to: ([0-9a-f]{40,64})\b")
_NODE_ID = late(r"(?:\bnode_id\"?[=:] ?\"?|\bNode ID: |\(IP: [^ ,]{1,45}, ID: )([0-9a-f]{40,56})\b")
_BEGINS = late(r"\s{0,20}File \"(?:[^\"]{0,300}[/\\])?([^\"/\\]{1,100}\.py)\", line \d{1,9}, in <module>")
_PACKAGES: Final = ("/site-packages/", "/dist-packages/", "/lib/python3")
_ATTEMPT = late(r"attempt_\d{1,4}")
_UNNAMED_RUN: Final = "none"  # torchrun's run without --rdzv-id

# Ray's files of one worker, and torchrun's of one rank
_WORKER = late(
    r"(?:worker-[0-9a-f]{20,64}-[0-9a-f]{8,64}-|python-core-worker-[0-9a-f]{20,64}_)(\d{1,10})\.(?:out|err|log)"
)
_OF_RANK = late(r"(?:.*/)?attempt_\d{1,4}/(\d{1,6})/(?:stdout\.log|stderr\.log|error\.json)")


def writer_of(file: str) -> Process:
    """Who writes this file, as far as its name tells."""
    worker = _WORKER.fullmatch(file.rpartition("/")[2])
    rank = _OF_RANK.fullmatch(file)
    return Process(pid=int(worker[1]) if worker else None, rank=int(rank[1]) if rank else None)


class _Told(Struct):
    """What a file tells of its origin."""

    jobs: dict[str, set[str]] = field(default_factory=dict)  # a kind of job, and those of that kind
    programs: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)  # Ray's ids of them, which no two clusters share
    first: Moment | None = None
    last: Moment | None = None

    def of(self, kind: str, name: str) -> None:
        names = self.jobs.setdefault(kind, set())
        if len(names) < MOST:
            names.add(name)


class Origins:
    """Takes pages as they come."""

    def __init__(self) -> None:
        self._files: dict[str, _Told] = {}
        self._folders: dict[tuple[str, str], set[str]] | None = None
        self._nodes: dict[tuple[str, str], set[str]] | None = None
        self._of: dict[str, tuple[set[str], ...]] = {}

    def add(self, page: Page) -> None:
        """Take what this page says of where its file comes from."""
        told = self._files.get(page.file)
        if told is None:
            told = self._files[page.file] = _named(page.file)
        for line in page.lines:
            text = line.text
            if "in <module>" in text:
                _take_program(told, text)
            elif "cluster ID to" in text and (match := _CLUSTER.search(text[:400])):
                told.of("cluster", match[1])
            elif ("SLURM_JOB" in text or "StepId=" in text or "JOB " in text) and (
                match := _SLURM_SAYS.search(text[:400])
            ):
                told.of("slurm", match[1] or match[2] or match[3])
            if ("ID: " in text or "node_id" in text) and len(told.nodes) < MOST_NODES:
                told.nodes.update(_NODE_ID.findall(text[:1000]))
        told.first = told.first or _first_time(iter(page.lines))
        told.last = _first_time(reversed(page.lines)) or told.last
        self._forget_folders()

    def join(self, later: Origins) -> None:
        """Take what other files say of where they come from."""
        self._files |= later._files
        self._forget_folders()

    def _forget_folders(self) -> None:
        self._folders = self._nodes = None
        self._of.clear()

    def apart(self, one: str, other: str) -> bool:
        """Whether these files are of two jobs."""
        mine, others = self._files.get(one), self._files.get(other)
        if mine is None or others is None or one == other:
            return False
        together = False
        for first, second in zip(self._jobs(one), self._jobs(other), strict=False):
            if first and second:
                if first.isdisjoint(second):
                    return True
                together = True
        if together:
            return False
        if mine.programs and others.programs and mine.programs.isdisjoint(others.programs):
            return True
        return _at_other_times(mine, others)

    def _jobs(self, file: str) -> tuple[set[str], ...]:
        """The jobs of each kind that a file is of: by itself, by the nodes that it names, or by the files around it.
        Empty where it is of none, as most are: each file is compared with each other one."""
        known = self._of.get(file)
        if known is None:
            own = self._files[file].jobs
            found = tuple(own.get(kind) or self._by_node(file, kind) or self._around(file, kind) for kind in KINDS)
            known = self._of[file] = found if any(found) else ()
        return known

    def _by_node(self, file: str, kind: str) -> set[str]:
        """The jobs of the files that name the same nodes."""
        if self._nodes is None:
            self._nodes = {}
            for told in self._files.values():
                for of, names in told.jobs.items():
                    for node in told.nodes:
                        self._nodes.setdefault((node, of), set()).update(names)
        found = (self._nodes.get((node, kind), set()) for node in self._files[file].nodes)
        return set().union(*found)

    def _around(self, file: str, kind: str) -> set[str]:
        """The only job of the nearest folder with any."""
        below = self._below()
        found = next((jobs for folder in _folders(file) if (jobs := below.get((folder, kind)))), set())
        return found if len(found) == 1 else set()

    def _below(self) -> dict[tuple[str, str], set[str]]:
        """The jobs of each kind that the files below each folder are of."""
        if self._folders is None:
            self._folders = {}
            for file, told in self._files.items():
                for kind, names in told.jobs.items():
                    for folder in _folders(file):
                        self._folders.setdefault((folder, kind), set()).update(names)
        return self._folders


def _named(file: str) -> _Told:
    """What the name of a file tells."""
    told = _Told()
    *folders, name = file.split("/")
    if match := _SLURM_FILE.fullmatch(name):
        told.of("slurm", match[1])
    for folder, inner in pairwise([*folders, name]):
        if _SESSION.fullmatch(folder):
            told.of("session", folder)
        run = folder.rpartition("_")[0]
        if _ATTEMPT.fullmatch(inner) and run and run != _UNNAMED_RUN:
            told.of("run", run)
    return told


def _folders(file: str) -> Iterator[str]:
    """The folders that a file lies in, the nearest first; "" is above all of them."""
    while file:
        file = file.rpartition("/")[0]
        yield file


def _take_program(told: _Told, text: str) -> None:
    match = _BEGINS.match(text[:600])
    if match and len(told.programs) < MOST and not any(part in text for part in _PACKAGES):
        told.programs.add(match[1])


def _first_time(lines: Iterator[Line]) -> Moment | None:
    times = islice((line.mark.time for line in lines if line.mark.time), MOST_TIMES)
    return next(filter(None, map(moment, times)), None)


def _at_other_times(one: _Told, other: _Told) -> bool:
    """Whether one was written long before the other; clocks of different zones cannot be compared to the hour."""
    if not (one.first and one.last and other.first and other.last):
        return False
    begun, ended = (other.first, one.last) if one.first.at <= other.first.at else (one.first, other.last)
    if begun.at <= ended.at:
        return False
    same_clock = begun.clock == ended.clock
    return seconds_between(ended, begun) > (FAR if same_clock else FURTHEST_ZONES + FAR)
