"""One process, not a reward model, holds most of the node's memory."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, NotEnough, RuledOut
from oomdoctor.causes.host import (
    LARGE,
    TRAINER_KNOBS,
    NodeMemory,
    is_rank,
    killed_another,
    node_memory,
    raylet_log,
    total_bytes,
    used_bytes,
)
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say
from oomdoctor.units import GIB, percent, show

# The kernel takes the process with the most memory (unless told otherwise): with this share of the machine it is it.
OF_THE_MACHINE = 0.4
# A shm page counts for the one process that touched it: where the store is as large as a row, the row is the store.
STORE_IN_ROW = 0.8
ODD = 256 * GIB  # in one piece: rather a wrong shape than a process that grew
# Where no cluster is in sight to move anything to.
OF_ONE_MACHINE = ("smaller-buffers", "more-host-memory", "clear-references", "low-memory-loading")


def judge(crash: Crash) -> Judgement | None:
    memory = node_memory(crash)
    if memory is not None:
        return _from_table(crash, memory)
    return _killed_by_kernel(crash) or _one_allocation(crash) or _without_table(crash)


def _from_table(crash: Crash, memory: NodeMemory) -> Judgement | None:
    top = memory.heaviest
    if top is None or top.role == "reward":
        return None
    share = memory.share(top.largest)
    shared = _shared_of_group(memory)
    if not memory.dominates(top):
        return RuledOut(
            say(
                "the largest process, {who}, has {largest}: {share} of {whole}",
                who=top.who,
                largest=show(top.largest),
                share=percent(share),
                whole=memory.whole,
            )
        )
    against = []
    weight = 0.9
    if memory.store_bytes and memory.store_bytes >= STORE_IN_ROW * top.largest:
        against.append(
            say(
                "the object store holds {store}, whose pages count for who touched them", store=show(memory.store_bytes)
            )
        )
        weight = 0.6
    if shared > top.largest:
        against.append(say("{shared} of it are shared memory, which belongs to no process", shared=show(shared)))
        weight = 0.5
    if memory.cut:
        against.append(say("the table's first rows are missing"))
        weight = 0.6
    if crash.trajectory is not None and crash.trajectory.growth_bytes:
        weight = min(weight, 0.85)  # it grew: the growth is the cause, the process is where
    if memory.used_bytes is None:
        weight = min(weight, 0.8)
    stranger = top.outside_ray and _ray(memory)
    outside = say("It is no worker of Ray, which can therefore never end it.") if stranger else ""
    held = say(
        "{who} holds {largest} of {whole}: {share}.",
        who=top.who,
        largest=show(top.largest),
        whole=memory.whole,
        share=percent(share),
    )
    return Finding(
        weight=weight,
        why=joined((held, outside, killed_another(crash, top))),
        evidence=(memory.event,),
        against=tuple(against),
        knobs=TRAINER_KNOBS if is_rank(top.name) else () if _ray(memory) else _of_training(crash),
    )


def _shared_of_group(memory: NodeMemory) -> int:
    """What the control group holds in /dev/shm, tmpfs and Ray's object store."""
    return memory.event.group_shmem_bytes or 0 if isinstance(memory.event, KernelKill) else 0


def _ray(memory: NodeMemory) -> bool:
    return isinstance(memory.event, NodeOutOfMemory)


def _killed_by_kernel(crash: Crash) -> Judgement | None:
    kill = crash.first(KernelKill)
    if kill is None or kill.anon_rss_bytes is None:
        return _killed_early(crash)
    own = kill.anon_rss_bytes + (kill.shmem_rss_bytes or 0)
    total = kill.limit_bytes or total_bytes(crash)
    words = _held(kill, own)
    if total is None:
        if own < LARGE:
            return None
        why = say("{held}; how much the machine has is not in the log.", held=words)
        return Finding(weight=0.55, why=why, evidence=(kill,), knobs=_of_training(crash))
    share = own / total
    if share < OF_THE_MACHINE:
        return RuledOut(say("{held}: {share} of {total}", held=words, share=percent(share), total=show(total)))
    why = say("{held}: {share} of {total}.", held=words, share=percent(share), total=show(total))
    return Finding(weight=0.85, why=why, evidence=(kill,), knobs=_of_training(crash))


def _held(kill: KernelKill, own: int) -> str:
    """What the killed process held: a clause."""
    who = _who(kill)
    if kill.constraint in ("CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY"):
        return say(
            "{who} held {own} when the kernel killed it because the NUMA nodes it may use were full",
            who=who,
            own=show(own),
        )
    return say("{who} held {own} when the kernel killed it", who=who, own=show(own))


def _who(kill: KernelKill | UserspaceKill) -> str:
    name = kill.process.name or say("A process")
    return f"{name} (PID {kill.process.pid})"


def _killed_early(crash: Crash) -> Judgement | None:
    """earlyoom takes the process with the worst score, and says what it held."""
    kill = next((event for event in crash.every(UserspaceKill) if (event.rss_bytes or 0) >= LARGE), None)
    if kill is None or kill.rss_bytes is None:
        return None
    words = say("{who} held {rss} when {killer} ended it", who=_who(kill), rss=show(kill.rss_bytes), killer=kill.killer)
    if kill.total_bytes:
        share = kill.rss_bytes / kill.total_bytes
        if share < OF_THE_MACHINE:
            return RuledOut(
                say("{held}: {share} of {total}", held=words, share=percent(share), total=show(kill.total_bytes))
            )
        why = say("{held}: {share} of {total}.", held=words, share=percent(share), total=show(kill.total_bytes))
        return Finding(weight=0.85, why=why, evidence=(kill,), knobs=_of_training(crash))
    why = say("{held}; how much the machine has is not in the log.", held=words)
    return Finding(weight=0.55, why=why, evidence=(kill,), knobs=_of_training(crash))


def _of_training(crash: Crash) -> tuple[str, ...]:
    if {"deepspeed", "fsdp", "megatron"} & crash.context.frameworks.keys():
        return TRAINER_KNOBS
    return () if "ray" in crash.context.frameworks else OF_ONE_MACHINE


def _one_allocation(crash: Crash) -> Judgement | None:
    """One array that was refused on the host: the process wanted it in one piece."""
    refused = [(event, event.tried_bytes, show(event.tried_bytes or 0)) for event in crash.every(HostAllocation)]
    arrays = [(event, event.array_bytes, event.array_words) for event in crash.every(ArrayOutOfMemory)]
    for event, tried, words in [*refused, *arrays]:
        if event.pool == "host_ram" and tried and tried >= LARGE:
            total = total_bytes(crash)
            return Finding(
                weight=_of_one_piece(tried, total),
                why=say(
                    "One process asked for {tried} in one piece on a machine with {total} and was refused.",
                    tried=words,
                    total=show(total),
                )
                if total
                else say("One process asked for {tried} in one piece and was refused.", tried=words),
                evidence=(event,),
                knobs=("smaller-microbatch", "stream-data", "more-host-memory", "smaller-buffers"),
            )
    return None


def _of_one_piece(tried: int, total: int | None) -> float:
    if total:
        return 0.6 if tried >= OF_THE_MACHINE * total else 0.45
    return 0.35 if tried >= ODD else 0.45


def _without_table(crash: Crash) -> Judgement | None:
    kill = crash.first(NodeOutOfMemory)
    used = used_bytes(crash)
    if kill is None:
        return None
    for one in kill.victims:
        if one.bytes is not None and used and one.bytes >= OF_THE_MACHINE * used:
            name = one.name or say("The killed worker")
            return Finding(
                weight=0.7,
                why=say(
                    "{name} (PID {pid}) itself held {size} of the {used} in use.",
                    name=name,
                    pid=one.pid,
                    size=show(one.bytes),
                    used=show(used),
                ),
                evidence=(kill,),
            )
    return NotEnough(say("Ray's table of memory users, which names who held the memory"), raylet_log(crash))


CAUSE = Cause(
    id="process-ram-hog",
    title=mark("One process holds most of the node's memory"),
    pools=("host_ram", "cgroup"),
    knobs=(
        "clear-references",
        "smaller-buffers",
        "move-process",
        "restart-periodically",
        "smaller-microbatch",
        "more-host-memory",
    ),
    rule=judge,
)
