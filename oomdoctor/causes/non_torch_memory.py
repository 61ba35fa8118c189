"""NCCL, cuBLAS, cuDNN or the driver need memory outside the framework's allocator, which left none."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, other_words
from oomdoctor.signs.ggml import a_program_of_ggml
from oomdoctor.signs.library import (
    a_buffer_of_all_ranks_was_refused,
    a_handle_is_refused_in_tensorflow,
    a_handle_of_a_single_process_was_refused,
    a_library_failed,
    a_library_failed_beside_a_pool,
    a_library_was_refused,
    an_ordinary_context,
    buffers_between_cards_were_refused,
    much_outside_pytorch,
    much_outside_pytorch_in_an_engine,
    nccl_was_refused,
    very_much_outside_pytorch,
)
from oomdoctor.signs.made import of_a_plan

# A library that says that it was refused is short of memory; one that only fails may be of a wrong version
REFUSED_KNOBS = ("lower-engine-reservation", "fewer-environments", "smaller-microbatch", "free-the-gpu",
                 "smaller-input", "resize-sim-buffers", "shard-states")  # fmt: skip
# Of this process, and no tensors: what it is for, no figure says
OUTSIDE_KNOBS = (*REFUSED_KNOBS, "collect-evidence")
NCCL_KNOBS = (*REFUSED_KNOBS, "smaller-buffers")
# Of a single process, which may run on another GPU
HANDLE_KNOBS = (*REFUSED_KNOBS[:4], "fix-placement", *REFUSED_KNOBS[4:])
FAILED_KNOBS = (*REFUSED_KNOBS[:4], "fix-environment", *REFUSED_KNOBS[4:])
# Whoever runs it says how many layers lie on the GPU, beside a cache of the context
GGML_KNOBS = ("offload-parameters", "shorter-context", "quantize-kv-cache", "free-the-gpu", "quantize-weights")
POOL_KNOBS = ("cap-preallocation", "free-the-gpu", "fix-environment")

CAUSE = Cause(
    id="non-torch-memory",
    title=mark("A library outside PyTorch's allocator ran out of GPU memory"),
    headlines=(
        mark("{gpu_head} has no room for {plan_made} ({made_by})[: {requested} requested]"),
        mark("{library_out} could not allocate {requested} on {gpu}[ {doing}]"),
        mark("{library_out} ran out of memory on {gpu}[ {doing}][ ({place})]"),
        mark("{library_name} failed on {gpu}[ with {library_status}][ {doing}]: GPU memory is probably full"),
        mark("This process holds {outside} of {total} on {gpu} outside PyTorch[; {requested} requested, {free} free]"),
        mark("An allocation of {requested} outside the framework failed on {gpu}[ {doing}]"),
        mark("A library outside the framework ran out of memory on {gpu}[ {doing}][ ({place})]"),
    ),
    pools=("gpu",),
    excluded=(an_ordinary_context,),
    signs=(
        Row(of_a_plan, Grade.PROVES),
        Row(a_library_was_refused, Grade.PROVES),
        Row(a_buffer_of_all_ranks_was_refused, Grade.NAMES),
        Row(buffers_between_cards_were_refused, Grade.NAMES),
        Row(very_much_outside_pytorch, Grade.NAMES, OUTSIDE_KNOBS),
        Row(a_library_failed_beside_a_pool, Grade.POINTS, POOL_KNOBS),
        Row(a_library_failed, Grade.POINTS, FAILED_KNOBS),
        Row(much_outside_pytorch, Grade.POINTS, OUTSIDE_KNOBS),
        Row(much_outside_pytorch_in_an_engine, Grade.HINTS),
        Row(other_words.library_by_the_message, Grade.NAMES),
        Row(other_words.library_was_refused_in_other_words, Grade.HINTS, FAILED_KNOBS),
    ),
    knobs=REFUSED_KNOBS,
    knobs_where=(
        (a_handle_is_refused_in_tensorflow, POOL_KNOBS),
        (nccl_was_refused, NCCL_KNOBS),
        (a_program_of_ggml, GGML_KNOBS),
        (a_handle_of_a_single_process_was_refused, HANDLE_KNOBS),
    ),
)
