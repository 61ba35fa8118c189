"""The device refuses although what was asked for is free."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.gpu import card, refusal
from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say
from oomdoctor.units import GIB, percent, show

PLENTY = 0.10  # of the card free: no rounding or late print explains it
NARROW = 0.02  # of the request: the printed digits, whole segments and the driver's pages explain it
_QUIRKS = r"\bWSL2?\b|NvMap|Jetson|Orin\b|\bGB10\b|tegra"


def judge(crash: Crash) -> Judgement | None:
    event = refusal(crash)
    it = card(crash)
    if event is None:
        return _quirk(crash)
    if it.free_bytes is None or it.tried_bytes is None or event.device == "MPS":
        return None
    share = it.share(it.free_bytes)
    free, tried = show(it.free_bytes), show(it.tried_bytes)
    if it.free_bytes < it.tried_bytes:
        return RuledOut(say("{free} were free and {tried} asked for", free=free, tried=tried))
    if it.allowed_bytes is not None:
        return RuledOut(
            say(
                "{free} were free and {tried} asked for, but the process is allowed only {allowed}",
                free=free,
                tried=tried,
                allowed=show(it.allowed_bytes),
            )
        )
    to_the_digit = it.free_bytes - it.tried_bytes < NARROW * it.tried_bytes
    plenty = share is not None and share >= PLENTY and not to_the_digit
    # The figure is read a moment later: a little more free than asked for is what somebody gave back.
    some = it.free_bytes >= 2 * it.tried_bytes and it.free_bytes >= GIB
    return Finding(
        weight=0.93 if plenty else 0.45 if some else 0.08,  # the last resort is likelier than this
        why=say(
            "{free} were free and {tried} asked for ({share} of the card free): it is not the "
            "card that is full. A memory pool, the driver or the platform refused.",
            free=free,
            tried=tried,
            share=percent(share),
        ),
        evidence=(event,),
        against=() if plenty else (say("the free figure is read after the refusal, when others may have freed some"),),
    )


def _quirk(crash: Crash) -> Judgement | None:
    """Platforms whose virtual-memory calls fail with memory free."""
    if not isinstance(crash.root, DeviceRefusal) or crash.root.layer not in ("driver", "runtime", "nvml"):
        return None
    line = crash.mentions(_QUIRKS)
    if line is None:
        return None
    return Finding(
        weight=0.4,
        why=say("The log names a platform (WSL or an embedded GPU) that refuses such requests with memory free."),
        evidence=(crash.root,),
        against=(say("no figure shows how much was free"),),
    )


CAUSE = Cause(
    id="spurious-device-oom",
    title=mark("The device refused although the memory is free"),
    pools=("gpu",),
    knobs=("fix-environment", "allocator-config", "pin-version", "collect-evidence"),
    rule=judge,
)
