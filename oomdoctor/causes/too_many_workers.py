"""Many similar processes fill the memory together; none dominates."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.causes.process_ram_hog import OF_A_TRAINER
from oomdoctor.language import mark
from oomdoctor.signs import Grade
from oomdoctor.signs.evaluation import ranks_evaluate
from oomdoctor.signs.kills import largest_process_held_little, one_of_a_pool_was_killed, one_of_many_workers_was_killed
from oomdoctor.signs.node import first_rows_are_missing
from oomdoctor.signs.node_groups import (
    a_process_of_another_name_has_it,
    all_that_are_listed_are_alike,
    no_two_of_one_name,
    one_of_a_name_has_it,
    ranks_grew,
    several_alike_have_it,
    there_is_one_for_each_gpu,
    they_compute_by_partitions,
    those_of_a_name_have_little,
    two_alike_have_it,
    workers_of_all_names_have_it,
)
from oomdoctor.signs.own_work import each_process_loads_the_weights
from oomdoctor.signs.ray_kills import a_rank_was_killed, ray_killed_many, ray_killed_several

CAUSE = Cause(
    id="too-many-workers",
    title=mark("Many similar processes fill the memory together"),
    headlines=(
        mark("{group} fill {machine}: {group_filled}"),
        mark("Ray's limit of {low_ray_limit} was reached: {group} held {group_held}"),
        mark("{group} hold {group_part} on {machine}"),
        mark("{listed_workers} fill {machine}[: {full} in use]; {largest_listed}"),
        mark("Ray killed {ray_kill_count} in one reporting period: {node} ran out of memory"),
        mark("Ray killed {killed_rank}, one of several ranks: {full} in use on {node}"),
        mark(
            "{killer} killed {killed_sized} at its limit: {left_at_the_kill} were available, the limit is {early_limit}"
        ),
        mark("{killer} killed {killed_sized}, one of many processes"),
        mark("{killed_starter} was killed ({kill_code}) beside the workers that it started"),
        mark("{killed_process} was killed ({kill_code}), one of many workers"),
        mark("{dead_process} died, one of many workers"),
    ),
    pools=("host_ram", "cgroup"),
    excluded=(no_two_of_one_name, one_of_a_name_has_it, those_of_a_name_have_little, ranks_evaluate),
    signs=(
        Row(several_alike_have_it, Grade.PROVES),
        Row(two_alike_have_it, Grade.NAMES),
        Row(workers_of_all_names_have_it, Grade.POINTS),
        Row(all_that_are_listed_are_alike, Grade.POINTS),
        Row(ray_killed_many, Grade.POINTS),
        Row(a_rank_was_killed, Grade.HINTS, OF_A_TRAINER),
        Row(one_of_many_workers_was_killed, Grade.HINTS),
        Row(one_of_a_pool_was_killed, Grade.HINTS),
        Row(largest_process_held_little, Grade.HINTS),
        Row(ray_killed_several, Grade.LEFT),
    ),
    against=(
        Row(a_process_of_another_name_has_it, Grade.POINTS),
        Row(there_is_one_for_each_gpu, Grade.NAMES),
        Row(ranks_grew, Grade.POINTS),
        Row(each_process_loads_the_weights, Grade.POINTS),
        Row(first_rows_are_missing, Grade.POINTS),
    ),
    knobs=("fewer-workers", "stream-data", "smaller-microbatch", "add-nodes", "more-host-memory"),
    knobs_where=(
        (there_is_one_for_each_gpu, OF_A_TRAINER),
        (they_compute_by_partitions, ("fewer-workers", "smaller-partitions", "add-nodes", "more-host-memory")),
    ),
    before=("host-memory-exhausted", "killed-without-evidence"),
)
