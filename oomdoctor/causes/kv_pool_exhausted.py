"""The KV pool runs out while requests are served, and requests or the engine die of it."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.families.llama_cpp import ContextFull
from oomdoctor.families.sglang import PoolExhausted
from oomdoctor.families.vllm_error import SwapSpaceExhausted
from oomdoctor.families.vllm_pressure import Preemption
from oomdoctor.incident.model import Crash


def judge(crash: Crash) -> Judgement | None:
    pool = crash.first(PoolExhausted)
    if pool is not None:
        return _of_tokens(pool)
    full = crash.first(ContextFull)
    if full is not None:
        return Finding(
            weight=0.88,
            why="The KV cache is as long as the context (-c), for all sequences together, and it was full: not even one "
            "token more could be decoded.",
            evidence=(full,),
            knobs=("fewer-sequences", "quantize-kv-cache", "shorter-context"),
        )
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


def _of_tokens(pool: PoolExhausted) -> Finding:
    """SGLang takes requests back as long as it can; what it cannot take back kills its scheduler."""
    if pool.tried_tokens is None or pool.free_tokens is None:
        return Finding(
            weight=0.88,
            why=f"A {pool.batch} batch found no tokens in the KV pool, and none could be taken back.",
            evidence=(pool,),
        )
    words = (
        f"A {pool.batch} batch needed {pool.tried_tokens:,} tokens of the KV pool and {pool.free_tokens:,} were there"
    )
    if pool.free_tokens >= pool.tried_tokens:
        # Tokens that can be evicted are counted as available; the engine failed to evict them.
        return Finding(
            weight=0.92,
            why=f"{words}: enough by the engine's own count, so the count is wrong or they could not be evicted.",
            evidence=(pool,),
            knobs=("pin-version", *(knob for knob in CAUSE.knobs if knob != "pin-version")),
        )
    return Finding(weight=0.95, why=f"{words}.", evidence=(pool,))


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
