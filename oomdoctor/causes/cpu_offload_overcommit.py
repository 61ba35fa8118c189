"""Offloaded states, engine sleep, swap space or host caches are larger than the RAM there is."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, host_caches, moved_to_host, offload, other_words

OF_SWAP_SPACE = ("less-swap-space", "more-host-memory")
OF_A_CACHE = ("less-offload", "more-host-memory")
OF_THE_STORE = ("smaller-object-store", "more-host-memory")
OF_SETTINGS = ("less-swap-space", "less-offload", "engine-sleep", "unpin-memory", "more-host-memory", "add-nodes")
OF_SLEEPERS = ("less-offload", "fewer-workers", "add-nodes", "more-host-memory")
# The GPU is still empty: what is made on the host may be smaller, or lie there
OF_PARTITIONS = ("mixed-precision", "less-offload", "unpin-memory", "more-host-memory", "add-nodes")

OF_AN_OPTION = ("less-offload", "more-host-memory", "quantize-weights", "smaller-model")

CAUSE = Cause(
    id="cpu-offload-overcommit",
    title=mark("Offloaded states, engine sleep or swap space need more RAM than the node has"),
    headlines=(
        mark("vLLM's swap space of {swap_space} is too large for {swap_ram} of RAM"),
        mark(
            "SGLang cannot allocate {host_cache} of RAM for its KV cache[: {host_cache_free} free][: {host_cache_kept}]"
        ),
        mark("{engines_cache} has no room in RAM for a cache that it keeps there[: {ram_requested} requested]"),
        mark("llama.cpp's cache of prompts in RAM has grown to {prompt_cache}"),
        mark("{store_in_ram}[ of {store_requested}] does not fit into RAM"),
        mark("{host_buffer}'s buffer in host memory is full[: {host_buffer_requested} requested][ {doing}]"),
        mark("{cache_of_ranks} of RAM for LMCache ({ranks_of_cache}): a process died and the log does not say why"),
        mark("{waiting_cache} has no host memory for the KV cache of waiting sequences"),
        mark("{sleepers} hold {sleepers_held} of RAM while the engine sleeps"),
        mark("{group} fill {machine}: {group_filled}[; {offloads}]"),
        mark("{killed_process} was killed ({kill_code})[ {doing}]; {deepspeed_in_ram} keeps its states in RAM"),
        mark("{deepspeed_in_ram} keeps its states in RAM, and {node} ran out of memory[ {doing}]"),
        mark("DeepSpeed's buffers in RAM for states on a disk ({disk_buffers}) do not fit[: {full} in use on {node}]"),
        mark("States in RAM ({offloads}) do not fit[: {ram_requested} requested][: {full} in use on {node}]"),
        mark("An allocation of {ram_requested} of RAM failed beside {offload_option}[: {ram_left} were available]"),
        mark("States offloaded to RAM do not fit[ {doing}]: {ram_requested} requested"),
    ),
    pools=("host_ram", "cgroup", "pinned"),
    excluded=(offload.settings_reserve_little,),
    signs=(
        Row(host_caches.swap_space_was_refused, Grade.PROVES, OF_SWAP_SPACE),
        Row(host_caches.host_cache_was_refused, Grade.PROVES, OF_A_CACHE),
        Row(host_caches.object_store_was_refused, Grade.PROVES, OF_THE_STORE),
        Row(host_caches.no_host_memory_for_waiting_sequences, Grade.NAMES),
        Row(other_words.host_cache_in_other_words, Grade.NAMES, OF_A_CACHE),
        Row(host_caches.host_buffer_of_kv_blocks_is_full, Grade.HINTS),
        Row(host_caches.every_rank_keeps_a_cache, Grade.POINTS, OF_A_CACHE),
        Row(host_caches.prompts_filled_the_limit, Grade.PROVES),
        Row(host_caches.engines_keep_half_of_the_node, Grade.PROVES),
        Row(host_caches.engines_keep_a_quarter_of_the_node, Grade.NAMES),
        Row(host_caches.engines_keep_some_of_a_node, Grade.HINTS),
        Row(offload.settings_reserve_half_of_the_node, Grade.PROVES, OF_SETTINGS),
        Row(offload.settings_reserve_a_quarter_of_the_node, Grade.NAMES, OF_SETTINGS),
        Row(offload.refused_for_states_on_the_host, Grade.NAMES),
        Row(offload.workers_that_offload_have_it, Grade.PROVES),
        Row(offload.sleeping_engines_have_it, Grade.NAMES, OF_SLEEPERS),
        Row(offload.workers_that_offload_have_little, Grade.HINTS),
        Row(offload.a_rank_that_offloads_was_killed, Grade.POINTS),
        Row(offload.at_a_step_with_offloaded_states, Grade.NAMES),
        Row(offload.states_are_offloaded, Grade.POINTS),
        Row(offload.refused_beside_an_option_that_offloads, Grade.POINTS, OF_AN_OPTION),
        Row(offload.optimizer_on_the_cpu, Grade.POINTS),
        Row(offload.partitions_off_the_card, Grade.POINTS),
        Row(offload.killed_while_states_were_made, Grade.POINTS),
        Row(moved_to_host.its_lines_move_to_the_host, Grade.POINTS, OF_AN_OPTION),
    ),
    against=(Row(offload.more_was_free_and_no_setting_offloads, Grade.POINTS),),
    missing=(offload.gpus_are_not_counted,),
    knobs=("less-offload", "less-swap-space", "unpin-memory", "shard-states", "add-nodes", "more-host-memory"),
    knobs_where=((offload.refused_for_parameters_on_the_host, OF_PARTITIONS),),
    before=("address-space-limit", "killed-without-evidence", "too-many-workers"),
)
