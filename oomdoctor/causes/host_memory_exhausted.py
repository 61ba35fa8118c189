"""The node's memory ran out and the log does not say who held it."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.causes.container_limit import OF_AN_ENGINE
from oomdoctor.language import mark
from oomdoctor.signs import Grade, databases, ggml, heaps, kills, limits, records
from oomdoctor.signs.host_engines import an_engine_computes_on_the_host
from oomdoctor.signs.host_refusals import (
    host_array_refused,
    host_memory_short_in_other_words,
    host_refused_without_a_sign_of_a_limit,
    host_refused_without_a_size,
    no_memory_in_a_pass_on_the_cpu,
    no_more_swap,
)
from oomdoctor.signs.node import a_table_names_the_holder, first_rows_are_missing, nobody_stands_out, table_misses_half
from oomdoctor.signs.ray_kills import ray_killed_a_good_share, ray_killed_without_a_table

OF_A_POD = ("collect-evidence", "raise-container-limit", "fewer-workers", "more-host-memory")
OF_A_REFUSAL = ("smaller-microbatch", "fewer-workers", "stream-data", "narrow-dtypes", "more-host-memory")
OF_A_DATABASE = ("smaller-buffers", "more-host-memory")
OF_A_PASS = ("smaller-microbatch", "more-host-memory", "collect-evidence")

CAUSE = Cause(
    id="host-memory-exhausted",
    title=mark("The node ran out of RAM and the log does not say who held it"),
    headlines=(
        mark("Ray's limit of {low_ray_limit} was reached[; Ray killed {ray_killed}]"),
        mark("Memory of {node} is full: {full} in use[; Ray killed {ray_killed}]"),
        mark("Ray killed {ray_kill_count}: {node} ran out of memory"),
        mark("The kernel killed {small_victims} on {node}: the memory is probably not in processes"),
        mark(
            "{killer} killed {killed_sized} at its limit: {left_at_the_kill} were available, the limit is {early_limit}"
        ),
        mark("{killer} killed {killed}: {group_pressure}"),
        mark("The kernel's OOM killer ended a process of {unit_killed}[, which had used up to {unit_peak}]"),
        mark(
            "{killer} killed {killed}[, which held {killed_size}]: {node} ran out of memory[ ({used_at_kill} in use)]"
        ),
        mark("{nameless_killer} killed a process: {node} ran out of memory"),
        mark("{oom_invoker} invoked the kernel's OOM killer[: {told_node} ran out of memory]"),
        mark("Kubernetes evicted {evicted}[ ({evicted_held})]: {node} ran out of memory[, {evicted_free} left]"),
        mark("{outside_kills}: {node} or a parent cgroup ran out of memory"),
        mark("{pressed} found {node} out of memory[ and killed {ray_killed}]"),
        mark("{swapless} found no more swap space: RAM and swap are full"),
        mark("{database} could not allocate its {set_aside_by_it}[ of {database_requested}] when it started"),
        mark("An allocation of {query_requested} for a PostgreSQL query failed"),
        mark("{heap_of} found no memory for its heap[: {ram_requested} requested]"),
        mark("An allocation of {ram_requested} of RAM failed[ {doing}]"),
        mark("An allocation of RAM failed[ {doing}]: an array of {array}"),
        mark("An allocation of RAM failed ({ram_error})[ {doing}]"),
    ),
    pools=("host_ram",),
    fallback=True,
    silent=(a_table_names_the_holder,),
    signs=(
        Row(table_misses_half, Grade.POINTS),
        Row(nobody_stands_out, Grade.HINTS),
        Row(ray_killed_without_a_table, Grade.HINTS),
        Row(kills.only_small_processes_were_killed, Grade.HINTS, ("collect-evidence",)),
        Row(records.killed_outside_its_limit, Grade.POINTS),
        Row(kills.killed_for_the_nodes_memory, Grade.HINTS),
        Row(kills.nearly_full_before_the_kill, Grade.POINTS),
        Row(no_more_swap, Grade.HINTS),
        Row(no_memory_in_a_pass_on_the_cpu, Grade.HINTS, OF_A_PASS),
        Row(databases.database_was_refused_at_its_start, Grade.POINTS, OF_A_DATABASE),
        Row(databases.query_was_refused, Grade.POINTS, OF_A_DATABASE),
        Row(heaps.memory_for_javas_heap_was_refused, Grade.POINTS),
        Row(host_memory_short_in_other_words, Grade.LEFT),
        Row(host_array_refused, Grade.LEFT),
        Row(ggml.small_piece_of_the_host_refused, Grade.HINTS),
        Row(host_refused_without_a_size, Grade.HINTS, OF_A_REFUSAL),
        Row(host_refused_without_a_sign_of_a_limit, Grade.HINTS, OF_A_REFUSAL),
    ),
    against=(Row(ray_killed_a_good_share, Grade.LEFT), Row(first_rows_are_missing, Grade.PROVES)),
    knobs=("collect-evidence", "fewer-workers", "more-host-memory", "smaller-object-store", "tune-ray-monitor"),
    knobs_where=((an_engine_computes_on_the_host, OF_AN_ENGINE), (limits.node_was_under_pressure, OF_A_POD)),
)
