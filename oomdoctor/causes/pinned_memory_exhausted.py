"""Page-locked host memory is refused, by the driver or by the limit on locked memory."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, other_words
from oomdoctor.signs.host_caches import lmcache_was_refused
from oomdoctor.signs.pinned import (
    huge_pages_were_refused,
    locking_was_refused,
    page_locked_bytes_were_refused,
    page_locked_memory_was_refused,
    pinning_was_an_invalid_argument,
    refused_behind_its_swap_blocks,
    refused_beside_a_line_on_pinning,
    refused_in_code_that_pins,
    refused_under_wsl,
    refused_with_room_on_the_card,
    registering_was_refused_by_an_adapter,
    registering_was_refused_without_a_limit,
    tensorflow_pins_what_it_copies,
    the_buffer_for_copying_was_refused,
    the_card_was_full_by_its_figures,
    the_traceback_ends_in_pinning,
)

OF_LOCKING = ("raise-memlock",)
OF_REGISTERING = ("raise-map-count", "more-host-memory")
WITH_AN_ADAPTER = ("raise-memlock", "raise-map-count", "more-host-memory")
OF_HUGE_PAGES = ("fix-environment", "less-offload")
OF_A_BUFFER = ("unpin-memory", "fix-environment", "raise-memlock", "more-host-memory")
OF_SWAPPED_BLOCKS = ("less-swap-space", "pin-version", "more-host-memory")
OF_A_CACHE = ("less-offload", "raise-memlock", "more-host-memory")
# It pins whatever crosses to the GPU: tensorflow/core/common_runtime/device/device_host_allocator.h
OF_TENSORFLOW = ("smaller-microbatch", "stream-data", "smaller-input", "more-host-memory")

CAUSE = Cause(
    id="pinned-memory-exhausted",
    title=mark("Page-locked (pinned) host memory could not be allocated"),
    headlines=(
        mark("{memlock} could not lock[ {pinned_requested} of] memory: the limit on locked memory (ulimit -l) was hit"),
        mark("{registering} could not register[ {pinned_requested} of] memory for RDMA, and names no limit"),
        mark("Memory[ ({pinned_requested})] could not be registered with {adapter}[ {doing}]"),
        mark("{huge_pages} could not be allocated[: {pinned_requested} requested][ {doing}]"),
        mark("A call that pins host memory ({pinning_last}) failed[ {doing}]; the error message is cut off"),
        mark("{pinned_requested} of page-locked (pinned) host memory could not be allocated[ {doing}]"),
        mark("Page-locked (pinned) host memory ran out: {pinned_in_use} in use"),
        mark("{buffer_pinned} could not allocate its page-locked (pinned) host buffer[ {doing}]"),
        mark("{pinned_share} of the model went to page-locked (pinned) memory, and an allocation failed"),
        mark("{pinning_library} could not allocate page-locked (pinned) host memory[ {doing}]"),
        mark("Page-locked (pinned) host memory could not be allocated ({pinning})[ {doing}]"),
        mark("Page-locked (pinned) host memory could not be allocated {doing}"),
    ),
    pools=("pinned", "gpu", "host_ram"),
    excluded=(the_card_was_full_by_its_figures,),
    signs=(
        Row(locking_was_refused, Grade.PROVES, OF_LOCKING),
        Row(registering_was_refused_without_a_limit, Grade.NAMES, OF_REGISTERING),
        Row(registering_was_refused_by_an_adapter, Grade.NAMES, WITH_AN_ADAPTER),
        Row(huge_pages_were_refused, Grade.NAMES, OF_HUGE_PAGES),
        Row(the_buffer_for_copying_was_refused, Grade.NAMES, OF_A_BUFFER),
        Row(the_traceback_ends_in_pinning, Grade.POINTS),
        Row(page_locked_bytes_were_refused, Grade.PROVES),
        Row(pinning_was_an_invalid_argument, Grade.POINTS),
        Row(page_locked_memory_was_refused, Grade.NAMES),
        Row(refused_in_code_that_pins, Grade.POINTS),
        Row(refused_with_room_on_the_card, Grade.POINTS),
        Row(refused_behind_its_swap_blocks, Grade.POINTS, OF_SWAPPED_BLOCKS),
        Row(refused_beside_a_line_on_pinning, Grade.HINTS),
        Row(refused_under_wsl, Grade.LEFT),
        Row(other_words.pinned_memory_short_in_other_words, Grade.NAMES),
    ),
    knobs=("unpin-memory", "raise-memlock", "less-offload", "less-swap-space", "more-host-memory"),
    knobs_where=((lmcache_was_refused, OF_A_CACHE), (tensorflow_pins_what_it_copies, OF_TENSORFLOW)),
    before=("gpu-memory-exhausted", "gpu-shared", "vllm-utilization-too-high"),
)
