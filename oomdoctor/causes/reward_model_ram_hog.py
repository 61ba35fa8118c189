"""A reward model's process holds most of the node's memory."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, NotEnough, RuledOut
from oomdoctor.causes.host import (
    HOG_OF_FEW,
    Holder,
    NodeMemory,
    killed_another,
    node_memory,
    raylet_log,
    victim,
)
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say
from oomdoctor.units import percent, show

_REWARD_SETTINGS = ("remote_rm_url", "remote_url", "reward_pretrain", "reward_model.path", "rm_path")


def judge(crash: Crash) -> Judgement | None:
    memory = node_memory(crash)
    if memory is None:
        return _without_table(crash)
    reward = max((h for h in memory.holders if h.role == "reward"), key=lambda h: h.bytes, default=None)
    if reward is None:
        return None
    share = memory.share(reward.bytes)
    held = _held(memory, reward)
    if share < HOG_OF_FEW or not _leads(memory, reward):
        return RuledOut(say("{held}: {share}", held=held, share=percent(share)))
    outside = _outside_ray(reward) if reward.outside_ray else ""
    return Finding(
        weight=0.94 if memory.dominates(reward) and not memory.cut else 0.8,
        why=joined((say("{held}: {share}.", held=held, share=percent(share)), outside, killed_another(crash, reward))),
        evidence=(memory.event,),
        against=(say("the table's first rows are missing"),) if memory.cut else (),
        knobs=("move-process", "restart-periodically", "raise-container-limit") if crash.pool == "cgroup" else (),
    )


def _leads(memory: NodeMemory, reward: Holder) -> bool:
    """Either its largest process has the memory, or its processes have more of it than those of any other name."""
    return memory.dominates(reward) or memory.holders[0] is reward


def _held(memory: NodeMemory, reward: Holder) -> str:
    """What it held, or its processes did: a clause."""
    size, whole, count = show(reward.bytes), memory.whole, len(reward.sizes)
    if count > 1:
        return say(
            "{count} processes {name} hold {size} of {whole}", count=count, name=reward.name, size=size, whole=whole
        )
    return say("The reward model, {who}, holds {size} of {whole}", who=reward.who, size=size, whole=whole)


def _outside_ray(reward: Holder) -> str:
    if len(reward.sizes) > 1:
        return say("They run outside Ray, which can neither count nor end them.")
    return say("It runs outside Ray, which can neither count nor end it.")


def _without_table(crash: Crash) -> Judgement | None:
    setting = crash.setting(*_REWARD_SETTINGS)
    if setting is None or crash.first(NodeOutOfMemory) is None:
        return None
    whom = victim(crash)
    missing = (
        say("a reward model is set ({name}), but Ray names only whom it killed, {whom}", name=setting.name, whom=whom)
        if whom
        else say("a reward model is set ({name}), but Ray's table of memory users is not in the log", name=setting.name)
    )
    return NotEnough(missing, raylet_log(crash))


CAUSE = Cause(
    id="reward-model-ram-hog",
    title=mark("The reward model's process holds most of the node's memory"),
    pools=("host_ram", "cgroup"),
    knobs=("move-process", "restart-periodically", "more-host-memory", "less-offload", "smaller-object-store"),
    rule=judge,
)
