"""The KV pool runs out while requests are served, and requests or the engine die of it."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.families.event import Event
from oomdoctor.families.llama_cpp import ContextFull
from oomdoctor.families.lmcache import BufferFull
from oomdoctor.families.lmdeploy import CacheFull
from oomdoctor.families.sglang import PoolExhausted
from oomdoctor.families.tensorrt_llm import CacheTooSmall
from oomdoctor.families.vllm_error import SwapSpaceExhausted
from oomdoctor.families.vllm_pressure import Preemption
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say
from oomdoctor.units import show

# Places and states go by the number of requests; a shorter prompt or a smaller cache entry frees none.
_FEWER_FIRST = ("fewer-sequences", "raise-engine-reservation", "tensor-parallel", "pin-version")


def judge(crash: Crash) -> Judgement | None:
    if isinstance(crash.root, BufferFull):
        return _of_host_buffer(crash.root)
    if crash.pool == "host_ram":
        return None
    pool = crash.first(PoolExhausted)
    if pool is not None:
        return _of_pool(pool)
    full = crash.first(ContextFull)
    if full is not None:
        return Finding(
            weight=0.88,
            why=say(
                "The KV cache is as long as the context (-c), for all sequences together, and it was "
                "full: not one token more could be decoded."
            ),
            evidence=(full,),
            knobs=("fewer-sequences", "quantize-kv-cache", "shorter-context"),
        )
    blocks = next((event for event in crash.events if _no_blocks(event)), None)
    if blocks is not None:
        return Finding(
            weight=0.88,
            why=say("The KV cache had no free block left, and none of the running requests could give one back."),
            evidence=(blocks,),
        )
    swapped = crash.first(SwapSpaceExhausted)
    if swapped is None:
        return None
    preemptions = max((event.preemptions or 0 for event in crash.every(Preemption)), default=0)
    pressed = say("{count} sequences had been preempted before.", count=preemptions) if preemptions else ""
    return Finding(
        weight=0.9,
        why=joined(
            (
                say(
                    "The KV cache on the card is full, and so is the host memory to which this engine "
                    "moves the cache of sequences that have to wait. It aborts requests then."
                ),
                pressed,
            )
        ),
        evidence=(swapped,),
    )


def _no_blocks(event: Event) -> bool:
    """TurboMind's and TensorRT-LLM's words for it."""
    return isinstance(event, CacheFull) or (isinstance(event, CacheTooSmall) and event.said == "no-blocks")


def _of_host_buffer(full: BufferFull) -> Finding:
    return Finding(
        weight=0.78,
        why=say(
            "LMCache keeps KV blocks in a host buffer of fixed size (max_local_cpu_size), and it "
            "had no room for a block of {tried}; the engine failed behind it.",
            tried=show(full.tried_bytes),
        )
        if full.tried_bytes
        else say(
            "LMCache keeps KV blocks in a host buffer of fixed size (max_local_cpu_size), and it "
            "had no room; the engine failed behind it."
        ),
        evidence=(full,),
        knobs=("more-host-memory", "less-offload", "pin-version"),
    )


def _of_pool(pool: PoolExhausted) -> Finding:
    """SGLang takes requests back as long as it can; what it cannot take back kills its scheduler."""
    batch = say("A {kind} batch", kind=pool.batch) if pool.batch else say("A batch")
    if pool.of == "requests":
        return _of_requests(pool)
    if pool.of == "states":
        return _of_states(pool)
    if pool.tried_tokens is None or pool.free_tokens is None:
        why = say("{batch} found no tokens in the KV pool, and none could be taken back.", batch=batch)
        return Finding(weight=0.88, why=why, evidence=(pool,))
    tried, free = f"{pool.tried_tokens:,}", f"{pool.free_tokens:,}"
    if pool.free_tokens < pool.tried_tokens:
        why = say(
            "{batch} needed {tried} tokens of the KV pool and {free} were there.", batch=batch, tried=tried, free=free
        )
        return Finding(weight=0.95, why=why, evidence=(pool,))
    window = pool.window_free_tokens
    if window is not None and window < pool.tried_tokens:
        why = say(
            "{batch} needed {tried} tokens of the KV pool and {free} were there, but only "
            "{window:,} in the pool of the layers with a sliding window: that one ran out.",
            batch=batch,
            tried=tried,
            free=free,
            window=window,
        )
        return Finding(weight=0.95, why=why, evidence=(pool,))
    if pool.free_states == 0:
        why = say(
            "{batch} needed {tried} tokens of the KV pool and {free} were there, but no place for "
            "the state of the Mamba layers: these ran out.",
            batch=batch,
            tried=tried,
            free=free,
        )
        return Finding(weight=0.93, why=why, evidence=(pool,), knobs=_FEWER_FIRST)
    # Tokens that can be evicted are counted as available; the engine failed to evict them.
    return Finding(
        weight=0.92,
        why=say(
            "{batch} needed {tried} tokens of the KV pool and {free} were there: enough by the "
            "engine's own count, so the count is wrong or they could not be evicted.",
            batch=batch,
            tried=tried,
            free=free,
        ),
        evidence=(pool,),
        knobs=("pin-version", *(knob for knob in CAUSE.knobs if knob != "pin-version")),
    )


def _of_requests(pool: PoolExhausted) -> Finding:
    """The places for running requests: on a hybrid model each needs a state of the Mamba layers beside it."""
    figures = ""
    against: tuple[str, ...] = ()
    if pool.tried_requests is not None and pool.free_requests is not None:
        figures = say(
            "{tried} were to be added and {free} places were free.", tried=pool.tried_requests, free=pool.free_requests
        )
        if pool.free_requests >= pool.tried_requests:
            against = (say("places for requests were left: on a hybrid model it is the Mamba states that ran out"),)
    return Finding(
        weight=0.88,
        why=joined((say("The engine took in more requests than it keeps places for."), figures)),
        evidence=(pool,),
        against=against,
        knobs=_FEWER_FIRST,
    )


def _of_states(pool: PoolExhausted) -> Finding:
    left = say("{count} were left.", count=pool.available_states) if pool.available_states is not None else ""
    return Finding(
        weight=0.9,
        why=joined((say("Each running request needs a state of the Mamba layers, and their pool ran out."), left)),
        evidence=(pool,),
        knobs=_FEWER_FIRST,
    )


CAUSE = Cause(
    id="kv-pool-exhausted",
    title=mark("The engine's KV pool ran out while serving"),
    pools=("kv_cache", "gpu", "host_ram"),
    knobs=(
        "fewer-sequences",
        "smaller-prefill",
        "raise-engine-reservation",
        "shorter-context",
        "quantize-kv-cache",
        "tensor-parallel",
        "pin-version",
    ),
    rule=judge,
)
