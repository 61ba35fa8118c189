"""Who held the node's memory: the tables of memory users that Ray and the kernel print at a kill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.ray_kill import TOP, NodeOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import (
    EXPLAINED,
    HOG_OF_FEW,
    TOGETHER,
    Holder,
    NodeMemory,
    is_rank,
    killed_another,
    node_memory,
    ray_kill,
    swapped_bytes,
    victim,
)
from oomdoctor.job.model import Setting
from oomdoctor.job.roles import role_of
from oomdoctor.language import all_of, joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import OBJECTS, SHM, raylet_log
from oomdoctor.units import GIB, percent, show

# A shm page counts for the one process that touched it: where the store is as large as a row, the row is the store.
STORE_IN_ROW: Final = 0.8
_HALF: Final = 0.5
_DTYPE_OF_A_REWARD: Final = late(r"(?i)(?:reward|\brm)\w{0,40}(?:dtype|precision)")
_32_BITS: Final = ("float32", "torch.float32", "fp32", "float")
_REWARD_SETTINGS: Final = ("remote_rm_url", "remote_url", "reward_pretrain", "reward_model.path", "rm_path")


def table(crash: Crash) -> NodeMemory | None:
    """The fullest table of memory users, put together once for all signs."""
    if node_memory not in crash.seen:
        crash.seen[node_memory] = node_memory(crash)
    memory: NodeMemory | None = crash.seen[node_memory]
    return memory


def rows_left_out(table: NodeOutOfMemory, alike: Sequence[int]) -> str:
    """Ray lists the ten largest; where the log holds fewer rows, more like these may stand in those that it lost."""
    rest = (table.used_bytes or 0) - sum(row.bytes or 0 for row in table.rows)
    if len(table.rows) >= TOP or not alike or rest < min(alike):
        return ""
    return say(
        "The log shows {shown} of the {top} rows that Ray prints: more such processes may hold part of the other "
        "{rest}.",
        shown=len(table.rows), top=TOP, rest=show(rest),
    )  # fmt: skip


@sign
def a_table_names_the_holder(crash: Crash) -> Seen | None:
    """A table explains at least half of the memory in use, and one process or name stands out."""
    memory = table(crash)
    if memory is None or not _explains(memory):
        return None
    return None if _is_spread(memory) else Seen(words="")


@sign
def table_misses_half(crash: Crash) -> Seen | None:
    """The rows of the table add up to less than half of the memory in use."""
    memory = table(crash)
    if memory is None or memory.used_bytes is None or _explains(memory):
        return None
    words = say(
        "{used} was in use; the processes in the table hold {listed} of it ({share}). The rest is shared "
        "memory, the object store or processes outside the table.",
        used=show(memory.used_bytes),
        listed=show(memory.listed_bytes),
        share=percent(memory.listed_bytes / memory.used_bytes),
    )
    return Seen(words=words, evidence=(memory.event,), next_evidence=(OBJECTS, SHM))


@sign
def nobody_stands_out(crash: Crash) -> Seen | None:
    """A table explains at least half of the memory in use, and no process or name holds much of it."""
    memory = table(crash)
    if memory is None or not _explains(memory) or not _is_spread(memory) or memory.heaviest is None:
        return None
    who, held = memory.heaviest.who, show(memory.heaviest.largest)
    if memory.used_bytes is None or memory.total_bytes is None:
        words = say(
            "The {listed} in the table is spread over many processes: the largest, {who}, holds {held}.",
            listed=show(memory.listed_bytes),
            who=who,
            held=held,
        )
    else:
        words = say(
            "The {used} in use (of {total}) is spread over many processes: the largest, {who}, holds {held}.",
            used=show(memory.used_bytes),
            total=show(memory.total_bytes),
            who=who,
            held=held,
        )
    return Seen(words=words, evidence=(memory.event,))


def _explains(memory: NodeMemory) -> bool:
    return memory.used_bytes is None or memory.listed_bytes >= EXPLAINED * memory.used_bytes


def _is_spread(memory: NodeMemory) -> bool:
    heaviest = memory.heaviest
    if heaviest is None or memory.dominates(heaviest):
        return False
    return memory.share(memory.holders[0].bytes) < TOGETHER


@sign
def first_rows_are_missing(crash: Crash) -> Seen | None:
    """The table is cut at its head, where the largest processes are."""
    memory = table(crash)
    return (
        Seen(words=say("rows of the table are missing, and the largest may be among them"))
        if memory is not None and memory.cut
        else None
    )


@sign
def use_is_not_printed(crash: Crash) -> Seen | None:
    """A table lists processes, and the log does not say how much was in use: shares refer to the table's sum."""
    memory = table(crash)
    return Seen(words="") if memory is not None and memory.used_bytes is None else None


@sign
def table_without_sizes(crash: Crash) -> Seen | None:
    """No row of the table has a size."""
    memory = table(crash)
    return Seen(words="") if memory is not None and memory.heaviest is None else None


@sign
def a_reward_model_is_the_largest(crash: Crash) -> Seen | None:
    """The largest process of the table serves a reward model."""
    memory = table(crash)
    if memory is None or memory.heaviest is None or memory.heaviest.role != "reward":
        return None
    who, largest = memory.heaviest.who, show(memory.heaviest.largest)
    return Seen(words=say("{who} holds {largest}: its growth matters more", who=who, largest=largest))


@sign
def one_process_has_it(crash: Crash) -> Seen | None:
    """The largest process holds 40% of the memory in use, or 25% and two and a half times as much as the next."""
    memory = table(crash)
    if memory is None or memory.heaviest is None or not memory.dominates(memory.heaviest):
        return None
    top = memory.heaviest
    held = say(
        "{who} holds {largest} of {whole}: {share}.",
        who=top.who,
        largest=show(top.largest),
        whole=memory.whole,
        share=percent(memory.share(top.largest)),
    )
    if memory.equals and not memory.overlaps:
        return Seen(words=joined((_of_equals(memory), killed_another(crash, top))), evidence=(memory.event,))
    stranger = top.outside_ray and isinstance(memory.event, NodeOutOfMemory)
    outside = say("It is not a Ray worker, so Ray can never kill it.") if stranger else ""
    words = joined((held, _swapped(memory, top), outside, killed_another(crash, top)))
    against = _in_no_row(memory, top, crash)
    return Seen(words=words, evidence=(memory.event,), against=against, shows_memory=memory.of_tools)


def _swapped(memory: NodeMemory, top: Holder) -> str:
    """What of it is in no row of resident memory."""
    swap = swapped_bytes(memory.event, top.pids[0]) if isinstance(memory.event, KernelKill) else 0
    return say("Another {size} of it is in swap.", size=show(swap)) if swap >= GIB else ""


def _in_no_row(memory: NodeMemory, top: Holder, crash: Crash) -> tuple[str, ...]:
    """The doubt that the table leaves out more than its largest row, where shared memory does not explain it."""
    unlisted = memory.base_bytes - memory.listed_bytes
    if unlisted <= top.largest or store_may_be_the_largest_row(crash) or shared_memory_is_more(crash):
        return ()
    return (say("the table lacks {rest} of what is in use, more than its largest row holds", rest=show(unlisted)),)


def _of_equals(memory: NodeMemory) -> str:
    """What they hold, one by one and together."""
    both = sum(one.largest for one in memory.equals)
    return say(
        "{holders} hold {held} of {whole} together: {share}.",
        holders=all_of(map(_with_size, memory.equals)),
        held=show(both),
        whole=memory.whole,
        share=percent(memory.share(both)),
    )


def _with_size(one: Holder) -> str:
    if one.pids[0] is None:
        return say("{name} ({held})", name=one.name, held=show(one.largest))
    return say("{name} (PID {pid}, {held})", name=one.name, pid=one.pids[0], held=show(one.largest))


@sign
def several_hold_as_much(crash: Crash) -> Seen | None:
    """A process of another name is nearly as large as the largest of the table."""
    memory = table(crash)
    return Seen(words="") if memory is not None and memory.equals and not memory.overlaps else None


@sign
def no_process_has_it(crash: Crash) -> Seen | None:
    """A table lists processes, and the largest holds too little of the memory in use."""
    memory = table(crash)
    if memory is None or memory.heaviest is None or memory.dominates(memory.heaviest):
        return None
    top = memory.heaviest
    words = say(
        "the largest process, {who}, holds {largest}: {share} of {whole}",
        who=top.who,
        largest=show(top.largest),
        share=percent(memory.share(top.largest)),
        whole=memory.whole,
    )
    return Seen(words=words)


@sign
def store_may_be_the_largest_row(crash: Crash) -> Seen | None:
    """Ray's object store is at least 80% as large as the largest process of the table."""
    memory = table(crash)
    if memory is None or memory.heaviest is None or not memory.store_bytes:
        return None
    if memory.store_bytes < STORE_IN_ROW * memory.heaviest.largest:
        return None
    store = show(memory.store_bytes)
    return Seen(
        words=say("the object store holds {store}; its pages count for the processes that touched them", store=store)
    )


@sign
def shared_memory_is_more(crash: Crash) -> Seen | None:
    """The cgroup holds more in /dev/shm, tmpfs and Ray's object store than its largest process does."""
    memory = table(crash)
    if memory is None or memory.heaviest is None or not isinstance(memory.event, KernelKill):
        return None
    shared = memory.event.group_shmem_bytes or 0
    if shared <= memory.heaviest.largest:
        return None
    return Seen(words=say("{shared} of it is shared memory, which belongs to no process", shared=show(shared)))


@sign
def a_rank_is_the_largest(crash: Crash) -> Seen | None:
    """The largest process of the table is a rank: there is one per GPU."""
    memory = table(crash)
    if memory is None or memory.heaviest is None or not is_rank(memory.heaviest.name):
        return None
    return Seen(words="")


@sign
def a_helper_of_the_cluster_is_the_largest(crash: Crash) -> Seen | None:
    """The largest process of the table is one that the cluster starts for itself, and runs no code of the job."""
    memory = table(crash)
    if memory is None or memory.heaviest is None or not memory.heaviest.is_a_helper:
        return None
    return Seen(words="")


@sign
def a_driver_is_the_largest(crash: Crash) -> Seen | None:
    """The largest process of the table is a worker of Ray that drives a job: what the others send goes through it."""
    memory = table(crash)
    top = memory.heaviest if memory is not None else None
    return Seen(words="") if top is not None and top.is_a_worker and top.role == "driver" else None


@sign
def a_task_is_the_largest(crash: Crash) -> Seen | None:
    """The largest process of the table is a task of Ray: a function that keeps nothing from one call to the next."""
    memory = table(crash)
    top = memory.heaviest if memory is not None else None
    if memory is None or top is None or not memory.dominates(top) or not top.is_a_worker or top.role is not None:
        return None
    return Seen(words="") if top.name.isidentifier() and top.name.islower() else None


@sign
def an_engine_is_the_largest(crash: Crash) -> Seen | None:
    """The largest process, or the one that was killed where no table stands, is an engine's own worker."""
    memory = table(crash)
    if memory is not None:
        role = memory.heaviest.role if memory.heaviest is not None else None
    else:
        kill = ray_kill(crash)
        role = next((role_of(one.name) for one in kill.victims if one.name), None) if kill is not None else None
    return Seen(words="") if role == "engine" else None


@sign
def a_reward_model_has_it(crash: Crash) -> Seen | None:
    """The reward model leads the table with a quarter of the memory in use, and its largest process alone holds it."""
    memory = table(crash)
    reward = reward_model(memory)
    if memory is None or reward is None or not memory.dominates(reward):
        return None
    return a_reward_model_leads(crash)


@sign
def a_reward_model_has_most_of_it(crash: Crash) -> Seen | None:
    """The same, and that is more than half of what is in use."""
    memory, seen = table(crash), a_reward_model_has_it(crash)
    reward = reward_model(memory)
    if memory is None or reward is None or memory.share(reward.largest) <= _HALF:
        return None
    return seen


@sign
def a_reward_model_leads(crash: Crash) -> Seen | None:
    """Processes of a reward model hold a quarter of the memory in use, and more than those of any other name."""
    memory = table(crash)
    reward = reward_model(memory)
    if memory is None or reward is None or not _leads(memory, reward):
        return None
    share = say("{held}: {share}.", held=_clause(memory, reward), share=percent(memory.share(reward.bytes)))
    outside = _outside_ray(reward) if reward.outside_ray else ""
    return Seen(words=joined((share, outside, killed_another(crash, reward))), evidence=(memory.event,))


@sign
def a_reward_model_is_small(crash: Crash) -> Seen | None:
    """The table lists a reward model that holds less than a quarter of the memory in use, or less than others."""
    memory = table(crash)
    reward = reward_model(memory)
    if memory is None or reward is None or _leads(memory, reward):
        return None
    words = say("{held}: {share}", held=_clause(memory, reward), share=percent(memory.share(reward.bytes)))
    return Seen(words=words)


@sign
def a_reward_model_is_in_no_table(crash: Crash) -> Seen | None:
    """A reward model is configured, Ray killed for the node's memory, and the log has no table of memory users."""
    setting = crash.setting(*_REWARD_SETTINGS)
    if setting is None or crash.first(NodeOutOfMemory) is None or table(crash) is not None:
        return None
    name, whom = setting.name, victim(crash)
    if whom:
        words = say(
            "a reward model is configured ({name}), but Ray names only the worker it killed, {whom}",
            name=name,
            whom=whom,
        )
    else:
        words = say("a reward model is configured ({name}), but the log has no Ray table of memory users", name=name)
    return Seen(words=words, next_evidence=raylet_log(crash))


def reward_model(memory: NodeMemory | None) -> Holder | None:
    models = [holder for holder in memory.holders if holder.role == "reward"] if memory is not None else []
    return max(models, key=lambda holder: holder.bytes, default=None)


def _leads(memory: NodeMemory, reward: Holder) -> bool:
    """Either its largest process has the memory, or its processes have more of it than those of any other name."""
    if memory.share(reward.bytes) < HOG_OF_FEW:
        return False
    return memory.dominates(reward) or memory.holders[0] is reward


def _clause(memory: NodeMemory, reward: Holder) -> str:
    """What it held, or its processes did: a clause."""
    size, whole, count = show(reward.bytes), memory.whole, len(reward.sizes)
    if count > 1:
        return say(
            "{count} {name} processes hold {size} of {whole}", count=count, name=reward.name, size=size, whole=whole
        )
    return say("The reward model, {who}, holds {size} of {whole}", who=reward.who, size=size, whole=whole)


def _outside_ray(reward: Holder) -> str:
    if len(reward.sizes) > 1:
        return say("They run outside Ray, which can never kill them.")
    return say("It runs outside Ray, which can never kill it.")


@sign
def a_reward_model_in_32_bits(crash: Crash) -> Seen | None:
    """A setting says that the reward model's weights are numbers of 32 bits."""
    return Seen(words="") if wide_reward_model(crash) is not None else None


def wide_reward_model(crash: Crash) -> Setting | None:
    """The setting that says so."""
    stated = (one for name, one in crash.context.settings.items() if _DTYPE_OF_A_REWARD.search(name))
    return next((one for one in stated if str(one.value).lower() in _32_BITS), None)
