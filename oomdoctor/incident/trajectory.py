"""Memory figures that the log prints again and again, and whether they grow.

A series keeps at most a few hundred points: when it is full, those near the one before them go, so that memory stays
flat and the points stay spread evenly over the log, of which some parts are read more closely than others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

import ahocorasick_rs
from msgspec import Struct, field

from oomdoctor.families import machine_memory
from oomdoctor.job.model import LEAST_POINTS, Point, Trajectory, counted
from oomdoctor.job.names import AT_KILLS, IN_THE_CGROUP, ON_THE_CARD, ON_THE_NODE
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.text import sanitize
from oomdoctor.units import MIB, size

if TYPE_CHECKING:
    from oomdoctor.job.trend import Trend

SAMPLE: Final = '{"flight":"sample"'  # of what `oomdoctor run` records

# Printed once per step, so many in a healthy log: look around these lines, not further.
ANCHORS: tuple[str, ...] = (
    "perf/cpu_memory_used_gb",
    "CPU Virtual Memory:",
    "memory (MB) | allocated",
    "memory allocated (GB)",
    "Sleep mode freed",
    SAMPLE,
)

MOST_POINTS: Final = 256
MOST_SERIES: Final = 64
STALE: Final = 50 * MOST_SERIES  # figures of others since its last: whoever printed it is gone
MOST_PLACES: Final = 64  # of one series, whose prints are counted apart
MOST_SHOWN: Final = 12
NAMED_CHARACTERS: Final = 80
LEAST_RISE_OF_A_ROW: Final = 512 * MIB  # rows of a process table wander while processes start


class _Series(Struct):
    what: str
    pool: str
    file: str
    points: list[Point] = field(default_factory=list)
    limit: int | None = None  # how much there is in all, as it was printed last
    of_rest: bool = False  # it counts what is left
    apart: int = 0  # lines that lie between two points at least
    last: Point | None = None
    turn: int = 0  # the number of its last figure among those of all series
    printed: Counter[str] = field(default_factory=Counter)  # how often in each place
    unit: str | None = None  # that is assumed, where the program prints none

    def add(self, point: Point, limit: int | None) -> None:
        if self.last is not None and point.line <= self.last.line:
            return  # read already: the slices of a log overlap
        self.last = point
        self.limit = limit or self.limit
        place = _place(point)
        if place in self.printed or len(self.printed) < MOST_PLACES:
            self.printed[place] += 1
        if not self.points or point.line - self.points[-1].line >= self.apart:
            self.points.append(point)
        if len(self.points) > MOST_POINTS:
            self._thin_out()

    def _thin_out(self) -> None:
        self.apart = -(-2 * (self.points[-1].line - self.points[0].line) // MOST_POINTS)
        points, self.points = self.points, []
        for point in points:
            if not self.points or point.line - self.points[-1].line >= self.apart:
                self.points.append(point)

    def all(self) -> list[Point]:
        if self.last is not None and self.points[-1] is not self.last:
            return [*self.points, self.last]
        return list(self.points)

    def alike(self) -> list[Point]:
        """The points that can be compared: a program uses more in one place than in another without growing."""
        points = self.all()
        places = Counter(_place(point) for point in points)
        return [point for point in points if _place(point) == places.most_common(1)[0][0]]

    def whole(self) -> Trajectory:
        """The points that can be compared, and what becomes of them."""
        points = self.alike()
        return self._judged(points, points)

    def few(self) -> Trajectory:
        """Some points from all of them, and what becomes of those that can be compared."""
        points = self.all()
        some = [*points[:: max(1, len(points) // MOST_SHOWN)], points[-1]]
        return self._judged(list(dict.fromkeys(some)), self.alike())

    def _judged(self, shown: list[Point], points: list[Point]) -> Trajectory:
        prints = max(len(points), self.printed[_place(points[0])])
        found = _trend(_filled(points) if self.of_rest else points, prints)
        shape = found.shape
        if self.what.startswith("PID ") and points[-1].bytes - points[0].bytes < LEAST_RISE_OF_A_ROW:
            shape = "level" if shape == "growing" else shape
        told = shape in ("growing", "unclear")
        return Trajectory(
            what=self.what,
            pool=self.pool,
            points=tuple(shown),
            growth_bytes=_whole_bytes(found.slope) if shape == "growing" else None,
            file=self.file,
            shape=shape,
            growth_low_bytes=_whole_bytes(found.low) if told else None,
            growth_high_bytes=_whole_bytes(found.high) if told else None,
            reached_bytes=points[-1].bytes if self.of_rest else found.reached,
            limit_bytes=self.limit,
            prints=prints,
            of_rest=self.of_rest,
            assumed_unit=self.unit,
        )


class TrajectoryBuilder:
    """Takes pages as they come."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], _Series] = {}
        self._turn = 0

    def add(self, page: Page) -> None:
        """Take the points that this page prints."""
        automaton, readers = _triggers()
        for index, line in enumerate(page.lines):
            hits = automaton.find_matches_as_indexes(line.text, overlapping=True)
            if not hits:
                continue
            here = _Here(line.text[:8000], page, index)
            for reader in dict.fromkeys(readers[hit[0]] for hit in hits):
                for figure in reader(here):
                    self._point(page.file, line, figure)

    def join(self, later: TrajectoryBuilder) -> None:
        """Take the points of other logs."""
        for key, series in later._series.items():
            if len(self._series) < MOST_SERIES:
                self._series.setdefault(key, series)

    def build(self) -> list[Trajectory]:
        """The series with more than a point or two, growing ones first."""
        found = [series.whole() for series in self._series.values() if len(series.alike()) >= LEAST_POINTS]
        return sorted(found, key=lambda t: (t.growth_bytes is None, -(t.growth_bytes or 0)))

    def figures(self) -> tuple[Trajectory, ...]:
        """Every series, also of one print, with a few points each: what the job says of its memory."""
        return tuple(series.few() for series in list(self._series.values())[:MOST_SHOWN])

    def _point(self, file: str, line: Line, figure: _Figure) -> None:
        # a node's figure is one series whoever prints it, a process's figure is its own
        key = (figure.what, file if figure.what.startswith(_NODE) else f"{file} {line.writer}")
        self._turn += 1
        unsized = figure.bytes is None and figure.plain is None
        if unsized or not (key in self._series or self._has_room()):
            return
        unit = None if figure.plain is None else _likely_unit(figure.plain)
        fresh = _Series(figure.what, figure.pool, file, of_rest=figure.of_rest, unit=unit)
        series = self._series.setdefault(key, fresh)
        series.turn = self._turn
        sized = figure.bytes if figure.plain is None else size(figure.plain, series.unit or "")
        point = Point(figure.step, sized or 0, figure.line or line.number, figure.said, figure.second)
        series.add(point, figure.total)

    def _has_room(self) -> bool:
        """Whether one more series can be kept, if need be instead of one that ended long ago."""
        if len(self._series) < MOST_SERIES:
            return True
        oldest = min(self._series, key=lambda key: self._series[key].turn)
        if self._turn - self._series[oldest].turn < STALE:
            return False
        del self._series[oldest]
        return True


def _likely_unit(number: float) -> str:
    """What a program counts in that prints no unit, by the first number of the series: no card that computes has less
    than 100 MiB or more than a TiB."""
    return next(unit for most, unit in ((100, "GiB"), (1e6, "MiB"), (inf, "bytes")) if number < most)


def _place(point: Point) -> str:
    """Where the program printed it, whatever it counts there."""
    return _DIGITS.sub("#", point.text or "")


def growth(points: list[Point]) -> int | None:
    """The rise per step (per print, where no step stands), None where the figure does not grow."""
    found = _trend(points, len(points))
    return _whole_bytes(found.slope) if found.shape == "growing" else None


def _filled(points: list[Point]) -> list[Point]:
    """What came to be in use since most was left."""
    most = max(point.bytes for point in points)
    return [Point(point.step, most - point.bytes, point.line, point.text) for point in points]


def _trend(points: list[Point], prints: int) -> Trend:
    from oomdoctor.job.trend import trend  # noqa: PLC0415  (with the standard library's statistics: not for every log)

    return trend(_places(points, prints), [point.bytes for point in points])


def _whole_bytes(size: float | None) -> int | None:
    return None if size is None else round(size)


def _places(points: list[Point], prints: int) -> list[int]:
    """Their steps, or which of so many prints they are: not all of them are kept."""
    steps = counted(points)
    return steps or [number * prints // len(points) for number in range(len(points))]


_NODE: Final = ON_THE_NODE

ALLOCATED: Final = "memory allocated"
RESERVED: Final = "memory reserved"
AVAILABLE: Final = "memory available on the node"


class _Figure(NamedTuple):
    what: str
    pool: str
    bytes: int | None
    step: int | None = None
    total: int | None = None  # what there is in all
    said: str | None = None  # where in the program it was printed
    line: int | None = None  # where it stands, if not here
    of_rest: bool = False  # it is what is left
    plain: float | None = None  # the number, where no unit is printed
    second: int | None = None  # since the job's start


class _Here(NamedTuple):
    """A line, and the page that it stands on."""

    text: str
    page: Page
    at: int

    def above(self, count: int) -> list[str]:
        """The lines before it, the nearest first."""
        return [line.text for line in reversed(self.page.before(self.at, count))]


_STEP: Final = late(r"(?<!\bper )(?:\bstep|global_step|\biteration|\biter|\bepoch)[ :=\[]{1,3}(\d{1,9})", re.IGNORECASE)
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
_MEGATRON: Final = late(
    r"(?:\(after (?P<step>\d{1,9}) iterations\) )?memory \(MB\) \| allocated: (?P<held>\d+(?:\.\d+)?)"
)
_VERL_LOGGER: Final = late(
    r"(?P<said>[^,]{0,200}), memory allocated \(GB\): (?P<held>\d+(?:\.\d+)?), memory reserved \(GB\): "
    r"(?P<reserved>\d+(?:\.\d+)?)"
    r"(?:, device memory used/total \(GB\): (?P<used>\d+(?:\.\d+)?)/(?P<total>\d+(?:\.\d+)?))?"
)
_SMI: Final = late(
    r"\|\s{1,4}(?:N/A|ERR!|\d{1,3}%)\s[^|]{1,60}\|\s{0,12}(\d{1,9})MiB\s{1,3}/\s{1,12}(\d{1,9})MiB\s{0,4}\|"
)
_SMI_CARD: Final = late(r"\|\s{1,4}(\d{1,3})\s{1,4}\S")
_GPUSTAT: Final = late(r"\s{0,4}\[(\d{1,3})\] [^|]{1,80}\|[^|]{1,60}\|\s{0,8}(\d{1,9}) /\s{1,8}(\d{1,9}) MB\b")
# `ray status` counts what is requested as "memory", but what is used as "object_store_memory". Its sums have one blank
# before them, the single nodes' figures two.
_STATUS: Final = late(
    r" ?(?P<used>\d+(?:\.\d+)?)(?P<unit>[KMGT]iB|B)/(?P<total>\d+(?:\.\d+)?)(?P<of>[KMGT]iB|B) "
    r"object_store_memory\s{0,4}$"
)
_RAY: Final = late(
    r"Memory on the node \(IP: ([\d.:a-f]{1,45})[^)]{0,200}\)[^/]{0,400}?was (\d+(?:\.\d+)?)GB(?: used)? /"
    r"(?: (\d+(?:\.\d+)?)GB)?"
)
_ROW: Final = late(r"\s{0,8}(\d{1,10})\t(\d{1,6}\.\d\d)\t(\S.{0,79})")
_TUNE: Final = late(r"Memory usage on this node: (\d+(?:\.\d+)?)/(\d+(?:\.\d+)?) GiB")
_SLEEP: Final = late(r"Sleep mode freed [\d.]+ GiB memory, (\d+(?:\.\d+)?) GiB memory is still in use")
_HOST_USED: Final = late(r"'?host_used_GB'?[:=]\s?(\d+(?:\.\d+)?)")
_NOT_REST: Final = r"(?<![Ff]ree[ _])(?<![Aa]vailable[ _])(?<![Rr]emaining[ _])"
_OWN_PRINT: Final = late(
    rf"(?<![\w\-]){_NOT_REST}"
    r"(?P<what>(?:RSS|rss)(?:[ _](?i:mem(?:ory)?)(?:[ _](?i:used?|usage))?)?|memory usage|Memory usage|mem usage"
    r"|memory used(?: by (?:the )?process)?|Memory used(?: by (?:the )?process)?|CPU RAM|RAM usage"
    r"|RAM used|(?<!GPU )(?<!otal )(?<!ideo )RAM(?=[ :=]{1,3}\d)|ram|cpu memory"
    r"|CPU memory|host memory|memory_used|mem_used|Current memory|current memory)"
    r"(?: is| of \w{1,20}| \([^)]{1,20}\))?"
    r"\s{0,3}[:=]?\s{0,3}(?P<number>\d{1,3}(?:,\d{3}){1,3}(?:\.\d{1,6})?|\d{1,9}(?:\.\d{1,6})?)"
    r"\s?(?P<unit>GiB|GB|MiB|MB|KiB|kB|KB|G|M)(?!\w)(?!\s?/s)"
)
# "rss_mb": 554, mem_used_gb=1.2: the unit is part of the name
_NAMED_PRINT: Final = late(
    r"(?<![\w./-])(?P<what>(?P<host>(?:(?:host|cpu|process|proc|worker)_)?(?:rss|ram)|(?:host|cpu|process|proc)_mem(?:ory)?)"
    r"|mem(?:ory)?)(?:_(?:rss|used|usage))?_(?P<unit>[kmg]i?b)[\"']?\s?[:=]\s?(?P<number>\d{1,9}(?:\.\d{1,6})?)(?![\w.])"
)
_GPU_PRINT: Final = late(
    rf"{_NOT_REST}(?P<what>max_memory_allocated|memory_allocated|max_memory_reserved|memory_reserved"
    r"|(?:[Pp]eak )?(?:GPU|CUDA|gpu|cuda) [Mm]emory(?: allocated| used| usage)?|gpu_mem|memory allocated"
    r"|allocated memory|mem_usage:cuda:\d{1,3}|max_mem)"
    r"(?: \((?P<title>GB|MB|GiB|MiB)\))?(?:\s{0,3}[:=]|(?<=cuda:\d))\s{0,3}"
    r"(?P<number>\d{1,15}(?:,\d{3}){0,3}(?:\.\d{1,20})?)\s?(?P<unit>GiB|GB|MiB|MB|G|M|bytes)?(?!\w)"
    r"(?:, reserved: (?P<reserved>\d{1,15}(?:\.\d{1,20})?)\s?(?P<of>GiB|GB|MiB|MB))?"
)
_BAR_PRINT: Final = late(
    r"[\[, ](?P<what>mem(?:ory)?)=(?P<number>\d{1,7}(?:\.\d{1,4})?)\s?(?P<unit>GiB|GB|MiB|MB|G|M)\b"
)
_BARE_PRINT: Final = late(
    r"(?<!free )(?<!max )(?<!total )(?<!limit )(?<!available )(?<![\w-])(?:mem|memory)[ :]{1,2}"
    r"(?P<number>\d{1,7}(?:\.\d{1,4})?)\s?(?P<unit>[MG]i?B)\b(?! ?[/(])"
)
_CARD: Final = late(r"(?i)cuda|gpu|nvidia|vram|\bmps\b|\btpu|\bhip\b|rocm")
CHARACTERS: Final = 400
_OF_A_CARD: Final = r"(?:gpu|cuda|device|video)[ _]?(?:memory|mem|ram)|vram"
_OF_TOTAL: Final = late(
    rf"(?i)(?<![\w.])(?P<what>{_OF_A_CARD})(?:[ _](?:usage|used|allocated|in use))?\s?[:=]?\s{{0,3}}"
    r"(?P<used>\d{1,6}(?:\.\d{1,4})?)\s?(?P<unit>[MG]i?B)?\s?/\s?(?P<total>\d{1,6}(?:\.\d{1,4})?)\s?(?P<of>[MG]i?B)\b"
)
_FREE_PRINT: Final = late(
    rf"(?i)(?<![\w.])(?P<what>(?:free|available)[ _](?:{_OF_A_CARD})|(?:{_OF_A_CARD})[ _](?:free|available|left)"
    r"|gb_free|(?P<host>(?:free|available)[ _](?:system |host |cpu )?ram|ram[ _](?:free|available|left)))"
    r"(?: \((?P<title>GB|MB|GiB|MiB)\))?\"?\s{0,3}[:=]\s{0,3}\"?"
    r"(?P<number>\d{1,15}(?:\.\d{1,20})?)\s?(?P<unit>GiB|GB|MiB|MB|KiB|kB|G|M|bytes|B)?(?![\w.%])"
)
# Ultralytics prints a row for each epoch: "  3/100   5.4G   1.02 ..."
_EPOCH_ROW: Final = late(r"\s{0,8}(\d{1,5})/\d{1,5}\s{2,12}(\d{1,3}(?:\.\d{1,3})?)G\s{2,12}\d{1,4}\.\d")
# verl's performance log before 0.3
_CARD_AT: Final = late(
    r"(?P<said>\b(?:[Bb]efore|[Aa]fter) [^:]{3,80}): (?P<used>\d{1,4}\.\d{1,6}) (?P<unit>Gi?B) / "
    r"(?P<total>\d{1,4}\.\d{1,6}) Gi?B"
)


def _verl(here: _Here) -> Iterator[_Figure]:
    step = _step(here.text)
    for name, number in _METRIC.findall(here.text):
        if name == "cpu_memory_used_gb":
            yield _Figure(_NODE, "host_ram", size(number, "gb"), step)
        else:
            yield _Figure(f"perf/{name}", "gpu", size(number, "gb"), step)


def _deepspeed(here: _Here) -> Iterator[_Figure]:
    """Its report begins with a line that says where in the program it stands."""
    if match := _DEEPSPEED_HOST.search(here.text):
        yield _Figure(_NODE, "host_ram", size(match[1], "gb"), said=_named_place(here))
    elif match := _DEEPSPEED_GPU.search(here.text):
        said = _named_place(here)
        yield _Figure(ALLOCATED, "gpu", size(match[1], "gb"), said=said)
        yield _Figure(RESERVED, "gpu", size(match[2], "gb"), said=said)


def _named_place(here: _Here) -> str | None:
    said = next((text for text in here.above(2) if not _OF_DEEPSPEED.search(text)), "").strip()
    return sanitize(said, NAMED_CHARACTERS) or None


def _mmengine(here: _Here) -> Iterator[_Figure]:
    """OpenMMLab's loggers print MiB without a unit."""
    if match := _MMENGINE.search(here.text):
        yield _Figure("memory", "gpu", size(match[1], "mb"), _step(here.text))


def _megatron(here: _Here) -> Iterator[_Figure]:
    if match := _MEGATRON.search(here.text):
        yield _Figure(ALLOCATED, "gpu", size(match["held"], "mb"), int(match["step"]) if match["step"] else None)


def _verl_logger(here: _Here) -> Iterator[_Figure]:
    """It says where in the program it stands; its "GB" are GiB."""
    if match := _VERL_LOGGER.search(here.text):
        said = sanitize(match["said"].strip(), NAMED_CHARACTERS) or None
        yield _Figure(ALLOCATED, "gpu", size(match["held"], "gb"), said=said)
        yield _Figure(RESERVED, "gpu", size(match["reserved"], "gb"), said=said)
        if match["used"] is not None:
            total = size(match["total"], "gb")
            yield _Figure(ON_THE_CARD, "gpu", size(match["used"], "gb"), total=total, said=said)


def _nvidia_smi(here: _Here) -> Iterator[_Figure]:
    """A card's second row; its number stands in the first."""
    if not (match := _SMI.match(here.text.strip())):
        return
    head = next((found for text in here.above(1) if (found := _SMI_CARD.match(text.strip()))), None)
    if head is not None:
        yield _Figure(f"{ON_THE_CARD} {head[1]}", "gpu", size(match[1], "mib"), total=size(match[2], "mib"))


def _gpustat(here: _Here) -> Iterator[_Figure]:
    """Its "MB" are MiB."""
    if match := _GPUSTAT.match(here.text):
        yield _Figure(f"{ON_THE_CARD} {match[1]}", "gpu", size(match[2], "mb"), total=size(match[3], "mb"))


def _flight_record(here: _Here) -> Iterator[_Figure]:
    """A sample of each second at most, whose figures are the last before the job's end, too."""
    from oomdoctor.families import flight_record  # noqa: PLC0415  (few logs come with one)

    sample, before = flight_record.samples(here.page, here.at)
    if sample is None or (before is not None and int(before.s) == int(sample.s)):
        return
    second, names = int(sample.s), here.page.once(flight_record.names)
    if sample.used is not None and sample.limit is not None:
        yield _Figure(IN_THE_CGROUP, "cgroup", sample.used, total=sample.limit, second=second)
    elif sample.available is not None:
        yield _Figure(AVAILABLE, "host_ram", sample.available, of_rest=True, second=second)
    for one in sample.processes:
        who = f"{names[one.pid]} (PID {one.pid})" if one.pid in names else f"process {one.pid}"
        yield _Figure(who, "host_ram", one.resident, second=second)
    for card in sample.cards:
        yield _Figure(f"{ON_THE_CARD} {card.index}", "gpu", card.used, total=card.total, second=second)


def _ray_status(here: _Here) -> Iterator[_Figure]:
    if match := _STATUS.match(here.text):
        total = size(match["total"], match["of"])
        yield _Figure("object store in use", "object_store", size(match["used"], match["unit"]), total=total)


def _summary(here: _Here) -> Iterator[_Figure]:
    """The row of what is in use now, in torch.cuda.memory_summary()'s table."""
    if match := _SUMMARY.search(here.text):
        yield _Figure(ALLOCATED, "gpu", size(match[1], match[2]))


def _titan(here: _Here) -> Iterator[_Figure]:
    if match := _TITAN.search(here.text):
        yield _Figure("peak memory reserved", "gpu", size(match[2], "gib"), int(match[1]))


def _ray(here: _Here) -> Iterator[_Figure]:
    if match := _RAY.search(here.text):
        total = size(match[3], "gb") if match[3] else None
        yield _Figure(f"{_NODE} {match[1]}{AT_KILLS}", "host_ram", size(match[2], "gb"), total=total)
    elif match := _TUNE.search(here.text):
        yield _Figure(_NODE, "host_ram", size(match[1], "gib"), total=size(match[2], "gib"))


def _row(here: _Here) -> Iterator[_Figure]:
    """A row of Ray's table of memory users: a process that grows from kill to kill."""
    if match := _ROW.match(here.text):
        yield _Figure(f"PID {match[1]} ({match[3].strip()})", "host_ram", size(match[2], "gb"))


def _sleep(here: _Here) -> Iterator[_Figure]:
    if match := _SLEEP.search(here.text):
        yield _Figure("still in use after the engine slept", "gpu", size(match[1], "gib"))


def _slime(here: _Here) -> Iterator[_Figure]:
    if match := _HOST_USED.search(here.text):
        yield _Figure(_NODE, "host_ram", size(match[1], "gb"), _step(here.text))


def _machine(here: _Here) -> Iterator[_Figure]:
    """free, top and others. Where what is used counts the cache, too, only what is available tells how full it is."""
    for event in machine_memory.every(here.page, here.at):
        if event.is_of_a_record:
            continue  # of the machine's whole day, whatever ran on it
        said, line = event.tool, event.at.line
        used = event.used_without_cache_bytes if event.counts_cache else event.used_bytes
        if event.tool in ("sar", "meminfo"):
            rest = event.available_bytes
            yield _Figure(AVAILABLE, "host_ram", rest, total=event.total_bytes, said=said, line=line, of_rest=True)
        elif event.total_bytes and event.tool != "docker" and " on this node" not in here.text:
            yield _Figure(_NODE, "host_ram", used, total=event.total_bytes, said=said, line=line)


def _free(here: _Here) -> Iterator[_Figure]:
    """A program's own print of what is left, also without a unit."""
    if match := _FREE_PRINT.search(here.text):
        unit = match["unit"] or match["title"] or ("GiB" if match["what"].lower() == "gb_free" else None)
        number = match["number"]
        yield _Figure(
            match["what"].lower(),
            "host_ram" if match["host"] else "gpu",
            None if unit is None else size(number, unit),
            _step(here.text),
            of_rest=True,
            plain=float(number) if unit is None else None,
        )


def _of_total(here: _Here) -> Iterator[_Figure]:
    """A program's own "GPU mem: 10.1/80.0 GB"."""
    if match := _OF_TOTAL.search(here.text):
        used, total = size(match["used"], match["unit"] or match["of"]), size(match["total"], match["of"])
        yield _Figure(match["what"].lower(), "gpu", used, _step(here.text), total=total)


def _bar(here: _Here) -> Iterator[_Figure]:
    """A progress bar's "mem=12.3G", which trainers take from the card."""
    if (match := _BAR_PRINT.search(here.text)) and "it" in here.text:
        yield _Figure(match["what"], "gpu", size(match["number"], match["unit"]), _step(here.text))


def _bare(here: _Here) -> Iterator[_Figure]:
    """A loop's "epoch 3 loss 0.2 mem 710MB", of the host where nothing speaks of a card."""
    if (match := _BARE_PRINT.search(here.text)) and not here.page.once(_speaks_of_a_card):
        yield _Figure("host memory", "host_ram", size(match["number"], match["unit"]), _step(here.text))


def _named(here: _Here) -> Iterator[_Figure]:
    """A figure whose name has its unit, of the host where it says so or nothing speaks of a card."""
    match = _NAMED_PRINT.search(here.text)
    if match and (match["host"] or not here.page.once(_speaks_of_a_card)):
        yield _Figure(match["what"], "host_ram", size(match["number"], match["unit"]), _step(here.text))


def _speaks_of_a_card(page: Page) -> bool:
    return any(_CARD.search(line.text[:CHARACTERS]) for line in page.lines)


def _epochs(here: _Here) -> Iterator[_Figure]:
    if match := _EPOCH_ROW.match(here.text):
        yield _Figure("gpu_mem", "gpu", size(match[2], "GiB"))


def _card_at(here: _Here) -> Iterator[_Figure]:
    if match := _CARD_AT.search(here.text):
        said = sanitize(match["said"].strip(), NAMED_CHARACTERS) or None
        used, total = (size(match[name], match["unit"]) for name in ("used", "total"))
        yield _Figure(ON_THE_CARD, "gpu", used, total=total, said=said)


_NOT_OWN: Final = (
    "KV cache",
    "out of memory",
    "on this node",
    "on the node",
    "actual memory used",
    "Sleep mode",
    ", memory reserved (GB)",  # verl's logger
)


def _own(here: _Here) -> Iterator[_Figure]:
    """psutil and nvidia-smi, printed by the user's own code."""
    if any(words in here.text for words in _NOT_OWN):
        return
    if match := _GPU_PRINT.search(here.text):
        unit = match["unit"] or match["title"]
        if unit is not None:
            yield _Figure(match["what"].lower(), "gpu", size(match["number"], unit), _step(here.text))
        if match["reserved"]:
            yield _Figure(RESERVED, "gpu", size(match["reserved"], match["of"]))
        return
    if match := _OWN_PRINT.search(here.text):
        yield _Figure(match["what"].lower(), "host_ram", size(match["number"], match["unit"]), _step(here.text))


def _step(text: str) -> int | None:
    match = _STEP.search(text)
    return int(match[1]) if match else None


_Reader = Callable[[_Here], Iterator[_Figure]]
_READERS: Final[tuple[tuple[tuple[str, ...], _Reader], ...]] = (
    (("perf/cpu_memory", "perf/max_memory"), _verl),
    (("CPU Virtual Memory", "MA "), _deepspeed),
    (("memory (MB) | allocated",), _megatron),
    (("memory allocated (GB)",), _verl_logger),
    (("MiB / ",), _nvidia_smi),
    ((" MB |",), _gpustat),
    (("object_store_memory",), _ray_status),
    ((SAMPLE,), _flight_record),
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
            "allocated memory", "cuda memory", "CUDA memory", "GPU Memory", "gpu memory", "GPU memory",
            "mem_usage:cuda:", "max_mem",
        ),
        _own,
    ),
    (tuple(f"{what}_{unit}" for what in ("rss", "ram", "mem", "memory", "used", "usage")
           for unit in ("kb", "mb", "gb", "kib", "mib", "gib")), _named),
    (machine_memory.TRIGGERS, _machine),
    (("gb_free", "ree GPU", "ree gpu", "ree CUDA", "ree cuda", "ree device", "ree VRAM", "ree vram", "ree RAM",
      "ree ram", "ailable GPU", "ailable gpu", "ailable VRAM", "ailable RAM", "ailable ram",
      " free:", " free=", "_free:", "_free=", " left:", " left="), _free),
    ((" mem=", ",mem=", "[mem=", "memory="), _bar),
    ((" mem ", " mem: ", " memory: "), _bare),
    (("G  ",), _epochs),
    ((" GB / ", " GiB / "), _card_at),
    (("GPU mem", "gpu mem", "GPU Mem", "VRAM", "vram", "GPU ram", "GPU RAM", "gpu_mem"), _of_total),
)  # fmt: skip


@cache
def _triggers() -> tuple[ahocorasick_rs.AhoCorasick, tuple[_Reader, ...]]:
    pairs = [(word, reader) for words, reader in _READERS for word in words]
    automaton = ahocorasick_rs.AhoCorasick([word for word, _ in pairs], matchkind=ahocorasick_rs.MatchKind.Standard)
    return automaton, tuple(reader for _, reader in pairs)
