"""What the processes of a job print when another one of them has gone: never the cause, always a consequence.

Whoever died first says so in its own lines, which may stand elsewhere. NCCL's watchdog, Gloo, PyTorch's store and
Python's pipes only tell that somebody no longer answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oomdoctor import grammars
from oomdoctor.families import Family
from oomdoctor.families.event import Event, Process, Read, Role
from oomdoctor.families.gone import gone
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late, remembered
from oomdoctor.streams import Page

CHARACTERS: Final = 1200
LINES_AROUND: Final = 400  # in which the error of whoever failed first is looked for
FRAMES: Final = 40


class LostPeer(Event, frozen=True, kw_only=True):
    """A process noticed that another one of its job is gone."""

    family = "peer"
    kind = "lost-peer"

    role: Role = "cascade"

    # "connection" (closed or reset), "pipe", "collective" (nobody joined it), "store" (the rendezvous does not answer),
    # "barrier" (a rank did not come), "remote" (NCCL: a remote process left early)
    said: str
    peer_rank: int | None = None  # who is missed, where that is printed
    peer_host: str | None = None
    collective: str | None = None
    timeout_ms: int | None = None
    waited_ms: int | None = None
    joined: int | None = None  # of `expected` processes that the rendezvous waited for
    expected: int | None = None
    errno: int | None = None
    own_error: str | None = None  # the class of an error that another process printed, and that is no consequence

    def identity(self) -> str:
        """The watchdog says it in its log line, in the exception, and in the abort's `what():`."""
        return f"{self.family} {self.kind} {self.process.rank} {self.said} {self.peer_rank}"


_CUT_CLOSED: Final = r"c(?:lo?|lose?)?\s{0,4}$"  # where a log ends within the word
_GONE: Final = tuple(
    (said, late(pattern))
    for said, pattern in (
        ("collective", r"Watchdog caught collective operation timeout|collective operation timeout: WorkNCCL"),
        ("collective", r"(?:dump signal due to a collective timeout|flight recorder dump signal) from"),
        ("barrier", r"but received errors while waiting for send/recv from rank \d"),
        ("barrier", r"\bRanks? \d[\d, ]{0,80} failed to pass monitoredBarrier"),
        ("remote", r"ncclRemoteError|remote process exit(?:ed|ing) prematurely|closed by remote peer"),
        ("remote", r"Got completion from peer \S{1,80} with (?:error|status)"),
        (
            "connection",
            rf"gloo/transport/\S{{1,40}}\] ?(?:Read error|Write error|Connection (?:closed|reset|{_CUT_CLOSED}))",
        ),
        ("connection", r"(?:recvValue|recvVector|sendBytes|recvBytes|waitForInput)\w{0,20} failed on SocketImpl"),
        (
            "store",
            r"(?:DistStoreError|DistNetworkError|RuntimeError): (?:Socket Timeout|Timed out after \d|wait timeout)",
        ),
        ("store", r"The connection to the C10d store has failed|RendezvousConnectionError: "),
        (
            "connection",
            r"^\s{0,8}(?:[\w.]{0,60}(?:Error|Exception): )(?:\[Errno 104\] )?Connection (?:reset|closed) by ",
        ),
        ("connection", r"^\s{0,8}(?:[\w.]{0,60}DistNetworkError: ).{0,200}(?:Connection reset|Broken pipe)"),
        (
            "pipe",
            r"^\s{0,8}(?:RuntimeError|BrokenPipeError|[\w.]{0,60}DistNetworkError): (?:\[Errno 32\] )?Broken pipe",
        ),
        ("pipe", r"^\s{0,8}EOFError\s{0,4}$"),
    )
)
# A pipe also breaks where `head` has seen enough: only between the processes of a job it means a peer.
_BETWEEN_PROCESSES: Final = late(
    r"torch/distributed/|multiprocessing/(?:connection|managers|queues|resource_sharer)\.py|/deepspeed/|/horovod/|mpi4py"
)
_NEEDS_FRAMES: Final = late(
    r"^\s{0,8}[\w.]{1,60}: ?(?:\[Errno \d{2,3}\] )?(?:Broken pipe|Connection reset)|^\s{0,8}EOFError"
)
# Workers of a data loader and Ray's own connections have their families.
_OTHERS: Final = late(r"rebuild_storage_fd|torch/utils/data/|/ray/_private/")

_ERROR: Final = late(r"^\s{0,8}((?:\w{1,60}\.){0,8}\w{0,60}(?:Error|Exception))(?:: (\S.{0,300})|\s{0,4}$)")
# Launchers, and whatever else only passes on that somebody else failed
_PASSED_ON: Final = late(
    r"ChildFailedError|CalledProcessError|SignalException|RayTaskError|ActorDiedError|ProcessRaisedException"
    r"|ProcessExitedException|DistBackendError|NCCL error|Nccl|torch\.distributed|no longer alive"
    r"|SystemExit|KeyboardInterrupt"
)


_SPEAKS_OF_MEMORY: Final = late(r"(?i)\bout of memory\b")
_OF_MEMORY: Final = ("MemoryError", "OutOfMemory", "OutOfMemoryException")


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    said = _said(line.text[:CHARACTERS])
    if said is None:
        return
    if _NEEDS_FRAMES.search(line.text[:CHARACTERS]):
        above = [near.text for near in page.before(index, FRAMES)]
        if not any(_BETWEEN_PROCESSES.search(text) for text in above) or any(_OTHERS.search(text) for text in above):
            return
    figures = _figures(line.text[:CHARACTERS])
    in_its_group = figures.pop("rank", None)  # c10d's own prefix is of the job: c10/util/Logging.cpp
    rank = line.mark.rank if line.mark.rank is not None else in_its_group
    yield LostPeer(
        at=place_of(page, line),
        time=line.mark.time,
        process=Process(pid=line.mark.pid, name=line.mark.name, rank=rank, node=line.mark.ip),
        said=said,
        own_error=own_error(page, index),
        **figures,
    )


def _said(text: str) -> str | None:
    return next((said for said, pattern in _GONE if pattern.search(text)), None)


def _figures(text: str) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, values in grammars.said("peer", text):
        if name in ("joined", "ranks_joined") and len(values) == 2:
            figures.setdefault("joined", int(values[0]))
            figures.setdefault("expected", int(values[1]))
        elif name in _NUMBERS and values:
            figures.setdefault(_NUMBERS[name], int(values[0]))
        elif name in _NAMES and values:
            figures.setdefault(_NAMES[name], values[0])
    return figures


_NUMBERS: Final = {
    "rank": "rank", "missing": "peer_rank",
    "timeout": "timeout_ms", "waited": "waited_ms", "error_number": "errno",
}  # fmt: skip
_NAMES: Final = {"peer": "peer_host", "host": "peer_host", "collective": "collective"}


def own_error(page: Page, index: int) -> str | None:
    """The class of the first error near this line that is not itself the consequence of another process's end."""
    near = page.lines[max(0, index - LINES_AROUND) : index + LINES_AROUND]
    return next((name for name in (_raised(line.text[:CHARACTERS]) for line in near) if name), None)


def passes_on(text: str) -> bool:
    """Whether an error's line only tells that another process or a caller failed."""
    return _said(text) is not None or _PASSED_ON.search(text) is not None or bool(gone(text))


def is_an_own_error(text: str) -> bool:
    """Whether the line is an error's that is not itself the consequence of another process's end."""
    return _raised(text) is not None


@remembered
def _raised(text: str) -> str | None:
    error = _ERROR.match(text) if "Error" in text or "Exception" in text else None
    if error is None or passes_on(text) or _SPEAKS_OF_MEMORY.search(text):
        return None
    name = error[1].rpartition(".")[2]
    return name if not name.endswith(_OF_MEMORY) else None


FAMILY = Family(
    name="peer",
    anchors=("closed by peer", "Watchdog caught collective"),
    triggers=(
        "ollective operation timeout",
        "ump signal",
        "monitoredBarrier",
        "ncclRemoteError",
        "remote process exit",
        "closed by remote peer",
        "Got completion from peer",
        "gloo/transport/",
        "failed on SocketImpl",
        "Socket Timeout",
        "DistStoreError",
        "DistNetworkError",
        "C10d store has failed",
        "RendezvousConnectionError",
        "Connection reset by",
        "Connection closed by",
        "Broken pipe",
        "EOFError",
    ),
    read=read,
)
