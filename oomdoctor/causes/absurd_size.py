"""A size no machine has: a shape is wrong."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.gpu import refusal
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.units import TIB, show

NO_MACHINE = 8 * TIB  # more than the memory of any card, and of nearly any host
MANY_CARDS = 4  # times the card: possible for a tensor over all pairs of tokens, and odd


def judge(crash: Crash) -> Judgement | None:
    event = refusal(crash) or crash.root
    if not isinstance(event, DeviceOutOfMemory | ArrayOutOfMemory) or event.tried_bytes is None:
        return None
    tried, total = event.tried_bytes, event.total_bytes
    if tried >= NO_MACHINE:
        return Finding(
            weight=0.95, why=f"{show(tried)} were asked for, which no machine has: a shape is wrong.", evidence=(event,)
        )
    if (total and tried >= MANY_CARDS * total) or (total is None and tried >= TIB):
        times = f", {tried / total:.0f} times the card" if total else ""
        return Finding(
            weight=0.5,
            why=f"{show(tried)} were asked for{times}: a shape may be wrong.",
            evidence=(event,),
            against=("a tensor over all pairs of tokens can be as large with very long inputs",),
        )
    return RuledOut(f"{show(tried)} of {show(total)} is a size that cards have") if total and tried < total else None


CAUSE = Cause(
    id="absurd-size",
    title="A size no machine has was asked for",
    pools=("gpu",),
    knobs=("fix-shape", "smaller-microbatch", "memory-efficient-attention"),
    judge=judge,
)
