"""What the log does not hold, and how it is recorded."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.ray_kill import KillCount, NodeOutOfMemory
from oomdoctor.incident.devices import torch_type
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.remedies.proposal import PROCESS_HOG, REFUSED_WHAT_IS_FREE, REWARD_HOG, Answer, Case, Proposal, Skip
from oomdoctor.remedies.settings import spelling
from oomdoctor.signs import commands
from oomdoctor.signs.host_growth import the_jump
from oomdoctor.signs.machine import of_its_system
from oomdoctor.units import show

_PODS: Final = "kubectl top pod -A --sort-by=memory | head -20; kubectl describe node NODE"


def _in_its_world(case: Case) -> str | None:
    """What to copy, as the library spells it that the arrays live in."""
    row = spelling(case.knob, case.crash.context, case.crash.job.world)
    return row.write if row is not None else None


def collect(case: Case) -> Answer:
    crash = case.crash
    if case.cause == REFUSED_WHAT_IS_FREE and (alone := _the_same_alone(crash)) is not None:
        return alone
    if crash.pool in ("gpu", "kv_cache"):
        return Proposal(
            action=say("Record what holds GPU memory just before the failure"),
            snippet=_in_its_world(case),
        )
    if the_jump(crash) is not None:
        return _of_a_jump()
    if case.cause in (PROCESS_HOG, REWARD_HOG):
        return _of_the_next_run(crash)
    if "ray" in crash.context.frameworks or _ray_killed(crash):
        return _of_ray(crash)
    action, snippet = _record(crash)
    there = of_its_system((snippet,), crash)
    return Proposal(action=action, snippet="; ".join(there)) if there else Skip()


def _the_same_alone(crash: Crash) -> Proposal | None:
    """Who holds a GPU says nothing where most of it is free; whether others get as much does."""
    root = crash.root
    if not isinstance(root, DeviceOutOfMemory) or crash.job.world != "torch" or root.tried_bytes is None:
        return None
    kind = torch_type(crash)
    if kind is None:
        return None
    device = kind if root.process.gpu is None else f"{kind}:{root.process.gpu}"
    return Proposal(
        action=say("Allocate the same size alone, in the same environment: if that fails, the job is not the reason"),
        snippet=f"python -c \"import torch; torch.empty({root.tried_bytes}, dtype=torch.uint8, device='{device}')\"",
        derivation=say("{tried} = {bytes} bytes", tried=show(root.tried_bytes), bytes=root.tried_bytes),
        cost="",
    )


def _of_ray(crash: Crash) -> Answer:
    """A kill of Ray's leaves no line in the kernel's log."""
    asked = of_its_system(commands.raylets_own_log(crash), crash)
    node = commands.node_of(crash)
    if not _ray_killed(crash):
        action = (
            say("Read the raylet log and the kernel log on node {node}", node=node)
            if node is not None
            else say("Read the node's raylet log and kernel log")
        )
        return Proposal(action=action, snippet="; ".join((*asked, *of_its_system((commands.DMESG,), crash))))
    if not asked:
        return Skip()
    if commands.raised_by_rays_old_monitor(crash) or commands.rays_table_is_cut_off(crash):
        action = say("Read Ray's table of memory users in the whole log: it names who held the memory")
    elif node is not None:
        action = say("Read raylet.out on node {node}: Ray's table there names who held the memory", node=node)
    else:
        action = say("Read the node's raylet log: Ray's table there names who held the memory")
    return Proposal(action=action, snippet="; ".join(asked))


def _ray_killed(crash: Crash) -> bool:
    return crash.first(NodeOutOfMemory) is not None or crash.first(KillCount) is not None


def _of_the_next_run(crash: Crash) -> Answer:
    """Who held it is known; what for is not, unless the log shows how it grew."""
    if crash.trajectory is not None and crash.trajectory.growth_bytes:
        return Skip()
    return Proposal(
        action=say(
            "Record the memory of the next run: it shows whether it grows slowly (a leak) or jumps at one place"
        ),
        snippet="oomdoctor run -- COMMAND",
        cost=say("none"),
    )


def _of_a_jump() -> Proposal:
    """When it came is known, for what is not."""
    return Proposal(
        action=say(
            "Find what starts between the last two prints (data that are loaded, an evaluation, a save): the record of "
            "the next run shows when memory jumps"
        ),
        snippet="oomdoctor run -- COMMAND",
        cost=say("none"),
    )


def _record(crash: Crash) -> tuple[str, str]:
    """Whose record shows how the process died, and the command that prints it."""
    if crash.first(KernelKill) is not None:
        action = say("Show the kernel's dump above the kill, and the RAM that belongs to no process")
        return action, f"{commands.DUMP}; {commands.OUTSIDE_PROCESSES}"
    if (limits := commands.of_unit(crash)) is not None:
        return say("See whether the unit reached its own limit (MemoryMax) or the node was full"), limits
    first = commands.of_its_killer(commands.settling(crash), crash)[0]
    if commands.killer_of(crash) == commands.KUBELET:
        return say("See which pods use the node's memory, and what they request"), _PODS
    if commands.killer_of(crash):
        return say(
            "See what holds the machine's memory: {killer} leaves no line in the kernel's log",
            killer=commands.killer_of(crash),
        ), first
    if first.startswith("sacct"):
        return say("Ask Slurm how the job ended and for its peak memory"), first
    if first.startswith("docker"):
        return say("Ask Docker whether the container was OOM-killed, and for its limit"), first
    if first == commands.events_of_pod(crash):
        return say("Ask Kubernetes for the pod's events: a failed liveness probe and an eviction kill, too"), first
    if first == commands.of_pod(crash):
        return say("Ask Kubernetes for the pod's last state and its limits"), first
    return say("Check the node's kernel log for an OOM kill"), commands.DMESG
