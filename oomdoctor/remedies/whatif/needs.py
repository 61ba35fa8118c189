"""What was missing when a pool ran out: tried - free, needed - available, used - threshold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.data_loader import SharedMemoryFull
from oomdoctor.families.df import ShmUsage
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.families.ray_schedule import Unschedulable
from oomdoctor.families.ray_store import StoreFull, StoreTooLarge
from oomdoctor.families.vllm_error import (
    ContextDoesNotFit,
    NoCacheBlocks,
    NotEnoughFree,
    SequencesExceedState,
    SwapSpaceTooLarge,
)
from oomdoctor.families.vllm_figures import KvCacheSize
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import used_bytes
from oomdoctor.language import say, semicolons
from oomdoctor.remedies.engine.known import card_total, one_request, token_bytes
from oomdoctor.remedies.engine.share import share
from oomdoctor.remedies.host.thresholds import threshold_of
from oomdoctor.remedies.whatif.model import Need, Pair, Verdict
from oomdoctor.remedies.whatif.options import LENGTH, SEQUENCES, leaf
from oomdoctor.remedies.whatif.states import still_to_come
from oomdoctor.signs.scheduling import asked_gpus, cluster
from oomdoctor.units import in_print, show

DRIVER_CPUS: Final = 1


def of(pair: Pair) -> list[Need]:
    """Each pool's need, of what the log prints of it."""
    crash = pair.now
    found: dict[str, Need] = {}
    for need in (*_card(crash), *_cache(crash), *_node(crash), *_store(crash), *_shm(crash)):
        found.setdefault(need.pool, need)
    return list(found.values())


def _card(crash: Crash) -> Iterator[Need]:
    start = crash.first(NotEnoughFree)
    if start is not None and start.free_bytes is not None and start.total_bytes:
        known = start.utilization or (share(crash) or (None,))[0]
        wanted = start.requested_bytes or (round(known * start.total_bytes) if known else None)
        if wanted is not None:
            missing = wanted - start.free_bytes
            words = say(
                "{wanted} wanted at start - {free} free = {missing}",
                wanted=show(wanted),
                free=show(start.free_bytes),
                missing=show(missing),
            )
            yield Need(pool="gpu", low=missing, high=missing, derivation=words)
    refused = [crash.root] if isinstance(crash.root, DeviceOutOfMemory) else crash.every(DeviceOutOfMemory)
    for event in refused:
        if event.tried_bytes is None or (event.free_bytes is not None and event.tried_bytes <= event.free_bytes):
            continue  # there was room enough, though not in one piece
        missing = event.tried_bytes - (event.free_bytes or 0)
        words = _refused(event.tried_bytes, event.free_bytes or 0)
        if event.free_bytes is None:
            words = say("at most {amount} (requested); the log does not say how much was free", amount=show(missing))
            yield Need(pool="gpu", low=1, high=missing, derivation=words)
            continue
        later = still_to_come(crash)
        if later is None:
            yield Need(pool="gpu", low=missing, high=missing, derivation=words)
        else:
            amount, source = later
            yield Need(
                pool="gpu",
                low=missing,
                high=missing + amount,
                derivation=say(
                    "{formula}; + {amount} if the trainer's states were not on the GPU yet",
                    formula=words,
                    amount=show(amount),
                ),
                assumes=(source,),
            )


def _refused(tried: int, free: int) -> str:
    return say(
        "{tried} requested - {free} free = {missing}",
        tried=show(tried),
        free=show(free),
        missing=in_print(tried - free),
    )


def _cache(crash: Crash) -> Iterator[Need]:
    for error in crash.every(ContextDoesNotFit):
        room = error.kv_bytes
        if error.needed_bytes and room is not None:
            missing = error.needed_bytes - room
            words = (
                say(
                    "{needed} needed - {room} available = {missing}",
                    needed=show(error.needed_bytes),
                    room=show(room),
                    missing=in_print(missing),
                )
                if room >= 0
                else say(
                    "{needed} needed + {lacking} below zero = {missing}",
                    needed=show(error.needed_bytes),
                    lacking=show(-room),
                    missing=in_print(missing),
                )
            )
            yield Need(pool="kv_cache", low=missing, high=missing, derivation=words)
        elif error.kv_tokens and error.max_model_len and (per_token := token_bytes(crash)):
            tokens = error.max_model_len - error.kv_tokens
            missing = round(tokens * per_token[0])
            words = say(
                "({length} - {held}) tokens x {each} bytes ({source}) = {missing}",
                length=error.max_model_len,
                held=error.kv_tokens,
                each=f"{per_token[0]:.0f}",
                source=per_token[1],
                missing=show(missing),
            )
            yield Need(pool="kv_cache", low=missing, high=missing, derivation=words, assumes=(per_token[1],))
    rooms = [event.kv_bytes for event in crash.events if getattr(event, "kv_bytes", None) is not None]  # type: ignore[attr-defined]
    if rooms:
        room = rooms[-1]
        length = crash.setting("max_model_len", "max_seq_len")
        per_token = token_bytes(crash)
        if length is not None and isinstance(length.value, int) and per_token is not None:
            need = round(per_token[0] * length.value)
            figures = {"need": show(need), "tokens": length.value, "missing": show(need - room)}
            words = (
                say(
                    "{need} for one request of {tokens} tokens - {room} of cache = {missing}",
                    room=show(room),
                    **figures,
                )
                if room >= 0
                else say(
                    "{need} for one request of {tokens} tokens + {lacking} below zero = {missing}",
                    lacking=show(-room),
                    **figures,
                )
            )
            yield Need(pool="kv_cache", low=need - room, high=need - room, derivation=words, assumes=(per_token[1],))
    else:
        yield from _without_a_block(crash)


def _without_a_block(crash: Crash) -> Iterator[Need]:
    """No block and no figure: its room is at most so far below zero that what was profiled fitted on the card."""
    total, known, request = card_total(crash), share(crash), one_request(crash)
    if not any(cache.gpu_blocks == 0 for cache in crash.every(KvCacheSize)) and crash.first(NoCacheBlocks) is None:
        return
    if total is None or known is None or request is None:
        return
    most = round((1 - known[0]) * total)
    yield Need(
        pool="kv_cache",
        low=request[0],
        high=request[0] + most,
        derivation=say(
            "{request} + at most (1 - {share}) x {total} = {most} below zero",
            request=request[1],
            share=f"{known[0]:g}",
            total=show(total),
            most=show(most),
        ),
        assumes=(*known[1], say("the profiling run fitted on the GPU")),
    )


def _node(crash: Crash) -> Iterator[Need]:
    swap = crash.first(SwapSpaceTooLarge)
    if swap is not None and swap.swap_bytes and swap.host_total_bytes:
        most = round(0.7 * swap.host_total_bytes)  # vLLM's own limit
        missing = swap.swap_bytes - most
        words = say(
            "{swap} - 70 % of {total} = {missing}",
            swap=show(swap.swap_bytes),
            total=show(swap.host_total_bytes),
            missing=show(missing),
        )
        yield Need(pool="host_ram", low=missing, high=missing, derivation=words)
    used, limit = used_bytes(crash), threshold_of(crash)
    if used is None or limit is None or crash.first(NodeOutOfMemory) is None:
        return
    missing = used - limit[0]
    words = say(
        "{used} in use - {threshold} at the threshold = {missing}",
        used=show(used),
        threshold=limit[1],
        missing=show(missing),
    )
    yield Need(pool="host_ram", low=missing, high=missing, derivation=words)


def _store(crash: Crash) -> Iterator[Need]:
    full = crash.first(StoreFull)
    if full is None or not full.object_bytes or full.capacity_bytes is None:
        return
    used = full.used_bytes if full.used_bytes is not None else full.capacity_bytes
    missing = used + full.object_bytes - full.capacity_bytes
    words = say(
        "{used} in it + {object} - {capacity} = {missing}",
        used=show(used),
        object=show(full.object_bytes),
        capacity=show(full.capacity_bytes),
        missing=show(missing),
    )
    yield Need(pool="object_store", low=missing, high=missing, derivation=words)


def _shm(crash: Crash) -> Iterator[Need]:
    wanted = crash.first(StoreTooLarge)
    if wanted is not None and wanted.requested_bytes and wanted.shm_bytes is not None:
        missing = wanted.requested_bytes - wanted.shm_bytes
        words = say(
            "{tried} requested - {room} = {missing}",
            tried=show(wanted.requested_bytes),
            room=show(wanted.shm_bytes),
            missing=show(missing),
        )
        yield Need(pool="shm", low=missing, high=missing, derivation=words)
    refused, usage = crash.first(SharedMemoryFull), crash.first(ShmUsage)
    if refused is not None and refused.tried_bytes and usage is not None and usage.available_bytes is not None:
        missing = refused.tried_bytes - usage.available_bytes
        words = _refused(refused.tried_bytes, usage.available_bytes)
        yield Need(pool="shm", low=missing, high=missing, derivation=words)


# what is counted


def counted(pair: Pair) -> Verdict | None:
    """Where not bytes but GPUs or sequences ran out."""
    if pair.now.pool == "scheduling":
        return _scheduling(pair)
    return _sequences(pair) or _tokens(pair)


def _tokens(pair: Pair) -> Verdict | None:
    """V0 says how many tokens its cache holds, and not always what one takes."""
    error = next((e for e in pair.now.every(ContextDoesNotFit) if e.kv_tokens and e.max_model_len), None)
    if error is None or error.kv_tokens is None or not _only(pair, LENGTH) or token_bytes(pair.now) is not None:
        return None
    _, then = pair.numbers(*LENGTH)
    if then is None:
        return None
    left = error.kv_tokens - int(then)
    return Verdict(
        pool="kv_cache",
        answer="fits" if left >= 0 else "does not fit",
        why=say("{wanted} tokens needed, the cache holds {held}", wanted=int(then), held=error.kv_tokens),
        margin_low=left,
        margin_high=left,
        unit="tokens",
    )


def _sequences(pair: Pair) -> Verdict | None:
    state = pair.now.first(SequencesExceedState)
    if state is None or not state.state_blocks or not _only(pair, SEQUENCES):
        return None
    _, then = pair.numbers(*SEQUENCES)
    wanted = int(then) if then is not None else state.max_num_seqs
    if wanted is None:
        return None
    left = state.state_blocks - wanted
    return Verdict(
        pool="kv_cache",
        answer="fits" if left >= 0 else "does not fit",
        why=say("{wanted} sequences, {blocks} blocks for their state", wanted=wanted, blocks=state.state_blocks),
        margin_low=left,
        margin_high=left,
        unit="sequences",
    )


def _only(pair: Pair, names: tuple[str, ...]) -> bool:
    """Whether nothing else is changed."""
    return all(leaf(name) in names for name in pair.changed)


def _scheduling(pair: Pair) -> Verdict:
    crash = pair.then
    asked = asked_gpus(crash)
    have = dict(cluster(crash, crash.first(Unschedulable)))
    for kind, name in (("GPU", "num_gpus"), ("CPU", "num_cpus")):
        _, told = pair.numbers(name)
        if told is not None and (pair.touches(name) or kind not in have):
            have[kind] = told
    if asked is None or "GPU" not in have:
        why = say("the log does not say what was requested or what the cluster has")
        return Verdict(pool="scheduling", answer="cannot tell", why=why)
    gpus = int(have["GPU"]) - asked.gpus
    words = say("{asked} GPUs requested, {there} in the cluster", asked=asked.sum, there=f"{have['GPU']:g}")
    cpus = int(have["CPU"]) - asked.gpus - DRIVER_CPUS if "CPU" in have else None
    if cpus is not None:
        of_cpus = say(
            "{cpus} CPUs for their bundles + {driver} for the driver, {there} in the cluster",
            cpus=asked.gpus,
            driver=DRIVER_CPUS,
            there=f"{have['CPU']:g}",
        )
        words = semicolons((words, of_cpus))
    left = gpus if cpus is None else min(gpus, cpus)
    return Verdict(
        pool="scheduling",
        answer="fits" if left >= 0 else "does not fit",
        why=words,
        margin_low=left,
        margin_high=left,
        unit="GPUs" if left == gpus else "CPUs",
    )
