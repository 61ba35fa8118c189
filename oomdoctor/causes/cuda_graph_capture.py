"""Capturing CUDA graphs needs more than the engine's share left free."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade
from oomdoctor.signs.engine_steps import (
    capture_by_its_stage,
    capture_in_the_traceback,
    eager_mode,
    graphs_captured_before,
)

CAUSE = Cause(
    id="cuda-graph-capture",
    title=mark("Not enough GPU memory to capture CUDA graphs"),
    headlines=(
        mark("Capturing CUDA graphs, {engine_within} needed {requested} more; {free}[ of {total}] were free on {gpu}"),
        mark("{engine_first} ran out of memory on {gpu} capturing CUDA graphs[: {requested} requested][ ({place})]"),
    ),
    stage="cuda_graph_capture",
    pools=("gpu",),
    excluded=(graphs_captured_before, eager_mode),
    signs=(
        Row(capture_in_the_traceback, Grade.PROVES),
        Row(capture_by_its_stage, Grade.NAMES),
    ),
    knobs=("lower-engine-reservation", "eager-mode", "fewer-sequences", "shorter-context"),
)
