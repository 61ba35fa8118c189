"""Gathering or sending the trainer's weights to the engine needs memory on top of both."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade
from oomdoctor.signs.engine_steps import handing_weights_over, handing_weights_over_by_its_stage, waking_only

CAUSE = Cause(
    id="weight-sync-spike",
    title=mark("Handing the trainer's weights to the engine needs more than is free"),
    pools=("gpu",),
    excluded=(waking_only,),
    signs=(
        Row(handing_weights_over, Grade.NAMES),
        Row(handing_weights_over_by_its_stage, Grade.POINTS),
    ),
    knobs=(
        "sync-in-parts",
        "lower-engine-reservation",
        "engine-sleep",
        "offload-optimizer",
        "separate-placement",
        "more-gpus",
    ),
)
