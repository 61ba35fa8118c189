"""One process, not a reward model, holds most of the node's memory."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.causes.container_limit import OF_AN_ENGINE
from oomdoctor.causes.host_memory_exhausted import OF_A_POD
from oomdoctor.language import mark
from oomdoctor.signs import Grade, estimates, flight_record, host_refusals, kills, limits, node, own_work, ray_kills
from oomdoctor.signs.host_engines import an_engine_computes_on_the_host
from oomdoctor.signs.offload import no_cluster_in_sight, states_are_sharded

OF_A_TRAINER = ("less-offload", "more-host-memory", "restart-periodically", "add-nodes", "shard-states",
                "smaller-microbatch", "more-gpus")  # fmt: skip
OF_EQUALS = ("less-offload", "move-process", "more-host-memory", "restart-periodically", "shard-states", "more-gpus")
OF_AN_ENGINES_WORKER = ("less-swap-space", "low-memory-loading", "less-offload", "smaller-model", "quantize-weights")
OF_A_PIECE = ("smaller-microbatch", "stream-data", "narrow-dtypes", "more-host-memory", "smaller-buffers")
OF_ONE_MACHINE = ("smaller-buffers", "more-host-memory", "clear-references", "low-memory-loading", "collect-evidence")
OF_A_HELPER = ("pin-version", "restart-periodically", "more-host-memory")  # the cluster's own: no code of the job's
OF_A_DRIVER = ("smaller-buffers", "restart-periodically", "more-host-memory", "collect-evidence")
OF_A_TASK = ("smaller-partitions", "narrow-dtypes", "smaller-microbatch", "move-process", "more-host-memory")
OF_A_CLUSTER = ("clear-references", "smaller-buffers", "move-process", "restart-periodically", "smaller-microbatch",
                "more-host-memory")  # fmt: skip

CAUSE = Cause(
    id="process-ram-hog",
    title=mark("One process takes too much of the node's memory"),
    headlines=(
        mark("{equals} fill {machine}: {equals_filled}"),
        mark("{equals} hold {equals_part} on {machine}"),
        mark("{holder} fills {machine}: {filled}"),
        mark("Ray's limit of {low_ray_limit} was reached: {holder} held {held}"),
        mark("{holder} holds {held_part} on {machine}"),
        mark(
            "{killer} killed {killed_sized} at its limit: {left_at_the_kill} were available, the limit is {early_limit}"
        ),
        mark("{killer} killed {killed}, which held {killed_part}"),
        mark("{killer} killed {killed}, which held {killed_size}"),
        mark("Kubernetes evicted {evicted_holder}: it held {evicted_use} and had requested {evicted_request}"),
        mark("{remaining} still holds {remaining_held} of {remaining_of} after the crash"),
        mark("An allocation of {ram_requested} of RAM failed[ on a machine with {ram_total}][: an array of {array}]"),
    ),
    pools=("host_ram", "cgroup"),
    silent=(node.table_without_sizes, node.a_reward_model_is_the_largest),
    excluded=(node.no_process_has_it, kills.killed_process_held_little, flight_record.the_job_is_one_process),
    signs=(
        Row(estimates.an_estimate_beyond_the_limit, Grade.PROVES),
        Row(node.one_process_has_it, Grade.PROVES),
        Row(kills.killed_process_held_most, Grade.PROVES),
        Row(kills.killed_process_was_large, Grade.POINTS),
        Row(kills.a_process_holds_it_afterwards, Grade.POINTS),
        Row(limits.an_evicted_container_held_it, Grade.POINTS, OF_A_POD),
        Row(host_refusals.one_piece_of_the_machine_refused, Grade.POINTS, OF_A_PIECE),
        Row(host_refusals.large_piece_refused, Grade.LEFT, OF_A_PIECE),
        Row(ray_kills.ray_killed_who_held_most, Grade.NAMES),
    ),
    against=(
        Row(own_work.the_job_itself_did_what_the_log_shows, Grade.POINTS),  # with what it filled it says more than who
        Row(node.store_may_be_the_largest_row, Grade.POINTS),
        Row(node.shared_memory_is_more, Grade.POINTS),
        Row(node.first_rows_are_missing, Grade.POINTS),
        Row(node.use_is_not_printed, Grade.NAMES),
    ),
    missing=(ray_kills.rays_table_is_missing,),
    knobs=OF_A_CLUSTER,
    knobs_where=(
        (node.a_helper_of_the_cluster_is_the_largest, OF_A_HELPER),
        (an_engine_computes_on_the_host, OF_AN_ENGINE),
        (node.several_hold_as_much, OF_EQUALS),
        (node.a_driver_is_the_largest, OF_A_DRIVER),
        (node.a_task_is_the_largest, OF_A_TASK),
        (node.a_rank_is_the_largest, OF_A_TRAINER),
        (node.an_engine_is_the_largest, OF_AN_ENGINES_WORKER),
        (ray_kills.ray_killed_for_memory, OF_A_CLUSTER),
        (kills.one_of_several_ranks_was_killed, ("fewer-workers", *OF_A_TRAINER)),
        (states_are_sharded, OF_A_TRAINER),
        (no_cluster_in_sight, OF_ONE_MACHINE),
    ),
    before=("address-space-limit", "object-store-full", "too-many-workers"),
)
