"""The engine's warm-up runs the sampler with as many dummy requests as it may ever serve at once."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade
from oomdoctor.signs.engine_steps import warming_the_sampler

CAUSE = Cause(
    id="sampler-warmup",
    title=mark("Warming up the engine's sampler ran out of device memory"),
    pools=("gpu",),
    signs=(Row(warming_the_sampler, Grade.PROVES),),
    knobs=("fewer-sequences", "lower-engine-reservation", "eager-mode"),
)
