"""Slots about a node's memory and who holds it, by the tables that Ray, the kernel and top print."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.killers import SwapExhausted
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import HOG, NEARLY_FULL, Holder, NodeMemory, low_limit, ray_kill
from oomdoctor.job.roles import short_name
from oomdoctor.language import all_of, say
from oomdoctor.patterns import late
from oomdoctor.report.headline.figures import beside, brief
from oomdoctor.report.headline.names import with_pid
from oomdoctor.report.headline.slot import about, root
from oomdoctor.report.headline.victims import in_container
from oomdoctor.signs.node import reward_model, table
from oomdoctor.signs.node_groups import two_alike_have_it, workers_of_all_names_have_it
from oomdoctor.units import percent

# From here on a process (or those of one name) fills a node that is full, and does not only hold much of it.
FILLS: Final = 0.5
_NODE: Final = late(r"(?![0-9a-f]{24,}$)[A-Za-z0-9][\w.:-]{0,47}")  # an address or a name, no id of 56 digits
_SERVES: Final = late(r"(?i)serv|uvicorn|api\b|http")


class Share(Struct, frozen=True):
    """Who holds how much of a node, and what is in use of it."""

    who: str
    bytes: int
    used_bytes: int | None
    total_bytes: int | None
    listed_bytes: int = 0  # where nobody says how much was in use

    @property
    def fills(self) -> str | None:
        """The part beside the whole memory, where that is full and half of it is here."""
        full = _is_full(self.used_bytes, self.total_bytes)
        if not full or not FILLS * (self.used_bytes or 0) <= self.bytes <= (self.used_bytes or 0):
            return None
        return beside(self.bytes, self.total_bytes)

    @property
    def part(self) -> str | None:
        """The part beside what was in use, or beside what a table lists."""
        if self.used_bytes:
            figures = beside(self.bytes, self.used_bytes)
            return say("{figures} in use", figures=figures) if figures else None
        if not self.listed_bytes:
            return None
        share = percent(self.bytes / self.listed_bytes)
        if share == percent(1.0):
            return brief(self.bytes)
        return say("{held} ({share} of the listed processes)", held=brief(self.bytes), share=share)


def node(crash: Crash) -> str:
    """Which node, as far as the log says: that of the table or of Ray's kill before that of the failure."""
    kill, memory = ray_kill(crash), table(crash)
    events = [memory.event if memory is not None else None, kill, crash.root]
    known = (event.process.node for event in events if event is not None)
    name = next((name for name in known if name and _NODE.fullmatch(name)), None)
    return say("node {name}", name=name) if name is not None else say("the node")


def machine(crash: Crash) -> str:
    """What the table of processes is of: a node, or the container or group whose limit was hit."""
    memory = table(crash)
    event = memory.event if memory is not None else None
    if not isinstance(event, KernelKill) or event.pool != "cgroup":
        return node(crash)
    return say("the container") if in_container(event) else say("the control group")


# the process that holds most


def _holder(crash: Crash) -> Share | None:
    memory, kill = table(crash), ray_kill(crash)
    if memory is not None:
        top = memory.heaviest
        return _share(memory, top.who, top.largest) if top is not None and memory.dominates(top) else None
    if kill is None or not kill.used_bytes:
        return None
    one = max(kill.victims, key=lambda victim: victim.bytes or 0, default=None)
    if one is None or not one.name or not one.bytes or one.bytes < HOG * kill.used_bytes:
        return None
    return Share(with_pid(short_name(one.name), one.pid), one.bytes, kill.used_bytes, kill.total_bytes)


@about(_holder)
def holder(share: Share) -> str | None:
    """The process that holds most, with its PID: of the table, or whom Ray killed with 40 % of what was in use."""
    return share.who


@about(_holder)
def held(share: Share) -> str | None:
    """What that process holds."""
    return brief(share.bytes)


@about(_holder)
def filled(share: Share) -> str | None:
    """What that process holds of a node that is full, where it is half of what is in use: "177 of 252 GiB"."""
    return share.fills


@about(_holder)
def held_part(share: Share) -> str | None:
    """What that process holds of what is in use, or of what the table lists: "171 of 239 GiB in use"."""
    return share.part


# processes that hold as much as each other


def _equals(crash: Crash) -> Share | None:
    memory = table(crash)
    if memory is None or not memory.equals or memory.overlaps:
        return None
    return _share(memory, all_of(one.who for one in memory.equals), sum(one.largest for one in memory.equals))


@about(_equals)
def equals(share: Share) -> str | None:
    """The largest process, and others that are nearly as large: "ActorModel (PID 7) and CriticModel (PID 8)"."""
    return share.who


@about(_equals)
def equals_filled(share: Share) -> str | None:
    """What they hold together of a node that is full, where it is half of what is in use."""
    return share.fills


@about(_equals)
def equals_part(share: Share) -> str | None:
    """What they hold together of what is in use, or of what the table lists."""
    return share.part


# the reward model


def _reward(crash: Crash) -> Share | None:
    memory = table(crash)
    found = reward_model(memory)
    return _share(memory, _as_reward(found), found.bytes) if memory is not None and found is not None else None


def _as_reward(found: Holder) -> str:
    """By what it is: a server, a process outside Ray, a worker of Ray."""
    one = found.who if len(found.sizes) == 1 else say("{count} x {name}", count=len(found.sizes), name=found.name)
    if not found.outside_ray:
        return say("Reward model {one}", one=one)
    return say("Reward server {one}", one=one) if _SERVES.search(found.name) else say("Reward process {one}", one=one)


@about(_reward)
def reward(share: Share) -> str | None:
    """The reward model's process, or its processes."""
    return share.who


@about(_reward)
def reward_held(share: Share) -> str | None:
    """What the reward model's processes hold."""
    return brief(share.bytes)


@about(_reward)
def reward_filled(share: Share) -> str | None:
    """What they hold of a node that is full, where it is half of what is in use."""
    return share.fills


@about(_reward)
def reward_part(share: Share) -> str | None:
    """What they hold of what is in use, or of what the table lists."""
    return share.part


# processes that hold it together


def _group(crash: Crash) -> Share | None:
    memory = table(crash)
    if memory is None or memory.overlaps:
        return None
    several = next((each for each in memory.holders if len(each.sizes) > 1), None)
    if several is not None and two_alike_have_it(crash) is not None:
        who = say("{count} x {name}", count=len(several.sizes), name=several.name)
        return _share(memory, who, several.bytes)
    if workers_of_all_names_have_it(crash) is None:
        return None
    workers = [each for each in memory.holders if each.is_a_worker]
    who = say("{count} Ray workers", count=sum(len(each.sizes) for each in workers))
    return _share(memory, who, sum(each.bytes for each in workers))


@about(_group)
def group(share: Share) -> str | None:
    """Processes of one name that hold the memory together: "8 x WorkerDict"; or all workers of Ray."""
    return share.who


@about(_group)
def group_held(share: Share) -> str | None:
    """What they hold together."""
    return brief(share.bytes)


@about(_group)
def group_filled(share: Share) -> str | None:
    """What they hold of a node that is full, where it is half of what is in use."""
    return share.fills


@about(_group)
def group_part(share: Share) -> str | None:
    """What they hold of what is in use, or of what the table lists."""
    return share.part


def low_ray_limit(crash: Crash) -> str | None:
    """Ray's limit, where it leaves much of the node free: "6.2 GiB (26.4% of the node)"."""
    kill, memory = ray_kill(crash), table(crash)
    if memory is not None and isinstance(memory.event, NodeOutOfMemory):
        kill = memory.event
    low = low_limit(kill.figures("usage"), kill.figures("threshold")) if kill is not None else None
    if low is None:
        return None
    share, limit = low
    return say("{limit} ({share} of the node)", limit=brief(limit), share=f"{share:.1%}".replace(".0%", "%"))


@about(ray_kill)
def full(kill: NodeOutOfMemory) -> str | None:
    """What was in use of a node when Ray killed, where that is nearly all of it: "59.5 of 62.6 GiB"."""
    return beside(kill.used_bytes, kill.total_bytes) if _is_full(kill.used_bytes, kill.total_bytes) else None


def _is_full(used: int | None, total: int | None) -> bool:
    return bool(used and total and NEARLY_FULL * total <= used <= total)


def listed_workers(crash: Crash) -> str | None:
    """The processes of a table whose rows add up to more than the node has."""
    memory = table(crash)
    if memory is None or not memory.overlaps:
        return None
    count = sum(len(each.sizes) for each in memory.holders)
    return say("{count} listed processes", count=count) if count > 1 else None


def largest_listed(crash: Crash) -> str | None:
    """The largest process of the table, with its PID and what it holds."""
    memory = table(crash)
    top = memory.heaviest if memory is not None else None
    return say("{who} holds {held}", who=top.who, held=brief(top.largest)) if top is not None else None


def _share(memory: NodeMemory, who: str, size: int) -> Share:
    return Share(who, size, memory.used_bytes, memory.total_bytes, memory.listed_bytes)


@about(root(SwapExhausted))
def swapless(event: SwapExhausted) -> str | None:
    """The system that found no more swap space."""
    return event.system
