"""The card is full, and the log does not say with what."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, ggml, passes
from oomdoctor.signs.arrays import array_copied_to_one_core
from oomdoctor.signs.card import (
    card_is_full,
    log_ends_before_the_error,
    no_unified_memory_at_all,
    profiling_disturbed,
    refused_beside_a_reservation,
    table_counts_refusals,
)
from oomdoctor.signs.made import of_a_layout

DRAWING_KNOBS = ("smaller-buffers", "tiled-processing", "offload-parameters", "smaller-input", "free-the-gpu",
                 "collect-evidence")  # fmt: skip
LOADER_KNOBS = ("offload-parameters", "shorter-context", "quantize-weights", "smaller-model", "free-the-gpu",
                "collect-evidence")  # fmt: skip
# Beside TensorFlow's pool, which takes nearly all of the GPU whatever a batch needs of it
RESERVING_KNOBS = ("cap-preallocation", "free-the-gpu", "collect-evidence")
COPY_KNOBS = ("free-the-gpu", "shard-states", "mixed-precision", "collect-evidence")
DATA_KNOBS = ("smaller-partitions", "narrow-dtypes", "stream-data", "free-the-gpu", "collect-evidence")
SIMULATION_KNOBS = ("fewer-environments", "smaller-input", "more-gpus", "resize-sim-buffers", "free-the-gpu",
                    "collect-evidence")  # fmt: skip
SERVING_KNOBS = ("free-the-gpu", "quantize-weights", "shorter-context", "fewer-sequences", "smaller-microbatch",
                 "smaller-model", "collect-evidence")  # fmt: skip
STATES_KNOBS = ("smaller-microbatch", "shorter-sequences", "offload-optimizer", "free-the-gpu", "collect-evidence")
UNIFIED_KNOBS = ("fix-environment", "free-the-gpu", "cap-preallocation", "collect-evidence")

GENERAL_KNOBS = (
    "collect-evidence", "smaller-buffers", "cap-primitives", "fewer-environments", "smaller-microbatch",
    "smaller-input", "shorter-sequences", "free-the-gpu", "resize-sim-buffers",
)  # fmt: skip

CAUSE = Cause(
    id="gpu-memory-exhausted",
    title=mark("GPU memory ran out, and the log does not say for what"),
    headlines=(
        mark("{gpu_head} has no room for {laid_out} ({made_by})[: {requested} requested]"),
        mark("Unified memory (GPU and host RAM) ran out: {unified} could not be allocated, then {requested} on {gpu}"),
        mark("An allocation of {requested} failed on {gpu}[ {doing}]: {free}[ of {total}] free"),
        mark("An allocation of {requested} failed on {gpu}[ {doing}]; {plenty}[ of {total}] were free"),
        mark("An allocation of {requested} failed on {gpu}[ {doing}][ ({place})]"),
        mark("{failed_allocations} failed on {gpu}, by PyTorch's memory summary"),
        mark("An allocation of {dimensions} failed on {gpu}[ {doing}][ ({place})]"),
        mark("{allocator} ran out of memory on {gpu}[ {doing}][ ({place})]"),
        mark("An allocation failed on {gpu}[ {doing}][ ({place})]"),
    ),
    pools=("gpu",),
    fallback=True,
    silent=(profiling_disturbed,),
    signs=(
        Row(no_unified_memory_at_all, Grade.POINTS, UNIFIED_KNOBS),
        Row(of_a_layout, Grade.HINTS),
        Row(table_counts_refusals, Grade.HINTS),
        Row(card_is_full, Grade.LEFT),  # the last resort, whatever else is known
    ),
    missing=(log_ends_before_the_error,),
    knobs=GENERAL_KNOBS,
    knobs_where=(
        (passes.simulating, SIMULATION_KNOBS),
        (passes.drawing, DRAWING_KNOBS),
        (ggml.a_program_of_ggml, LOADER_KNOBS),
        (passes.works_on_data, DATA_KNOBS),
        (passes.serving, SERVING_KNOBS),
        (array_copied_to_one_core, COPY_KNOBS),
        (refused_beside_a_reservation, RESERVING_KNOBS),
        (passes.beside_states_of_a_trainer, STATES_KNOBS),
    ),
)
