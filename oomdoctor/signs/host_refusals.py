"""Host memory that was refused: what was asked for, and in which words."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.event import Event
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.killers import SwapExhausted
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import HOG, LARGE, total_bytes
from oomdoctor.language import say
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.address_space import shows_a_limit
from oomdoctor.signs.commands import OF_A_REFUSAL, OF_THE_MACHINE, ON_A_MAC, WHO_HOLDS_IT_NOW
from oomdoctor.units import show

_PASSES: Final = ("forward", "backward", "eval")


@sign
def no_memory_in_a_pass_on_the_cpu(crash: Crash) -> Seen | None:
    """PyTorch's CPU allocator up to 1.0 prints no size: a pass of the model had filled the memory."""
    root = crash.root
    if not isinstance(root, HostAllocation) or root.allocator != "torch" or root.tried_bytes is not None:
        return None
    if crash.stage not in _PASSES:
        return None
    words = say(
        "The model runs on the CPU, and host memory ran out in the {stage} pass.",
        stage=crash.stage,
    )
    limited = say("a limit on address space gives the same message")
    return Seen(words=words, evidence=(root,), against=(limited,), next_evidence=OF_A_REFUSAL)


@sign
def host_memory_short_in_other_words(crash: Crash) -> Seen | None:
    """An unknown message says that host memory was short."""
    if not isinstance(crash.root, Shortage) or crash.pool != "host_ram":
        return None
    words = say("A host memory allocation failed. The message is unknown and does not say who held the rest.")
    return Seen(words=words, evidence=(crash.root,), next_evidence=OF_THE_MACHINE)


@sign
def host_refused_without_a_size(crash: Crash) -> Seen | None:
    """C++ could not allocate, and prints no size: a limit and a full machine look the same."""
    root = crash.root
    if not isinstance(root, HostAllocation) or root.allocator != "c++":
        return None
    if root.tried_bytes is not None or root.errno is not None:
        return None
    words = say("A host memory allocation failed; the log says neither how much was requested nor who held the rest.")
    return Seen(words=words, evidence=(root,), next_evidence=OF_A_REFUSAL)


@sign
def host_refused_without_a_sign_of_a_limit(crash: Crash) -> Seen | None:
    """An allocation on the host failed, and nothing in the log speaks for a limit on address space."""
    root = crash.root
    if not isinstance(root, HostAllocation) or shows_a_limit(crash) is not None:
        return None
    if root.tried_bytes:
        words = say(
            "An allocation of {tried} on the host failed; the log does not say who held the rest.",
            tried=show(root.tried_bytes),
        )
    else:
        words = say("An allocation on the host failed; the log does not say who held the rest.")
    limited = say("a limit on address space answers the same way")
    return Seen(words=words, evidence=(root,), against=(limited,), next_evidence=OF_A_REFUSAL)


@sign
def no_more_swap(crash: Crash) -> Seen | None:
    """The system found no more swap space."""
    full = crash.root
    if not isinstance(full, SwapExhausted):
        return None
    words = say("{system} found no more swap space: RAM and swap are full.", system=full.system)
    command = ON_A_MAC if full.system == "macOS" else WHO_HOLDS_IT_NOW
    return Seen(words=words, evidence=(full,), next_evidence=(command,))


@sign
def host_array_refused(crash: Crash) -> Seen | None:
    """XLA or TensorFlow could not allocate an array in host memory."""
    if not isinstance(crash.root, ArrayOutOfMemory):
        return None
    words = say("Allocating an array in host memory failed; the log does not say who held the rest.")
    return Seen(words=words, evidence=(crash.root,), next_evidence=OF_A_REFUSAL)


@sign
def one_piece_of_the_machine_refused(crash: Crash) -> Seen | None:
    """A single host allocation failed that is 1 GiB or more and 40% of the machine's memory."""
    piece, total = _piece(crash), total_bytes(crash)
    if piece is None or not total or piece[1] < HOG * total:
        return None
    return large_piece_refused(crash)


@sign
def large_piece_refused(crash: Crash) -> Seen | None:
    """A single host allocation of 1 GiB or more failed."""
    piece, total = _piece(crash), total_bytes(crash)
    if piece is None:
        return None
    event, _, tried = piece
    if total:
        words = say(
            "One process requested {tried} in a single allocation on a machine with {total}, and the "
            "allocation failed.",
            tried=tried,
            total=show(total),
        )
    else:
        words = say("One process requested {tried} in a single allocation, and the allocation failed.", tried=tried)
    return Seen(words=words, evidence=(event,))


def _piece(crash: Crash) -> tuple[Event, int, str] | None:
    """The first large request that was refused on the host, with its size in bytes and in words."""
    requests = [(event, event.tried_bytes, None) for event in crash.every(HostAllocation)]
    arrays = [(event, event.array_bytes, event.array_words) for event in crash.every(ArrayOutOfMemory)]
    for event, tried, words in [*requests, *arrays]:
        if isinstance(event, HostAllocation) and event.allocator == "jvm":
            continue  # it commits its heap page by page, whatever the program asks for
        if event.pool == "host_ram" and tried and tried >= LARGE:
            return event, tried, words or show(tried)
    return None
