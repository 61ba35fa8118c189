"""Replay memories whose size the log tells: how many observations they keep, and of which shape."""

from __future__ import annotations

import re
from math import prod
from typing import Final

from msgspec import Struct

from oomdoctor.families.container import LimitKill
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kernel import KernelKill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import LARGE
from oomdoctor.incident.prints import own_lines
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.first_step import memory_in_all
from oomdoctor.signs.own_arrays import LAID_OUT, a_buffer_is_made_at_once, an_agent_is_in_sight
from oomdoctor.signs.sizes import MANY_HOSTS
from oomdoctor.units import show

# "replay_capacity: 1000000" (dopamine/replay_memory/circular_replay_buffer.py), "buffer_size=1e6" (stable-baselines3,
# CleanRL), "--memory-capacity 1000000" (Rainbow), "replay_buffer_size": 1_000_000
_CAPACITY: Final = late(
    r"(?i)(?<![\w-])-{0,2}(?P<name>(?:max[_-])?(?:replay|memory|buffer|experience)(?:[_-]?(?:memory|buffer|pool))?"
    r"[_-](?:capacity|size|len(?:gth)?|maxlen))['\"]?\s{0,3}[:= ]\s{0,3}"
    r"(?P<count>\d{1,3}(?:[,_]\d{3}){1,3}|\d{4,11}(?![\d.])|\d(?:\.\d{1,3})?e\+?0?\d\b)"
)
# "observation_shape: (84, 84)", "obs_shape=(4, 84, 84)", "Observation space: Box(0, 255, (210, 160, 3), uint8)"
_OBSERVATION: Final = late(
    r"(?i)\b(?P<what>obs(?:ervation)?|state|frame)s?[_ -](?:shape|dims?|space|size)['\"]?\s{0,3}[:= ]\s{0,3}"
    r"(?:Box\([^()\n]{0,40})?[(\[](?P<shape>\d{1,5}(?:, ?\d{1,5}){1,3}),?[)\]]"
)
# Words of learning from an environment: a decoder and a data set have frames and a buffer, too
_OF_A_REPLAY: Final = late(r"(?i)replay|experience")
_SEPARATORS: Final = late(r"[,_]")
_STAGES: Final = ("unknown", "launch", "data_load", "rollout")


class Replay(Struct, frozen=True):
    """A replay memory, as the log tells of it."""

    name: str  # of its capacity
    capacity: int
    shape: tuple[int, ...]  # of one observation

    @property
    def least_bytes(self) -> int:
        """A number takes a byte at least."""
        return self.capacity * prod(self.shape)

    @property
    def formula(self) -> str:
        shape = " x ".join(map(str, self.shape))
        return say(
            "{capacity:,} x {shape} x 1 byte = {size}",
            capacity=self.capacity,
            shape=shape,
            size=show(self.least_bytes),
        )


def replay_of(crash: Crash) -> Replay | None:
    """The replay memory that the last lines tell of, where they or the frames tell of an agent or its observations."""
    lines = list(own_lines(crash))
    told = next((found for line in lines if (found := _CAPACITY.search(line)) is not None), None)
    seen = next((found for line in lines if (found := _OBSERVATION.search(line)) is not None), None)
    if told is None or seen is None:
        return None
    observes = seen["what"].lower().startswith("obs") or _OF_A_REPLAY.search(told["name"]) is not None
    if not observes and not an_agent_is_in_sight(crash):
        return None
    return Replay(told["name"], _count(told), tuple(int(side) for side in seen["shape"].split(",")))


@sign
def a_replay_memory_is_large(crash: Crash) -> Seen | None:
    """Memory was refused, or the job was killed at a limit, and the replay memory that the log tells of takes 1 GiB or
    more, and more than that limit, but no more than machines have."""
    root, replay = crash.root, replay_of(crash)
    if replay is None or crash.stage not in _STAGES or not isinstance(root, HostAllocation | KernelKill | LimitKill):
        return None
    limit = 0 if isinstance(root, HostAllocation) else memory_in_all(crash)
    if limit is None or not max(LARGE, limit) <= replay.least_bytes < MANY_HOSTS:
        return None
    words = say(
        "The replay memory takes at least {formula}: its observations alone, with numbers of one byte.",
        formula=replay.formula,
    )
    return Seen(words=words, evidence=(root,), stage=crash.stage, knobs=LAID_OUT)


@sign
def a_buffer_is_laid_out(crash: Crash) -> Seen | None:
    """A replay memory by the log's figures, or the buffer that a line makes."""
    return a_replay_memory_is_large(crash) or a_buffer_is_made_at_once(crash)


def _count(told: re.Match[str]) -> int:
    return int(float(_SEPARATORS.sub("", told["count"])))


__all__ = ["Replay", "a_buffer_is_laid_out", "a_replay_memory_is_large", "replay_of"]
