"""A reward model's process holds most of the node's memory."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade
from oomdoctor.signs.kills import a_group_was_full
from oomdoctor.signs.node import (
    a_reward_model_has_it,
    a_reward_model_in_32_bits,
    a_reward_model_is_in_no_table,
    a_reward_model_is_small,
    a_reward_model_leads,
    first_rows_are_missing,
)

OF_A_SERVER = ("move-process", "restart-periodically", "more-host-memory", "less-offload", "smaller-object-store",
               "collect-evidence")  # fmt: skip

# Half of the weights is free, where a setting says that they are wide
IN_32_BITS = ("mixed-precision", *OF_A_SERVER)

CAUSE = Cause(
    id="reward-model-ram-hog",
    title=mark("The reward model takes too much of the node's memory"),
    headlines=(
        mark("{reward} fills {machine}: {reward_filled}"),
        mark("Ray's limit of {low_ray_limit} was reached: {reward} held {reward_held}"),
        mark("{reward} holds {reward_part} on {machine}"),
    ),
    pools=("host_ram", "cgroup"),
    excluded=(a_reward_model_is_small,),
    signs=(
        Row(a_reward_model_has_it, Grade.PROVES),
        Row(a_reward_model_leads, Grade.NAMES),
    ),
    against=(Row(first_rows_are_missing, Grade.NAMES),),
    missing=(a_reward_model_is_in_no_table,),
    knobs=OF_A_SERVER,
    knobs_where=(
        (a_reward_model_in_32_bits, IN_32_BITS),
        (a_group_was_full, ("move-process", "restart-periodically", "raise-container-limit")),
    ),
    before=("host-memory-leak",),
)
