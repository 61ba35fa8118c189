"""Loading, tokenising or caching data fills memory."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, held_data, host_data, host_growth, made, mapped_data, other_words, own_arrays, pieces
from oomdoctor.signs.address_space import a_fork_was_refused
from oomdoctor.signs.databases import sqlite_is_at_its_own_limit
from oomdoctor.signs.printed_arrays import arrays_by_its_prints_fill_it
from oomdoctor.signs.replays import a_buffer_is_laid_out

KNOBS = ("stream-data", "fewer-workers", "narrow-dtypes", "smaller-partitions", "spill-to-disk", "smaller-buffers",
         "smaller-microbatch", "smaller-input", "more-host-memory")  # fmt: skip
OF_MANY_READERS = ("fewer-workers", *(knob for knob in KNOBS if knob != "fewer-workers"))  # somebody chose so many
OF_A_CACHE = ("stream-data", "fewer-workers", "smaller-input", "more-host-memory")  # later batches take none of it
# What is kept has a size of its own, and elements that may be smaller
OF_A_BUFFER = ("smaller-buffers", "stream-data", "smaller-input", "narrow-dtypes", "smaller-microbatch",
               "more-host-memory")  # fmt: skip
OF_A_ROLLOUT = ("smaller-buffers", "fewer-environments", "smaller-input", "narrow-dtypes", "more-host-memory")
# What comes out of one step is as large as it is: parts of it, or narrower ones
OF_TABLES = ("smaller-partitions", "narrow-dtypes", "stream-data", "spill-to-disk", "fewer-workers", "more-host-memory")
OF_AN_INDEX = ("narrow-dtypes", "smaller-input", "spill-to-disk", "smaller-partitions", "more-host-memory")  # vectors

CAUSE = Cause(
    id="dataset-in-ram", title=mark("Loading, tokenizing or caching data fills the memory"),
    headlines=(
        mark("Memory of {node} rose at once: {machine_jump} came between two prints"),
        mark("Memory grew with the work that was done: {pieces_of_work}, {growth_course}"),
        mark("The arrays of which the job's prints tell fill its memory: {arrays_told}"),
        mark("{held_buffer} filled the memory until the job was killed"),
        mark("The data that the job collects filled its memory: {collected}"),
        mark("{killed_process} was killed ({kill_code}) after {cached_before_a_death} of data were cached in RAM"),
        mark("{dead_process} died after {cached_before_a_death} of data were cached in RAM"),
        mark("{cached} of data were cached in RAM when memory ran out"),
        mark("All data goes to {gpu} in one allocation: {data_in_one_piece} requested"),
        mark("An allocation[ of {requested}] failed on {gpu} {doing}[ ({place})]"),
        mark("The result of {table_step} on tables in memory does not fit into RAM[: {ram_requested} requested]"),
        mark("An allocation of {ram_requested} of RAM failed[ {doing}][: an array of {array}]"),
        mark("{killed_process} was killed ({kill_code}) {among_tables}"),
        mark("{killed_process} was killed ({kill_code}) while loading or tokenizing data"),
        mark("{limited_job} hit its memory limit while loading or tokenizing data[: {oom_kills}]"),
        mark("{dead_process} died while loading or tokenizing data"),
        mark("{shm_user} found no room in /dev/shm[ ({shm_size})] while loading data"),
        mark("No room in RAM for {made_in_ram}[ ({place})]"),
        mark("An allocation failed while loading data: an array of {array}"),
        mark("An allocation failed while loading data ({ram_error})"),
    ),
    stage="data_load", pools=("host_ram", "cgroup", "shm", "gpu"),
    silent=(host_data.a_card_without_data, sqlite_is_at_its_own_limit),
    signs=(
        Row(host_data.data_goes_to_the_card_in_one_piece, Grade.NAMES, ("stream-data", "smaller-input")),
        Row(host_data.data_are_read_onto_the_card, Grade.POINTS), Row(a_buffer_is_laid_out, Grade.POINTS),
        Row(host_data.data_is_cached_in_memory, Grade.PROVES, OF_A_CACHE),
        Row(host_data.data_is_kept_by_a_setting, Grade.NAMES), Row(host_data.data_is_kept_by_workers, Grade.POINTS),
        Row(held_data.a_buffer_was_filling, Grade.NAMES, OF_A_BUFFER), Row(arrays_by_its_prints_fill_it, Grade.NAMES),
        Row(host_data.memory_ran_out_at_a_line_on_data, Grade.NAMES), Row(held_data.data_were_being_read, Grade.POINTS),
        Row(host_data.memory_ran_out_while_reading_data, Grade.POINTS),
        Row(held_data.things_were_collected, Grade.POINTS), Row(held_data.an_encoded_table_is_large, Grade.POINTS),
        Row(held_data.a_table_beyond_the_limit, Grade.POINTS, OF_TABLES),
        Row(host_data.data_is_kept_by_batches, Grade.POINTS), Row(held_data.refused_at_a_file, Grade.POINTS),
        Row(held_data.a_table_was_made_whole, Grade.POINTS, OF_TABLES), Row(made.of_all_pairs_in_ram, Grade.POINTS),
        Row(pieces.memory_grew_with_the_work, Grade.NAMES), Row(held_data.the_data_fill_the_address_space, Grade.NAMES),
        Row(held_data.a_hash_table_was_to_grow, Grade.NAMES), Row(host_growth.machine_filled_at_once, Grade.POINTS),
        Row(host_data.a_data_library_was_refused, Grade.POINTS), Row(host_data.strings_of_one_width, Grade.NAMES),
        Row(host_data.a_matrix_of_pairs_was_refused, Grade.POINTS), Row(host_data.arrow_was_refused, Grade.HINTS),
        Row(host_data.an_index_was_refused, Grade.POINTS, OF_AN_INDEX),
        Row(host_data.refused_among_tables, Grade.POINTS, OF_TABLES),
        Row(host_data.refused_while_reading_data, Grade.POINTS), Row(host_data.a_wide_table_was_refused, Grade.POINTS),
        Row(host_data.an_array_of_data_was_refused, Grade.HINTS), Row(own_arrays.a_line_fills_the_memory, Grade.HINTS),
        Row(host_data.many_readers_and_one_vanished, Grade.POINTS, OF_MANY_READERS),
        Row(mapped_data.rows_wait_to_be_written, Grade.POINTS), Row(host_data.vanished_at_a_line_on_data, Grade.HINTS),
        Row(held_data.killed_in_the_middle_of_reading, Grade.HINTS), Row(other_words.data_by_the_message, Grade.POINTS),
        Row(held_data.killed_bare_at_its_data, Grade.HINTS, OF_TABLES),
        Row(host_data.vanished_while_reading_data, Grade.LEFT),
    ),
    knobs=KNOBS, against=(Row(a_fork_was_refused, Grade.HINTS),),  # a copy of the parent was asked for, and no data
    knobs_where=((held_data.a_rollout_was_refused, OF_A_ROLLOUT), (host_data.data_is_kept_by_batches, OF_A_CACHE)),
    before=("absurd-size", "killed-without-evidence", "process-ram-hog", "shm-too-small", "too-many-workers"),
)  # fmt: skip
