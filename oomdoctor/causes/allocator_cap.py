"""A limit below the hardware was hit: a memory fraction, Apple's watermark, one driver's largest allocation."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.causes.logits_spike import SCORES_KNOBS
from oomdoctor.language import mark
from oomdoctor.signs import Grade, address_space, allocator, databases, ggml, kills, other_words

LARGEST_KNOBS = ("raise-allocator-cap", "smaller-microbatch", "smaller-input", "shorter-sequences",
                 "memory-efficient-attention")  # fmt: skip
# The device's own: no option raises it.
AT_ONCE_KNOBS = ("smaller-prefill", *LARGEST_KNOBS[1:], "shorter-context", LARGEST_KNOBS[0])
# PyTorch's limit on a Mac lies above what macOS recommends: beyond it the machine pages, and may freeze.
WATERMARK_KNOBS = ("smaller-microbatch", "smaller-model", "smaller-input", "shorter-sequences", "raise-allocator-cap")
BUDGET_KNOBS = ("raise-allocator-cap", "spill-to-disk", "smaller-partitions", "fewer-workers", "smaller-buffers",
                "stream-data", "narrow-dtypes", "smaller-microbatch")  # fmt: skip
OF_SQLITE = ("spill-to-disk", "raise-allocator-cap", "smaller-buffers")
# More than the machine has is no limit
SHARE_KNOBS = ("smaller-buffers", "fewer-workers", "smaller-partitions", "spill-to-disk", "stream-data",
               "narrow-dtypes", "raise-allocator-cap")  # fmt: skip
HEAP_KNOBS = ("raise-allocator-cap", "smaller-partitions", "fewer-workers", "stream-data")
METAL_KNOBS = ("smaller-model", "quantize-weights", "shorter-context", "raise-allocator-cap")

CAUSE = Cause(
    id="allocator-cap",
    title=mark("A memory limit below the hardware's size was hit"),
    headlines=(
        mark("A memory cap of {cap} was hit; {gpu} has {plenty} free"),
        mark(
            "PyTorch's limit on this Mac is {watermark}: its allocator holds {mac_torch}, Metal beside it {mac_others}"
            "[, {requested} requested]"
        ),
        mark("{asked_at_once} were requested in one allocation; the device gives at most {most_at_once} at once"),
        mark("One allocation of {at_once} is over the driver's limit for a single allocation on {gpu}"),
        mark("The framework sees {visible_memory} of {gpu}'s {hidden_memory}; {requested} were requested"),
        mark("{pool_owner} could not lower its memory limit to {pool_lowered}[: {pool_used} are in use]"),
        mark("{growing_pool}'s pool could not grow on {gpu}"),
        mark("PostgreSQL's table of locks is full ({lock_setting})"),
        mark("{pool_owner} counts {pool_needed} in use and stops at {pool_limit}; only {pool_resident} is in RAM"),
        mark("{pool_owner}'s memory limit of {pool_limit} was hit[ ({pool_setting})]: {pool_needed} needed in all"),
        mark("{pool_owner}'s memory limit of {pool_limit} was hit[ ({pool_setting})][: {requested} requested]"),
        mark("{pool_owner}'s memory limit was hit[ ({pool_setting})][: {requested} requested][, {pool_left} left]"),
        mark("{budget_of}'s worker used {spent} of its limit of {budget} before it was killed"),
        mark("The {heap} heap is full[ at {heap_limit}]"),
        mark("The Java {part_of_java} is full[ at {part_limit}]"),
        mark("A memory limit of {own_limit} was hit[: {requested} requested]"),
        mark("No kernel of {workspace} fits into its workspace"),
        mark("A memory cap of {cap_on_a_full_gpu} was hit on {gpu}: {requested} requested, {free} free"),
        mark("A memory limit below the hardware's size was hit: {requested} requested[ on {gpu}]"),
    ),
    pools=("gpu", "host_ram", "pinned"),
    excluded=(allocator.within_the_allowed, allocator.pool_of_a_library_within_its_limit),
    signs=(
        Row(allocator.pool_of_a_library_beyond_its_limit, Grade.PROVES),
        Row(allocator.pool_of_a_library_says_so, Grade.PROVES),
        Row(allocator.frameworks_own_limit_is_hit, Grade.NAMES),
        Row(allocator.budget_of_the_machines_size_is_spent, Grade.PROVES, SHARE_KNOBS),
        Row(allocator.budget_of_a_program_is_spent, Grade.PROVES, BUDGET_KNOBS),
        Row(databases.sqlite_is_at_its_own_limit, Grade.PROVES, OF_SQLITE),
        Row(kills.budget_was_nearly_spent_before_the_kill, Grade.NAMES, BUDGET_KNOBS),
        Row(allocator.arena_of_a_library_is_full, Grade.NAMES),
        Row(allocator.workspace_of_a_library_is_too_small, Grade.NAMES),
        Row(allocator.buffer_beyond_the_devices_largest, Grade.PROVES, SCORES_KNOBS),
        Row(allocator.more_than_metal_recommends, Grade.NAMES, METAL_KNOBS),
        Row(allocator.beyond_the_largest_allocation, Grade.PROVES, LARGEST_KNOBS),
        Row(allocator.beyond_the_largest_allocation_in_other_words, Grade.PROVES, AT_ONCE_KNOBS),
        Row(allocator.beyond_the_memory_fraction, Grade.PROVES),
        Row(allocator.beyond_the_allowed_beside_room, Grade.PROVES),
        Row(allocator.beyond_the_watermark, Grade.NAMES, WATERMARK_KNOBS),
        Row(allocator.card_partly_hidden, Grade.NAMES, ("raise-allocator-cap", "pin-version", "fix-environment")),
        Row(allocator.beyond_the_allowed_on_a_full_card, Grade.POINTS),
        Row(address_space.heap_of_a_runtime_is_full, Grade.NAMES, HEAP_KNOBS),
        Row(other_words.own_limit_in_other_words, Grade.NAMES),
    ),
    against=(Row(allocator.watermark_filled_by_its_own, Grade.POINTS),),
    knobs=("raise-allocator-cap", "smaller-microbatch", "smaller-input", "shorter-sequences"),
    knobs_where=((ggml.a_program_of_ggml, ("smaller-prefill", "shorter-context", "pin-version")),),
    before=("non-torch-memory",),
)
