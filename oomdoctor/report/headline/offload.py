"""Slots about what is kept in host memory on purpose: swap space, caches, offloaded states, sleeping engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.families.lmcache import BufferFull
from oomdoctor.families.lmdeploy import EngineShort
from oomdoctor.families.sglang import HostCacheTooLarge
from oomdoctor.families.vllm_error import SwapSpaceTooLarge
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.report.headline.figures import brief
from oomdoctor.report.headline.host import group, group_held
from oomdoctor.signs.host_caches import caches_of_ranks
from oomdoctor.signs.offload import (
    names_of_switches,
    optimizer_on_the_cpu,
    partitions_off_the_card,
    sleeping_engines_have_it,
)


def swap_space(crash: Crash) -> str | None:
    """The engine's swap space that is too large for the node."""
    refusal = crash.first(SwapSpaceTooLarge)
    return brief(refusal.swap_bytes) if refusal is not None and refusal.swap_bytes else None


def swap_ram(crash: Crash) -> str | None:
    """The node's RAM, as the engine's refusal of its swap space has it."""
    refusal = crash.first(SwapSpaceTooLarge)
    return brief(refusal.host_total_bytes) if refusal is not None and refusal.host_total_bytes else None


def host_cache(crash: Crash) -> str | None:
    """The KV cache in RAM that SGLang requests."""
    refusal = crash.first(HostCacheTooLarge)
    return brief(refusal.tried_bytes) if refusal is not None and refusal.tried_bytes else None


def host_cache_free(crash: Crash) -> str | None:
    """The RAM that was free for it; None where that would have been enough."""
    refusal = crash.first(HostCacheTooLarge)
    if refusal is None or refusal.free_bytes is None or refusal.free_bytes >= (refusal.tried_bytes or 0):
        return None
    return brief(refusal.free_bytes)


def offloads(crash: Crash) -> str | None:
    """The settings that keep states in RAM."""
    return names_of_switches(crash) or None


def host_buffer_requested(crash: Crash) -> str | None:
    """The block that this buffer had no room for."""
    root = crash.root
    return brief(root.tried_bytes) if isinstance(root, BufferFull) and root.tried_bytes else None


def cache_of_ranks(crash: Crash) -> str | None:
    """What LMCache keeps in host memory for all ranks: "800 GB"."""
    pair = caches_of_ranks(crash)
    return f"{pair[0] * pair[1]:g} GB" if pair is not None else None


def ranks_of_cache(crash: Crash) -> str | None:
    """How that comes about: "4 ranks x 200 GB"."""
    pair = caches_of_ranks(crash)
    return say("{ranks:g} ranks x {size:g} GB", ranks=pair[1], size=pair[0]) if pair is not None else None


def waiting_cache(crash: Crash) -> str | None:
    """TurboMind, where it has no host memory for the KV cache of sequences that wait."""
    root = crash.root
    return "TurboMind" if isinstance(root, EngineShort) and root.what == "host-kv-cache" else None


def deepspeed_in_ram(crash: Crash) -> str | None:
    """DeepSpeed, where it partitions states in host memory or steps its optimizer there."""
    seen = partitions_off_the_card(crash) or optimizer_on_the_cpu(crash)
    return "DeepSpeed" if seen is not None else None


def sleepers(crash: Crash) -> str | None:
    """The workers of an engine that goes to sleep, where they hold the memory together."""
    return group(crash) if sleeping_engines_have_it(crash) is not None else None


def sleepers_held(crash: Crash) -> str | None:
    """What these workers hold."""
    return group_held(crash) if sleeping_engines_have_it(crash) is not None else None


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    slot.__name__: slot
    for slot in (
        swap_space, swap_ram, host_cache, host_cache_free, offloads, host_buffer_requested, cache_of_ranks,
        ranks_of_cache, waiting_cache,
        deepspeed_in_ram, sleepers, sleepers_held,
    )
}  # fmt: skip
