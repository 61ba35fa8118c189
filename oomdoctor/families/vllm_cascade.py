"""What vLLM's other processes print after one of them has died: they point at the cause, they are not it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Read, Role
from oomdoctor.families.lines import SIGKILL_CODES, place_of, process_of
from oomdoctor.families.sentences import Sentence, count_of, reader, values
from oomdoctor.patterns import late
from oomdoctor.streams import Page

WORKER_DIED: Final = "worker-died"  # what another process says of it


class FailedProcess(Struct, frozen=True, kw_only=True):
    """A process of the engine that is said to have ended."""

    name: str
    exit_code: int | None


class EngineFailed(Event, frozen=True, kw_only=True):
    """An engine process failed, and another one noticed."""

    family = "vllm_cascade"
    kind = "engine-failed"

    role: Role = "cascade"

    said: str  # which of the sentences: "engine-core-failed-to-start", "worker-died", "engine-dead", ...
    failed: tuple[FailedProcess, ...] = ()
    exit_code: int | None = None
    worker: str | None = None
    worker_pid: int | None = None

    @property
    def killed(self) -> bool:
        """Whether the process that ended was killed with SIGKILL, which no exception of its own explains."""
        return self.exit_code in SIGKILL_CODES or any(process.exit_code in SIGKILL_CODES for process in self.failed)


_PROCESS = late(r"'([\w.\-]{1,60})': (-?\d{1,4}|None)")


def _failed(braces: str) -> tuple[FailedProcess, ...] | None:
    found = tuple(FailedProcess(name=match[1], exit_code=count_of(match[2])) for match in _PROCESS.finditer(braces))
    return found or None


_SENTENCES = tuple(
    Sentence(head, EngineFailed, {"said": said}, bare=True)
    for head, said in (
        ("EngineCore hit an exception", "engine-core-exception"),
        ("EngineCore failed to start", "engine-core-failed-to-start"),
        ("EngineCore encountered a fatal error", "engine-core-fatal-error"),
        ("Engine core initialization failed", "engine-core-failed-to-start"),
        ("EngineCore encountered an issue", "engine-dead"),
        ("EngineGenerateError", "engine-dead"),
        ("EngineDeadError", "engine-dead"),
        ("Engine core proc", "engine-core-died"),
        ("EngineCore failed to send", "engine-core-died"),
        ("WorkerProc failed to start", "worker-failed-to-start"),
        ("WorkerProc initialization failed", "worker-failed-to-start"),
        ("WorkerProc hit an exception", "worker-exception"),
        ("WorkerProc failed.", "worker-exception"),
        ("Exception in worker VllmWorkerProcess", "worker-exception"),
        ("Worker proc VllmWorker", WORKER_DIED),
        ("Worker VllmWorkerProcess pid", WORKER_DIED),
        ("Background loop has errored already", "engine-dead"),
        ("Background loop is not running", "engine-dead"),
        ("Engine loop is not running", "engine-dead"),
        ("Engine process failed to start", "engine-core-failed-to-start"),
        ("AsyncEngineDeadError", "engine-dead"),
        ("MQEngineDeadError", "engine-dead"),
    )
)

_CLAUSES = {
    "failed": values(failed=_failed),
    "exit_code": values(exit_code=count_of),
    "name": values(worker=str),
    "pid": values(worker_pid=count_of),
}

_read_sentences = reader("vllm_cascade", _SENTENCES, _CLAUSES)


# What Python's multiprocessing prints above the traceback of a process that ended with one
_ENDED = late(r"Process EngineCore(?:_\w{1,8})?:$")


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    if _ENDED.match(line.text.strip()):
        yield EngineFailed(
            at=place_of(page, line),
            time=line.mark.time,
            process=process_of(line),
            said="engine-core-exception",
        )
        return
    for found in _read_sentences(page, index):
        # The process wrote nothing of its own, so this is the first that is heard of its death.
        if isinstance(found, EngineFailed) and found.killed:
            yield replace(found, role="root", strength=1, pool="host_ram")
        else:
            yield found


FAMILY = Family(
    name="vllm_cascade",
    anchors=("died unexpectedly",),
    triggers=("Process EngineCore", *dict.fromkeys(sentence.head for sentence in _SENTENCES)),
    read=read,
)
