"""What settings of the node, its containers, Ray and the workers change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from oomdoctor.causes.host import Holder, node_memory, store_bytes, total_bytes
from oomdoctor.families.data_loader import ShmUsage
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.families.ray_store import StoreFull, StoreTooLarge, StoreUsage
from oomdoctor.incident.model import Crash, Value
from oomdoctor.patterns import late
from oomdoctor.remedies.host import limit_bytes
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
    what = "worker processes"
    group = (
        max((h for h in memory.holders if len(h.sizes) > 1), key=lambda h: h.bytes, default=None) if memory else None
    )
    if group is None or not now or then is None:
        why = f"{name} now is not printed" if not now else "no table shows what they hold"
        fewer, more = (True, True) if not now or then is None else (then < now, then > now)
        for pool in dict.fromkeys((pair.now.pool, "host_ram")):
            yield Unknown(pool=pool, what=what, why=why, relieves=fewer, spends=more)
        return
    change = round(group.bytes * (then / now - 1))
    number = len(group.sizes)
    yield Shift(
        pool="host_ram", what=what, low=min(change, 0), high=max(change, 0), basis="assumed", rows=(_row(group),),
        derivation=f"{number} x {group.name} hold {show(group.bytes)}; that x ({then:g} / {now:g} - 1) = "
        f"{show(change)} at most",
        assumes=(f"the {number} processes {group.name} are those that {name} counts",),
    )  # fmt: skip


def _row(group: Holder) -> str:
    return f"{len(group.sizes)} x {group.name}" if len(group.sizes) > 1 else group.name


def reward_server(pair: Pair) -> Iterator[Effect]:
    """The reward server's process, where another node is named for it."""
    value = pair.values(*REWARD)[1]
    memory = node_memory(pair.now)
    group = next((h for h in memory.holders if h.role == "reward"), None) if memory is not None else None
    what = "the reward model's process"
    if group is None or not isinstance(value, str):
        why = "no table shows such a process"
        yield Unknown(pool="host_ram", what=what, why=why)
        return
    host = _host(value)
    here = {event.process.node for event in pair.now.every(NodeOutOfMemory)} - {None}
    if host is None or host in _HERE or host in here:
        words = f"{host or 'that'} is this node: the process stays on it"
        yield Shift(pool="host_ram", what=what, low=0, high=0, derivation=words)
        return
    words = f"{group.name} holds {show(group.bytes)} of this node"
    yield Shift(
        pool="host_ram", what=what, low=-group.bytes, high=-group.bytes, derivation=words, rows=(_row(group),),
        basis="printed", assumes=(f"{host} is another node",),
    )  # fmt: skip


def _host(url: str) -> str | None:
    try:
        return urlsplit(url if "//" in url else f"//{url}").hostname
    except ValueError:
        return None


def store(pair: Pair) -> Iterator[Effect]:
    """Ray's object store: larger where it was full; smaller, what is beyond it goes to disk."""
    crash = pair.now
    then = amount(pair.values(*STORE)[1])
    if then is None:
        yield Unknown(pool=crash.pool, what="object store", why="that is no size in bytes", spends=True)
        return
    capacity = next(
        (e.capacity_bytes for e in crash.events if isinstance(e, StoreFull | StoreUsage) and e.capacity_bytes), None
    )
    if crash.pool in ("object_store", "shm"):
        yield from _room_of_the_store(crash, then, capacity)
        return
    held, total = store_bytes(crash, crash.first(NodeOutOfMemory)), total_bytes(crash)
    if held is not None:
        change = min(then - held, 0)
        words = f"{show(held)} in it, {show(then)} at most = {show(change)}"
        yield Shift(
            pool="host_ram", what="object store", low=change, high=change, derivation=words, rows=("object store",)
        )
    elif total is None:
        yield Unknown(pool="host_ram", what="object store", why="what is in it is not printed", spends=True)
    else:
        share = round(_RAY_SHARE * total)
        most = max(share - then, 0)
        words = (
            f"at most {show(share)} (30 % of {show(total)}) - {show(then)} = {show(most)}; what is in it is not printed"
        )
        yield Shift(
            pool="host_ram", what="object store", low=-most, high=0, derivation=words, basis="assumed",
            assumes=("it has 30 % of the node, Ray's default: the log does not say",), rows=("in use, in no row",),
        )  # fmt: skip


def _room_of_the_store(crash: Crash, then: int, capacity: int | None) -> Iterator[Effect]:
    wanted = crash.first(StoreTooLarge)
    if wanted is not None and wanted.requested_bytes:
        change = then - wanted.requested_bytes
        words = f"{show(then)} instead of {show(wanted.requested_bytes)}"
        yield Shift(pool="shm", what="object store", low=change, high=change, derivation=words)
    elif capacity is None:
        yield Unknown(pool=crash.pool, what="object store", why="how large it is now is not printed", spends=True)
    else:
        words = f"{show(then)} instead of {show(capacity)}"
        yield Shift(
            pool="object_store",
            what="the store's capacity",
            low=capacity - then,
            high=capacity - then,
            derivation=words,
        )
        yield Shift(
            pool="host_ram",
            what="object store",
            low=min(then - capacity, 0),
            high=max(then - capacity, 0),
            derivation=words,
        )


def shared_memory(pair: Pair) -> Iterator[Effect]:
    """The container's shared memory."""
    then = amount(pair.values(*SHM)[1])
    wanted, usages = pair.now.first(StoreTooLarge), pair.now.every(ShmUsage)
    now = wanted.shm_bytes if wanted is not None else usages[-1].total_bytes if usages else None
    if then is None or now is None:
        why = "that is no size" if then is None else "how large it is now is not printed"
        yield Unknown(pool="shm", what="shared memory", why=why, spends=True)
        return
    words = f"{show(then)} instead of {show(now)}"
    yield Shift(pool="shm", what="shared memory", low=now - then, high=now - then, derivation=words)


def limit(pair: Pair) -> Iterator[Effect]:
    """A container's or job's limit. How far past it the job would have gone was cut off by the kill."""
    then, now = amount(pair.values(*LIMIT)[1]), limit_bytes(pair.now)
    stated = pair.now.setting(*LIMIT) if now is None else None
    if stated is not None:
        now = amount(stated.value)
    outside = stated.outside if stated is not None else None
    if then is None or now is None:
        why = "that is no size" if then is None else "the limit now is not printed"
        yield Unknown(pool="cgroup", what="the limit", why=why, spends=True)
    elif then <= now:
        yield Shift(
            pool="cgroup",
            what="the limit",
            low=now - then,
            high=now - then,
            derivation=f"{show(then)} instead of {show(now)}",
            basis="assumed" if outside else "derived",
            assumes=(f"the limit that was hit is that of {outside}",) if outside else (),
        )
    else:
        told = f" (assumed: that of {outside})" if outside else ""
        why = (
            f"{show(then - now)} more than the limit that was hit{told}; what would have been needed was cut off by "
            "the kill"
        )
        yield Unknown(pool="cgroup", what="the limit", why=why)


def threshold(pair: Pair) -> Iterator[Effect]:
    """Ray's: a delay, until the kernel kills."""
    then = pair.numbers(*THRESHOLD)[1]
    kill = next((k for k in pair.now.every(NodeOutOfMemory) if k.total_bytes and (k.fraction or k.bytes)), None)
    if then is None or kill is None or not kill.total_bytes:
        yield Unknown(pool="host_ram", what="Ray's threshold", why="the threshold now is not printed", spends=True)
        return
    now = kill.bytes or round((kill.fraction or 0) * kill.total_bytes)
    change = now - round(then * kill.total_bytes)
    words = (
        f"{show(now)} - {then:g} x {show(kill.total_bytes)} = {show(change)}: a delay, no cure; the kernel kills next"
    )
    yield Shift(pool="host_ram", what="Ray's threshold", low=change, high=change, derivation=words)


def cache_kept(pair: Pair) -> Iterator[Effect]:
    """What an engine gives back between rollouts, or builds anew."""
    _, then = pair.values(*CACHE_KEPT)
    why = "what its caches take at each rollout is not printed"
    yield Unknown(pool="host_ram", what="caches built at each rollout", why=why, relieves=then is False)
    yield Unknown(
        pool="gpu", what="the engine's caches", why="they stay on the card while training", relieves=then is True,
        spends=then is False,
    )  # fmt: skip


def nothing(pair: Pair) -> Iterator[Effect]:
    """What is counted and not measured changes no bytes that are known."""
    if pair.now.pool != "scheduling":
        why = "where the parts of the job are placed is not printed"
        yield Unknown(pool=pair.now.pool, what="the cluster's shape", why=why, spends=True)


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
