"""Offloaded states, engine sleep, swap space or host caches are larger than the RAM there is."""

from __future__ import annotations

from collections.abc import Iterator

from oomdoctor.causes import Cause, Finding, Judgement, NotEnough, RuledOut
from oomdoctor.causes.host import TOGETHER, node_memory, total_bytes, used_bytes
from oomdoctor.families.event import Event
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.lmcache import BufferFull
from oomdoctor.families.lmdeploy import EngineShort
from oomdoctor.families.ray_store import StoreTooLarge
from oomdoctor.families.sglang import EngineStep, HostCacheTooLarge
from oomdoctor.families.vllm_error import SwapSpaceTooLarge
from oomdoctor.families.vllm_figures import Sleep, WeightsLoaded
from oomdoctor.incident.model import Crash
from oomdoctor.job.model import Setting
from oomdoctor.language import joined, listed, mark, say, translated
from oomdoctor.records import dataclass
from oomdoctor.units import GIB, percent, show

# vLLM's own default: a setting of this size is no decision of the job.
DEFAULT_SWAP_GIB = 4
MOST_SUMMANDS = 8  # in the formula of a sum
MUCH = 0.5
SOME = 0.25

_PER_GPU = {
    "swap_space": mark("swap space"),
    "vllm_swap_space": mark("swap space"),
    "cpu_offload_gb": mark("offloaded weights"),
}
# Of all ranks of an engine together.
_PER_ENGINE = {"kv_offloading_size": mark("offloaded KV cache")}
_SWITCHES = (
    "adam_offload",
    "optimizer_offload",
    "param_offload",
    "offload_policy",
    "grad_offload",
    "optimizer_cpu_offload",
    "cpu_offload",
    "offload_optimizer",
    "offload_param",
    "offload_optimizer.device",
    "offload_param.device",
    "offload_optimizer_device",
    "offload_param_device",
    "vllm_enable_sleep",
    "enable_sleep",
    "deepspeed_enable_sleep",
    "vllm_enable_sleep_mode",
)
_NO = (False, "false", "False", "none", "None", None, 0, "")
_GPUS = ("n_gpus_per_node", "nproc_per_node", "num_gpus_per_node", "actor_num_gpus_per_node", "gpus_per_node")
_RANKS = ("num_gpus", "num_processes", "world_size", "num_local_procs")
_FRAMES = (
    r"cpu_adam|parameter_offload|offload_(?:optimizer|param|states|to_cpu)|swap_tensor|CPUAdam|_pin_memory|pin_memory\("
    r"|initialize_optimizer_states|_create_fp32_partitions"
)


def _host_cache(root: Event) -> Finding | None:
    """KV cache that is kept in host memory."""
    if isinstance(root, EngineShort) and root.what == "host-kv-cache":
        why = say(
            "The engine wants host memory for the KV cache of sequences that have to wait, and there is not enough."
        )
        return Finding(weight=0.8, why=why, evidence=(root,))
    if isinstance(root, BufferFull):
        why = say("KV blocks are offloaded to a host buffer, which was full.")
        against = (say("the buffer's size is a setting, not the RAM"),)
        return Finding(weight=0.4, why=why, evidence=(root,), against=against)
    return None


@dataclass(frozen=True, slots=True)
class Reserved:
    """Host memory that a setting takes, where it says how much."""

    setting: Setting
    bytes: int
    words: str
    counted: bool = True  # of all GPUs, and not of one because their number is not known


def judge(crash: Crash) -> Judgement | None:
    if (refused := _refusal(crash)) is not None:
        return refused
    if (held := _host_cache(crash.root)) is not None:
        return held
    if (kept := _kept_by_engines(crash)) is not None:
        return kept
    reserved = list(_reserved(crash))
    switches = [s for s in (crash.setting(name) for name in _SWITCHES) if s is not None and s.value not in _NO]
    total = total_bytes(crash) or used_bytes(crash)
    if reserved and total:
        need = sum(one.bytes for one in reserved)
        if need >= SOME * total:
            return _computed(crash, reserved, need, total)
        if not switches and not all(one.counted for one in reserved):
            return NotEnough(say("how many GPUs of the node the engine uses"), ("nvidia-smi -L",))
        if not switches:
            return RuledOut(
                say(
                    "{settings}: {share} of the node's {total}",
                    settings=_list(reserved),
                    share=percent(need / total),
                    total=show(total),
                )
            )
    frame = crash.in_trace(_FRAMES)
    if crash.first(HostAllocation) is not None and frame is not None:
        return Finding(
            weight=0.75,
            why=say(
                "The refused allocation is for states kept in host memory ({function} in {file}).",
                function=frame.function,
                file=frame.file,
            ),
            evidence=(crash.root,),
        )
    if switches:
        return _switched_on(crash, switches)
    return None


def _refusal(crash: Crash) -> Finding | None:
    """What is to lie in host memory is weighed before it is taken, and refused."""
    swap, cache = crash.first(SwapSpaceTooLarge), crash.first(HostCacheTooLarge)
    if swap is not None:
        return _refused(swap)
    if cache is not None:
        return _refused_cache(cache)
    store = next((event for event in crash.every(StoreTooLarge) if event.refused and event.pool != "shm"), None)
    return None if store is None else _refused_store(store)


def _refused_store(event: StoreTooLarge) -> Finding:
    return Finding(
        weight=0.9,
        why=say(
            "The object store of {requested} that Ray is to keep in host memory is larger than "
            "what is available of it.",
            requested=show(event.requested_bytes),
        )
        if event.requested_bytes
        else say("The object store that Ray is to keep in host memory is larger than what is available of it."),
        evidence=(event,),
        knobs=("smaller-object-store", "more-host-memory"),
    )


def _refused(event: SwapSpaceTooLarge) -> Finding:
    swap, total = event.swap_bytes or 0, event.host_total_bytes
    return Finding(
        weight=0.95,
        why=say(
            "The engine asks for {swap} of swap space of the node's {total}; more than 70 % of a "
            "node's memory is refused.",
            swap=show(swap),
            total=show(total),
        )
        if total
        else say(
            "The engine asks for {swap} of swap space; more than 70 % of a node's memory is refused.", swap=show(swap)
        ),
        evidence=(event,),
        knobs=("less-swap-space", "more-host-memory"),
    )


def _refused_cache(event: HostCacheTooLarge) -> Finding:
    """SGLang keeps a second level of its KV cache in host memory."""
    tried, free = event.tried_bytes or 0, event.free_bytes
    return Finding(
        weight=0.95,
        why=say(
            "The engine asks for {tried} of host memory for its KV cache, and {free} is free.",
            tried=show(tried),
            free=show(free),
        )
        if free is not None
        else say("The engine asks for {tried} of host memory for its KV cache.", tried=show(tried)),
        evidence=(event,),
        knobs=("less-offload", "more-host-memory"),
    )


def _kept_by_engines(crash: Crash) -> Finding | None:
    """What engines print of the host memory that they take: SGLang's second level of the KV cache, the copy of the
    weights that vLLM sleeps with, offloaded weights."""
    taken: dict[tuple[object, ...], tuple[int, Event]] = {}
    for event in crash.every(EngineStep) + crash.every(Sleep) + crash.every(WeightsLoaded):
        size = _host_bytes(event)
        who = (event.kind, event.process.name, event.process.pid, event.process.rank)
        if size and size > taken.get(who, (0, event))[0]:
            taken[who] = size, event
    if not taken:
        return None
    sizes = [size for size, _ in taken.values()]
    need, total = sum(sizes), total_bytes(crash) or used_bytes(crash)
    summands = (
        f" ({' + '.join(show(size) for size in sizes[:MOST_SUMMANDS])})" if 1 < len(sizes) <= MOST_SUMMANDS else ""
    )
    evidence = (*_evidence(crash), next(event for _, event in taken.values()))
    if total and need >= SOME * total:
        why = say(
            "Engines keep {need}{summands} of weights and KV cache in host memory: {share} of the node's {total}.",
            need=show(need),
            summands=summands,
            share=percent(need / total),
            total=show(total),
        )
        return Finding(weight=0.88 if need >= MUCH * total else 0.7, shows_memory=True, why=why, evidence=evidence)
    if crash.proven or total:
        return None
    return Finding(
        weight=0.3,
        why=say(
            "Engines keep {need}{summands} of weights and KV cache in host memory.", need=show(need), summands=summands
        ),
        evidence=evidence,
        against=(say("the log does not say how much the node has"),),
    )


def _host_bytes(event: EngineStep | Sleep | WeightsLoaded) -> int | None:
    if isinstance(event, EngineStep):
        return event.host_bytes
    return event.backed_up_bytes if isinstance(event, Sleep) else event.offloaded_bytes


def _reserved(crash: Crash) -> Iterator[Reserved]:
    gpus = gpus_per_node(crash)
    for name, what in (*_PER_GPU.items(), *_PER_ENGINE.items()):
        setting = crash.setting(name)
        if setting is None or isinstance(setting.value, (bool, str)) or not setting.value:
            continue
        gib = float(setting.value)
        if gib <= DEFAULT_SWAP_GIB and "swap" in name:
            continue
        if name in _PER_ENGINE:
            each = say("{what} {name} {gib:g} GiB for each engine", what=translated(what), name=setting.name, gib=gib)
            yield Reserved(setting, round(gib * GIB), each)
        elif gpus:
            size = gib * GIB * gpus
            all_ = say(
                "{what} {name} {gib:g} GiB x {gpus} GPUs = {sum}",
                what=translated(what),
                name=setting.name,
                gib=gib,
                gpus=gpus,
                sum=show(size),
            )
            yield Reserved(setting, round(size), all_)
        else:
            each = say("{what} {name} {gib:g} GiB for each GPU", what=translated(what), name=setting.name, gib=gib)
            yield Reserved(setting, round(gib * GIB), each, counted=False)


def gpus_per_node(crash: Crash) -> int | None:
    """How many GPUs of one node the job uses, as it was told or as the log counts them."""
    setting = crash.setting(*_GPUS)
    if setting is not None and isinstance(setting.value, int) and setting.value > 0:
        return setting.value
    count = crash.context.hardware.get("gpu_count")
    return count if isinstance(count, int) and count > 0 else None


def _several_ranks(crash: Crash) -> bool:
    stated = (crash.setting(name) for name in (*_GPUS, *_RANKS))
    return any(setting is not None and isinstance(setting.value, int) and setting.value > 1 for setting in stated)


def _list(reserved: list[Reserved]) -> str:
    return listed(one.words for one in reserved)


def _computed(crash: Crash, reserved: list[Reserved], need: int, total: int) -> Finding:
    again = ""
    cache = crash.setting("free_cache_engine")
    if cache is not None and cache.value is True:
        again = say(
            "With free_cache_engine the engine's cache, swap included, is given back and made anew at each rollout."
        )
    return Finding(
        weight=0.88 if need >= MUCH * total else 0.78,
        shows_memory=True,
        why=joined(
            (
                say(
                    "{settings}: {share} of the node's {total}, page-locked from the start; page-locked "
                    "buffers are rounded up to powers of two, so it can be more.",
                    settings=_list(reserved),
                    share=percent(need / total),
                    total=show(total),
                ),
                again,
            )
        ),
        evidence=_evidence(crash),
        knobs=("less-swap-space", "less-offload", "engine-sleep", "unpin-memory", "more-host-memory", "add-nodes"),
    )


def _switched_on(crash: Crash, switches: list[Setting]) -> Finding:
    names = ", ".join(f"{s.name} {s.value}" for s in switches[:3])
    memory = node_memory(crash)
    weight, words = 0.5, ""
    if memory is not None and memory.holders:
        trainers = [h for h in memory.holders if h.role not in ("reward", None) or "Worker" in h.name]
        held = sum(h.bytes for h in trainers)
        if memory.share(held) >= TOGETHER:
            weight, words = (
                0.91,
                say("The job's own workers hold {held} of {whole}.", held=show(held), whole=memory.whole),
            )
        else:
            return Finding(
                weight=0.3,
                why=say("{names}: states live in host memory.", names=names),
                evidence=_evidence(crash),
                against=(say("the job's workers hold {held} of {whole}", held=show(held), whole=memory.whole),),
            )
    elif crash.first(KernelKill) is not None and _several_ranks(crash):
        # Each rank keeps its part of the states: the killed one has sisters of its size.
        weight, words = 0.6, say("Every rank on the node keeps its part there, the killed one too.")
    elif crash.stage in ("optimizer_step", "weight_sync", "model_load", "engine_init") or crash.in_trace(_FRAMES):
        weight = 0.65
    why = joined((say("{names}: these keep states in host memory.", names=names), words))
    return Finding(weight=weight, shows_memory=True, why=why, evidence=_evidence(crash))


def _evidence(crash: Crash) -> tuple[Event, ...]:
    memory = node_memory(crash)
    return (memory.event,) if memory is not None else (crash.root,)


CAUSE = Cause(
    id="cpu-offload-overcommit",
    title=mark("Offloaded states, engine sleep or swap space are larger than the node's memory"),
    pools=("host_ram", "cgroup", "pinned"),
    knobs=("less-offload", "less-swap-space", "unpin-memory", "shard-states", "add-nodes", "more-host-memory"),
    rule=judge,
)
