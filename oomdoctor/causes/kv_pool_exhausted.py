"""The KV pool runs out while requests are served, and requests or the engine die of it."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.families.vllm_error import SwapSpaceExhausted
from oomdoctor.families.vllm_pressure import Preemption
from oomdoctor.incident.model import Crash


def judge(crash: Crash) -> Judgement | None:
    swapped = crash.first(SwapSpaceExhausted)
    if swapped is None:
        return None
    preemptions = max((event.preemptions or 0 for event in crash.every(Preemption)), default=0)
    pressed = f" {preemptions} sequences had been preempted before." if preemptions else ""
    return Finding(
        weight=0.9,
        why=(
            "The KV cache on the card is full, and so is the host memory to which this engine moves the cache of "
            f"sequences that have to wait. It aborts requests then.{pressed}"
        ),
        evidence=(swapped,),
    )


CAUSE = Cause(
    id="kv-pool-exhausted",
    title="The engine's KV pool ran out while serving",
    pools=("kv_cache", "gpu"),
    knobs=(
        "fewer-sequences",
        "smaller-prefill",
        "raise-engine-reservation",
        "shorter-context",
        "quantize-kv-cache",
        "tensor-parallel",
        "pin-version",
    ),
    judge=judge,
)
