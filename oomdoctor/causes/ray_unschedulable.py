"""Ray does not place what was requested."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, other_words, scheduling

OF_A_FULL_CLUSTER = ("fix-environment", "fix-resource-request", "add-nodes", "separate-placement")
OF_MISSING_NODES = ("add-nodes", "fix-resource-request", "fix-environment", "separate-placement")

CAUSE = Cause(
    id="ray-unschedulable",
    title=mark("Ray cannot place the requested resources"),
    headlines=(
        mark("vLLM needs more GPUs than {engine_lacks}: tensor_parallel_size is too large"),
        mark("Ray has reserved {reserved_in_vain} for a trial whose worker does not start"),
        mark("Ray cannot place the job: {too_many_requested} requested, {there_is}"),
        mark("Ray cannot place {unplaced}: the launch needs all {all_taken} of the cluster"),
        mark("Ray cannot place {unplaced}[, nor {unplaced_beside}]: {placing_ended}"),
        mark("Ray cannot place the job: {placing_ended}"),
    ),
    pools=("scheduling",),
    signs=(
        Row(scheduling.more_asked_than_there_is, Grade.PROVES),
        Row(scheduling.ray_gave_a_request_up, Grade.PROVES),
        Row(scheduling.a_request_waits, Grade.NAMES),
        Row(other_words.resources_missing_in_other_words, Grade.POINTS),
    ),
    knobs=("fix-resource-request", "add-nodes", "fix-environment", "separate-placement"),
    knobs_where=(
        (scheduling.a_pod_of_the_cluster_is_down, OF_MISSING_NODES),
        (scheduling.an_autoscaler_has_no_such_node, OF_MISSING_NODES),
        (scheduling.every_gpu_is_taken_by_the_launch, OF_A_FULL_CLUSTER),
    ),
)
