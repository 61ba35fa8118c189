"""A neighbour freed memory while the engine measured its own: its account does not add up, and nothing is short."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade
from oomdoctor.signs.engine_steps import a_measurement_was_disturbed, a_neighbour_freed_memory, weights_on_another_card

CAUSE = Cause(
    id="profiling-race",
    title=mark("Another process freed GPU memory while the engine measured; no memory is short"),
    headlines=(
        mark("Another process freed {freed} while {engine_within} measured {gpu}; no memory is short"),
        mark("{engine_first} stopped: {unchanged} were free before and after it measured {gpu}; no memory is short"),
        mark("{engine_first}'s memory profiling was disturbed on {gpu}; no memory is short"),
    ),
    stage="memory_profiling",
    pools=("gpu",),
    signs=(
        Row(a_neighbour_freed_memory, Grade.PROVES),
        Row(a_measurement_was_disturbed, Grade.NAMES),
    ),
    against=(Row(weights_on_another_card, Grade.POINTS),),
    knobs=("start-in-sequence", "free-the-gpu", "lower-engine-reservation", "pin-version"),
)
