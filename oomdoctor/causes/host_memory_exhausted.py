"""The node's memory ran out and the log does not say who held it."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.causes.host import EXPLAINED, TOGETHER, Holder, NodeMemory, node_memory, raylet_log, used_bytes, victim
from oomdoctor.families.container import LimitKill, NodePressure
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.kill import Kill
from oomdoctor.families.memory_report import MemoryReport
from oomdoctor.families.ray_death import WorkerDeath
from oomdoctor.families.ray_kill import KillCount, NodeOutOfMemory, UsageAboveThreshold
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say
from oomdoctor.units import percent, show

# The killed worker's own share from which it says something about who held the memory.
TELLING = 0.15
NEARLY_FULL = 0.9
_PASSES = ("forward", "backward", "eval")
# Where Ray has no table to ask for: the kernel's dump, and who holds memory now.
OF_THE_MACHINE = ("dmesg -T | grep -B 400 -i 'killed process'", "ps aux --sort=-rss | head -20")


def judge(crash: Crash) -> Judgement | None:
    memory = node_memory(crash)
    if memory is not None:
        if memory.used_bytes is None or memory.listed_bytes >= EXPLAINED * memory.used_bytes:
            return _nobody_stands_out(memory)
        return Finding(
            weight=0.6,
            why=say(
                "{used} were in use, and the processes in the table hold {listed} of it ({share}): "
                "the rest is shared memory, the object store, or processes that the table cannot see.",
                used=show(memory.used_bytes),
                listed=show(memory.listed_bytes),
                share=percent(memory.listed_bytes / memory.used_bytes),
            ),
            evidence=(memory.event,),
            against=(say("the table's first rows are missing"),) if memory.cut else (),
            next_evidence=("ray memory --stats-only", "df -h /dev/shm"),
        )
    kill = crash.first(NodeOutOfMemory)
    if kill is not None:
        return _without_table(crash, kill)
    for kind in (UsageAboveThreshold, KernelKill, UserspaceKill, NodePressure, LimitKill, KillCount, WorkerDeath):
        event = crash.first(kind)
        if event is not None and event.strength >= 2 and event.pool == "host_ram":
            ask = raylet_log(crash) if event.family.startswith("ray_") else OF_THE_MACHINE
            return Finding(weight=0.35, why=_words(crash), evidence=(event,), next_evidence=ask)
    if (report := _nearly_full(crash)) is not None:
        return Finding(
            weight=0.55,
            shows_memory=True,
            why=say(
                "The job's last report before the kill shows {host_used} in use on the node, "
                "{host_used_fraction} of its memory; who held it, it does not say.",
                host_used=show(report.host_used_bytes or 0),
                host_used_fraction=percent(report.host_used_fraction),
            ),
            evidence=(report, crash.root),
            against=(say("the kill itself is not explained"),),
            next_evidence=OF_THE_MACHINE,
        )
    if (computing := _while_computing(crash)) is not None:
        return computing
    if isinstance(crash.root, Shortage) and crash.pool == "host_ram":
        why = say("Host memory was refused, in words that we do not know; they do not say who held the rest.")
        return Finding(weight=0.2, why=why, evidence=(crash.root,), next_evidence=OF_THE_MACHINE)
    if isinstance(crash.root, ArrayOutOfMemory):
        why = say("Host memory was refused for an array; the log does not say who held the rest.")
        return Finding(weight=0.2, why=why, evidence=(crash.root,), next_evidence=OF_THE_MACHINE[1:])
    return None


def _while_computing(crash: Crash) -> Finding | None:
    """PyTorch's CPU allocator up to 1.0 printed no size: a pass of the model had filled the memory by then."""
    root = crash.root
    if not isinstance(root, HostAllocation) or root.allocator != "torch" or root.tried_bytes is not None:
        return None
    if crash.stage not in _PASSES:
        return None
    return Finding(
        weight=0.45,
        why=say(
            "The model is computed on the CPU, and in its {stage} pass the host had no more memory to give.",
            stage=crash.stage,
        ),
        evidence=(root,),
        against=(say("a limit on address space answers the same way"),),
        knobs=("smaller-microbatch", "more-host-memory", "collect-evidence"),
        next_evidence=OF_THE_MACHINE[1:],
    )


def _nearly_full(crash: Crash) -> MemoryReport | None:
    """DeepSpeed's last report of the node, where a kill follows that nothing explains."""
    reports = [report for report in crash.every(MemoryReport) if report.host_used_fraction is not None]
    killed = isinstance(crash.root, Kill) and crash.root.pool == "host_ram"
    return reports[-1] if killed and reports and (reports[-1].host_used_fraction or 0) >= NEARLY_FULL else None


def _nobody_stands_out(memory: NodeMemory) -> Finding | None:
    """The table tells who held the memory: nobody much of it."""
    heaviest, largest = memory.heaviest, memory.holders[0] if memory.holders else None
    if heaviest is None or largest is None or memory.dominates(heaviest) or memory.share(largest.bytes) >= TOGETHER:
        return None
    return Finding(
        weight=0.3,
        why=_spread(memory, heaviest),
        evidence=(memory.event,),
    )


def _spread(memory: NodeMemory, heaviest: Holder) -> str:
    who, held = heaviest.who, show(heaviest.largest)
    if memory.used_bytes is None or memory.total_bytes is None:
        return say(
            "The {listed} that the table lists is spread over many: the largest, {who}, holds {held}.",
            listed=show(memory.listed_bytes),
            who=who,
            held=held,
        )
    return say(
        "The {used} in use (of {total}) is spread over many: the largest, {who}, holds {held}.",
        used=show(memory.used_bytes),
        total=show(memory.total_bytes),
        who=who,
        held=held,
    )


def _without_table(crash: Crash, kill: NodeOutOfMemory) -> Finding:
    used = used_bytes(crash)
    whom = victim(crash)
    named = say("It killed {whom}; who held the memory only its table says.", whom=whom) if whom else ""
    share = max((one.bytes or 0 for one in kill.victims), default=0) / used if used else 0.0
    return Finding(
        weight=0.25 if share >= TELLING else 0.4,
        why=joined((_words(crash), named)),
        evidence=(kill,),
        against=(say("the killed worker itself held {share} of what was in use", share=percent(share)),)
        if share >= TELLING
        else (),
        next_evidence=raylet_log(crash),
    )


def _words(crash: Crash) -> str:
    kill = crash.first(NodeOutOfMemory)
    if kill is not None and kill.used_bytes and kill.total_bytes:
        return say(
            "Ray found {used} of {total} in use and killed for it.",
            used=show(kill.used_bytes),
            total=show(kill.total_bytes),
        )
    count = crash.first(KillCount)
    if count is not None and count.killed:
        return say(
            "Ray killed {count} worker(s) because the node ran low on memory; the table is in raylet.out.",
            count=count.killed,
        )
    reading = crash.first(UsageAboveThreshold)
    if reading is not None and reading.used_bytes and reading.total_bytes:
        return say(
            "Ray's monitor found {used} of {total} in use.",
            used=show(reading.used_bytes),
            total=show(reading.total_bytes),
        )
    return say("Something was killed because the node's memory ran out; the log does not say who held it.")


CAUSE = Cause(
    id="host-memory-exhausted",
    title=mark("The node's memory ran out; the log does not say who held it"),
    pools=("host_ram",),
    knobs=("collect-evidence", "fewer-workers", "more-host-memory", "smaller-object-store", "tune-ray-monitor"),
    rule=judge,
)
