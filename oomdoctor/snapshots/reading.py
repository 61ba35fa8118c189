"""From a pickle's bytes to the accounts of the GPUs that it speaks of."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

from oomdoctor.snapshots.account import account
from oomdoctor.snapshots.machine import FOREIGN, LARGE, Machine, RefusalError, words
from oomdoctor.snapshots.model import Account
from oomdoctor.snapshots.tally import ENTRY, Segment, Tally, TooManyError


def read(blocks: Iterator[bytes]) -> tuple[Account, ...]:
    """What each GPU's memory was taken for; a RefusalError says why this is no snapshot."""
    collects = gc.isenabled()
    gc.disable()  # it would look through a million stacks again and again, and finds nothing
    try:
        return _read(blocks)
    finally:
        if collects:
            gc.enable()


def _read(blocks: Iterator[bytes]) -> tuple[Account, ...]:
    tally = Tally()
    machine = Machine(tally)
    try:
        top = machine.read(blocks)
    except TooManyError as error:
        raise RefusalError(LARGE) from error
    lengths, settings = _checked(top, tally)
    return account(tally, machine.memo, lengths, settings)


def _checked(top: Any, tally: Tally) -> tuple[list[int], dict[str, Any]]:
    """How many entries the trace of each device has, and the allocator's settings, of what has a snapshot's form."""
    segments, traces, settings = top, [], {}
    if type(top) is dict:
        if not {"segments", "device_traces"} & set(top):
            raise RefusalError(FOREIGN)
        segments, traces = top.get("segments", []), top.get("device_traces", [])
        settings = top.get("allocator_settings", {})
    if type(segments) is not list or type(traces) is not list or any(type(one) is not list for one in traces):
        raise RefusalError(FOREIGN)
    if any(type(one) is not Segment for one in segments) or any(trace.count(ENTRY) < len(trace) for trace in traces):
        raise RefusalError(FOREIGN)
    lengths = [len(trace) for trace in traces]
    if len(segments) != len(tally.segments) or sum(lengths) != tally.entries or not (segments or tally.entries):
        raise RefusalError(FOREIGN)
    return lengths, settings if type(settings) is dict else {}


__all__ = ["RefusalError", "read", "words"]
