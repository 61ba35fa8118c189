"""The device refuses although what was asked for is free."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade
from oomdoctor.signs.library import (
    a_limit_of_the_process,
    a_platform_that_refuses_what_is_free,
    enough_was_free,
    far_more_was_free_for_a_library,
    less_was_free,
    plenty_was_free,
    refused_at_the_drivers_start,
    the_driver_of_an_embedded_gpu_had_no_room,
    twice_as_much_was_free,
)

START_KNOBS = ("fix-environment", "free-the-gpu", "collect-evidence")
EMBEDDED_KNOBS = ("free-the-gpu", "smaller-model", "pin-version", "collect-evidence")

CAUSE = Cause(
    id="spurious-device-oom",
    title=mark("An allocation failed although GPU memory was free"),
    headlines=(
        mark("An allocation of {requested} failed although {plenty}[ of {total}] were free on {gpu}"),
        mark("NvMap could not allocate {nvmap_requested} of the RAM that CPU and GPU share (error 12)"),
        mark("An allocation failed on {platform}, which can fail while memory is free[ ({place})]"),
        mark("An allocation failed on {gpu}, perhaps while memory was free[ ({place})]"),
    ),
    pools=("gpu",),
    excluded=(less_was_free, a_limit_of_the_process),
    signs=(
        Row(plenty_was_free, Grade.PROVES),
        Row(far_more_was_free_for_a_library, Grade.NAMES),
        Row(refused_at_the_drivers_start, Grade.NAMES, START_KNOBS),
        Row(twice_as_much_was_free, Grade.HINTS),
        Row(the_driver_of_an_embedded_gpu_had_no_room, Grade.HINTS, EMBEDDED_KNOBS),
        Row(a_platform_that_refuses_what_is_free, Grade.HINTS),
        Row(enough_was_free, Grade.LEFT),
    ),
    knobs=("fix-environment", "allocator-config", "pin-version", "collect-evidence"),
)
