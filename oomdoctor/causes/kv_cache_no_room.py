"""Nothing of the engine's share is left for the KV cache."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, generation, kv_cache, other_words

# Without an engine: what goes into the cache is the batch, its answers and their length
OF_A_GENERATION = ("smaller-microbatch", "fewer-sequences", "shorter-sequences", "mixed-precision", "smaller-model")
OF_A_BUFFER = ("shorter-context", "quantize-kv-cache", "fewer-sequences", "offload-parameters", "smaller-model")
BEHIND_THE_WEIGHTS = ("quantize-weights", "tensor-parallel", "quantize-kv-cache", "free-the-gpu", "smaller-model")
OF_ONE_SEQUENCE = ("raise-engine-reservation", "shorter-context", "quantize-weights", "tensor-parallel", "free-the-gpu")
OF_STATES = ("fewer-sequences", "raise-engine-reservation", "tensor-parallel")
AFTER_SHARE_AND_BATCH = ("quantize-weights", "tensor-parallel", "shorter-context", "free-the-gpu", "smaller-model")
# No activations are measured before SGLang's pool is cut out: model_runner.py, profile_max_num_token
BEYOND_A_FRACTION = ("raise-engine-reservation", *AFTER_SHARE_AND_BATCH)
NO_LARGER_SHARE = ("tensor-parallel", "quantize-weights", "shorter-context", "smaller-prefill", *BEHIND_THE_WEIGHTS[3:])

CAUSE = Cause(
    id="kv-cache-no-room",
    title=mark("No room is left for the KV cache"),
    headlines=(
        mark("The KV cache of {local_program} does not fit on {gpu}[: {requested} requested, {free} free]"),
        mark("{grown_cache} does not fit in {ram}[: {requested} requested][ ({place})]"),
        mark("The KV cache of {cache_buffer}[ for {context}] does not fit on {gpu}"),
        mark("The KV cache of {cache_buffer}[ for {context}] does not fit in {ram}"),
        mark(
            "mem_fraction_static {fraction} leaves no room for the KV cache[: weights take {weights} "
            "of {free_before_weights}]"
        ),
        mark("{without_a_pool} has no room for the KV cache on {gpu}: weights take {weights} of {free_before_weights}"),
        mark("Another process holds {external_weights} of weights: more than {engine_within}'s share of {share}"),
        mark("{engine_first} may run {sequences}, but has room for the state of {states}"),
        mark("{engine_first}'s weights and buffers fill the {share_room} that it may use: no room for the KV cache"),
        mark("{engine_first}'s check of the GPU memory failed although its figures leave {share_left}"),
        mark(
            "{engine_first}'s share is {cache_missing} too small for any KV cache[; weights take "
            "{weights} of {reserved}]"
        ),
        mark("{engine_first} has {cache_room} left for the KV cache[; weights take {weights} of its {reserved}]"),
        mark("{engine_first}'s share of {share} of {gpu}[ ({reserved})] leaves no room for the KV cache"),
        mark("The KV cache needs room for {tokens_needed} and has it for {available}"),
        mark("{engine_first} has no room for the KV cache on {gpu}[: {model_name} fills its share]"),
        mark("{engine_first} has no room for the KV cache in {ram}"),
    ),
    stage="kv_cache_init",
    pools=("kv_cache", "gpu", "host_ram"),
    signs=(
        Row(kv_cache.buffer_of_the_cache_was_refused, Grade.PROVES, OF_A_BUFFER),
        Row(generation.cache_of_a_generation_was_refused, Grade.NAMES, OF_A_GENERATION),
        Row(kv_cache.weights_fill_sglangs_fraction, Grade.PROVES, BEYOND_A_FRACTION),
        Row(kv_cache.weights_leave_lmdeploy_too_little, Grade.PROVES, BEHIND_THE_WEIGHTS),
        Row(kv_cache.buffers_fill_mlcs_share, Grade.PROVES),
        Row(kv_cache.no_block_fits, Grade.PROVES),
        Row(kv_cache.weights_that_another_process_holds, Grade.PROVES),
        Row(kv_cache.more_sequences_than_states, Grade.PROVES, OF_STATES),
        Row(kv_cache.room_below_nothing, Grade.PROVES),
        Row(kv_cache.weights_fill_mlcs_share, Grade.NAMES),
        Row(kv_cache.budget_of_no_block, Grade.NAMES),
        Row(kv_cache.the_look_at_the_cache_failed, Grade.NAMES),
        Row(kv_cache.no_sequence_fits_what_is_free, Grade.POINTS, OF_ONE_SEQUENCE),
        Row(other_words.cache_gets_no_room_in_other_words, Grade.NAMES),
        Row(kv_cache.cache_beside_all_weights_was_refused, Grade.NAMES, OF_A_BUFFER),
    ),
    against=(
        Row(kv_cache.others_count_inside_the_share, Grade.PROVES),
        Row(kv_cache.sglangs_fraction_should_do, Grade.NAMES),
    ),
    knobs=("raise-engine-reservation", "smaller-prefill", *AFTER_SHARE_AND_BATCH),
    knobs_where=(
        (kv_cache.activations_are_heavy, ("smaller-prefill", "raise-engine-reservation", *AFTER_SHARE_AND_BATCH)),
        (kv_cache.no_larger_share_would_do, NO_LARGER_SHARE),
        (kv_cache.a_step_takes_a_whole_prompt, (*OF_ONE_SEQUENCE, "smaller-model")),
        (other_words.cache_is_larger_than_any_share, OF_A_BUFFER),
    ),
)
