"""What a job keeps in host memory on purpose."""

from __future__ import annotations

from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.signs import Seen, sign

_SHARDING: Final = frozenset({"deepspeed", "fsdp", "megatron"})


@sign
def states_are_sharded(crash: Crash) -> Seen | None:
    """DeepSpeed, FSDP or Megatron shards the states of the training."""
    return Seen(words="") if _SHARDING & crash.context.frameworks.keys() else None


@sign
def no_cluster_in_sight(crash: Crash) -> Seen | None:
    """Nothing in the log is Ray's: there is no other node to move anything to."""
    return None if "ray" in crash.context.frameworks else Seen(words="")
