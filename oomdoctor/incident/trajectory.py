"""Memory figures that the log prints again and again, and whether they grow.

A series keeps at most a few hundred points: when it is full, every second one goes, so that memory stays flat and the
points stay spread over the whole log.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from statistics import median
from typing import Final

import ahocorasick_rs

from oomdoctor.incident.model import Point, Trajectory
from oomdoctor.incident.names import ON_THE_NODE
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.text import sanitize
from oomdoctor.units import MIB, size

# Printed once per step, so many in a healthy log: look around these lines, not further.
ANCHORS: tuple[str, ...] = ("perf/cpu_memory_used_gb", "CPU Virtual Memory:")

MOST_POINTS: Final = 256
MOST_SERIES: Final = 64
MOST_SHOWN: Final = 12
NAMED_CHARACTERS: Final = 80
LEAST_POINTS: Final = 3

# What counts as growth: the fitted rise over the whole series against its level, and how many steps go up.
LEAST_RISE: Final = 0.02
LEAST_RISING: Final = 0.6
LEAST_RISE_OF_A_ROW: Final = 512 * MIB  # rows of a process table wander while processes start


@dataclass(slots=True)
class _Series:
    what: str
    pool: str
    file: str
    points: list[Point] = field(default_factory=list)
    every: int = 1  # of this many figures one is kept
    seen: int = 0
    last: Point | None = None

    def add(self, point: Point) -> None:
        self.last = point
        if self.seen % self.every == 0:
            self.points.append(point)
            if len(self.points) > MOST_POINTS:
                del self.points[1::2]
                self.every *= 2
        self.seen += 1

    def all(self) -> list[Point]:
        if self.last is not None and self.points[-1] is not self.last:
            return [*self.points, self.last]
        return list(self.points)

    def alike(self) -> list[Point]:
        """The points that can be compared: a program uses more in one place than in another without growing."""
        points = self.all()
        places = Counter(_place(point) for point in points)
        return [point for point in points if _place(point) == places.most_common(1)[0][0]]

    def growth(self) -> int | None:
        points = self.alike()
        if self.what.startswith("PID ") and points[-1].bytes - points[0].bytes < LEAST_RISE_OF_A_ROW:
            return None
        return growth(points)


class TrajectoryBuilder:
    """Takes pages as they come."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], _Series] = {}

    def add(self, page: Page) -> None:
        """Take the points that this page prints."""
        automaton, readers = _triggers()
        for index, line in enumerate(page.lines):
            hits = automaton.find_matches_as_indexes(line.text, overlapping=True)
            if not hits:
                continue
            for reader in dict.fromkeys(readers[hit[0]] for hit in hits):
                said = _named_place(page, index) if reader is _deepspeed else None
                for what, pool, amount, step in reader(line.text[:8000]):
                    self._point(page.file, line, what, pool, amount, step, said)

    def build(self) -> list[Trajectory]:
        """The series with more than a point or two, growing ones first."""
        found = [
            Trajectory(what=s.what, pool=s.pool, points=tuple(s.alike()), growth_bytes=s.growth(), file=s.file)
            for s in self._series.values()
            if len(s.alike()) >= LEAST_POINTS
        ]
        return sorted(found, key=lambda t: (t.growth_bytes is None, -(t.growth_bytes or 0)))

    def figures(self) -> tuple[Trajectory, ...]:
        """Every series, also of one print, with a few points each: what the job says of its memory."""
        found = []
        for series in list(self._series.values())[:MOST_SHOWN]:
            points = series.all()
            few = [*points[:: max(1, len(points) // MOST_SHOWN)], points[-1]]
            found.append(Trajectory(series.what, series.pool, tuple(dict.fromkeys(few)), series.growth(), series.file))
        return tuple(found)

    def _point(
        self, file: str, line: Line, what: str, pool: str, amount: int | None, step: int | None, said: str | None
    ) -> None:
        # a node's figure is one series whoever prints it, a process's figure is its own
        key = (what, file if what.startswith(_NODE) else f"{file} {line.writer}")
        if amount is None or (key not in self._series and len(self._series) >= MOST_SERIES):
            return
        series = self._series.setdefault(key, _Series(what, pool, file))
        series.add(Point(step, amount, line.number, said))


def _place(point: Point) -> str:
    """Where the program printed it, whatever it counts there."""
    return _DIGITS.sub("#", point.text or "")


def _named_place(page: Page, index: int) -> str | None:
    """DeepSpeed's report begins with a line that says where in the program it stands."""
    above = [line.text for line in reversed(page.before(index, 2))]
    said = next((text for text in above if not _OF_DEEPSPEED.search(text)), "").strip()
    return sanitize(said, NAMED_CHARACTERS) or None


def growth(points: list[Point]) -> int | None:
    """The rise per step (per print, where no step stands) by Theil and Sen, None where the figure does not grow.

    The first fifth is warm-up: a jump there and a plateau afterwards is no growth.
    """
    if len(points) < LEAST_POINTS:
        return None
    steady = points[len(points) // 5 :] if len(points) >= 5 else points
    places = _places(steady)
    slopes = [
        (steady[j].bytes - steady[i].bytes) / (places[j] - places[i])
        for i in range(len(steady))
        for j in range(i + 1, len(steady))
        if places[j] > places[i]
    ]
    if not slopes:
        return None
    slope = median(slopes)
    rise = slope * (places[-1] - places[0])
    rising = sum(b.bytes > a.bytes for a, b in pairwise(steady)) / (len(steady) - 1)
    level = max(p.bytes for p in steady)
    if slope <= 0 or rise < LEAST_RISE * level or rising < LEAST_RISING or _levelled(steady):
        return None
    return round(slope)


def _places(points: list[Point]) -> list[int]:
    steps = [p.step for p in points]
    known = [s for s in steps if s is not None]
    if len(known) == len(points) and all(b > a for a, b in pairwise(known)):
        return known
    return list(range(len(points)))


def _levelled(points: list[Point]) -> bool:
    """Whether the last third no longer rises as the first two thirds did."""
    if len(points) < 6:
        return False
    third = points[-len(points) // 3 :]
    whole = points[-1].bytes - points[0].bytes
    return third[-1].bytes - third[0].bytes < 0.05 * whole


_NODE: Final = ON_THE_NODE

ALLOCATED: Final = mark("memory allocated")

_Figure = tuple[str, str, int | None, int | None]  # what, pool, bytes, step
_STEP: Final = late(r"(?:\bstep|global_step|\biteration|\biter|\bepoch)[ :=\[]{1,3}(\d{1,9})", re.IGNORECASE)
_METRIC: Final = late(
    r"perf/(cpu_memory_used_gb|max_memory_allocated_gb|max_memory_reserved_gb)[:=]\s?(?:np\.float64\()?(\d+(?:\.\d+)?)"
)
_DEEPSPEED_HOST: Final = late(r"CPU Virtual Memory:\s+used = (\d+(?:\.\d+)?) GB")
_DEEPSPEED_GPU: Final = late(r"\bMA (\d+(?:\.\d+)?) GB\s{1,20}Max_MA \S{1,12} GB\s{1,20}CA (\d+(?:\.\d+)?) GB")
_OF_DEEPSPEED: Final = late(r"CPU Virtual Memory:|\bMax_MA\b")
_DIGITS: Final = late(r"\d{1,20}")
_SUMMARY: Final = late(r"\|\s{0,4}Allocated memory\s{1,12}\|\s{0,12}(\d{1,9})\s{1,4}((?:[KMGT]i?)?B)\b")
_TITAN: Final = late(r"\bstep:\s{1,8}(\d{1,9})\b.{1,200}\bmemory:\s{1,4}(\d{1,6}\.\d{2})GiB\(")
_MMENGINE: Final = late(r"\btime: [\d.]{1,12}, data_time: [\d.]{1,12}, memory: (\d{1,7})\b")
_MEGATRON: Final = late(r"memory \(MB\) \| allocated: (\d+(?:\.\d+)?)")
_RAY: Final = late(
    r"Memory on the node \(IP: ([\d.:a-f]{1,45})[^)]{0,200}\)[^/]{0,400}?was (\d+(?:\.\d+)?)GB(?: used)? /"
)
_ROW: Final = late(r"\s{0,8}(\d{1,10})\t(\d{1,6}\.\d\d)\t(\S.{0,79})")
_TUNE: Final = late(r"Memory usage on this node: (\d+(?:\.\d+)?)/\d+(?:\.\d+)? GiB")
_SLEEP: Final = late(r"Sleep mode freed [\d.]+ GiB memory, (\d+(?:\.\d+)?) GiB memory is still in use")
_HOST_USED: Final = late(r"'?host_used_GB'?[:=]\s?(\d+(?:\.\d+)?)")
_OWN_PRINT: Final = late(
    r"(?<![\w\-])(?P<what>RSS|rss|memory usage|Memory usage|mem usage|memory used|Memory used|CPU RAM|RAM usage"
    r"|RAM used|ram|cpu memory|CPU memory|host memory|memory_used|mem_used|Current memory|current memory)"
    r"(?: is| of \w{1,20}| \([^)]{1,20}\))?"
    r"\s{0,3}[:=]?\s{0,3}(?P<number>\d{1,9}(?:\.\d{1,6})?)\s?(?P<unit>GiB|GB|MiB|MB|KiB|kB|KB|G|M)(?!\w)(?!\s?/s)"
)
_GPU_PRINT: Final = late(
    r"(?P<what>max_memory_allocated|memory_allocated|max_memory_reserved|memory_reserved"
    r"|GPU memory(?: allocated| used| usage)?"
    r"|gpu_mem|memory allocated|allocated memory|cuda memory|CUDA memory)"
    r"(?: \((?P<title>GB|MB|GiB|MiB)\))?\s{0,3}[:=]\s{0,3}"
    r"(?P<number>\d{1,15}(?:\.\d{1,20})?)\s?(?P<unit>GiB|GB|MiB|MB|G|M|bytes)?(?!\w)"
)


def _verl(text: str) -> Iterator[_Figure]:
    step = _step(text)
    for name, number in _METRIC.findall(text):
        if name == "cpu_memory_used_gb":
            yield _NODE, "host_ram", size(number, "gb"), step
        else:
            yield f"perf/{name}", "gpu", size(number, "gb"), step


def _deepspeed(text: str) -> Iterator[_Figure]:
    if match := _DEEPSPEED_HOST.search(text):
        yield _NODE, "host_ram", size(match[1], "gb"), None
    elif match := _DEEPSPEED_GPU.search(text):
        yield ALLOCATED, "gpu", size(match[1], "gb"), None
        yield mark("memory reserved"), "gpu", size(match[2], "gb"), None


def _mmengine(text: str) -> Iterator[_Figure]:
    """OpenMMLab's loggers print MiB without a unit."""
    if match := _MMENGINE.search(text):
        yield mark("memory"), "gpu", size(match[1], "mb"), _step(text)


def _megatron(text: str) -> Iterator[_Figure]:
    if match := _MEGATRON.search(text):
        yield ALLOCATED, "gpu", size(match[1], "mb"), _step(text)


def _summary(text: str) -> Iterator[_Figure]:
    """The row of what is in use now, in torch.cuda.memory_summary()'s table."""
    if match := _SUMMARY.search(text):
        yield ALLOCATED, "gpu", size(match[1], match[2]), None


def _titan(text: str) -> Iterator[_Figure]:
    if match := _TITAN.search(text):
        yield mark("peak memory reserved"), "gpu", size(match[2], "gib"), int(match[1])


def _ray(text: str) -> Iterator[_Figure]:
    if match := _RAY.search(text):
        yield f"{_NODE} {match[1]} at each kill", "host_ram", size(match[2], "gb"), None
    elif match := _TUNE.search(text):
        yield _NODE, "host_ram", size(match[1], "gib"), None


def _row(text: str) -> Iterator[_Figure]:
    """A row of Ray's table of memory users: a process that grows from kill to kill."""
    if match := _ROW.match(text):
        yield f"PID {match[1]} ({match[3].strip()})", "host_ram", size(match[2], "gb"), None


def _sleep(text: str) -> Iterator[_Figure]:
    if match := _SLEEP.search(text):
        yield mark("still in use after the engine slept"), "gpu", size(match[1], "gib"), None


def _slime(text: str) -> Iterator[_Figure]:
    if match := _HOST_USED.search(text):
        yield _NODE, "host_ram", size(match[1], "gb"), _step(text)


_NOT_OWN: Final = ("KV cache", "out of memory", "on this node", "on the node", "actual memory used", "Sleep mode")


def _own(text: str) -> Iterator[_Figure]:
    """psutil and nvidia-smi, printed by the user's own code."""
    if any(words in text for words in _NOT_OWN):
        return
    if match := _GPU_PRINT.search(text):
        unit = match["unit"] or match["title"]
        if unit is not None:
            yield match["what"].lower(), "gpu", size(match["number"], unit), _step(text)
        return
    if match := _OWN_PRINT.search(text):
        yield match["what"].lower(), "host_ram", size(match["number"], match["unit"]), _step(text)


def _step(text: str) -> int | None:
    match = _STEP.search(text)
    return int(match[1]) if match else None


_Reader = Callable[[str], Iterator[_Figure]]
_READERS: Final[tuple[tuple[tuple[str, ...], _Reader], ...]] = (
    (("perf/cpu_memory", "perf/max_memory"), _verl),
    (("CPU Virtual Memory", "MA "), _deepspeed),
    (("memory (MB) | allocated",), _megatron),
    (("Allocated memory ",), _summary),
    (("GiB(",), _titan),
    ((", memory: ",), _mmengine),
    (("Memory on the node", "Memory usage on this node"), _ray),
    (("\t",), _row),
    (("Sleep mode freed",), _sleep),
    (("host_used_GB",), _slime),
    (
        (
            "RSS", "rss", "emory usage", "mem usage", "emory used", "RAM", " ram", "PU memory", "host memory",
            "memory_used", "mem_used",
            "urrent memory", "memory_allocated", "memory_reserved", "gpu_mem", "emory allocated",
            "allocated memory", "cuda memory",
            "CUDA memory",
        ),
        _own,
    ),
)  # fmt: skip


@cache
def _triggers() -> tuple[ahocorasick_rs.AhoCorasick, tuple[_Reader, ...]]:
    pairs = [(word, reader) for words, reader in _READERS for word in words]
    automaton = ahocorasick_rs.AhoCorasick([word for word, _ in pairs], matchkind=ahocorasick_rs.MatchKind.Standard)
    return automaton, tuple(reader for _, reader in pairs)
