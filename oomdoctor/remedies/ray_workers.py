"""Who says how many workers of Ray run at once: Ray for tasks, by the CPUs that each asks for; for actors the program.

An actor asks for a CPU while it is placed and for none while it runs, so that no number of CPUs keeps down how many are
there (doc/source/ray-core/scheduling/resources.rst): the program starts as many as it is told.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from oomdoctor.families.ray_kill import KillCount, NodeOutOfMemory, Victim
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import Holder, is_a_bystander, is_rank, node_memory, ray_kill, used_bytes
from oomdoctor.job.job import remote_call
from oomdoctor.job.roles import class_and_method, role_of
from oomdoctor.patterns import late

NAME: Final = "ray"
_CREATION: Final = ".__init__"
# python/ray/exceptions.py, `RayTaskError.__str__` and `RayActorError`
_OF_A_NODE: Final = late(r"\(pid=\d{1,10}, ip=(\d{1,3}(?:\.\d{1,3}){3})\b")
_OF_GPUS: Final = ("policy", "engine", "ref", "critic", "driver")  # roles of those that are there once, or for each GPU


class _Worker(Struct, frozen=True):
    """Whom a kill or the table names."""

    name: str
    is_actor: bool


def _worker(crash: Crash) -> _Worker | None:
    """The workers that are there more than once and hold most; else the one that was killed."""
    memory = node_memory(crash)
    if memory is not None and memory.group is not None:
        return _of_the_table(memory.group)
    killed = (one for event in crash.every(NodeOutOfMemory) for one in event.victims if one.name)
    return next(map(_killed, killed), None)


def _of_the_table(holder: Holder) -> _Worker | None:
    """A process that Ray did not start is neither."""
    return None if holder.outside_ray else _Worker(holder.name, holder.name[:1].isupper())


def _killed(victim: Victim) -> _Worker:
    name = victim.name or ""
    own = class_and_method(name)[0] or name
    if victim.task_id is not None:
        return _Worker(own, is_actor=False)
    return _Worker(own, victim.actor_id is not None or name.endswith(_CREATION) or own[:1].isupper())


def tasks(crash: Crash) -> bool:
    """Whether Ray itself says how many of them run."""
    shown = _worker(crash)
    return shown is not None and not shown.is_actor and role_of(shown.name) is None


def are_unnamed(crash: Crash) -> bool:
    """Whether Ray killed workers and names none of them, nor what it was called for."""
    if crash.first(NodeOutOfMemory) is None and crash.first(KillCount) is None:
        return False
    if remote_call(crash.root) is not None:
        return False
    memory = node_memory(crash)
    return (memory is None or not memory.holders) and _worker(crash) is None


def are_one_for_each_gpu(crash: Crash) -> bool:
    """Whether the worker is one of those whose number follows from the job's GPUs; in reinforcement learning with an
    engine nearly all are."""
    shown = _worker(crash)
    if shown is None:
        return are_unnamed(crash) and crash.job.task == "rl"
    return not shown.name.startswith("IDLE") and (is_rank(shown.name) or role_of(shown.name) in _OF_GPUS)


def own_actor(crash: Crash) -> str | None:
    """The class of actors whose number is the program's own; of a rank or an engine there is one for each GPU."""
    shown = _worker(crash)
    if shown is None or not shown.is_actor or not shown.name.isidentifier() or is_rank(shown.name):
        return None
    return None if role_of(shown.name) in _OF_GPUS else shown.name


def killed_held_little(crash: Crash) -> bool:
    """Whether what Ray killed is next to nothing of what was in use: fewer of these free little."""
    kill = ray_kill(crash)
    sizes = [one.bytes for one in kill.victims if one.bytes is not None] if kill is not None else []
    return kill is not None and is_a_bystander(max(sizes, default=None), used_bytes(crash))


def nodes_in_sight(crash: Crash) -> int:
    """Whose processes the failure and the errors around it name by their addresses."""
    around = crash.root.around
    told = (_OF_A_NODE.findall(line) for line in (crash.root.at.text, *around.before, *around.after))
    nodes = {event.process.node for event in crash.events if event.process.node}
    return len(nodes.union(*told))


__all__ = [
    "NAME",
    "are_one_for_each_gpu",
    "are_unnamed",
    "killed_held_little",
    "nodes_in_sight",
    "own_actor",
    "tasks",
]
