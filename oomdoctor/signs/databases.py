"""Databases that were refused memory by the system: for what they set aside when they start, or for a query."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import FREE, OVERCOMMIT
from oomdoctor.units import show

# What is set aside at the start, of whom: innodb_buffer_pool_size and shared_buffers with what goes with it
_AT_THE_START: Final = {"innodb": ("InnoDB", "buffer pool"), "postgresql": ("PostgreSQL", "shared memory")}
_OF_A_QUERY: Final = "request of size"  # src/backend/utils/mmgr/mcxt.c and aset.c of PostgreSQL
_NOW: Final = (FREE, OVERCOMMIT)


# sqlite3_hard_heap_limit64 of sqlite.org/c3ref, since 3.31: beyond it a call ends with SQLITE_NOMEM, which Python's
# sqlite3 raises as a MemoryError without a word (Modules/_sqlite/util.c). The soft limit refuses nothing.
_HARD_LIMIT: Final = r"(?i)(?:\b|_)hard_heap_limit(?:64)?[\"']?\s{0,3}(?:[=:(,]|\bto\b)\s{0,3}[\"']?(\d{1,15})\b"
_LIMIT: Final = late(_HARD_LIMIT)
_CALL: Final = late(r"\.(?:execute(?:many|script)?|fetch(?:one|many|all)|commit|backup|blobopen)\(")


def sqlite_limit(crash: Crash) -> int | None:
    """The limit on its heap that SQLite was told to keep, where one of its calls was refused memory."""
    root, frame = crash.root, next(iter(crash.frames()), None)
    if not isinstance(root, HostAllocation) or root.allocator != "python" or root.tried_bytes is not None:
        return None
    if frame is None or _CALL.search(frame.code) is None:
        return None
    line = crash.mentions(_HARD_LIMIT)
    match = _LIMIT.search(line) if line is not None else None
    size = int(match[1]) if match is not None else 0
    return size or None


@sign
def sqlite_is_at_its_own_limit(crash: Crash) -> Seen | None:
    """A call of SQLite's was refused memory, and the log shows PRAGMA hard_heap_limit."""
    limit = sqlite_limit(crash)
    if limit is None:
        return None
    words = say(
        "SQLite was told to keep its heap below {limit} (hard_heap_limit, for all connections of the process), and "
        "this call needed more. The machine's memory has nothing to do with it.",
        limit=show(limit),
    )
    return Seen(words=words, evidence=(crash.root,))


def set_aside(crash: Crash) -> tuple[str, str] | None:
    """Which database was refused what it sets aside when it starts."""
    root = crash.root
    if not isinstance(root, HostAllocation) or _OF_A_QUERY in root.at.text:
        return None
    return _AT_THE_START.get(root.allocator)


def requested(crash: Crash) -> int | None:
    """How much of it, where that is printed."""
    return crash.root.tried_bytes if isinstance(crash.root, HostAllocation) else None


@sign
def database_was_refused_at_its_start(crash: Crash) -> Seen | None:
    """It asks for all of it at once, whatever it holds later."""
    if (found := set_aside(crash)) is None:
        return None
    size = requested(crash)
    if size:
        words = say(
            "{database} sets its {part} aside when it starts, and the system refused the {size}: less than that was "
            "free.",
            database=found[0],
            part=found[1],
            size=show(size),
        )
    else:
        words = say(
            "{database} sets its {part} aside when it starts, and the system refused it: less than that was free.",
            database=found[0],
            part=found[1],
        )
    limited = say("a limit on address space or on commits answers the same way")
    return Seen(words=words, evidence=(crash.root,), against=(limited,), stage="launch", next_evidence=_NOW)


_VACUUM: Final = r"\bautomatic (?:vacuum|analyze) of table\b"  # src/backend/postmaster/autovacuum.c


@sign
def query_was_refused(crash: Crash) -> Seen | None:
    """PostgreSQL allows each sort and each hash of a query work_mem of its own, in every connection."""
    root = crash.root
    if not isinstance(root, HostAllocation) or root.allocator != "postgresql" or _OF_A_QUERY not in root.at.text:
        return None
    if of_a_vacuum(crash):
        words = say(
            "An allocation of {size} for PostgreSQL's autovacuum failed. Each of its workers may take "
            "autovacuum_work_mem, or else maintenance_work_mem, beside the shared buffers.",
            size=show(root.tried_bytes or 0),
        )
        return Seen(words=words, evidence=(root,), next_evidence=_NOW)
    words = say(
        "An allocation of {size} for a PostgreSQL query failed. Every sort and hash of every connection may take "
        "work_mem, beside the shared buffers.",
        size=show(root.tried_bytes or 0),
    )
    limited = say("a limit on address space or on commits answers the same way")
    return Seen(words=words, evidence=(root,), against=(limited,), next_evidence=_NOW)


def of_a_vacuum(crash: Crash) -> bool:
    """Whether it was for a vacuum that PostgreSQL had started by itself."""
    return crash.mentions(_VACUUM) is not None


__all__ = ["database_was_refused_at_its_start", "of_a_vacuum", "query_was_refused", "requested", "set_aside"]
