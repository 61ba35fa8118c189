"""Slots about what is kept in host memory on purpose: swap space, caches, offloaded states, sleeping engines."""

from __future__ import annotations

from oomdoctor.families.lmcache import BufferFull
from oomdoctor.families.lmdeploy import EngineShort
from oomdoctor.families.machine_memory import MachineMemory
from oomdoctor.families.sglang import HostCacheTooLarge
from oomdoctor.families.vllm_error import SwapSpaceTooLarge
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import machine_after
from oomdoctor.job.model import Setting
from oomdoctor.language import say
from oomdoctor.report.headline.figures import brief, briefly
from oomdoctor.report.headline.host import group, group_held
from oomdoctor.report.headline.slot import about, first, root, where
from oomdoctor.signs.host_caches import (
    KEPT_BY_SGLANG,
    caches_of_ranks,
    free_would_do,
    prompt_cache_of,
    prompts_filled_the_limit,
)
from oomdoctor.signs.offload import (
    names_of_switches,
    optimizer_on_the_cpu,
    option_that_offloads,
    partitions_off_the_card,
    sleeping_engines_have_it,
    states_are_on_a_disk,
)
from oomdoctor.signs.other_words import host_cache_in_other_words
from oomdoctor.spellings import title


@about(first(SwapSpaceTooLarge))
def swap_space(refusal: SwapSpaceTooLarge) -> str | None:
    """The engine's swap space that is too large for the node."""
    return briefly(refusal.swap_bytes)


@about(first(SwapSpaceTooLarge))
def swap_ram(refusal: SwapSpaceTooLarge) -> str | None:
    """The node's RAM, as the engine's refusal of its swap space has it."""
    return briefly(refusal.host_total_bytes)


@about(first(HostCacheTooLarge))
def host_cache(refusal: HostCacheTooLarge) -> str | None:
    """The KV cache in RAM that SGLang requests."""
    return briefly(refusal.tried_bytes)


@where(prompts_filled_the_limit)
def prompt_cache(crash: Crash) -> str | None:
    """How much llama.cpp's prompts take in RAM at the last print."""
    cache = prompt_cache_of(crash)
    return briefly(cache.bytes) if cache is not None else None


@about(first(HostCacheTooLarge))
def host_cache_free(refusal: HostCacheTooLarge) -> str | None:
    """The RAM that was free for it; None where that would have been enough."""
    return brief(refusal.free_bytes) if refusal.free_bytes is not None and not free_would_do(refusal) else None


@about(first(HostCacheTooLarge))
def host_cache_kept(refusal: HostCacheTooLarge) -> str | None:
    """What SGLang leaves alone, where what it prints as free would be enough."""
    if refusal.free_bytes is None or not free_would_do(refusal):
        return None
    return say("it leaves {kept} of the free {free} alone", kept=brief(KEPT_BY_SGLANG), free=brief(refusal.free_bytes))


@where(host_cache_in_other_words)
def engines_cache(crash: Crash) -> str | None:
    """The engine whose cache in host memory has no room: one of no name where the log does not say."""
    engine = crash.job.engine
    return title(engine) if engine is not None else say("The engine")


def offloads(crash: Crash) -> str | None:
    """The settings that keep states in RAM."""
    return names_of_switches(crash) or None


def disk_buffers(crash: Crash) -> str | None:
    """The settings that keep states on a disk, and buffers for them in RAM."""
    return names_of_switches(crash) if states_are_on_a_disk(crash) else None


@about(option_that_offloads)
def offload_option(option: Setting) -> str | None:
    """The option of the launch line that moves states off the GPU."""
    return option.flag


@about(machine_after)
def ram_left(after: MachineMemory) -> str | None:
    """The RAM that was available after the failure."""
    return briefly(after.available_bytes)


@about(root(BufferFull))
def host_buffer(_: BufferFull) -> str | None:
    """LMCache, where its buffer on the host is full."""
    return "LMCache"


@about(root(BufferFull))
def host_buffer_requested(full: BufferFull) -> str | None:
    """The block that this buffer had no room for."""
    return briefly(full.tried_bytes)


@about(caches_of_ranks)
def cache_of_ranks(caches: tuple[float, float]) -> str | None:
    """What LMCache keeps in host memory for all ranks: "800 GB"."""
    return f"{caches[0] * caches[1]:g} GB"


@about(caches_of_ranks)
def ranks_of_cache(caches: tuple[float, float]) -> str | None:
    """How that comes about: "4 ranks x 200 GB"."""
    return say("{ranks:g} ranks x {size:g} GB", ranks=caches[1], size=caches[0])


@about(root(EngineShort))
def waiting_cache(short: EngineShort) -> str | None:
    """TurboMind, where it has no host memory for the KV cache of sequences that wait."""
    return "TurboMind" if short.what == "host-kv-cache" else None


def deepspeed_in_ram(crash: Crash) -> str | None:
    """DeepSpeed, where it partitions states in host memory or steps its optimizer there."""
    seen = partitions_off_the_card(crash) or optimizer_on_the_cpu(crash)
    return "DeepSpeed" if seen is not None else None


@where(sleeping_engines_have_it)
def sleepers(crash: Crash) -> str | None:
    """The workers of an engine that goes to sleep, where they hold the memory together."""
    return group(crash)


@where(sleeping_engines_have_it)
def sleepers_held(crash: Crash) -> str | None:
    """What these workers hold."""
    return group_held(crash)
