"""What a PyTorch memory snapshot says: who held the memory, how it lay in pieces, and what was never freed.

A memory timeline of torch.profiler says the first of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from oomdoctor.incident.model import Crash
from oomdoctor.job.names import row
from oomdoctor.language import counted, joined, mark, say
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.trace import refusal
from oomdoctor.snapshots.names import (
    ACTIVATIONS,
    BACKWARD,
    GATHERED,
    GRADIENTS,
    LOGITS,
    OPTIMIZER_STATES,
    OPTIMIZER_STEP,
    PARAMETERS,
    PARAMETERS_AND_GRADIENTS,
    TEMPORARY,
)
from oomdoctor.units import MIB, percent, show

if TYPE_CHECKING:  # few crashes come with one
    from oomdoctor.families.memory_snapshot import MemoryAccount
    from oomdoctor.snapshots.model import Account, Growth, Holding, Room

FAMILY: Final = "memory_snapshot"
KINDS: Final = ("memory-snapshot", "memory-timeline")
OPTIMIZER: Final = (OPTIMIZER_STATES, OPTIMIZER_STEP)
WEIGHTS: Final = (PARAMETERS, GATHERED, PARAMETERS_AND_GRADIENTS, GRADIENTS)
PASSES: Final = (ACTIVATIONS, BACKWARD, LOGITS, TEMPORARY)
MOST: Final = 0.5  # of what is allocated
MUCH: Final = 0.3
GROWN: Final = 0.05  # of what is allocated, in blocks of one stack that stay
# The allocator asks the driver for 2 or 20 MiB where less is wanted; a message prints that, the trace what was wanted.
SEGMENT: Final = 20 * MIB
ROUNDING: Final = 2 * MIB
TWO_DECIMALS: Final = 100  # what is printed with two decimals is off by one part in so many, at most
STILL_THERE: Final = 0.01  # of what was allocated: what else was freed since says little of where the rest lies


def snapshot(crash: Crash) -> MemoryAccount | None:
    """The snapshot of the request that failed here, or one with as much allocated as the message prints."""
    every = (cast("MemoryAccount", event) for event in crash.events if event.kind in KINDS)
    found = [event for event in every if _fits(crash, event.account)]
    return found[-1] if found else None


def _fits(crash: Crash, account: Account) -> bool:
    event = refusal(crash)
    if event is None or event.family == FAMILY:
        return event is not None and account.refusal is not None and event.process.gpu == account.device
    if account.refusal is not None and event.tried_bytes is not None:
        tried, asked = event.tried_bytes, account.refusal.bytes
        is_segment = asked <= tried <= SEGMENT
        return is_segment or abs(tried - asked) <= max(ROUNDING, tried // TWO_DECIMALS)
    allocated = event.allocated_bytes
    return allocated is not None and account.may_be(allocated)


def held(account: Account, holders: tuple[str, ...]) -> int:
    """What these holders have together."""
    return sum(one.bytes for one in account.holdings if one.holder in holders)


def heaviest(account: Account) -> tuple[str, ...]:
    """The group of holders to blame: the passes, or of what stays the optimizer's states or the weights."""
    stays = held(account, OPTIMIZER) + held(account, WEIGHTS)
    if held(account, PASSES) > stays:
        return PASSES
    return OPTIMIZER if held(account, OPTIMIZER) > held(account, WEIGHTS) else WEIGHTS


def decides_for(crash: Crash, group: tuple[str, ...]) -> MemoryAccount | None:
    """The snapshot, where this group has half of what is allocated and is the heaviest, and nothing else decides."""
    event = snapshot(crash)
    if event is None or heaviest(event.account) != group:
        return None
    if growth(crash) is not None or free_blocks_in_pieces(crash) is not None:
        return None
    return event if held(event.account, group) >= MOST * event.account.allocated else None


def _much(crash: Crash, group: tuple[str, ...]) -> MemoryAccount | None:
    event = snapshot(crash)
    if event is None or heaviest(event.account) != group or decides_for(crash, group) is not None:
        return None
    return event if held(event.account, group) >= MUCH * event.account.allocated else None


@sign
def optimizer_states_hold_most(crash: Crash) -> Seen | None:
    """A memory snapshot shows half of the allocated memory in optimizer states, more than in weights and passes."""
    return _seen(decides_for(crash, OPTIMIZER))


@sign
def optimizer_states_hold_much(crash: Crash) -> Seen | None:
    """A memory snapshot shows 30 % of the allocated memory in optimizer states, more than in weights and passes."""
    return _seen(_much(crash, OPTIMIZER))


@sign
def weights_hold_most(crash: Crash) -> Seen | None:
    """A memory snapshot shows half of the allocated memory in parameters and gradients."""
    return _seen(decides_for(crash, WEIGHTS))


@sign
def weights_hold_much(crash: Crash) -> Seen | None:
    """A memory snapshot shows 30 % of the allocated memory in parameters and gradients, more than in other holders."""
    return _seen(_much(crash, WEIGHTS))


@sign
def passes_hold_most(crash: Crash) -> Seen | None:
    """A memory snapshot shows half of the allocated memory in the forward and backward pass."""
    return _seen(decides_for(crash, PASSES))


@sign
def passes_hold_much(crash: Crash) -> Seen | None:
    """A memory snapshot shows 30 % of the allocated memory in the forward and backward pass, more than elsewhere."""
    return _seen(_much(crash, PASSES))


@sign
def model_states_hold_most(crash: Crash) -> Seen | None:
    """A memory snapshot shows half of the allocated memory in weights or optimizer states, more than in the passes."""
    event = decides_for(crash, OPTIMIZER) or decides_for(crash, WEIGHTS)
    if event is None:
        return None
    holders = _listed(event.account)
    return Seen(
        words=say("the memory timeline shows {holders}", holders=holders)
        if event.account.is_timeline
        else say("the memory snapshot shows {holders}", holders=holders)
    )


@sign
def blocks_never_freed(crash: Crash) -> Seen | None:
    """A memory snapshot shows blocks of one stack, 5 % of what is allocated, that stay in most cycles of its trace."""
    event, grown = snapshot(crash), growth(crash)
    if event is None or grown is None:
        return None
    words = counted(
        grown.blocks,
        mark("The memory snapshot shows {count} block of one stack that was never freed: {size}."),
        mark(
            "The memory snapshot shows {count} blocks of one stack that were never freed: {size}, allocated in "
            "{cycles} of {all} cycles."
        ),
        size=show(grown.bytes),
        cycles=grown.cycles,
        all=grown.of_cycles,
    )
    place = say("The stack: {frames}.", frames=" < ".join(grown.frames)) if grown.frames else ""
    return Seen(words=joined((words, place)), evidence=(event,))


def growth(crash: Crash) -> Growth | None:
    """What only grows in the snapshot's trace, where it is worth a word."""
    event = snapshot(crash)
    if event is None:
        return None
    return next((one for one in event.account.growths if one.bytes >= GROWN * event.account.allocated), None)


@sign
def free_blocks_in_pieces(crash: Crash) -> Seen | None:
    """A memory snapshot shows free blocks that are together as large as the request, and none that is alone."""
    event, room, asked = _lay(crash)
    if event is None or room is None or not room.largest < asked <= room.bytes:
        return None
    words = counted(
        room.pieces,
        mark("The memory snapshot shows {count} free block of {all}; {asked} were requested."),
        mark("The memory snapshot shows {all} in {count} free blocks, the largest {largest}; {asked} were requested."),
        all=show(room.bytes),
        largest=show(room.largest),
        asked=show(asked),
    )
    return Seen(words=words, evidence=(event,))


@sign
def free_blocks_too_few(crash: Crash) -> Seen | None:
    """A memory snapshot shows free blocks that are together smaller than the request."""
    event, room, asked = _lay(crash)
    if event is None or room is None or room.bytes >= asked:
        return None
    words = say(
        "the memory snapshot shows {all} in free blocks for the request: less than the requested {asked}",
        all=show(room.bytes),
        asked=show(asked),
    )
    return Seen(words=words)


def _lay(crash: Crash) -> tuple[MemoryAccount | None, Room | None, int]:
    """How the free blocks lay when the request failed, where almost nothing was freed since."""
    event = snapshot(crash)
    if event is None or event.account.refusal is None or not event.account.segments:
        return None, None, 0
    account = event.account
    if account.freed_since > STILL_THERE * account.allocated:
        return None, None, 0
    return event, account.room, event.account.refusal.bytes


def _seen(event: MemoryAccount | None) -> Seen | None:
    return None if event is None else Seen(words=_words(event.account), evidence=(event,))


def _words(account: Account) -> str:
    """Who held what: a sentence, and the stack that holds most."""
    if account.is_timeline:
        return say("The memory timeline shows where the memory was at its peak: {holders}.", holders=_listed(account))
    first = say("The memory snapshot shows where the memory was: {holders}.", holders=_listed(account))
    stack = next((one for one in account.stacks if one.frames), None)
    if stack is None:
        return first
    second = counted(
        stack.blocks,
        mark("The largest stack holds {size} in {count} block: {frames}."),
        mark("The largest stack holds {size} in {count} blocks: {frames}."),
        size=show(stack.bytes),
        frames=" < ".join(stack.frames[:2]),
    )
    return joined((first, second))


def _listed(account: Account) -> str:
    return ", ".join(_one(holding, account) for holding in account.holdings[:3])


def _one(holding: Holding, account: Account) -> str:
    share = percent(holding.bytes / account.allocated) if account.allocated else ""
    return say("{size} ({share}) {holder}", size=show(holding.bytes), share=share, holder=row(holding.holder))
