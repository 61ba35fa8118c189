"""A size no machine has: a shape is wrong."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, sizes

CAUSE = Cause(
    id="absurd-size",
    title=mark("A size no machine has was asked for"),
    pools=("gpu", "host_ram"),
    excluded=(sizes.device_size_that_cards_have, sizes.host_size_that_machines_have),
    signs=(
        Row(sizes.device_size_that_no_machine_has, Grade.PROVES),
        Row(sizes.host_size_that_no_machine_has, Grade.PROVES),
        Row(sizes.host_size_beyond_the_largest, Grade.NAMES),
        Row(sizes.probe_for_what_no_card_has, Grade.NAMES, ("fix-environment", "pin-version")),
        Row(sizes.host_size_of_the_largest, Grade.POINTS),
        Row(sizes.host_size_that_few_machines_have, Grade.POINTS),
        Row(sizes.device_size_of_many_cards, Grade.POINTS),
        Row(sizes.device_size_of_several_cards, Grade.HINTS),
    ),
    knobs=("fix-shape", "smaller-microbatch", "smaller-input", "memory-efficient-attention"),
)
