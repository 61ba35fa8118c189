"""A size no machine has: a shape is wrong."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.gpu import refusal
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.jax_tf import AllocationProbe, ArrayOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say
from oomdoctor.units import GIB, TIB, show

NO_MACHINE = 8 * TIB  # more than the memory of any card, and of nearly any host
LARGEST_HOST = 2 * TIB  # what a node with eight cards has
MANY_HOSTS = 3 * TIB // 4
USUAL_HOST = 64 * GIB
FEW_HOSTS = 256 * GIB
MANY_CARDS = 4  # times the card: possible for a tensor over all pairs of tokens, and odd


def judge(crash: Crash) -> Judgement | None:
    if isinstance(crash.root, HostAllocation):
        return _on_the_host(crash, crash.root)
    event = refusal(crash) or crash.root
    if isinstance(event, AllocationProbe) and (event.tried_bytes or 0) >= NO_MACHINE:
        why = say(
            "The framework counted {tried} as free, which no card has, and asked for them.",
            tried=show(event.tried_bytes or 0),
        )
        return Finding(weight=0.8, why=why, evidence=(event,), knobs=("fix-environment", "pin-version"))
    if not isinstance(event, DeviceOutOfMemory | ArrayOutOfMemory):
        return None
    tried, total = event.array_bytes if isinstance(event, ArrayOutOfMemory) else event.tried_bytes, event.total_bytes
    if tried is None:
        return None
    words = event.array_words if isinstance(event, ArrayOutOfMemory) else show(tried)
    if tried >= NO_MACHINE:
        return Finding(
            weight=0.95,
            why=say("{words} were asked for, which no machine has: a shape is wrong.", words=words),
            evidence=(event,),
        )
    if (total and tried >= MANY_CARDS * total) or (total is None and tried >= TIB):
        return Finding(
            weight=0.5,
            why=say(
                "{words} were asked for, {times} times the card: a shape may be wrong.",
                words=words,
                times=f"{tried / total:.0f}",
            )
            if total
            else say("{words} were asked for: a shape may be wrong.", words=words),
            evidence=(event,),
            against=(say("a tensor over all pairs of tokens can be as large with very long inputs"),),
        )
    if total and total // 4 <= tried < total:  # ordinary requests are not worth a word
        return RuledOut(say("{tried} of {total} is a size that cards have", tried=show(tried), total=show(total)))
    return None


def _on_the_host(crash: Crash, event: HostAllocation) -> Judgement | None:
    tried, total = event.tried_bytes, crash.context.hardware.get("ram_bytes")
    if tried is None:
        return None
    if FEW_HOSTS <= tried < MANY_HOSTS and not isinstance(total, int):
        return Finding(
            weight=0.5,
            why=say(
                "{tried} were asked for in one piece, which few machines have: a shape or a count may be wrong.",
                tried=show(tried),
            ),
            evidence=(event,),
            against=(say("how much memory the machine has is not in the log"),),
        )
    if tried < MANY_HOSTS:
        return RuledOut(say("{tried} is a size that machines have", tried=show(tried))) if tried < USUAL_HOST else None
    return Finding(
        weight=0.95 if tried >= NO_MACHINE else 0.75 if tried >= LARGEST_HOST else 0.6,
        why=_in_one_piece(tried, event.shape, tried / total if isinstance(total, int) and total else None),
        evidence=(event,),
        against=() if tried >= LARGEST_HOST else (say("the largest machines have as much"),),
    )


def _in_one_piece(tried: int, shape: str | None, times: float | None) -> str:
    if shape and times is not None:
        return say(
            "{tried} were asked for in one piece for an array of shape {shape}, {times} times the "
            "machine's memory: a shape or a count is wrong.",
            tried=show(tried),
            shape=shape,
            times=f"{times:.0f}",
        )
    if shape:
        return say(
            "{tried} were asked for in one piece for an array of shape {shape}: a shape or a count is wrong.",
            tried=show(tried),
            shape=shape,
        )
    if times is not None:
        return say(
            "{tried} were asked for in one piece, {times} times the machine's memory: a shape or a count is wrong.",
            tried=show(tried),
            times=f"{times:.0f}",
        )
    return say("{tried} were asked for in one piece: a shape or a count is wrong.", tried=show(tried))


CAUSE = Cause(
    id="absurd-size",
    title=mark("A size no machine has was asked for"),
    pools=("gpu", "host_ram"),
    knobs=("fix-shape", "smaller-microbatch", "memory-efficient-attention"),
    rule=judge,
)
