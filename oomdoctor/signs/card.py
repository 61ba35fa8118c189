"""The figures of the card and of the refused request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.memory_summary import MemorySummary
from oomdoctor.families.training_cut import WAIT, CutTraining
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.families.vllm_error import ProfilingDisturbed
from oomdoctor.incident.card import Card
from oomdoctor.incident.model import Crash
from oomdoctor.language import counted, joined, mark, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import WHOLE_LOG, WORKERS
from oomdoctor.signs.trace import asked, card, refusal
from oomdoctor.units import GIB, percent, show

# stream_executor/cuda/cuda_driver.cc; the pool asks for nine tenths of it again and again
_UNIFIED: Final = late(r"\bfailed to alloc (\d{1,20}) bytes unified memory\b")
A_PIECE: Final = GIB
_OF_UNIFIED: Final = "free -h; env | grep -E 'MEM_FRACTION|UNIFIED_MEMORY'; nvidia-smi"


def unified_request(crash: Crash) -> int | None:
    """The largest piece of unified memory that JAX or TensorFlow did not get before the failure."""
    return max(_unified_pieces(crash.root.around.before), default=None)


def _unified_pieces(lines: Iterable[str]) -> list[int]:
    return [int(one[1]) for line in lines if (one := _UNIFIED.search(line)) is not None]


@sign
def no_unified_memory_at_all(crash: Crash) -> Seen | None:
    """Nothing but pieces of unified memory was refused, down to one that any machine has."""
    root = crash.root
    if _UNIFIED.search(root.at.text) is None or unified_request(crash) is not None:
        return None
    pieces = _unified_pieces((root.at.text, *root.around.after))
    if min(pieces) > A_PIECE:
        return None
    words = say(
        "No piece of unified memory was to be had, from {largest} down to {smallest}: that is GPU memory and host RAM "
        "together. Either both are full, or the driver does not provide it here.",
        largest=show(max(pieces)),
        smallest=show(min(pieces)),
    )
    return Seen(words=words, evidence=(root,), next_evidence=(_OF_UNIFIED,))


@sign
def profiling_disturbed(crash: Crash) -> Seen | None:
    """The engine stopped because free memory grew while it profiled: no memory was missing."""
    return Seen(words="") if isinstance(crash.root, ProfilingDisturbed) else None


@sign
def card_is_full(crash: Crash) -> Seen | None:
    """The log shows that an allocation on the GPU failed."""
    if not crash.proven:
        return None
    it = card(crash)
    share = it.share(it.own_bytes or it.reserved_bytes)
    mine = say("This process held {share} of GPU memory.", share=percent(share)) if share is not None else ""
    unified = unified_request(crash)
    both = (
        say(
            "Before that, {size} of unified memory could not be allocated, which is GPU memory and host RAM together: "
            "look at both.",
            size=show(unified),
        )
        if unified
        else ""
    )
    words = (
        say("On the GPU, {asked}.", asked=_asked(crash)),
        mine,
        both,
        say("The log does not show what the memory was for."),
    )
    return Seen(words=joined(words), evidence=(crash.root,), next_evidence=(_OF_UNIFIED,) if unified else ())


@sign
def refused_beside_a_reservation(crash: Crash) -> Seen | None:
    """In TensorFlow somebody else than its pool was refused, a kernel's launch or the driver. The pool takes nearly the
    whole GPU first: https://www.tensorflow.org/guide/gpu"""
    beside = isinstance(crash.root, DeviceRefusal | LibraryOutOfMemory | Shortage)
    return Seen(words="") if beside and crash.job.world == "tensorflow" else None


def _asked(crash: Crash) -> str:
    """What was refused: a library prints its own figures, and no more of the card."""
    root = crash.root
    if isinstance(root, LibraryOutOfMemory) and refusal(crash) is None:
        return asked(Card(tried_bytes=root.tried_bytes, free_bytes=root.free_bytes))
    return asked(card(crash))


@sign
def table_counts_refusals(crash: Crash) -> Seen | None:
    """The log ends with PyTorch's memory summary, which counts failed allocations."""
    table = crash.root
    if not isinstance(table, MemorySummary):
        return None
    failures = (
        counted(
            table.ooms or 0,
            mark("The log ends with PyTorch's memory summary: {count} failed allocation, {held} in tensors."),
            mark("The log ends with PyTorch's memory summary: {count} failed allocations, {held} in tensors."),
            held=show(table.allocated_bytes),
        )
        if table.allocated_bytes
        else counted(
            table.ooms or 0,
            mark("The log ends with PyTorch's memory summary: {count} failed allocation."),
            mark("The log ends with PyTorch's memory summary: {count} failed allocations."),
        )
    )
    return Seen(
        words=joined((failures, say("The log does not show which allocation failed."))),
        evidence=(table,),
        against=(say("the summary also counts failures that the program caught"),),
        next_evidence=(WHOLE_LOG,),
    )


@sign
def log_ends_before_the_error(crash: Crash) -> Seen | None:
    """The log ends inside a trainer's traceback."""
    if not isinstance(crash.root, CutTraining):
        return None
    of_ray = crash.root.step == WAIT and "ray" in crash.context.frameworks
    where = (WHOLE_LOG, WORKERS) if of_ray else (WHOLE_LOG,)
    return Seen(words=say("the error message: the log ends before it"), next_evidence=where)
