"""What settings of the node, its containers, Ray and the workers change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from oomdoctor.families.df import ShmUsage
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.families.ray_store import StoreFull, StoreTooLarge, StoreUsage
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import Holder, node_memory, ray_kill, store_bytes, total_bytes
from oomdoctor.job.frameworks import some
from oomdoctor.job.model import Value
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies.host.thresholds import limit_bytes
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.whatif.model import Effect, Pair, Rule, Shift, Unknown
from oomdoctor.remedies.whatif.options import STORE
from oomdoctor.units import show, size

WORKERS: Final = KNOBS["fewer-workers"].settings
SHM: Final = ("shm_size",)
LIMIT: Final = ("memory", "mem", "limits.memory")
THRESHOLD: Final = ("RAY_memory_usage_threshold",)
REWARD: Final = ("remote_rm_url", "reward.remote_url")
CACHE_KEPT: Final = ("free_cache_engine",)
# The cluster's GPUs and CPUs are counted, not measured.
NUMBERED: Final = (
    "num_gpus", "num_cpus", "vllm_num_engines", "ref_num_nodes", "ref_num_gpus_per_node", "critic_num_nodes",
    "critic_num_gpus_per_node", "reward_num_nodes", "reward_num_gpus_per_node",
)  # fmt: skip
COUNTED: Final = (
    *NUMBERED, "colocate_actor_ref", "colocate_critic_reward", "colocate_all_models", "colocate_all",
)  # fmt: skip

_RAY_SHARE: Final = 0.3  # of the node for the object store, where nobody says
_AMOUNT: Final = late(r"(\d{1,15}(?:\.\d{1,6})?)\s?([KMGTkmgt]i?)?[Bb]?")
_HERE: Final = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "::1"})  # noqa: S104  (compared, not bound)


def amount(value: Value) -> int | None:
    """ "64G", "16Gi", 16000000000; a bare number is bytes. Slurm's and docker's G is GiB."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _AMOUNT.fullmatch(str(value))
    return size(match[1], match[2] or "") if match else None


def workers(pair: Pair) -> Iterator[Effect]:
    """As many processes fewer or more as the setting says, each as large as those of the table."""
    name = next((one for one in WORKERS if pair.touches(one)), "")
    now, then = pair.numbers(name)
    memory = node_memory(pair.now)
    what = say("worker processes")
    group = (
        max((h for h in memory.holders if len(h.sizes) > 1), key=lambda h: h.bytes, default=None) if memory else None
    )
    if group is None or not now or then is None:
        why = not_stated(name) if not now else say("the log does not list how much they hold")
        fewer, more = (True, True) if not now or then is None else (then < now, then > now)
        for pool in dict.fromkeys((pair.now.pool, "host_ram")):
            yield Unknown(pool=pool, what=what, why=why, relieves=fewer, spends=more)
        return
    change = round(group.bytes * (then / now - 1))
    number = len(group.sizes)
    yield Shift(
        pool="host_ram", what=what, low=min(change, 0), high=max(change, 0), basis="assumed", rows=(_row(group),),
        derivation=say(
            "{amount} ({number} x {name}) x ({then} / {now} - 1) = {change} at most",
            number=number,
            name=group.name,
            amount=show(group.bytes),
            then=f"{then:g}",
            now=f"{now:g}",
            change=show(change),
        ),
        assumes=(
            say(
                "{option} counts the {number} {name} processes",
                number=number,
                name=group.name,
                option=name,
            ),
        ),
    )  # fmt: skip


def not_stated(name: str) -> str:
    return say("the current {name} is not in the log", name=name)


def _row(group: Holder) -> str:
    return f"{len(group.sizes)} x {group.name}" if len(group.sizes) > 1 else group.name


def reward_server(pair: Pair) -> Iterator[Effect]:
    """The reward server's process, where another node is named for it."""
    value = pair.values(*REWARD)[1]
    memory = node_memory(pair.now)
    group = next((h for h in memory.holders if h.role == "reward"), None) if memory is not None else None
    what = say("the reward model's process")
    if group is None or not isinstance(value, str):
        why = say("the log lists no such process")
        yield Unknown(pool="host_ram", what=what, why=why)
        return
    host = _host(value)
    here = {event.process.node for event in pair.now.every(NodeOutOfMemory)} - {None}
    if host is None or host in _HERE or host in here:
        words = (
            say("{host} is this node: the process stays on it", host=host)
            if host
            else say("that is this node: the process stays on it")
        )
        yield Shift(pool="host_ram", what=what, low=0, high=0, derivation=words)
        return
    words = say("{name} holds {amount} on this node", name=group.name, amount=show(group.bytes))
    yield Shift(
        pool="host_ram", what=what, low=-group.bytes, high=-group.bytes, derivation=words, rows=(_row(group),),
        basis="printed", assumes=(say("{host} is another node", host=host),),
    )  # fmt: skip


def _host(url: str) -> str | None:
    try:
        return urlsplit(url if "//" in url else f"//{url}").hostname
    except ValueError:
        return None


def store(pair: Pair) -> Iterator[Effect]:
    """Ray's object store: larger where it was full; smaller, what is beyond it goes to disk."""
    crash, what = pair.now, say("object store")
    then = amount(pair.values(*STORE)[1])
    if then is None:
        yield Unknown(pool=crash.pool, what=what, why=say("the new value is not a size in bytes"), spends=True)
        return
    capacity = next(
        (e.capacity_bytes for e in crash.events if isinstance(e, StoreFull | StoreUsage) and e.capacity_bytes), None
    )
    if crash.pool in ("object_store", "shm"):
        yield from _room_of_the_store(crash, then, capacity)
        return
    held, total = store_bytes(crash, ray_kill(crash)), total_bytes(crash)
    if held is not None:
        change = min(then - held, 0)
        words = say("{held} in it, {then} at most = {change}", held=show(held), then=show(then), change=show(change))
        yield Shift(pool="host_ram", what=what, low=change, high=change, derivation=words, rows=("object store",))
    elif total is None or not _has_store(crash):
        yield Unknown(pool="host_ram", what=what, why=say("the log does not say how full it is"), spends=True)
    else:
        share = round(_RAY_SHARE * total)
        most = max(share - then, 0)
        words = say(
            "at most {share} (30 % of {total}) - {then} = {most}",
            share=show(share),
            total=show(total),
            then=show(then),
            most=show(most),
        )
        yield Shift(
            pool="host_ram", what=what, low=-most, high=0, derivation=words, basis="assumed",
            assumes=(say("30 % of the node: Ray's default"),), rows=("in use, in no row",),
        )  # fmt: skip


def _has_store(crash: Crash) -> bool:
    """Ray is in the log: only then does its default hold."""
    return some(crash.context.frameworks, "keeps an object store") or any(
        event.family.startswith("ray_") for event in crash.events
    )


def _room_of_the_store(crash: Crash, then: int, capacity: int | None) -> Iterator[Effect]:
    wanted, what = crash.first(StoreTooLarge), say("object store")
    if wanted is not None and wanted.requested_bytes:
        change = then - wanted.requested_bytes
        words = _instead(then, wanted.requested_bytes)
        yield Shift(pool="shm", what=what, low=change, high=change, derivation=words)
    elif capacity is None:
        yield Unknown(pool=crash.pool, what=what, why=say("its current size is not in the log"), spends=True)
    else:
        words = _instead(then, capacity)
        yield Shift(
            pool="object_store",
            what=say("the store's capacity"),
            low=capacity - then,
            high=capacity - then,
            derivation=words,
        )
        yield Shift(
            pool="host_ram",
            what=what,
            low=min(then - capacity, 0),
            high=max(then - capacity, 0),
            derivation=words,
        )


def _instead(then: int, now: int) -> str:
    return say("{now} -> {then}", then=show(then), now=show(now))


def shared_memory(pair: Pair) -> Iterator[Effect]:
    """The container's shared memory."""
    then, what = amount(pair.values(*SHM)[1]), say("shared memory")
    wanted, usages = pair.now.first(StoreTooLarge), pair.now.every(ShmUsage)
    now = wanted.shm_bytes if wanted is not None else usages[-1].total_bytes if usages else None
    if then is None or now is None:
        why = say("the new value is not a size") if then is None else say("its current size is not in the log")
        yield Unknown(pool="shm", what=what, why=why, spends=True)
        return
    words = _instead(then, now)
    yield Shift(pool="shm", what=what, low=now - then, high=now - then, derivation=words)


def limit(pair: Pair) -> Iterator[Effect]:
    """A container's or job's limit. How far past it the job would have gone was cut off by the kill."""
    then, now = amount(pair.values(*LIMIT)[1]), limit_bytes(pair.now)
    stated = pair.now.setting(*LIMIT) if now is None else None
    if stated is not None:
        now = amount(stated.value)
    outside = stated.outside if stated is not None else None
    what = say("the limit")
    if then is None or now is None:
        why = say("the new value is not a size") if then is None else say("the current limit is not in the log")
        yield Unknown(pool="cgroup", what=what, why=why, spends=True)
    elif then <= now:
        yield Shift(
            pool="cgroup",
            what=what,
            low=now - then,
            high=now - then,
            derivation=_instead(then, now),
            basis="assumed" if outside else "derived",
            assumes=(say("the job hit the limit of {source}", source=outside),) if outside else (),
        )
    else:
        why = (
            say(
                "{amount} more than the limit of {source} (assumed); the kill hides how much more was needed",
                amount=show(then - now),
                source=outside,
            )
            if outside
            else say(
                "{amount} more than the limit; the kill hides how much more was needed",
                amount=show(then - now),
            )
        )
        yield Unknown(pool="cgroup", what=what, why=why)


def threshold(pair: Pair) -> Iterator[Effect]:
    """Ray's: a delay, until the kernel kills."""
    then, what = pair.numbers(*THRESHOLD)[1], say("Ray's threshold")
    told = (kill for kill in pair.now.every(NodeOutOfMemory) if kill.bytes or 0 < (kill.fraction or 0) <= 1)
    kill = next((kill for kill in told if kill.total_bytes), None)
    if then is None or kill is None or not kill.total_bytes:
        yield Unknown(pool="host_ram", what=what, why=say("the current threshold is not in the log"), spends=True)
        return
    now = kill.bytes or round((kill.fraction or 0) * kill.total_bytes)
    change = now - round(then * kill.total_bytes)
    words = say(
        "{now} - {then} x {total} = {change}; only a delay: the kernel kills next",
        now=show(now),
        then=f"{then:g}",
        total=show(kill.total_bytes),
        change=show(change),
    )
    yield Shift(pool="host_ram", what=what, low=change, high=change, derivation=words)


def cache_kept(pair: Pair) -> Iterator[Effect]:
    """What an engine gives back between rollouts, or builds anew."""
    _, then = pair.values(*CACHE_KEPT)
    why = say("the log does not say how much its caches take at each rollout")
    yield Unknown(pool="host_ram", what=say("caches built at each rollout"), why=why, relieves=then is False)
    yield Unknown(
        pool="gpu", what=say("the engine's caches"), why=say("they stay on the GPU during training"),
        relieves=then is True, spends=then is False,
    )  # fmt: skip


def nothing(pair: Pair) -> Iterator[Effect]:
    """What is counted and not measured changes no bytes that are known."""
    if pair.now.pool != "scheduling":
        why = say("the log does not say where the parts of the job are placed")
        yield Unknown(pool=pair.now.pool, what=say("the cluster's shape"), why=why, spends=True)


RULES: Final = (
    Rule(frozenset(WORKERS), workers),
    Rule(frozenset(REWARD), reward_server),
    Rule(frozenset(STORE), store),
    Rule(frozenset(SHM), shared_memory),
    Rule(frozenset(LIMIT), limit),
    Rule(frozenset(THRESHOLD), threshold),
    Rule(frozenset(CACHE_KEPT), cache_kept),
    Rule(frozenset(COUNTED), nothing),
)
