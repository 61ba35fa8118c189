"""CUDA_VISIBLE_DEVICES, num_gpus and the devices there do not agree."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, other_words, visibility

CAUSE = Cause(
    id="gpu-visibility",
    title=mark("The requested GPUs are not all visible"),
    headlines=(
        mark("{gpus_wanted} requested, but CUDA_VISIBLE_DEVICES makes {gpus_visible} visible"),
        mark("The process uses {ordinal}, which is not visible to it[ ({visible_mask})]"),
        mark("No GPU is visible to {sees_none}[ ({visible_mask})][ ({place})]"),
        mark("Ray was started with {ray_told} but counts {ray_counts}"),
        mark("{ray_wanted} requested, but Ray counts {ray_counts}"),
        mark("{needed} requested, but only {available} visible"),
    ),
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
    knobs_where=(
        (visibility.a_known_release_counts_wrong, ("pin-version", "fix-resource-request", "fix-environment")),
        (visibility.a_worker_of_ray_sees_none, ("fix-resource-request", "fix-environment")),
    ),
)
