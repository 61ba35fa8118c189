"""Gathering or sending the trainer's weights to the engine needs memory on top of both."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade
from oomdoctor.signs.engine_steps import (
    handing_weights_over,
    handing_weights_over_by_its_stage,
    killed_while_weights_were_handed_over,
    waking_only,
)
from oomdoctor.signs.gathering import parameters_gathered_by_hand

GATHERED_KNOBS = (
    "sync-in-parts",
    "offload-optimizer",
    "lower-engine-reservation",
    "engine-sleep",
    "separate-placement",
)

CAUSE = Cause(
    id="weight-sync-spike",
    title=mark("Sending weights to the engine needs more GPU memory than is free"),
    headlines=(
        mark("Sending weights to {engine_within} needed {requested} more; {free}[ of {total}] were free on {gpu}"),
        mark("An allocation of {requested} failed although {plenty}[ of {total}] were free on {gpu}[ {doing}]"),
        mark("Sending weights to {engine_within} ran out of memory on {gpu}[: {requested} requested][ ({place})]"),
    ),
    stage="weight_sync",
    pools=("gpu",),
    excluded=(waking_only,),
    signs=(
        Row(handing_weights_over, Grade.NAMES),
        Row(handing_weights_over_by_its_stage, Grade.POINTS),
        Row(parameters_gathered_by_hand, Grade.POINTS, GATHERED_KNOBS),
        Row(killed_while_weights_were_handed_over, Grade.HINTS),
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
