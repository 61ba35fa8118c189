"""Page-locked host memory is refused, by the driver or by the limit on locked memory."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.event import Event, Frame
from oomdoctor.families.forge import MovePlan
from oomdoctor.families.host_alloc import PinnedAllocation
from oomdoctor.families.llama_cpp import BufferRefused
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say
from oomdoctor.units import show

_LOCKING = ("rdma", "mlock")
# What pins host memory. The driver's refusal then says "CUDA error: out of memory", as for the card.
_PINS = r"pin_memory|pinned|pin_shared_memory|cudaHost(?:Alloc|Register)|cudaMallocHost|page-?lock"
_PINNED_STATES = r"_cpu_memory\b|offload_(?:optimizer|param)|cpu_offload|create_swap_buffers|swap_tensor"
_WINDOWS_UNDER_LINUX = r"\bWSL2?\b|/mnt/(?:wsl|[a-z])/|microsoft-standard"


def judge(crash: Crash) -> Judgement | None:
    refused = next((event for event in crash.events if event.pool == "pinned" and event.strength >= 1), None)
    if refused is not None:
        return _named(crash, refused)
    return _bare_refusal(crash)


def _named(crash: Crash, refused: Event) -> Finding:
    if isinstance(refused, PinnedAllocation) and refused.allocator in _LOCKING:
        return Finding(
            weight=0.85,
            why=say(
                "Registering memory for RDMA or locking it was refused with errno 12: the limit on "
                "locked memory (ulimit -l), not the amount of RAM."
            ),
            evidence=(refused,),
            pool="pinned",
            knobs=("raise-memlock", "fix-environment"),
            next_evidence=("ulimit -l",),
        )
    if isinstance(refused, BufferRefused):
        return Finding(
            weight=0.7,
            why=joined(
                (
                    say(
                        "No layer was put on the card, so what was refused is the page-locked host buffer "
                        "through which the weights are copied: the driver uses the same words for it."
                    ),
                    _platform(crash),
                )
            ),
            evidence=(refused,),
            against=(say("the message does not say which memory it was"),),
            pool="pinned",
            knobs=("unpin-memory", "fix-environment", "raise-memlock", "more-host-memory"),
        )
    if refused.strength < 2:
        return Finding(
            weight=0.5,
            shows_memory=True,
            why=say("A traceback ends in a call that pins host memory; the message itself is not in the log."),
            evidence=(refused,),
            against=(say("the call may have failed for another reason"),),
            pool="pinned",
        )
    size = refused.figures("usage").get("tried_bytes")
    told = (
        say("Page-locked host memory of {size} was refused.", size=show(size))
        if size
        else say("Page-locked host memory was refused.")
    )
    return Finding(
        weight=0.85 if size else 0.78,
        why=joined(
            (
                told,
                say(
                    'The driver says "out of memory" for host memory as for the card\'s; the traceback or '
                    "the message shows that it was the host's."
                ),
                _platform(crash),
            )
        ),
        evidence=(refused,),
        pool="pinned",
    )


def _bare_refusal(crash: Crash) -> Judgement | None:
    """A refusal without figures while the log speaks of pinning or of states kept on the host."""
    root = crash.root
    if root.pool != "gpu" or root.figures("usage") or (isinstance(root, DeviceRefusal) and root.layer == "nvml"):
        return None
    frame = crash.in_trace(_PINS) or crash.in_trace(_PINNED_STATES)
    line = crash.mentions(_PINS)
    under = crash.mentions(_WINDOWS_UNDER_LINUX)
    if frame is None and line is None and under is None:
        return None
    if frame is None and _card_was_full(crash):
        return RuledOut(say("the card was full, its own figures say so"))
    swapped = _swapped(crash)
    weight = 0.62 if frame is not None or swapped else 0.5 if line is not None else 0.3
    return Finding(
        weight=weight,
        why=joined((_told(frame, line), swapped, _platform(crash))),
        evidence=(root,),
        against=(say("nothing printed says for sure that it was the host's memory"),),
        pool="pinned",
    )


def _told(frame: Frame | None, line: str | None) -> str:
    if frame is not None:
        return say(
            "The driver refused memory without a figure of the card's, in code that pins host "
            "memory: page-locked host memory gives the same words."
        )
    if line is not None:
        return say(
            "The driver refused memory without a figure of the card's, and the log speaks of "
            "pinned host memory: page-locked host memory gives the same words."
        )
    return say(
        "The driver refused memory without a figure of the card's: page-locked host memory gives the same words."
    )


def _card_was_full(crash: Crash) -> bool:
    told = (event for event in crash.events if event.pool == "gpu" and event.role != "context")
    return any(event.figures("usage").get("free_bytes") is not None for event in told)


def _swapped(crash: Crash) -> str:
    """A program that moves a part of the model to page-locked memory, with room on the card for the rest."""
    plans = [plan for plan in crash.every(MovePlan) if plan.swap == "shared" and plan.swapped_bytes]
    if not plans:
        return ""
    swapped, on_card, free = plans[-1].swapped_bytes or 0, plans[-1].on_card_bytes, plans[-1].free_bytes or 0
    if on_card is None or free < on_card:
        return ""
    return say(
        "{swapped} of the model went there, and for the {on_card} that went to the card {free} were free.",
        swapped=show(swapped),
        on_card=show(on_card),
        free=show(free),
    )


def _platform(crash: Crash) -> str:
    if crash.mentions(_WINDOWS_UNDER_LINUX) is None:
        return ""
    return say("Under WSL only a part of the machine's memory can be pinned.")


CAUSE = Cause(
    id="pinned-memory-exhausted",
    title=mark("Page-locked (pinned) host memory is refused"),
    pools=("pinned", "gpu", "host_ram"),
    knobs=("unpin-memory", "raise-memlock", "less-offload", "less-swap-space", "more-host-memory"),
    rule=judge,
)
