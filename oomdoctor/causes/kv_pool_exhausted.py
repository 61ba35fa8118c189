"""The KV pool runs out while requests are served, and requests or the engine die of it."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, kv_pool, other_words

# Places and states go by the number of requests; a shorter prompt or a smaller cache entry frees none.
FEWER_FIRST = ("fewer-sequences", "raise-engine-reservation", "tensor-parallel", "pin-version")
# Slots are no tokens: no memory makes more of them
OF_SLOTS = ("fewer-sequences", "pin-version")
# What a larger pool would hold more of is what cannot be evicted.
UNEVICTED = ("smaller-prefill", "pin-version", "fewer-sequences")
# Its cells are as many as the context is long, whatever one of them takes: a smaller one makes no more of them
OF_A_CONTEXT = ("fewer-sequences", "shorter-context")
AS_A_LATER_RELEASE_DOES = ("pin-version", "quantize-kv-cache", "shorter-context", "raise-engine-reservation")
OF_A_PROMPT = ("quantize-kv-cache", "raise-engine-reservation", "shorter-context", "fewer-sequences")
OF_A_HOST_BUFFER = ("raise-allocator-cap", "less-offload", "more-host-memory")
# One request alone: there are no others to take back, and what it decodes is no prefill.
OF_ONE_REQUEST = ("raise-engine-reservation", "shorter-context", "quantize-kv-cache", "tensor-parallel")
IN_ANY_VERSION = (
    "fewer-sequences",
    "smaller-prefill",
    "raise-engine-reservation",
    "shorter-context",
    "quantize-kv-cache",
    "tensor-parallel",
)

CAUSE = Cause(
    id="kv-pool-exhausted",
    title=mark("The KV cache was full while serving"),
    headlines=(
        mark("{batch} needed {batch_tokens} of KV cache; {window_free} were free for the sliding-window layers"),
        mark("{no_states} has no free Mamba state for another request"),
        mark("{batch} needed {batch_tokens} of KV cache, {tokens_free} were free"),
        mark("{batch} failed to get {batch_tokens} of KV cache: {tokens_unused} were free, {tokens_stayed} evictable"),
        mark("{batch} failed to get {batch_tokens} of KV cache although {tokens_plenty} were free"),
        mark("One request alone fills {engine_of_one}'s KV cache"),
        mark("{engine_first} took in {tried_requests} with room for {free_requests}"),
        mark("{engine_first} refused a prompt that needs {prompt_tokens} of KV cache; {prompt_free} were free"),
        mark("{engine_first}'s KV cache is full: {needed} needed, {available} there"),
        mark("{swap_full}'s KV cache and its swap space in host memory are full"),
        mark("{full_context}'s context is full: all sequences share it"),
        mark("{no_block}'s KV cache has no free block left"),
        mark("{host_buffer}'s host buffer for KV blocks (max_local_cpu_size) is full[: {requested} requested]"),
        mark("{engine_first}'s KV cache is full[ {doing}]"),
    ),
    stage="serving",
    pools=("kv_cache", "gpu", "host_ram"),
    signs=(
        Row(kv_pool.no_places_although_tokens_are_free, Grade.PROVES, OF_SLOTS),
        Row(kv_pool.no_places_for_requests, Grade.PROVES, FEWER_FIRST),
        Row(kv_pool.no_states_for_requests, Grade.PROVES, FEWER_FIRST),
        Row(kv_pool.one_request_fills_the_pool, Grade.PROVES, OF_ONE_REQUEST),
        Row(kv_pool.fewer_tokens_than_needed, Grade.PROVES),
        Row(kv_pool.fewer_tokens_of_the_window, Grade.PROVES),
        Row(kv_pool.no_state_beside_the_tokens, Grade.PROVES, FEWER_FIRST),
        Row(kv_pool.pages_for_all_requests_of_a_decode_batch, Grade.PROVES),
        Row(kv_pool.evictable_tokens_stayed, Grade.PROVES, UNEVICTED),
        Row(kv_pool.enough_tokens_by_the_count, Grade.PROVES, ("pin-version", *IN_ANY_VERSION)),
        Row(kv_pool.prompt_beside_cached_prefixes, Grade.PROVES, AS_A_LATER_RELEASE_DOES),
        Row(kv_pool.prompt_beside_running_sequences, Grade.PROVES, OF_A_PROMPT),
        Row(kv_pool.context_of_all_sequences_is_full, Grade.PROVES, OF_A_CONTEXT),
        Row(kv_pool.no_free_block, Grade.PROVES),
        Row(kv_pool.swap_space_is_full_too, Grade.PROVES),
        Row(kv_pool.buffer_on_the_host_is_full, Grade.NAMES, OF_A_HOST_BUFFER),
        Row(other_words.cache_is_short_in_other_words, Grade.NAMES),
        Row(other_words.one_request_does_not_fit_in_other_words, Grade.POINTS),
    ),
    knobs=(*IN_ANY_VERSION, "pin-version"),
)
