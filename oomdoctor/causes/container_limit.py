"""A limit below the machine's memory was hit: a container's, a pod's, a job's."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import (  # fmt: skip
    Grade,
    checkpoints,
    estimates,
    evaluation,
    first_step,
    held_data,
    host_data,
    host_growth,
    host_loading,
    limits,
    node,
    node_groups,
    optimizer,
    other_words,
    records,
)
from oomdoctor.signs.flight_record import recorded_use_was_near_the_limit
from oomdoctor.signs.host_engines import an_engine_computes_on_the_host

# What an engine keeps fills the limit. The last two stand behind what costs nothing.
OF_AN_ENGINE = (
    "shorter-context", "smaller-model", "quantize-kv-cache", "fewer-sequences", "quantize-weights", "smaller-buffers",
    "lower-engine-reservation", "smaller-prefill", "raise-container-limit", "more-host-memory",
)  # fmt: skip
OF_A_BUDGET = ("smaller-buffers", "smaller-partitions", "stream-data", "raise-container-limit")  # below it, it spills
OF_FILES = ("spill-to-disk", "raise-container-limit", "collect-evidence")  # nobody's, in memory

CAUSE = Cause(
    id="container-limit",
    title=mark("The memory limit of the container or job was hit"),
    headlines=(
        mark("{kernel_limit} was hit: {kernel_shared} is shared memory (/dev/shm, tmpfs, object store)"),
        mark("{kernel_limit} was hit: {kernel_unheld} of it is in no process, such as files in /dev/shm"),
        mark("{kernel_limit} was hit: {limit_killed} held {limit_killed_most}"),
        mark("{kernel_limit} was hit: the kernel killed {limit_killed}[, which held {limit_killed_size}]"),
        mark("{kernel_limit} was hit[ when {oom_invoker} requested memory]"),
        mark("{limited_job} hit its memory limit[ of {job_limit}]: {limit_command} was OOM-killed"
             "[; last step in the log: {last_step}]"),
        mark("{limited_job} hit its memory limit of {job_limit}[ {doing}][: {oom_kills}][; {ray_dead} died]"),
        mark("{limited_job} hit its memory limit[ ({limit_exit})][ {doing}][: {oom_kills}][; {ray_dead} died]"),
        mark("A memory limit of {job_limit} was hit[ {doing}]: {oom_kills}"),
        mark("A memory limit was hit: {oom_kills}"),
        mark("Ray's object store of {store_beyond} is larger than the memory limit of {job_limit}"),
        mark("The container used {docker_used} before it was killed"),
        mark("The memory limit of the container or job was hit {doing}"),
    ),
    pools=("cgroup", "host_ram", "shm", "none"),
    excluded=(limits.numa_nodes_were_full, limits.whole_machine_was_full, limits.node_was_under_pressure,
              records.a_record_denies_the_limit),
    signs=(
        Row(limits.a_budget_beyond_the_limit, Grade.PROVES, OF_A_BUDGET),
        Row(limits.kernel_hit_the_limit_of_a_group, Grade.PROVES),
        Row(limits.manager_reports_its_limit_with_figures, Grade.PROVES),
        Row(limits.manager_reports_its_limit, Grade.NAMES), Row(limits.container_was_nearly_full, Grade.NAMES),
        Row(other_words.limit_of_a_group_in_other_words, Grade.NAMES), Row(limits.killed_and_refused, Grade.NAMES),
        Row(limits.store_exceeds_the_limit, Grade.NAMES, ("smaller-object-store", "raise-container-limit")),
        Row(records.peak_reached_the_limit, Grade.POINTS), Row(recorded_use_was_near_the_limit, Grade.NAMES)),
    at_a_limit=True,
    against=(
        Row(checkpoints.while_a_checkpoint_was_written_or_read, Grade.POINTS),
        Row(estimates.an_estimate_beyond_the_limit, Grade.NAMES), Row(host_growth.host_memory_grew, Grade.POINTS),
        Row(evaluation.killed_during_an_evaluation, Grade.POINTS), Row(first_step.adams_states_come_next, Grade.POINTS),
        Row(host_data.data_is_kept_by_a_setting, Grade.POINTS), Row(optimizer.lbfgs_fills_a_limit, Grade.POINTS),
        Row(held_data.the_prints_say_what_was_filled, Grade.HINTS), Row(node_groups.several_alike_have_it, Grade.NAMES),
        Row(first_step.killed_at_a_limit_while_computing, Grade.POINTS),
        Row(host_loading.the_kernel_killed_while_loading_weights, Grade.NAMES),
        Row(node.a_reward_model_has_most_of_it, Grade.NAMES),
    ),
    missing=(limits.killed_beside_a_limit,),
    knobs=("raise-container-limit", "fewer-workers", "smaller-buffers", "stream-data", "less-offload"),
    knobs_where=((an_engine_computes_on_the_host, OF_AN_ENGINE), (limits.most_is_in_no_process, OF_FILES)),
    before=("reward-model-ram-hog",),
)  # fmt: skip
