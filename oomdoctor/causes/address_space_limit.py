"""An allocation is refused though memory is there: ulimit -v, the overcommit policy, Windows' commit limit."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, address_space, builds, flight_record, ggml, heaps, other_words, set_limits
from oomdoctor.signs.refused_work import the_refused_array_is_shown, the_refused_work_is_shown

# Where RAM itself may be short: it is part of what Windows promises, and a large piece may really not be there.
OF_RAM = ("more-address-space", "more-host-memory", "fewer-workers", "smaller-buffers", "low-memory-loading")
# Windows counts what Ray's store maps, too
OF_RESOURCES = ("more-address-space", "smaller-object-store", "fewer-workers", "low-memory-loading")
# What is free may have been counted at another time.
OF_MORE_THAN_IS_FREE = ("more-address-space", "low-memory-loading", "more-host-memory", "fewer-workers")
# Where nothing but the refusal stands: who asks for less needs no other limit.
OF_A_GUESS = ("smaller-microbatch", "fewer-workers", "more-address-space", "stream-data", "low-memory-loading")
OF_A_FORK = ("fewer-workers", "more-address-space", "more-host-memory", "low-memory-loading")
OF_MAPS = ("raise-map-count", "fewer-workers", "smaller-partitions")

CAUSE = Cause(
    id="address-space-limit",
    title=mark("A limit on address space or commit was hit, not the RAM itself"),
    headlines=(
        mark("A new thread could not be started: {thread_limit}"),
        mark("{virtual_job} reserved {virtual_used} of address space: its scheduler's limit is {virtual_limit}"),
        mark("{virtual_job} reserved {virtual_used} of address space, and its scheduler allows less"),
        mark("An allocation of {ram_requested} failed with {ram_free} of RAM unused: an address space or commit limit"),
        mark("An allocation of RAM failed at a limit on address space of {address_limit}[: {ram_requested} requested]"),
        mark("An allocation of RAM failed at the kernel's commit limit of {commit_limit}[: {ram_requested} requested]"),
        mark("Windows refused memory ({windows_error})[ {doing}][: {ram_requested} requested]"),
        mark("An allocation of {ram_requested} failed on {windows_words}: more than RAM and page file had left"),
        mark("The process has no memory maps left ({maps_spent})[ {doing}]"),
        mark("A tensor of {shared_tensor} could not be shared[ {doing}]: the process has no memory maps left"),
        mark("The kernel did not map {a_file}[ {doing}]: too many memory maps, or a limit on address space"),
        mark("{data_process} reached its limit on private memory of {data_limit} (ulimit -d)"),
        mark("{saver} could not fork for its background save: no memory for a copy of the process"),
        mark("A child process could not be started ({fork_error})[ {doing}]: no memory for a copy of its parent"),
        mark("{heap_of} found no memory for its heap[: {ram_requested} requested]"),
        mark("An allocation of {ram_requested} of RAM failed[ ({ram_error})][ {doing}]"),
        mark("An allocation of RAM failed ({ram_error})[ {doing}]"),
        mark("An allocation of {less_than_a_gigabyte} of RAM failed[ {doing}]"),
    ),
    pools=("host_ram", "cgroup"),
    silent=(address_space.killed_instead,),
    excluded=(address_space.more_than_any_limit, set_limits.process_has_no_limit),
    signs=(
        Row(address_space.scheduler_limits_virtual_memory, Grade.PROVES),
        Row(set_limits.request_beyond_the_address_limit, Grade.PROVES),
        Row(set_limits.commit_limit_and_free_memory, Grade.PROVES),
        Row(address_space.a_thread_was_refused, Grade.NAMES),
        Row(set_limits.address_space_is_limited, Grade.NAMES),
        Row(set_limits.overcommit_is_off, Grade.NAMES),
        Row(address_space.the_program_is_of_32_bits, Grade.NAMES),
        Row(heaps.addresses_for_javas_heap_were_refused, Grade.POINTS),
        Row(flight_record.a_limit_on_address_space_was_recorded, Grade.PROVES),
        Row(address_space.maps_of_memory_are_spent, Grade.NAMES, OF_MAPS),
        Row(address_space.data_of_a_process_is_limited, Grade.PROVES),
        Row(address_space.a_shared_tensor_was_not_mapped, Grade.NAMES, OF_MAPS),
        Row(address_space.a_file_was_not_mapped, Grade.NAMES, (*OF_MAPS, "more-address-space")),
        Row(address_space.windows_has_no_resources, Grade.NAMES, OF_RESOURCES),
        Row(address_space.windows_commit_is_used_up, Grade.PROVES, OF_RAM),
        Row(address_space.overcommit_was_refused, Grade.NAMES),
        Row(builds.a_compiler_stopped_beside_free_memory, Grade.NAMES),
        Row(address_space.refused_with_more_free, Grade.NAMES, OF_MORE_THAN_IS_FREE),
        Row(address_space.windows_refused_an_array, Grade.POINTS, OF_RAM),
        Row(address_space.large_piece_refused, Grade.LEFT, OF_RAM),
        Row(address_space.small_piece_refused, Grade.POINTS, OF_RAM),
        Row(ggml.small_piece_of_the_host_refused, Grade.POINTS, (*OF_RAM[:2], "shorter-context")),
        Row(address_space.array_refused, Grade.HINTS, OF_A_GUESS),
        Row(address_space.a_fork_was_refused, Grade.POINTS, OF_A_FORK),
        Row(address_space.refused_with_an_errno, Grade.POINTS),
        Row(other_words.address_space_by_the_message, Grade.NAMES),
        Row(address_space.a_call_of_the_system_was_refused, Grade.POINTS),
        Row(address_space.refused_by_any_allocator, Grade.LEFT, OF_A_GUESS),
    ),
    # The limit is no answer where the log shows what met it.
    against=(Row(the_refused_work_is_shown, Grade.HINTS), Row(the_refused_array_is_shown, Grade.LEFT)),
    knobs=("more-address-space", "fewer-workers", "low-memory-loading"),
)
