"""Ray's object store is full, or it is what fills the node."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, other_words, store

ON_THE_NODE = ("stream-data", "smaller-object-store", "clear-references", "fewer-workers", "more-host-memory")
OF_A_RESULT = ("bigger-object-store", "stream-data", "clear-references", "free-disk", "more-host-memory")
PERHAPS = ("collect-evidence", "smaller-object-store", "clear-references", "more-host-memory")

CAUSE = Cause(
    id="object-store-full",
    title=mark("Ray's object store is full"),
    headlines=(
        mark("An object of {object_size} does not fit into Ray's object store ({store_too_small})"),
        mark("Ray's object store is full: {object_size} requested[, {store_full}]"),
        mark("Ray's object store is full: {store_waits} waiting[, {store_full}]"),
        mark("Ray's object store is full: {store_full}"),
        mark("Ray's object store is full: no room for a result of {store_caller}"),
        mark("Ray's object store holds {store_of_node} in use on {node}"),
        mark("{unlisted} in use on {node} is in no listed process: object store or other shared memory"),
        mark("Ray's object store is full and {full_disk} too[ (errno {disk_errno})]"),
    ),
    pools=("object_store", "host_ram", "cgroup"),
    excluded=(store.store_holds_little_of_the_node,),
    signs=(
        Row(store.object_did_not_fit, Grade.PROVES),
        Row(store.disk_behind_the_store_is_full, Grade.POINTS),
        Row(store.objects_wait_for_room, Grade.PROVES),
        Row(store.store_was_full_and_spilled, Grade.NAMES),
        Row(store.cut_while_an_object_was_stored, Grade.POINTS, OF_A_RESULT),
        Row(store.store_fills_the_node, Grade.PROVES, ON_THE_NODE),
        Row(store.store_holds_much_of_the_node, Grade.POINTS, ON_THE_NODE),
        Row(store.store_was_full_beside_a_death, Grade.HINTS),
        Row(store.much_stands_in_no_row, Grade.HINTS, PERHAPS),
        Row(other_words.store_short_in_other_words, Grade.NAMES),
    ),
    knobs=("bigger-object-store", "clear-references", "stream-data", "fewer-workers", "free-disk", "more-host-memory"),
)
