"""PyTorch's DataLoader workers, and shared memory: /dev/shm as PyTorch, NCCL and Python use it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from oomdoctor import grammars
from oomdoctor.families import Family
from oomdoctor.families.echoes import COMMENT, SOURCE, echo
from oomdoctor.families.ended import explained
from oomdoctor.families.event import Event, Lookalike, Process, Read, Usage
from oomdoctor.families.lines import place_of
from oomdoctor.language import mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import size

CHARACTERS: Final = 1500


class WorkerDeath(Event, frozen=True, kw_only=True):
    """A DataLoader worker was killed or vanished; nothing printed says why."""

    family = "data_loader"
    kind = "worker-death"

    pool: str = "host_ram"
    strength: int = 1

    signal: str | None = None  # in the message's words: "Killed"
    pids: tuple[int, ...] = ()


class SharedMemoryFull(Event, frozen=True, kw_only=True):
    """Shared memory ran out: an allocation was refused, or a worker touched a page that there was no room for."""

    family = "data_loader"
    kind = "shm-full"

    pool: str = "shm"
    strength: int = 3

    # who asked for it: "torch", "nccl", "python", "postgresql", "joblib", "torch.save", "sqlite", "sort", "messages",
    # or "system-v", whose segments have a limit of their own
    user: str
    tried_bytes: Usage[int | None] = None
    errno: int | None = None
    pids: tuple[int, ...] = ()

    def identity(self) -> str:
        """Every worker prints it, and the main process once more."""
        return f"{self.family} {self.kind} {self.user}"


_KILLED = late(r"DataLoader worker \(pid \d{1,9}\) ?is killed by signal: (\w[\w ]{1,30})")
_EXITED = late(
    r"DataLoader worker \(pid\(s\) \d[\d, ]{0,2000}\) exited unexpectedly|Pin memory thread exited unexpectedly"
)
_RESET = late(r"^\s{0,8}(?:ConnectionResetError: \[Errno 104\]|EOFError\s{0,4}$)")
_LOADER_FRAMES = late(r"rebuild_storage_fd|resource_sharer\.py|torch/utils/data/")
_SEGMENT = late(
    r"unable to (?:allocate|resize|write to) (?:shared memory|file|a)[^<\n]{0,60}<[^>\n]{1,200}>[^\n]{0,20}: No space"
    r"|Unexpected bus error encountered in worker|unable to write to file </torch_\d"
)
_LOST_SEGMENT = late(r"unable to open shared memory object <[^>\n]{1,200}>[^\n]{0,40}: No such file")
_NCCL_SEGMENT = late(
    r"(?:failed to extend|Could not map) /dev/shm/nccl-|Error while creating shared memory segment"
    r"|/dev/shm/nccl-\S{1,40}[^\n]{0,80}No space"
    # NCCL to 2.7, include/shm.h, shmOpen: it names no file
    r"|\bshm\.h:\d{1,5} NCCL WARN Call to \w{0,6}_?fallocate failed\b"
)
# System V's, and what a message-passing library lays out: UCX, Open MPI, MPICH, MXNet
_OTHER_SEGMENT = late(
    r"\bshmget\([^\n]{0,120}\) for \S{1,60} failed: (?:No space left|Cannot allocate|Invalid argument, allocation size)"
    # MPICH's, with the number for a full device (errnames.txt, 1.1 on)
    r"|\b(?:unable to|could not|cannot|failed to) \w{1,12} (?:the |a )?shared[ -]memory"
    r" (?:object|segment|file|region)\b[^\n]{0,200}\berr(?:no|or)?\s?[:=]?\s?28\b"
    r"|not enough space for \S{1,200} \(the shared-memory backing"
    r"|(?i:unable to allocate|failed to map) shared memory\b[^\n]{0,80}(?:No space left|Cannot allocate memory)"
    r"|Not enough memory to write total of \d{1,20} bytes\. Please check that /dev/shm"
    r"|BUS error encountered in DataLoader worker"  # Paddle's
    r"|System memory request exceeds memory available in /dev/shm"
)
_SYSTEM_V: Final = "shmget("  # PostgreSQL names the call in the line below
_OF_SHMGET = late(r"\bshmget\((?:[^,()]{1,60}, ?)?(?:size=)?(\d{3,20})\b")
_OF_SORT = late(r"(?:\W{0,4}|\S{1,80}/)sort: (?:write failed|cannot create temporary file)")  # coreutils/src/sort.c
_OF_POSTGRESQL = late(
    r"/PostgreSQL\.\d|\b(?:ERROR|FATAL): {1,2}could not (?:create|resize|map) (?:\w{1,12} )?shared memory"
)
_NO_SPACE = late(r"No space left on device")
# What torch.save says of a file that has no room: caffe2/serialize/inline_container.cc, PyTorchStreamWriter, 1.6 on.
# SQLite of its own: sqlite3.c, SQLITE_FULL
_NOT_WRITTEN = late(
    r"inline_container\.cc:\d{1,6}\] ?\.? ?unexpected pos \d|PytorchStreamWriter failed writing file"
    r"|\bdatabase or disk is full\b"
)
_IN_SHM = late(r"(?:^|[\s'\"=:(])/dev/shm/[\w.]")
_HANDLED = late(r"(?i)\bfalling back to\b")
_SHM_PATH = late(
    r"/dev/shm\b|[<'\"/](?:torch_\d|psm_[0-9a-f])|/nccl-"  # noqa: S108
    r"|shared[ -]memory (?:segment|key|region|object|file|size)\b|(?i:fail\w{0,4} to \w{1,12} shared memory)"
)
_SHM_FRAME = late(r"multiprocessing/(?:shared_memory|heap|synchronize)\.py|torch/multiprocessing/reductions\.py")
# joblib/_memmapping_reducer.py, _get_temp_dir: in /dev/shm, where it has room at the start and nobody names a folder
_JOBLIB_FRAME = late(r"joblib[/\\]_memmapping_reducer\.py")
_OTHER_FOLDER = late(r"\bJOBLIB_TEMP_FOLDER['\"\]]{0,2}\s?[=:]\s?['\"]?(?!/dev/shm)/")
# joblib/_multiprocessing_helpers.py makes a semaphore to see whether it can: glibc's are files in /dev/shm
_SERIAL = late(r"joblib will operate in serial mode")
_SEMAPHORE = late(
    r"\bctx\.(?:R?Lock|(?:Bounded)?Semaphore|Condition|Event)\(|\bSemLock\(|multiprocessing/synchronize\.py"
)
_NAMES_A_PATH = late(r"['\"<]/|: /")
_RAY_DISK = late(r"\bray\b|plasma|spill", re.IGNORECASE)
_DESCRIPTORS = late(r"Too many open files|received 0 items of ancdata")

# What shm_open says for a folder that is not the process's to write to
_NOT_ALLOWED = late(r"\b(?:Permission denied|Operation not permitted|Read-only file system|Function not implemented)\b")
_CALLS: Final = 3  # lines between a failed call and what it was for
# What processes talk through, where the message names no path
_BETWEEN_PROCESSES = late(r"(?i)\bIPC\b|\b(?:shared[ -]memory|message queues?|semaphores?|ring buffers?)\b")
# A file system of 64 MiB for it in a row of mount, which may be wrapped, or one that is full in a row of df
_SHM_SHOWN = late(r"/dev/shm\b.{0,200}?\btmpfs\b.{0,80}?\bsize=(?:65536k|64[mM])\b|\b(?:9\d|100)% {1,8}/dev/shm\b")  # noqa: S108  (read, not written to)

_FILE_ABOVE: Final = 30  # lines above a failure, in which the file is named
_SETTINGS: Final = 200  # lines above a failure, in which a folder may be set

_OTHER_SIGNALS: Final = {
    "Segmentation fault": mark("the worker crashed at a bad address (SIGSEGV), not for lack of memory"),
    "Aborted": mark("the worker aborted (SIGABRT); its own lines before say why"),
    "Terminated": mark("the worker was told to stop (SIGTERM) after another failure"),
    "Interrupt": mark("the worker was interrupted (SIGINT)"),
    "Hangup": mark("the worker lost its terminal (SIGHUP)"),
    "Floating point exception": mark("the worker crashed (SIGFPE)"),
    "Illegal instruction": mark("the worker crashed (SIGILL)"),
}


def read(page: Page, index: int) -> Iterator[Read]:
    text = page.lines[index].text[:CHARACTERS]
    reader = next((read for pattern, read in _READERS if pattern.search(text)), None)
    if reader is not None and echo(text) not in {SOURCE, COMMENT}:
        yield from reader(page, index)


def _killed(page: Page, index: int) -> Iterator[Read]:
    """The sentence is raised from whatever line the main process was at: its traceback means nothing."""
    line = page.lines[index]
    at = place_of(page, line)
    sentence = _KILLED.search(line.text)
    signal = sentence[1].strip() if sentence else ""
    if signal == "Bus error":
        yield _full(page, line, "torch")
    elif signal != "Killed":
        yield Lookalike(
            at, _OTHER_SIGNALS.get(signal, mark("the worker died of a signal that has nothing to do with memory"))
        )
    elif why := explained(page, index):
        yield Lookalike(at, say("the worker was killed, but {reason}", reason=translated(why)))
    else:
        yield WorkerDeath(at=at, time=line.mark.time, process=_worker(line), signal=signal, pids=_pids(line))


def _exited(page: Page, index: int) -> Iterator[Read]:
    """The chained exception names the signal first; this one only says it again."""
    before = page.lines[max(0, index - 80) : index]
    if not any(said.search(line.text) for line in before for said in (_KILLED, _SEGMENT, _LOST_SEGMENT)):
        yield _vanished(page, index)


def _reset(page: Page, index: int) -> Iterator[Read]:
    """A worker that died while the main process took a tensor from it leaves no other trace."""
    if any(_LOADER_FRAMES.search(line.text) for line in page.before(index, 40)):
        yield _vanished(page, index)


def _vanished(page: Page, index: int) -> Read:
    line = page.lines[index]
    at = place_of(page, line)
    if why := explained(page, index):
        return Lookalike(at, say("a worker ended, but {reason}", reason=translated(why)))
    return WorkerDeath(at=at, time=line.mark.time, process=Process(rank=line.mark.rank), pids=_pids(line))


def _segment(page: Page, index: int) -> Iterator[Read]:
    yield _full(page, page.lines[index], "torch")


def _nccl_segment(page: Page, index: int) -> Iterator[Read]:
    """NCCL names the reason in the line above, where its call failed."""
    line = page.lines[index]
    if _may_not_write(page, index):
        why = mark("the folder of shared memory cannot be written or read (permissions, a mount); it is not full")
        yield Lookalike(place_of(page, line), why)
    else:
        yield _full(page, line, "nccl")


def _may_not_write(page: Page, index: int) -> bool:
    """Whether the nearest call on shared memory that failed was not allowed, and did not find it full."""
    near = (page.lines[index], *reversed(page.before(index, _CALLS)))
    said = next((line.text for line in near if _NO_SPACE.search(line.text) or _NOT_ALLOWED.search(line.text)), "")
    return _NOT_ALLOWED.search(said) is not None and "shm" in said


def _other_segment(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    yield _of_system_v(page, line, line.text) if _SYSTEM_V in line.text else _full(page, line, "messages")


def _of_system_v(page: Page, line: Line, call: str) -> SharedMemoryFull:
    """A segment that the kernel refused, of the size that the call names."""
    asked_for = _OF_SHMGET.search(call)
    return replace(_full(page, line, "system-v"), tried_bytes=int(asked_for[1]) if asked_for is not None else None)


def _lost_segment(page: Page, index: int) -> Iterator[Read]:
    why = mark("a shared-memory file was removed before it was read; shared memory was not full")
    yield Lookalike(place_of(page, page.lines[index]), why)


def _descriptors(page: Page, index: int) -> Iterator[Read]:
    yield Lookalike(place_of(page, page.lines[index]), mark("file descriptors ran out (ulimit -n), not memory"))


def _full(page: Page, line: Line, user: str) -> SharedMemoryFull:
    figures = _figures(line.text)
    return SharedMemoryFull(
        at=place_of(page, line),
        time=line.mark.time,
        process=_worker(line),
        user=user,
        tried_bytes=figures.get("tried"),
        errno=figures.get("errno"),
        pids=_pids(line),
    )


def _no_space(page: Page, index: int) -> Iterator[Read]:
    """ "Device" is a disk unless the path, or the frames above, say shared memory."""
    line = page.lines[index]
    above = [one.text for one in page.before(index, 12)]
    unnamed = not _NAMES_A_PATH.search(line.text)
    if _HANDLED.search(line.text):
        yield Lookalike(place_of(page, line), mark("the failed allocation was caught; the program continued"))
    elif _SERIAL.search(line.text):
        yield _no_semaphore(page, index)
    elif (call := next((near.text for near in page.after(index, 2)[:2] if _SYSTEM_V in near.text), None)) is not None:
        yield _of_system_v(page, line, call)
    elif _SHM_PATH.search(line.text) or (unnamed and any(_SHM_FRAME.search(text) for text in above)):
        yield _full(page, line, _user(line.text))
    elif unnamed and any(_JOBLIB_FRAME.search(text) for text in above) and not _elsewhere(page, index):
        yield _full(page, line, "joblib")
    elif unnamed and any(map(_BETWEEN_PROCESSES.search, (*above[-_CALLS:], line.text))) and _shows_shm(page, index):
        yield _full(page, line, "messages")
    elif not any(_RAY_DISK.search(text) for text in (line.text, *above)):
        yield Lookalike(place_of(page, line), mark("a disk is full (or out of inodes or inotify watches), not memory"))


def _shows_shm(page: Page, index: int) -> bool:
    """Whether somebody looked at the file system of shared memory beside it, and it is small or full."""
    near = (*page.before(index, _FILE_ABOVE), *page.after(index, _FILE_ABOVE))
    return _SHM_SHOWN.search(" ".join(line.text[:CHARACTERS] for line in near)) is not None


def _no_semaphore(page: Page, index: int) -> Read:
    """joblib does without; what needs a lock further below does not."""
    line = page.lines[index]
    if any(_SEMAPHORE.search(below.text) for below in page.after(index, _FILE_ABOVE)[1:]):
        return _full(page, line, "python")
    why = mark("shared memory has no room for a semaphore: joblib goes on in one process, slower")
    return Lookalike(place_of(page, line), why)


def _not_written(page: Page, index: int) -> Iterator[Read]:
    """Of another folder it is a full disk, or one that went away."""
    if any(_IN_SHM.search(one.text) for one in page.before(index, _FILE_ABOVE)):
        line = page.lines[index]
        yield _full(page, line, "sqlite" if "database or disk" in line.text else "torch.save")


def _elsewhere(page: Page, index: int) -> bool:
    """Whether joblib was told to write its memory maps into a folder on disk."""
    return any(_OTHER_FOLDER.search(one.text) for one in page.before(index, _SETTINGS))


def _user(text: str) -> str:
    """Who asked for the segment, by the words of its message."""
    if "nccl" in text:
        return "nccl"
    if _OF_SORT.match(text):
        return "sort"
    return "postgresql" if _OF_POSTGRESQL.search(text) else "python"


def _worker(line: Line) -> Process:
    pid = _figures(line.text).get("pid")
    return Process(pid=pid if pid is not None else line.mark.pid, rank=line.mark.rank)


def _pids(line: Line) -> tuple[int, ...]:
    figures = _figures(line.text)
    found: tuple[int, ...] = figures.get("pids", ())
    return found or ((figures["pid"],) if "pid" in figures else ())


def _figures(text: str) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, values in grammars.clauses("data_loader", text[:CHARACTERS]):
        if not values:
            continue
        if name == "pids":
            figures[name] = tuple(int(pid) for pid in values[0].split(", "))
        elif name == "tried":
            number, _, unit = values[0].partition(" ")
            figures.setdefault(name, size(number, unit))
        elif name != "signal":
            figures.setdefault(name, int(values[0]))
    return figures


_READERS: Final[tuple[tuple[re.Pattern[str], Callable[[Page, int], Iterator[Read]]], ...]] = (
    (_KILLED, _killed),
    (_EXITED, _exited),
    (_RESET, _reset),
    (_DESCRIPTORS, _descriptors),
    (_SEGMENT, _segment),
    (_LOST_SEGMENT, _lost_segment),
    (_NCCL_SEGMENT, _nccl_segment),
    (_OTHER_SEGMENT, _other_segment),
    (_NO_SPACE, _no_space),
    (_NOT_WRITTEN, _not_written),
)


FAMILY = Family(
    name="data_loader",
    anchors=("dev/shm", "Bus error", "bus error"),
    triggers=(
        "DataLoader worker",
        "unexpected pos ",
        "PytorchStreamWriter failed",
        "database or disk is full",
        "Pin memory thread exited",
        "ConnectionResetError",
        "EOFError",
        "shared memory",
        "shared-memory backing",
        "shmget(",
        "BUS error encountered",
        "unable to write to file",
        "Unexpected bus error",
        "dev/shm",
        "No space left on device",
        "Too many open files",
        "0 items of ancdata",
    ),
    read=read,
)
