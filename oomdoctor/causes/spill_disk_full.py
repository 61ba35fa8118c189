"""The disk that Ray spills to, or keeps its session on, is full."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, store

# Of a program that spills for itself: smaller pieces of the same data take as much of the disk, and fewer workers with
# a budget each have less memory
OF_A_PROGRAM = ("free-disk", "narrow-dtypes", "stream-data", "clear-references")

CAUSE = Cause(
    id="spill-disk-full",
    title=mark("The disk that Ray spills objects to is full"),
    headlines=(
        mark("The disk that Ray spills to is over {disk_share} full: {disk_free} free[, {disk_object} to write]"),
        mark("The disk quota of Ray's spill folder is used up ({disk_quota})"),
        mark("The disk that Ray spills to is full: {spilled} spilled before the write failed[ (errno {disk_errno})]"),
        mark("{spilling_program} cannot spill to disk, and its memory limit is reached: {spilling_memory} in use"),
        mark("{spilling_program} found no room on disk for its temporary files[ in {spilling_folder}]"),
        mark("The disk that Ray spills to is full: no room for an object of {disk_object}"),
        mark("The disk that Ray spills to is full (errno {disk_errno})"),
        mark("A Ray worker died, and df shows the spill disk {df_mount} {df_share} full"),
    ),
    pools=("object_store", "host_ram", "cgroup"),
    signs=(
        Row(store.spill_worker_found_no_space, Grade.PROVES),
        Row(store.write_failed_after_spilling, Grade.NAMES),
        Row(store.store_and_disk_are_full, Grade.PROVES),
        Row(store.program_found_no_space_to_spill, Grade.PROVES, OF_A_PROGRAM),
        Row(store.disk_is_nearly_full, Grade.POINTS),
        Row(store.df_shows_the_disk_full, Grade.HINTS),
    ),
    knobs=("free-disk", "bigger-object-store", "stream-data", "clear-references"),
    before=("allocator-cap",),
)
