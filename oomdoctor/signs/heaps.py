"""Heaps that the system refused to a runtime: before they were full."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.address_space import NO_MEMORY
from oomdoctor.signs.commands import FREE, OVERCOMMIT
from oomdoctor.units import MIB, show

# src/hotspot/share/memory/universe.cpp and virtualspace.cpp of OpenJDK; what is smaller is a stack, a table of cards or
# a step by which the heap grows
_OF_JAVA: Final = late(r"\bobject heap\b|\bos::commit_memory\(|\bNative memory allocation \(mmap\)")
_RESERVED: Final = late(r"\bobject heap\b")
_AT_ITS_START: Final = r"\bobject heap\b|\binitialization of VM\b"
_LEAST: Final = 64 * MIB
_KNOBS: Final = ("smaller-buffers", "more-address-space", "more-host-memory")
_NOW: Final = (FREE, OVERCOMMIT)


def refused_heap(crash: Crash) -> HostAllocation | None:
    """Java's refusal of its heap."""
    root = crash.root
    if not isinstance(root, HostAllocation) or root.allocator != "jvm" or _OF_JAVA.search(root.at.text) is None:
        return None
    return None if (root.tried_bytes or _LEAST) < _LEAST else root


@sign
def addresses_for_javas_heap_were_refused(crash: Crash) -> Seen | None:
    """It reserves them for all of -Xmx when it starts; or a commit of memory in them was answered with errno 12."""
    refused = refused_heap(crash)
    if refused is None or not (refused.errno == NO_MEMORY or _RESERVED.search(refused.at.text)):
        return None
    words = say(
        "Java reserves addresses for its whole heap (-Xmx) and then commits memory in them, -Xms at its start. The "
        "system refused: a limit on address space or on commits is lower, or the JVM is built for 32 bits."
    )
    return _seen(crash, refused, words)


@sign
def memory_for_javas_heap_was_refused(crash: Crash) -> Seen | None:
    """A part of a heap that it has the addresses for."""
    refused = refused_heap(crash)
    if refused is None or addresses_for_javas_heap_were_refused(crash) is not None:
        return None
    words = say("Java commits its heap in large pieces, -Xms at its start and then up to -Xmx: so much was not free.")
    return _seen(crash, refused, words)


def _seen(crash: Crash, refused: HostAllocation, words: str) -> Seen:
    if refused.tried_bytes:
        words = joined((say("An allocation of {tried} failed.", tried=show(refused.tried_bytes)), words))
    free = say("the log does not say how much was free")
    stage = "launch" if crash.mentions(_AT_ITS_START) is not None else None
    return Seen(words=words, evidence=(refused,), against=(free,), stage=stage, knobs=_KNOBS, next_evidence=_NOW)


__all__ = ["addresses_for_javas_heap_were_refused", "memory_for_javas_heap_was_refused", "refused_heap"]
