"""CUDA_VISIBLE_DEVICES, num_gpus and the devices there do not agree."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, other_words, visibility

CAUSE = Cause(
    id="gpu-visibility",
    title=mark("The GPUs asked for and the GPUs a process may see do not agree"),
    pools=("scheduling",),
    excluded=(visibility.ray_counts_all_it_was_told_of,),
    signs=(
        Row(visibility.more_asked_than_visible, Grade.PROVES),
        Row(visibility.not_visible, Grade.PROVES),
        Row(visibility.ray_counts_fewer_than_it_was_told_of, Grade.POINTS),
        Row(visibility.ray_counts_fewer_than_asked_for, Grade.HINTS),
        Row(other_words.devices_missing_in_other_words, Grade.NAMES),
    ),
    knobs=("fix-environment", "fix-resource-request", "add-nodes", "more-gpus"),
)
