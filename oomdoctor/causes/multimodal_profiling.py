"""A vision or audio encoder runs, most often with items of the largest size to see what it needs."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, ggml
from oomdoctor.signs.engine_steps import (
    encoder_profiled_before,
    in_an_encoder_of_an_engine,
    profiling_an_encoder,
    profiling_behind_an_encoders_announcement,
    profiling_beside_words_of_an_encoder,
    serving_an_encoder,
)

OF_A_WARM_UP = ("limit-multimodal", "offload-parameters", "shorter-context", "quantize-weights", "smaller-model")

CAUSE = Cause(
    id="multimodal-profiling",
    title=mark("Profiling the vision or audio encoder ran out of GPU memory"),
    headlines=(
        mark("The vision encoder's warm-up with an image of {warm_up_image} does not fit on {gpu}[: {requested}]"),
        mark(
            "{profiling} of {engine_within} needed {requested} more on {gpu} while profiling[ "
            "{profiled}]; {free} were free"
        ),
        mark("{profiling} of {engine_within} ran out of memory on {gpu} while profiling[ {profiled}][ ({place})]"),
        mark("{encoder} of {engine_within} ran out of memory on {gpu}[ {doing}]: {requested} requested, {free} free"),
        mark("{encoder} of {engine_within} ran out of memory on {gpu}[ {doing}][ ({place})]"),
    ),
    pools=("gpu",),
    excluded=(encoder_profiled_before,),
    signs=(
        Row(profiling_an_encoder, Grade.PROVES),
        Row(ggml.vision_encoder_warming_up, Grade.NAMES, OF_A_WARM_UP),
        Row(serving_an_encoder, Grade.NAMES),
        Row(in_an_encoder_of_an_engine, Grade.NAMES),
        Row(profiling_behind_an_encoders_announcement, Grade.NAMES),
        Row(profiling_beside_words_of_an_encoder, Grade.POINTS),
    ),
    knobs=("limit-multimodal", "smaller-prefill", "fewer-sequences", "tensor-parallel", "shorter-context"),
    before=("activations",),
)
