"""Caches, swap space and stores that engines and Ray keep in host memory: what was refused, and what they print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from oomdoctor.families.container import LimitKill
from oomdoctor.families.event import RAM, Event
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import Kill
from oomdoctor.families.lmcache import BufferFull
from oomdoctor.families.lmdeploy import EngineShort
from oomdoctor.families.ray_store import StoreTooLarge
from oomdoctor.families.sglang import EngineStep, HostCacheTooLarge
from oomdoctor.families.vllm_error import SwapSpaceTooLarge
from oomdoctor.families.vllm_figures import Sleep, WeightsLoaded
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import total_bytes, used_bytes
from oomdoctor.incident.prints import own_lines
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import FREE, settling
from oomdoctor.signs.first_step import memory_in_all
from oomdoctor.signs.node import table
from oomdoctor.units import GIB, MIB, percent, show

# tools/server/server-task.cpp of llama.cpp: "cache state: 2 prompts, 66.375 MiB (limits: 8192.000 MiB, 2048 tokens"
_CACHE_STATE: Final = late(
    r"\bcache state: (?P<count>\d{1,6}) prompts, (?P<size>\d{1,9}(?:\.\d{1,3})?) MiB \(limits: "
    r"(?P<limit>\d{1,9}(?:\.\d{1,3})?) MiB"
)
_OF_A_PROMPT_CACHE: Final = ("smaller-buffers", "quantize-kv-cache", "shorter-context", "more-host-memory")
# Of LMCache, in GB for each rank, and what it is where nothing is said: lmcache/v1/config.py
LMCACHE_BUFFER: Final = ("max_local_cpu_size", "LMCACHE_MAX_LOCAL_CPU_SIZE")
LMCACHE_USUAL: Final = 5.0
# In its configuration, or as it prints that
_OF_LMCACHE: Final = late(r"\bmax_local_cpu_size[\"']?(?:: |=|:)(\d{1,5}(?:\.\d{1,3})?)\b")
# What SGLang leaves to other programs; up to 0.5.2 it is still in what it prints as free: memory_pool_host.py
KEPT_BY_SGLANG: Final = 10 * GIB
MANY_GB: Final = 256  # more than most nodes can spare
MOST_SUMMANDS: Final = 8  # in the formula of a sum
# Of the node's memory: with so much the job's own processes no longer fit beside it, or hardly do.
HALF: Final = 0.5
QUARTER: Final = 0.25


class PromptCache(Struct, frozen=True):
    """What llama.cpp's server says of its cache of prompts."""

    count: int
    bytes: int
    limit_bytes: int


@sign
def swap_space_was_refused(crash: Crash) -> Seen | None:
    """vLLM rejects swap space of more than 70% of the node's memory."""
    refusal = crash.first(SwapSpaceTooLarge)
    if refusal is None:
        return None
    swap = show(refusal.swap_bytes or 0)
    if refusal.host_total_bytes:
        words = say(
            "The engine requests {swap} of swap space on a node with {total}; vLLM allows at most 0.7 of the "
            "node's memory.",
            swap=swap,
            total=show(refusal.host_total_bytes),
        )
    else:
        words = say(
            "The engine requests {swap} of swap space; vLLM allows at most 0.7 of the node's memory.", swap=swap
        )
    return Seen(words=words, evidence=(refusal,))


@sign
def host_cache_was_refused(crash: Crash) -> Seen | None:
    """SGLang compares the host part of its KV cache with the free host memory, and rejects it."""
    refusal = crash.first(HostCacheTooLarge)
    if refusal is None:
        return None
    tried = show(refusal.tried_bytes or 0)
    if refusal.free_bytes is not None and free_would_do(refusal):
        words = say(
            "The engine requests {tried} of host memory for its KV cache; {free} is free, of which SGLang leaves "
            "{kept} alone.",
            tried=tried,
            free=show(refusal.free_bytes),
            kept=show(KEPT_BY_SGLANG),
        )
    elif refusal.free_bytes is not None:
        words = say(
            "The engine requests {tried} of host memory for its KV cache; {free} is free.",
            tried=tried,
            free=show(refusal.free_bytes),
        )
    else:
        words = say("The engine requests {tried} of host memory for its KV cache.", tried=tried)
    return Seen(words=words, evidence=(refusal,))


def free_would_do(refusal: HostCacheTooLarge) -> bool:
    """Whether what is printed as free is more than was requested: then the part that stays free is still in it."""
    return refusal.free_bytes is not None and refusal.free_bytes >= (refusal.tried_bytes or 0)


@sign
def every_rank_keeps_a_cache(crash: Crash) -> Seen | None:
    """LMCache's buffer in host memory is one per tensor-parallel rank; together they are hundreds of GB, and a process
    died without a reason."""
    pair = caches_of_ranks(crash)
    if pair is None:
        return None
    size, ranks = pair
    words = say(
        "LMCache keeps {size:g} GB of host RAM per rank (max_local_cpu_size): {ranks:g} ranks x {size:g} GB = "
        "{all:g} GB.",
        size=size,
        ranks=ranks,
        all=size * ranks,
    )
    return Seen(
        words=words,
        evidence=(crash.root,),
        against=(say("the log prints neither the node's RAM nor why the process died"),),
        next_evidence=(*settling(crash), FREE),
    )


def caches_of_ranks(crash: Crash) -> tuple[float, float] | None:
    """The GB per rank and the number of ranks."""
    line = crash.mentions(_OF_LMCACHE.pattern)
    stated = _OF_LMCACHE.search(line) if line is not None else None
    setting = crash.setting("tensor_parallel_size")
    size, ranks = float(stated[1]) if stated is not None else 0, (setting.number if setting is not None else None) or 0
    return (size, ranks) if isinstance(crash.root, Kill) and ranks >= 2 and size * ranks >= MANY_GB else None


@sign
def object_store_was_refused(crash: Crash) -> Seen | None:
    """Ray rejects an object store that is larger than the available host memory."""
    refusal = next((event for event in crash.every(StoreTooLarge) if event.refused and event.pool != "shm"), None)
    if refusal is None:
        return None
    if refusal.requested_bytes:
        words = say(
            "Ray's object store of {requested} is larger than the available host memory.",
            requested=show(refusal.requested_bytes),
        )
    else:
        words = say("Ray's object store is larger than the available host memory.")
    return Seen(words=words, evidence=(refusal,))


@sign
def no_host_memory_for_waiting_sequences(crash: Crash) -> Seen | None:
    """TurboMind has no host memory for the KV cache of waiting sequences."""
    root = crash.root
    if not isinstance(root, EngineShort) or root.what != "host-kv-cache":
        return None
    words = say("Host memory is too small for the KV cache of waiting sequences.")
    return Seen(words=words, evidence=(root,))


@sign
def host_buffer_of_kv_blocks_is_full(crash: Crash) -> Seen | None:
    """LMCache's host buffer has no room for more KV blocks."""
    if not isinstance(crash.root, BufferFull):
        return None
    words = say("The host buffer for offloaded KV blocks was full.")
    own = say("a setting limits this buffer, not the RAM")
    return Seen(words=words, evidence=(crash.root,), against=(own,))


@sign
def engines_keep_half_of_the_node(crash: Crash) -> Seen | None:
    """Engines print weights and KV cache in host memory of at least half of the node's memory."""
    return _share_of_engines(crash, HALF)


@sign
def engines_keep_a_quarter_of_the_node(crash: Crash) -> Seen | None:
    """Engines print weights and KV cache in host memory of at least a quarter of the node's memory."""
    return _share_of_engines(crash, QUARTER)


def _share_of_engines(crash: Crash, least: float) -> Seen | None:
    sizes, event = _sizes(crash)
    need, total = sum(sizes), memory_of_the_node(crash)
    if event is None or not total or need < least * total:
        return None
    words = say(
        "The engines hold {need}{summands} of weights and KV cache in host memory: {share} of the node's {total}.",
        need=show(need),
        summands=_summands(sizes),
        share=percent(need / total),
        total=show(total),
    )
    return Seen(words=words, evidence=(*table_or_root(crash), event), shows_memory=True)


@sign
def engines_keep_some_of_a_node(crash: Crash) -> Seen | None:
    """Engines print weights and KV cache in host memory; the log says neither the node's memory nor what ran out."""
    sizes, event = _sizes(crash)
    if event is None or crash.proven or memory_of_the_node(crash):
        return None
    need, summands = show(sum(sizes)), _summands(sizes)
    words = say(
        "The engines hold {need}{summands} of weights and KV cache in host memory.", need=need, summands=summands
    )
    unknown = say("the log does not print the node's memory size")
    return Seen(words=words, evidence=(*table_or_root(crash), event), against=(unknown,))


def _sizes(crash: Crash) -> tuple[list[int], Event | None]:
    """What engines print of the host memory that they take, the most of each process, and the first print: SGLang's
    second level of the KV cache, the copy of the weights that vLLM sleeps with, offloaded weights."""
    largest: dict[tuple[object, ...], tuple[int, Event]] = {}
    for event in crash.every(EngineStep) + crash.every(Sleep) + crash.every(WeightsLoaded):
        size = _host_bytes(event)
        who = (event.kind, event.process.name, event.process.pid, event.process.rank)
        if size and size > largest.get(who, (0, event))[0]:
            largest[who] = size, event
    return [size for size, _ in largest.values()], next((event for _, event in largest.values()), None)


def _host_bytes(event: EngineStep | Sleep | WeightsLoaded) -> int | None:
    if isinstance(event, EngineStep):
        return event.host_bytes
    return event.backed_up_bytes if isinstance(event, Sleep) else event.offloaded_bytes


def _summands(sizes: Sequence[int]) -> str:
    return f" ({' + '.join(show(size) for size in sizes)})" if 1 < len(sizes) <= MOST_SUMMANDS else ""


def memory_of_the_node(crash: Crash) -> int | None:
    """What the node has, or at least what was in use on it."""
    return total_bytes(crash) or used_bytes(crash)


def table_or_root(crash: Crash) -> tuple[Event, ...]:
    memory = table(crash)
    return (memory.event,) if memory is not None else (crash.root,)


@sign
def prompts_filled_the_limit(crash: Crash) -> Seen | None:
    """llama.cpp's server was killed, and its cache of prompts in RAM, which may grow beyond the control group's limit,
    held a quarter of what there is at its last print, or 1 GiB where nobody knows how much that is."""
    cache, whole = prompt_cache_of(crash), memory_in_all(crash)
    if cache is None or not isinstance(crash.root, KernelKill | LimitKill | Kill) or crash.pool not in RAM:
        return None
    if cache.bytes < (QUARTER * whole if whole else GIB) or (whole or 0) > cache.limit_bytes:
        return None
    words = say(
        "llama.cpp keeps the states of prompts in RAM (--cache-ram): {size} for {count} of them at the last print, and "
        "up to {limit}.",
        size=show(cache.bytes), count=cache.count, limit=show(cache.limit_bytes),
    )  # fmt: skip
    beside = say("There are {limit} in all.", limit=show(whole)) if whole else ""
    return Seen(words=joined((words, beside)), evidence=(crash.root,), stage="serving", knobs=_OF_A_PROMPT_CACHE)


def prompt_cache_of(crash: Crash) -> PromptCache | None:
    """By the last print that tells."""
    told = next((match for line in own_lines(crash) if (match := _CACHE_STATE.search(line)) is not None), None)
    if told is None:
        return None
    return PromptCache(int(told["count"]), round(float(told["size"]) * MIB), round(float(told["limit"]) * MIB))


@sign
def lmcache_was_refused(crash: Crash) -> Seen | None:
    """The page-locked memory was for LMCache's buffer, by the frames that requested it."""
    return Seen(words="") if crash.pool == "pinned" and crash.in_trace(r"\blmcache/") else None
