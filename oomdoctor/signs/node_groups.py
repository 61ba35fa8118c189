"""Processes of one name that hold the node's memory together, by the tables that Ray and the kernel print."""

from __future__ import annotations

from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import EXPLAINED, TOGETHER, Holder, NodeMemory, is_rank
from oomdoctor.job.frameworks import some
from oomdoctor.language import joined, say
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.node import table
from oomdoctor.units import percent, show

# So many processes hold it together: of one name, or all that Ray started.
SEVERAL: Final = 3
SEVERAL_WORKERS: Final = 4
# Where the next is smaller than this part of the largest, it is that one process, and not their number.
ALIKE: Final = 0.6
LISTED: Final = 10  # src/ray/common/memory_monitor.cc lists the ten largest
AS_LARGE: Final = 0.8


@sign
def several_alike_have_it(crash: Crash) -> Seen | None:
    """Three or more processes of one name hold 40% of the memory in use together, and none of them alone."""
    memory = table(crash)
    group = _group(memory)
    if one_of_a_name_has_it(crash) is not None:
        return None
    return two_alike_have_it(crash) if group is not None and len(group.sizes) >= SEVERAL else None


@sign
def two_alike_have_it(crash: Crash) -> Seen | None:
    """Two or more processes of one name hold 40% of the memory in use together."""
    memory = table(crash)
    group = _group(memory)
    if memory is None or group is None or memory.share(group.bytes) < TOGETHER:
        return None
    return Seen(words=_together(memory, group), evidence=(memory.event,), shows_memory=memory.of_tools)


def _together(memory: NodeMemory, group: Holder) -> str:
    """What the processes of one name hold; the largest process first, where it has most of it."""
    count, largest = len(group.sizes), memory.heaviest or group
    if memory.overlaps:
        words = say(
            "{count} {name} processes hold {each}; the largest process, {who}, holds {largest}.",
            count=count,
            name=group.name,
            each=_each(group),
            who=largest.who,
            largest=show(largest.largest),
        )
        return joined((words, _overlap()))
    if memory.dominates(largest):
        return say(
            "{who} alone holds {largest} of {whole}: {share}. All {count} {name} processes hold {held}.",
            who=largest.who,
            largest=show(largest.largest),
            whole=memory.whole,
            share=percent(memory.share(largest.largest)),
            count=count,
            name=group.name,
            held=show(group.bytes),
        )
    return say(
        "{count} {name} processes hold {held} of {whole}: {share}, {each}. None of them alone fills the node.",
        count=count,
        name=group.name,
        held=show(group.bytes),
        whole=memory.whole,
        share=percent(memory.share(group.bytes)),
        each=_each(group),
    )


def _overlap() -> str:
    return say(
        "Shared memory, such as Ray's object store, counts in each of them: together the rows are more than the "
        "machine has."
    )


@sign
def workers_of_all_names_have_it(crash: Crash) -> Seen | None:
    """At least four Ray workers hold half of the memory in use together, but no worker and no name holds it alone."""
    memory = table(crash)
    if memory is None or memory.heaviest is None or memory.dominates(memory.heaviest):
        return None
    workers = [holder for holder in memory.holders if holder.is_a_worker]
    count, held = sum(len(holder.sizes) for holder in workers), sum(holder.bytes for holder in workers)
    if count < SEVERAL_WORKERS or memory.share(held) < EXPLAINED or two_alike_have_it(crash) is not None:
        return None
    if memory.overlaps:
        words = say(
            "{count} Ray workers fill the node; the largest, {who}, holds {largest}.",
            count=count,
            who=memory.heaviest.who,
            largest=show(memory.heaviest.largest),
        )
        words = joined((words, _overlap()))
    else:
        words = say(
            "{count} Ray workers hold {held} of {whole}: {share}. The largest holds {largest}.",
            count=count,
            held=show(held),
            whole=memory.whole,
            share=percent(memory.share(held)),
            largest=show(memory.heaviest.largest),
        )
    return Seen(words=words, evidence=(memory.event,), shows_memory=memory.of_tools)


@sign
def all_that_are_listed_are_alike(crash: Crash) -> Seen | None:
    """The ten processes that Ray lists have one name and one size: those below them, which it does not list, too."""
    memory = table(crash)
    group = _group(memory)
    if memory is None or group is None or len(group.sizes) != LISTED or len(memory.holders) > 1 or memory.overlaps:
        return None
    if group.sizes[-1] < AS_LARGE * group.largest:
        return None
    words = say(
        "All {count} processes that Ray lists are {name}, {each}: {held} of {whole}. It lists no more; the rest would "
        "be {more} more of them.",
        count=LISTED, name=group.name, each=_each(group), held=show(group.bytes), whole=memory.whole,
        more=(memory.base_bytes - group.bytes) * LISTED // group.bytes,
    )  # fmt: skip
    doubt = say("what is not listed may be others'")
    return Seen(words=words, evidence=(memory.event,), against=(doubt,), shows_memory=memory.of_tools)


@sign
def they_compute_by_partitions(crash: Crash) -> Seen | None:
    """What the workers hold are partitions of the data."""
    return Seen(words="") if some(crash.context.frameworks, "computes by partitions") else None


@sign
def no_two_of_one_name(crash: Crash) -> Seen | None:
    """All processes of the table have different names."""
    memory = table(crash)
    if memory is None or _group(memory) is not None:
        return None
    return Seen(words=say("no two of the largest processes have the same name"))


@sign
def one_of_a_name_has_it(crash: Crash) -> Seen | None:
    """Of the processes of one name one holds the memory, and the next is less than 60% as large."""
    memory = table(crash)
    group = _group(memory)
    if memory is None or group is None or not memory.dominates(group) or group.sizes[1] >= ALIKE * group.largest:
        return None
    words = say(
        "{count} {name} processes hold {held} of {whole}, but one of them holds {largest}",
        count=len(group.sizes),
        name=group.name,
        held=show(group.bytes),
        whole=memory.whole,
        largest=show(group.largest),
    )
    return Seen(words=words)


@sign
def those_of_a_name_have_little(crash: Crash) -> Seen | None:
    """The processes of one name hold less than 40% of the memory in use, and all Ray workers less than half."""
    memory = table(crash)
    group = _group(memory)
    if memory is None or group is None or memory.share(group.bytes) >= TOGETHER:
        return None
    if workers_of_all_names_have_it(crash) is not None or all_that_are_listed_are_alike(crash) is not None:
        return None
    words = say(
        "{count} {name} processes hold {held} of {whole}: {share}",
        count=len(group.sizes),
        name=group.name,
        held=show(group.bytes),
        whole=memory.whole,
        share=percent(memory.share(group.bytes)),
    )
    return Seen(words=words)


@sign
def a_process_of_another_name_has_it(crash: Crash) -> Seen | None:
    """A single process of another name holds the memory."""
    memory = table(crash)
    group, top = _group(memory), memory.heaviest if memory is not None else None
    if memory is None or top is None or top is group or not memory.dominates(top):
        return None
    return Seen(words=say("{who} alone holds {largest}", who=top.who, largest=show(top.largest)))


@sign
def there_is_one_for_each_gpu(crash: Crash) -> Seen | None:
    """The processes of one name that hold it together are ranks: the job's shape gives their number."""
    group = _group(table(crash))
    if group is None or two_alike_have_it(crash) is None or not is_rank(group.name):
        return None
    return Seen(words=say("there is one per GPU: fewer of them means fewer GPUs"))


@sign
def ranks_grew(crash: Crash) -> Seen | None:
    """Ranks hold it together, and a printed figure of host memory grew."""
    if there_is_one_for_each_gpu(crash) is None or crash.trajectory is None:
        return None
    return Seen(words="") if crash.trajectory.growth_bytes else None


def _group(memory: NodeMemory | None) -> Holder | None:
    """Of the names that several processes have, the one that holds most."""
    return next((holder for holder in memory.holders if len(holder.sizes) > 1), None) if memory is not None else None


def _each(group: Holder) -> str:
    if group.sizes[-1] == group.largest:
        return say("{largest} each", largest=show(group.largest))
    return say("{least} to {largest} each", least=show(group.sizes[-1]), largest=show(group.largest))
