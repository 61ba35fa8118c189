"""Takes the samples: often while memory is short, seldom where a look costs much."""

from __future__ import annotations

import platform
import shlex
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Final, TypeVar

from oomdoctor.recorder import cgroup, machine, processes, versions
from oomdoctor.recorder.cgroup import Level
from oomdoctor.recorder.gpu import Watcher
from oomdoctor.recorder.kernel_log import KernelLog
from oomdoctor.recorder.processes import Size, Tree
from oomdoctor.recorder.record import Record
from oomdoctor.recorder.schema import TIME, VERSION, End, Gone, Named, Packages, Sample, Start

NEAR: Final = 0.85  # of a limit or of the machine: from here on it is looked at more often
OFTEN: Final = 0.1  # of the usual time between two samples
SOONEST_S: Final = 0.1
SOON_S: Final = 0.2  # after the first sample, which sees no more than the start
COST: Final = 200  # times as long as it took, nothing is looked at again: half a percent of a core
COST_OF_SHARES: Final = 1000
SHOWN: Final = 12  # processes of a sample
SHARED: Final = 4  # of which it says what is theirs
MOST_GROUPS: Final = 16  # that the job's processes move to
LARGE: Final = 8 << 30  # above it, asking for a process's share would stall it
COMMAND: Final = 2000  # characters
SETTLED_S: Final = 4  # by then a launcher has started what it launches

_T = TypeVar("_T")


class _Dear:
    """A look that is taken again when its cost is forgotten."""

    def __init__(self, times: int) -> None:
        self._times = times
        self._due = 0.0

    def look(self, function: Callable[[], _T]) -> _T | None:
        began = time.monotonic()
        if began < self._due:
            return None
        found = function()
        took = time.monotonic() - began
        self._due = began + took * self._times
        return found


class Sampler:
    """Of one job, from its start to its end."""

    def __init__(self, record: Record, every: float, command: Sequence[str]) -> None:
        self._record = record
        self._every = every
        self._command = command
        self._began = time.monotonic()
        self._names: dict[int, str] = {}
        self._shares: dict[int, int] = {}
        self._last: Sample | None = None
        self.kills: int | None = None  # by the kernel, of the job's processes
        self._gone: list[Gone] = []
        self._sent: list[str] = []
        self._limit: int | None = None
        self._has_packages = False
        self._walk, self._asking = _Dear(COST), _Dear(COST_OF_SHARES)
        self.due = self._began

    def start(self, pid: int) -> None:
        """The job's first process is there."""
        self._pid = pid
        self._tree = Tree(pid)
        self._levels = cgroup.levels(pid)
        self._other: dict[str, tuple[Level, ...]] = {}
        self._groups_of: dict[int, str] = {}
        self._kernel = KernelLog()
        self._cards = Watcher(self._every)
        self._cards.start()
        self._record.add(
            Start(
                version=VERSION,
                time=_now(),
                host=platform.node(),
                every=self._every,
                command=_printable(shlex.join(self._command))[:COMMAND],
                pid=pid,
                memory=machine.memory(),
                levels=self._levels,
                overcommit=machine.overcommit(),
                lacks=tuple(self._lacks()),
            )
        )

    def tick(self) -> None:
        """Take a sample, and say when the next one is due."""
        sample = self._take()
        self._record.add(sample)
        self.due = time.monotonic() + self._pause(sample)
        if not self._has_packages and sample.s >= SETTLED_S:
            self._find_packages()

    def pass_on(self, name: str) -> None:
        """A signal that somebody sent to the recorder."""
        self._sent.append(name)

    def end(self, status: int | None, signal: int | None) -> None:
        """The job has ended and is not waited for yet, so that its own limits can still be read."""
        limit = processes.address_space(self._pid)
        self._find_packages()
        before, kills = self._last, self._kills()
        self.kills = kills
        if before is not None and kills != before.kills:
            self._note_gone(before)
        self._record.add(
            End(
                s=self._seconds(),
                time=_now(),
                status=status,
                signal=signal,
                memory=machine.memory(),
                levels=cgroup.again(self._levels),
                kills=kills,
                gone=tuple(self._gone),
                address_space=limit or self._limit,
                sent=tuple(self._sent),
                kernel=self._kernel.kills(),
            )
        )

    def _take(self) -> Sample:
        self._walk.look(self._tree.grow)
        sizes = self._tree.sizes()
        memory = machine.memory()
        levels = cgroup.again(self._levels)
        level = cgroup.tightest(levels) or next(iter(levels), None)
        for one in sizes[:SHOWN]:
            self._name(one.pid)
        self._meet(sizes)
        kills = self._kills()
        if self._last is not None and kills != self._last.kills:
            self._note_gone(self._last)
        self._last = Sample(
            s=self._seconds(),
            used=level.usage if level else None,
            limit=level.limit if level else None,
            shmem=level.shmem if level else None,
            cache=level.cache if level else None,
            kills=kills,
            available=memory.available,
            swap_free=memory.swap_free if memory.swap_total else None,
            shm_used=memory.shm_used,
            processes=tuple(self._with_shares(sizes[:SHOWN])),
            count=len(sizes),
            cards=self._cards.cards,
        )
        self._total = memory.total
        return self._last

    def _pause(self, sample: Sample) -> float:
        """Until the next sample."""
        if sample.s < SOON_S:
            return min(SOON_S, self._every)
        near = bool(sample.limit and sample.used and sample.used - (sample.cache or 0) > NEAR * sample.limit)
        near = near or bool(self._total and (sample.available or self._total) < (1 - NEAR) * self._total)
        return max(SOONEST_S, OFTEN * self._every) if near else self._every

    def _kills(self) -> int | None:
        """Those that the kernel counted in the job's groups since each of them was met."""
        met = [levels[0] for levels in (self._levels, *self._other.values()) if levels and levels[0].kills is not None]
        if not met:
            return None
        return sum((now.kills or 0) - (old.kills or 0) for now, old in zip(cgroup.again(tuple(met)), met, strict=True))

    def _meet(self, sizes: Sequence[Size]) -> None:
        """Each process is asked once for its group and for its limit on address space."""
        alive = {one.pid for one in sizes}
        self._groups_of = {pid: path for pid, path in self._groups_of.items() if pid in alive}
        for one in sizes:
            if one.pid in self._groups_of:
                continue
            path = self._groups_of[one.pid] = cgroup.path_of(one.pid) or ""
            is_own = not self._levels or path in ("", self._levels[0].path)
            if not is_own and path not in self._other and len(self._other) < MOST_GROUPS:
                self._other[path] = cgroup.levels(one.pid)[:1]
            self._limit = self._limit or processes.address_space(one.pid)

    def _note_gone(self, before: Sample) -> None:
        """Whoever was there at the last sample and is not now may be whom the kernel killed."""
        for one in before.processes:
            if processes.size(one.pid) is None and all(one.pid != gone.pid for gone in self._gone[-SHOWN:]):
                self._gone.append(Gone(one.pid, self._names.get(one.pid, ""), one.resident, one.own))
        del self._gone[:-SHOWN]

    def _name(self, pid: int) -> None:
        name = processes.name(pid)
        if name and self._names.get(pid) != name:
            self._names[pid] = name
            self._record.add(Named(pid, name))

    def _with_shares(self, sizes: Sequence[Size]) -> list[Size]:
        fresh = self._asking.look(lambda: {one.pid: _share(one) for one in sizes[:SHARED]})
        if not fresh:
            return list(sizes)
        return [Size(one.pid, one.resident, one.own, fresh.get(one.pid)) for one in sizes]

    def _find_packages(self) -> None:
        """Once, of the largest process that runs Python."""
        if self._has_packages or self._last is None:
            return
        for one in self._last.processes:
            if versions.is_python(one.pid) and (found := versions.packages(one.pid)):
                self._has_packages = True
                self._record.add(Packages(found))
                return

    def _lacks(self) -> list[str]:
        known = {"cgroup": bool(self._levels), "kernel log": self._kernel.is_readable}
        return [name for name, is_there in known.items() if not is_there]

    def _seconds(self) -> float:
        return round(time.monotonic() - self._began, 2)


def _printable(words: str) -> str:
    """An argument may be any bytes."""
    return words.encode("utf-8", "replace").decode("utf-8")


def _share(one: Size) -> int | None:
    return processes.proportional(one.pid) if one.resident < LARGE else None


def _now() -> str:
    return datetime.now(timezone.utc).strftime(TIME)
