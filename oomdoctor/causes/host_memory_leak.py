"""The same processes grow step after step until something is killed."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, evaluation, growing_caches, held_data, host_growth, optimizer
from oomdoctor.signs.node import a_reward_model_is_the_largest
from oomdoctor.signs.offload import (
    engine_has_swap_space,
    engine_makes_cache_and_swap_space_anew,
    engine_makes_its_cache_anew,
)
from oomdoctor.signs.pieces import memory_grew_with_a_size, memory_grew_with_the_work

KNOBS = (
    "clear-references",
    "restart-periodically",
    "smaller-buffers",
    "pin-version",
    "smaller-microbatch",
    "shorter-sequences",
    "more-host-memory",
)

CAUSE = Cause(
    id="host-memory-leak",
    title=mark("Host memory grows until a process is killed"),
    headlines=(
        mark("The {unbounded_cache} grew without a bound ({no_bound}): {cache_course}"),
        mark("{leaking} leaks about {growth}: {growth_course} of RAM"),
        mark("{growing} grows by about {growth}: {growth_course}"),
        mark("Memory of {node} filled up: {machine_filled} in use"),
        mark("A small allocation of RAM failed after {steps_before_a_small_refusal} steps: memory filled up meanwhile"),
    ),
    pools=("host_ram", "cgroup"),
    silent=(
        evaluation.host_memory_grew_within_an_evaluation,
        held_data.a_hash_table_holds_the_input,
        memory_grew_with_a_size,
        memory_grew_with_the_work,
    ),
    excluded=(host_growth.host_memory_stays,),
    signs=(
        Row(growing_caches.an_unbounded_cache_fills_much, Grade.PROVES),
        Row(host_growth.host_memory_grew, Grade.PROVES),
        Row(growing_caches.an_unbounded_cache_grows, Grade.NAMES),
        Row(host_growth.machine_filled_at_once, Grade.LEFT),
        Row(host_growth.machine_filled_up, Grade.NAMES),
        Row(host_growth.machine_was_full_the_next_time, Grade.POINTS),
        Row(host_growth.small_array_refused_after_many_steps, Grade.POINTS),
        Row(host_growth.log_speaks_of_a_leak, Grade.LEFT),
    ),
    against=(
        Row(host_growth.few_prints_show_growth, Grade.NAMES),
        Row(host_growth.most_was_in_use_before, Grade.POINTS),
        Row(host_growth.tables_of_kills_show_growth, Grade.NAMES),
        Row(host_growth.few_kills_show_growth, Grade.POINTS),
        Row(a_reward_model_is_the_largest, Grade.PROVES),
        Row(optimizer.lbfgs_keeps_its_history, Grade.HINTS),  # which grows until it is full, and is no leak
    ),
    knobs=KNOBS,
    knobs_where=(
        (engine_makes_cache_and_swap_space_anew, ("keep-engine-cache", "less-swap-space", *KNOBS)),
        (engine_makes_its_cache_anew, ("keep-engine-cache", *KNOBS)),
        (engine_has_swap_space, ("less-swap-space", *KNOBS)),
    ),
    before=("killed-without-evidence", "process-ram-hog"),
)
