"""A figure of host memory that the log prints again and again: whether it grew, and how much that explains."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import Final

from msgspec import Struct

from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.machine_memory import MachineMemory
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import NEARLY_FULL, machine_before, total_bytes, used_bytes
from oomdoctor.job.model import Trajectory
from oomdoctor.job.moments import moment, seconds_since
from oomdoctor.language import joined, say
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.series import change, no_growth
from oomdoctor.signs.trace import STRAW
from oomdoctor.units import MIB, percent, show

# Growth that explains the kill: this share of what was in use came during the log.
MUCH: Final = 0.2
LEAST_POINTS: Final = 3
ENOUGH_POINTS: Final = 5
LONG_S: Final = 300  # of what a recorder samples: a job loads its data and weights for minutes
LEAST_GROWN: Final = 128 * MIB  # where nobody says of how much: a small process beside the one that filled it
MANY_STEPS: Final = 10_000
_OF_A_JUMP: Final = ("collect-evidence", "stream-data", "smaller-buffers", "more-host-memory")
JUMP: Final = 5  # times as much as the rises before it usually are
_FILLS_ONCE: Final = ("data_load", "model_load", "checkpoint_load", "engine_init")
HOST_POOLS: Final = ("host_ram", "cgroup", "shm")  # the object store is filled on purpose


class Growth(Struct, frozen=True):
    """A figure that grew, beside what was in use or what there is."""

    figure: Trajectory
    base: int

    @property
    def share(self) -> float:
        return self.figure.grown / self.base

    @property
    def is_steady(self) -> bool:
        """Whether it grew from one whole step to the next, or so often that it is no start that has not settled."""
        return self.figure.per == "step" or len(self.figure.points) >= ENOUGH_POINTS

    @property
    def is_of_kills(self) -> bool:
        """Whether it is the row of one process in the tables of several kills."""
        return self.figure.what.startswith("PID ")


# Of a process' memory: an engine's own count of its cache is another
_LEAK: Final = (
    r"(?i)(?<!allocator )(?<!pool )(?<!cache )memory leak(?:ed|ing|s)?\b.{0,60}(?:detected|suspected|step|worker)"
)


@sign
def host_memory_grew(crash: Crash) -> Seen | None:
    """A figure of host memory with at least three prints grew; by 128 MiB or more where the total is unknown."""
    growth = _growth(crash)
    if growth is None:
        return None
    end = growth.figure.points[-1]
    share = say(
        "{share} of {whole} was added while the job ran.",
        share=percent(growth.share),
        whole=_whole(crash, growth.base, end.bytes),
    )
    words = joined((change(growth.figure), share))
    return Seen(words=words, evidence=(crash.root,), shows_memory=True, used_bytes=end.bytes)


@sign
def machine_filled_up(crash: Crash) -> Seen | None:
    """Three or more prints of the machine's memory rise each time, by a fifth in all, and the last print before the
    failure shows 90% in use."""
    filled = prints_that_fill(crash)
    return _seen_to_fill(crash, filled) if filled is not None and len(filled) >= LEAST_POINTS else None


@sign
def machine_filled_at_once(crash: Crash) -> Seen | None:
    """Three or more prints of the machine's memory rise each time, and most of what came stands in the last of them
    alone: five times as much as in those before it."""
    jump = the_jump(crash)
    if jump is None:
        return None
    words = say(
        "{rise} of the {used} in use came between the last two prints (lines {before} and {last}), {earlier} in all "
        "those before: a jump, no slow growth.",
        rise=show(jump.rise_bytes),
        used=show(jump.last.in_use_bytes or 0),
        before=jump.before.at.line,
        last=jump.last.at.line,
        earlier=show(jump.earlier_bytes),
    )
    doubt = say("an evaluation, a save or a model that is loaded takes memory in one go, too")
    evidence = (jump.last, crash.root)
    return Seen(words=words, evidence=evidence, against=(doubt,), shows_memory=True, knobs=_OF_A_JUMP)


class Jump(Struct, frozen=True):
    """The last two of several prints, between which most of the machine's memory was filled."""

    before: MachineMemory
    last: MachineMemory
    rise_bytes: int
    earlier_bytes: int  # from the first print to the one before the last


def the_jump(crash: Crash) -> Jump | None:
    prints = prints_that_fill(crash) or []
    sizes = [one.in_use_bytes for one in prints if one.in_use_bytes is not None]
    if len(sizes) < LEAST_POINTS or len(sizes) < len(prints):
        return None
    *earlier, last = (to - at for at, to in pairwise(sizes))
    apart = _seconds_between(prints)
    *waits, wait = apart or [1.0] * len(prints[1:])
    usual = median(rise / waited for rise, waited in zip(earlier, waits, strict=True))
    if last <= sum(earlier) or last <= JUMP * usual * wait:
        return None
    return Jump(prints[-2], prints[-1], last, sum(earlier))


def _seconds_between(prints: list[MachineMemory]) -> list[float] | None:
    """How long after one print the next one stands; None where a print has no time."""
    times = [moment(one.time) for one in prints]
    known = [one for one in times if one is not None]
    apart = [seconds_since(one, other) for one, other in pairwise(known)]
    return apart if len(known) == len(prints) and all(each > 0 for each in apart) else None


@sign
def machine_was_full_the_next_time(crash: Crash) -> Seen | None:
    """Two prints of the machine's memory: the second is higher by a fifth or more and shows 90% in use."""
    filled = prints_that_fill(crash)
    return _seen_to_fill(crash, filled) if filled is not None and len(filled) < LEAST_POINTS else None


def prints_that_fill(crash: Crash) -> list[MachineMemory] | None:
    """The prints of one tool that show it, while the job does what it does all the time."""
    prints = [event for event in machine_before(crash) if event.share is not None and not event.is_of_a_record]
    of_one_tool = [event for event in prints if event.tool == prints[-1].tool]
    shares = [event.share or 0 for event in of_one_tool]
    if crash.stage in _FILLS_ONCE or len(shares) < 2 or shares[-1] < NEARLY_FULL or shares[-1] - shares[0] < MUCH:
        return None
    return of_one_tool if all(later >= earlier for earlier, later in pairwise(shares)) else None


def _seen_to_fill(crash: Crash, prints: list[MachineMemory]) -> Seen:
    first, last = prints[0], prints[-1]
    words = say(
        "The machine's memory in use rose from {first} (line {first_line}) to {last} (line {last_line}).",
        first=percent(first.share),
        first_line=first.at.line,
        last=percent(last.share),
        last_line=last.at.line,
    )
    doubt = say("a job that loads its data fills memory once in the same way")
    return Seen(words=words, evidence=(last, crash.root), against=(doubt,), shows_memory=True)


@sign
def host_memory_stays(crash: Crash) -> Seen | None:
    """The printed figure of host memory stays, falls, or goes up and down."""
    figure = _figure(crash)
    still = no_growth(figure) if figure is not None and not figure.growth_bytes else None
    return Seen(words=still) if still is not None else None


@sign
def few_prints_show_growth(crash: Crash) -> Seen | None:
    """Fewer than five prints show the growth, and not from step to step: the job may still be starting."""
    growth = _growth(crash)
    if growth is None or growth.is_steady:
        return None
    count = len(growth.figure.points)
    words = say(
        "only {count} prints show the growth: a job that fills its caches at the start looks the same", count=count
    )
    return Seen(words=words)


@sign
def most_was_in_use_before(crash: Crash) -> Seen | None:
    """Less than 20% of the memory in use was added while the job ran."""
    growth = _growth(crash)
    if growth is None or growth.share >= MUCH:
        return None
    return Seen(words=say("most of the memory was in use before the growth"))


@sign
def tables_of_kills_show_growth(crash: Crash) -> Seen | None:
    """The growth is that of one process from kill to kill: a task's normal work looks the same."""
    growth = _growth(crash)
    return Seen(words="") if growth is not None and growth.is_of_kills else None


@sign
def few_kills_show_growth(crash: Crash) -> Seen | None:
    """The growth from kill to kill is less than 40% of the memory in use, or fewer than six kills show it."""
    growth = _growth(crash)
    if growth is None or not growth.is_of_kills:
        return None
    enough = growth.share >= 2 * MUCH and len(growth.figure.points) >= 2 * LEAST_POINTS
    return None if enough else Seen(words="")


@sign
def small_array_refused_after_many_steps(crash: Crash) -> Seen | None:
    """Host memory of 20 MiB at most was refused after ten thousand steps, which all had it."""
    array, step = crash.root, crash.context.progress.get("step", crash.context.progress.get("done"))
    if not isinstance(array, ArrayOutOfMemory | HostAllocation) or array.pool != "host_ram" or (step or 0) < MANY_STEPS:
        return None
    size = array.usual_bytes if isinstance(array, ArrayOutOfMemory) else array.tried_bytes
    if size is None or size > STRAW:
        return None
    words = say(
        "An allocation of only {size} of host memory failed after {step} steps, each of which had needed it: memory "
        "was filling up while the job ran.",
        size=_of_array(array, size) if isinstance(array, ArrayOutOfMemory) else show(size),
        step=step,
    )
    against = (say("no figure shows that memory grew: another process may have filled it"),)
    return Seen(words=words, evidence=(array,), against=against)


def _of_array(array: ArrayOutOfMemory, size: int) -> str:
    if array.array_words is not None:
        return array.array_words
    return say("{size} (shape {shape}, 4 bytes for each number)", size=show(size), shape=array.shape or "")


@sign
def log_speaks_of_a_leak(crash: Crash) -> Seen | None:
    """A line near the failure mentions a leak; no figures show it."""
    if crash.mentions(_LEAK) is None:
        return None
    words = say("The log itself mentions a memory leak; no figure in it shows growth.")
    return Seen(words=words, evidence=(crash.root,), against=(say("this may be only a suspicion"),))


def _figure(crash: Crash) -> Trajectory | None:
    figure = crash.trajectory
    if figure is None or figure.pool not in HOST_POOLS or len(figure.points) < LEAST_POINTS:
        return None
    return figure if _seconds(figure) is None or (_seconds(figure) or 0) >= LONG_S else None


def _seconds(figure: Trajectory) -> int | None:
    """How long it was sampled; None where a program prints it."""
    first, last = figure.points[0].second, figure.points[-1].second
    return last - first if first is not None and last is not None else None


def _growth(crash: Crash) -> Growth | None:
    figure, base = _figure(crash), used_bytes(crash) or total_bytes(crash)
    if figure is None or not figure.growth_bytes or (base is None and figure.grown < LEAST_GROWN):
        return None
    return Growth(figure, base or figure.points[-1].bytes)


def _whole(crash: Crash, base: int, last: int) -> str:
    if used_bytes(crash):
        return say("the {used} in use at the kill", used=show(base))
    return say("the machine's {total}", total=show(base)) if base != last else say("the last {last}", last=show(base))
