"""The engine's warm-up runs the sampler with as many dummy requests as it may ever serve at once."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade
from oomdoctor.signs.engine_steps import the_engine_says_what_fits, warming_the_sampler

# Of the other steps of an engine: a pass with all its tokens, and the warm-up in which it measures how many fit
IN_A_PASS = ("lower-engine-reservation", "smaller-prefill", "fewer-sequences", "shorter-context", "limit-multimodal")
IN_A_WARM_UP = ("smaller-prefill", "shorter-context", "fewer-sequences", "quantize-weights", "tensor-parallel")

CAUSE = Cause(
    id="sampler-warmup",
    title=mark("The engine's sampler warm-up ran out of GPU memory"),
    headlines=(
        mark("{engine_first}'s {warmed} warm-up needed {requested} more; {free}[ of {total}] were free on {gpu}"),
        mark("{engine_first}'s {warmed} warm-up with {dummies} ran out of memory on {gpu}[: {requested} requested]"),
        mark("{engine_first}'s {warmed} warm-up ran out of memory on {gpu}[: {requested} requested][ ({place})]"),
    ),
    stage="engine_init",
    pools=("gpu",),
    signs=(Row(warming_the_sampler, Grade.PROVES),),
    knobs=("fewer-sequences", "lower-engine-reservation", "eager-mode"),
    knobs_where=((the_engine_says_what_fits, ("lower-engine-reservation", "fewer-sequences", "eager-mode")),),
)
