"""A size no machine has: a shape is wrong."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, arrays, broadcasts, calendar, made, sizes

# A count that overflows in an extension that was built for another release
OF_NO_MACHINE = ("fix-shape", "pin-version")
# What a driver of another release counts as free
OF_A_PROBE = ("cap-preallocation", "fix-environment", "pin-version")
# As large as some clusters' memory: all pairs of a large input's parts, or a whole data set
OF_ALL_PAIRS = ("fix-shape", "memory-efficient-attention", "smaller-input")
OF_ALL_DATA = ("fix-shape", "stream-data", "narrow-dtypes", "smaller-input")

CAUSE = Cause(
    id="absurd-size",
    title=mark("Impossible allocation size: a shape or a count is wrong"),
    headlines=(
        mark("{merged} would take {ram_requested}: the two models are of different kinds"),
        mark("A negative size was requested ({negative_request}): a 32-bit count overflowed at {overflowed_at}"),
        mark("A framework counted {probed} of GPU memory as free and tried to take it; no GPU has that much"),
        mark("One allocation of {impossible}[ for shape {shape}] failed: no machine has that much memory"),
        mark("One allocation of {requested}[ for shape {shape}] failed: {times} times the memory there is"),
        mark("One allocation of {requested}[ for shape {shape}] failed: a shape or count is probably wrong"),
    ),
    pools=("gpu", "host_ram"),
    excluded=(sizes.size_of_all_pairs, sizes.device_size_that_cards_have, sizes.host_size_that_machines_have),
    signs=(
        Row(made.of_two_models, Grade.PROVES),
        Row(broadcasts.loss_over_every_pair, Grade.PROVES, ("fix-shape",)),
        Row(calendar.range_since_1970, Grade.PROVES, ("fix-shape",)),
        Row(sizes.device_size_that_no_machine_has, Grade.PROVES, OF_NO_MACHINE),
        Row(sizes.device_size_beyond_printing, Grade.PROVES),
        Row(sizes.size_that_has_overflowed, Grade.PROVES),
        Row(sizes.host_size_that_no_machine_has, Grade.PROVES),
        Row(sizes.host_size_beyond_counting, Grade.NAMES),
        Row(sizes.count_that_has_overflowed, Grade.PROVES),
        Row(sizes.host_size_beyond_the_largest, Grade.NAMES),
        Row(sizes.probe_for_what_no_card_has, Grade.NAMES, OF_A_PROBE),
        Row(sizes.host_size_of_the_largest, Grade.POINTS, OF_ALL_DATA),
        Row(sizes.host_size_that_few_machines_have, Grade.POINTS, OF_ALL_DATA),
        Row(arrays.arguments_of_many_devices, Grade.NAMES, ("fix-shape", "shard-states")),
        Row(arrays.lengthy_array_beyond_the_limit, Grade.POINTS, ("fix-shape", "pin-version")),
        Row(sizes.picture_beyond_any_format, Grade.POINTS, ("fix-shape", "smaller-input")),
        Row(sizes.device_size_of_many_cards, Grade.POINTS, OF_ALL_PAIRS),
        Row(sizes.device_size_of_several_cards, Grade.HINTS, OF_ALL_PAIRS),
    ),
    knobs=("fix-shape", "memory-efficient-attention"),
)
