"""One request of the configured length needs more KV cache than there is."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, other_words
from oomdoctor.signs.ggml import context_fills_the_host, planned_cache_exceeds_all_that_is_free
from oomdoctor.signs.kv_cache import (
    a_step_takes_a_whole_prompt,
    context_longer_than_the_cache,
    no_context_is_short_enough,
    no_length_fits,
    no_sequence_fits_the_cache,
    the_look_at_the_cache_failed,
)
from oomdoctor.signs.releases import one_stage_is_asked_for_all_layers
from oomdoctor.signs.warm_up import longest_request_exceeds_tgis_cache

OF_GGML_ON_THE_HOST = ("shorter-context", "quantize-kv-cache", "memory-efficient-attention", "smaller-prefill",
                       "quantize-weights", "more-host-memory")  # fmt: skip
OF_A_PLAN = ("shorter-context", "fewer-sequences", "quantize-kv-cache", "smaller-model")
OF_WHOLE_PROMPTS = ("shorter-context", "smaller-prefill", "raise-engine-reservation", "quantize-kv-cache",
                    "tensor-parallel", "quantize-weights")  # fmt: skip
OF_ONE_STAGE = ("shorter-context", "pin-version", "raise-engine-reservation", "quantize-kv-cache", "tensor-parallel",
                "quantize-weights")  # fmt: skip

CAUSE = Cause(
    id="max-model-len-too-long",
    title=mark("The context length needs more KV cache than there is"),
    headlines=(
        mark("{length} of context need {cache_needed} of KV cache, {cache_there} are there[; {cache_tokens} fit]"),
        mark("{length} of context do not fit: the KV cache holds {cache_tokens}"),
        mark("The context needs {tokens_needed} of KV cache, {available} are there"),
        mark("{length} of context do not fit the KV cache of {engine_within}"),
        mark("{engine_first}'s context length does not fit its KV cache"),
    ),
    stage="kv_cache_init",
    pools=("kv_cache", "gpu", "host_ram"),
    excluded=(no_length_fits, no_context_is_short_enough),
    signs=(
        Row(context_longer_than_the_cache, Grade.PROVES),
        Row(no_sequence_fits_the_cache, Grade.NAMES),
        Row(longest_request_exceeds_tgis_cache, Grade.PROVES),
        Row(the_look_at_the_cache_failed, Grade.POINTS),
        Row(context_fills_the_host, Grade.PROVES, OF_GGML_ON_THE_HOST),
        Row(planned_cache_exceeds_all_that_is_free, Grade.PROVES, OF_A_PLAN),
        Row(other_words.longest_context_does_not_fit_in_other_words, Grade.NAMES),
        Row(other_words.exceeds_the_whole_cache_in_other_words, Grade.NAMES),
        Row(other_words.one_request_does_not_fit_in_other_words, Grade.POINTS),
    ),
    before=("activations",),
    knobs=("shorter-context", "raise-engine-reservation", "quantize-kv-cache", "tensor-parallel", "quantize-weights"),
    knobs_where=(
        (a_step_takes_a_whole_prompt, OF_WHOLE_PROMPTS),
        (one_stage_is_asked_for_all_layers, OF_ONE_STAGE),
    ),
)
