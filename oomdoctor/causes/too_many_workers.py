"""Many similar processes fill the memory together; none dominates."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.host import (
    EXPLAINED,
    TOGETHER,
    TRAINER_KNOBS,
    Holder,
    NodeMemory,
    is_rank,
    node_memory,
    used_bytes,
)
from oomdoctor.families.kill import Kill
from oomdoctor.families.ray_kill import KillCount, NodeOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say
from oomdoctor.patterns import late
from oomdoctor.units import percent, show

LEAST = 2
LEAST_OF_ALL = 4
# A share of the memory in one worker of a group (told by its rank) that its sisters multiply to most of it.
OF_A_RANK = 0.1
MANY = 16
_RANKED = late(r"_\d{1,4}:\d{1,4}\b|\brank=?\d|WorkerDict|\bWorker_?\d")
_WORKER_SETTINGS = (
    "num_proc",
    "preprocessing_num_workers",
    "dataset_num_proc",
    "dataloader_num_workers",
    "num_workers",
    "dataset_processes",
    "filter_overlong_prompts_workers",
    "n_parallel_tasks",
)


def judge(crash: Crash) -> Judgement | None:
    memory = node_memory(crash)
    if memory is not None:
        return _from_table(crash, memory)
    return _ranks(crash) or _many_set(crash) or _many_killed(crash)


def _from_table(crash: Crash, memory: NodeMemory) -> Judgement | None:
    groups = [h for h in memory.holders if len(h.sizes) >= LEAST]
    if not groups:
        return RuledOut(say("no two processes of one name are among the largest"))
    group = groups[0]
    if memory.share(group.bytes) < TOGETHER and (together := _all_workers(memory)) is not None:
        return together
    share = memory.share(group.bytes)
    count, name, held, whole = len(group.sizes), group.name, show(group.bytes), memory.whole
    if memory.dominates(group) and not _alike(group):
        return RuledOut(
            say(
                "{count} processes {name} hold {held} of {whole}, but one of them has {largest} of it",
                count=count,
                name=name,
                held=held,
                whole=whole,
                largest=show(group.largest),
            )
        )
    if share < TOGETHER:
        return RuledOut(
            say(
                "{count} processes {name} hold {held} of {whole}: {share}",
                count=count,
                name=name,
                held=held,
                whole=whole,
                share=percent(share),
            )
        )
    weight = _weight(group, memory, share)
    against = []
    heaviest = memory.heaviest
    if heaviest is not None and heaviest is not group and memory.dominates(heaviest):
        against.append(say("{who} alone holds {largest}", who=heaviest.who, largest=show(heaviest.largest)))
        weight = 0.5
    if is_rank(group.name):
        against.append(say("there is one of them for each GPU: fewer of them means fewer GPUs"))
        weight = min(weight, 0.75)
        if crash.trajectory is not None and crash.trajectory.growth_bytes:
            weight = 0.6
    return Finding(
        weight=weight,
        why=say(
            "{count} processes {name} hold {held} of {whole}: {share}, {each}; none of them alone fills the node.",
            count=count,
            name=name,
            held=held,
            whole=whole,
            share=percent(share),
            each=_each(group),
        ),
        evidence=(memory.event,),
        against=tuple(against),
        knobs=TRAINER_KNOBS if is_rank(group.name) else (),
    )


def _all_workers(memory: NodeMemory) -> Finding | None:
    """Ray's workers of all names together, where no name stands out."""
    workers = [h for h in memory.holders if not h.outside_ray]
    count = sum(len(h.sizes) for h in workers)
    held = sum(h.bytes for h in workers)
    heaviest = memory.heaviest
    if count < LEAST_OF_ALL or memory.share(held) < EXPLAINED or heaviest is None or memory.dominates(heaviest):
        return None
    return Finding(
        weight=0.6,
        why=say(
            "{count} workers of Ray hold {held} of {whole}: {share}, the largest {largest}.",
            count=count,
            held=show(held),
            whole=memory.whole,
            share=percent(memory.share(held)),
            largest=show(heaviest.largest),
        ),
        evidence=(memory.event,),
    )


def _alike(group: Holder) -> bool:
    """No process of the group is much larger than the next."""
    return group.sizes[1] >= 0.6 * group.largest


def _weight(group: Holder, memory: NodeMemory, share: float) -> float:
    if memory.cut:
        return 0.6
    if len(group.sizes) >= 4 and share >= 0.6:
        return 0.9
    return 0.85 if len(group.sizes) > LEAST else 0.75


def _each(group: Holder) -> str:
    if group.sizes[-1] == group.largest:
        return say("{largest} each", largest=show(group.largest))
    return say("{least} to {largest} each", least=show(group.sizes[-1]), largest=show(group.largest))


def _ranks(crash: Crash) -> Judgement | None:
    """Without a table: the killed worker has a rank, so it has sisters of its size."""
    used = used_bytes(crash)
    for event in crash.every(NodeOutOfMemory):
        for one in event.victims:
            if one.bytes and used and one.bytes >= OF_A_RANK * used and _RANKED.search(one.name or ""):
                return Finding(
                    weight=0.45,
                    why=say(
                        "The killed worker, {name} (PID {pid}), is one rank of several and held {held} of the "
                        "{used} in use: {count} like it fill the node.",
                        name=one.name,
                        pid=one.pid,
                        held=show(one.bytes),
                        used=show(used),
                        count=int(used // one.bytes),
                    ),
                    evidence=(event,),
                    against=(say("the table of memory users is not in the log"),),
                    knobs=TRAINER_KNOBS,
                )
    return None


def _many_set(crash: Crash) -> Judgement | None:
    """Without a table: a number of processes that the log states."""
    setting = crash.setting(*_WORKER_SETTINGS)
    kills = (*crash.every(Kill), *crash.every(KillCount), *crash.every(NodeOutOfMemory))
    if setting is None or not isinstance(setting.value, (int, float)) or setting.value < MANY or not kills:
        return None
    return Finding(
        weight=0.45 if setting.value >= 4 * MANY else 0.35,
        why=say(
            "{name} starts {count:g} processes, and one of them was killed.", name=setting.name, count=setting.value
        ),
        evidence=kills[:1],
        against=(say("how much each of them held is not in the log"),),
    )


def _many_killed(crash: Crash) -> Judgement | None:
    count = crash.first(KillCount)
    if count is None or not count.killed or count.killed < 2 or crash.first(NodeOutOfMemory) is not None:
        return None
    return Finding(
        weight=0.3,
        why=say("Ray killed {killed} workers for memory within a minute: several run at a time.", killed=count.killed),
        evidence=(count,),
        against=(say("who held the memory is not in the log"),),
    )


CAUSE = Cause(
    id="too-many-workers",
    title=mark("Many similar processes fill the memory together"),
    pools=("host_ram", "cgroup"),
    knobs=("fewer-workers", "stream-data", "smaller-microbatch", "add-nodes", "more-host-memory"),
    rule=judge,
)
