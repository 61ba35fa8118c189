"""Shared memory is full: loader workers, NCCL or Python cannot get their segments in /dev/shm."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, limits, other_words, shm

OF_JOBLIB = ("spill-to-disk", "bigger-shm", "narrow-dtypes", "clear-references")
OF_A_FILE = ("spill-to-disk", "bigger-shm", "free-disk")
# Larger, it only fills later where batches are kept
OF_A_CLIMB = ("clear-references", "fewer-workers", "bigger-shm", "smaller-microbatch")
OF_SYSTEM_V = ("bigger-shm", "fewer-workers")
OF_THE_STORE = ("bigger-shm", "smaller-object-store")

CAUSE = Cause(
    id="shm-too-small",
    title=mark("Shared memory (/dev/shm) is too small"),
    headlines=(
        mark("Ray's object store of {store_requested} is {store_excess} larger than /dev/shm"),
        mark("Ray's object store of {store_requested} does not fit into /dev/shm[ ({shm_size})]"),
        mark("The kernel refused a System V segment of {system_v_requested}: see `ipcs -lm`"),
        mark("A segment of {shm_requested} ({shm_user}) does not fit into /dev/shm[ ({shm_size})]"),
        mark("{shm_user} found no room in /dev/shm[ ({shm_size})]"),
        mark("A pod's volume in memory (/dev/shm) exceeds its limit of {volume_limit}"),
        mark("Ray's object store does not fit into /dev/shm: {shm_there} available"),
        mark("{bus_victim} died of a bus error (SIGBUS): /dev/shm may be full[ ({shm_size})]"),
    ),
    pools=("shm", "host_ram", "cgroup"),
    excluded=(shm.bus_error_with_room,),
    signs=(
        Row(shm.no_segment_of_system_v, Grade.PROVES, OF_SYSTEM_V),
        Row(shm.no_room_and_a_figure_for_it, Grade.PROVES),
        Row(shm.no_room, Grade.PROVES),
        Row(shm.volume_grew_over_its_size, Grade.PROVES),
        Row(shm.store_refused_for_shm, Grade.PROVES, OF_THE_STORE),
        Row(shm.store_larger_than_shm, Grade.NAMES, OF_THE_STORE),
        Row(shm.bus_error_and_full, Grade.PROVES),
        Row(shm.bus_error_in_dockers_default, Grade.PROVES),
        Row(shm.bus_error_that_names_shm, Grade.NAMES),
        Row(shm.bus_error_while_reading_data, Grade.POINTS),
        Row(shm.bus_error, Grade.HINTS),
        Row(other_words.shared_memory_short_in_other_words, Grade.NAMES),
    ),
    against=(Row(limits.store_exceeds_the_limit, Grade.POINTS),),
    knobs=("bigger-shm", "fewer-workers", "spill-to-disk", "smaller-microbatch", "clear-references"),
    knobs_where=(
        (shm.joblib_found_no_room, OF_JOBLIB),
        (shm.a_file_found_no_room, OF_A_FILE),
        (shm.it_filled_steadily, OF_A_CLIMB),
    ),
)
