"""Saving, gathering or loading a full state needs the memory."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, other_words
from oomdoctor.signs.checkpoints import (
    a_copy_of_a_state_was_refused,
    a_line_on_a_checkpoint,
    a_unit_was_put_together_for_a_state,
    in_code_that_loads_a_state,
    in_code_that_loads_an_optimizers_state,
    in_code_that_saves_a_state,
    killed_at_a_step_that_saves,
    no_memory_is_named,
    saves_run_in_the_background,
    saves_wait_in_the_background,
    while_a_checkpoint_was_written_or_read,
    who_held_most_was_saving,
)
from oomdoctor.signs.host_loading import several_models_were_loaded

OPTIMIZER_KNOBS = ("low-memory-loading", "clear-references", "sharded-checkpoint", "offload-optimizer",
                   "low-memory-optimizer", "more-host-memory")  # fmt: skip
OF_A_CUT_LOG = ("sharded-checkpoint", "more-host-memory")  # each of the others spends what may have been full
OF_A_UNIT = ("shard-states", "offload-parameters")
OF_THE_BACKGROUND = ("smaller-buffers", "sharded-checkpoint", "low-memory-optimizer", "more-host-memory")

CAUSE = Cause(
    id="checkpoint-spike",
    title=mark("Saving or loading a checkpoint needs more memory than there is"),
    headlines=(
        mark("{checkpointing} does not fit on {checkpoint_gpu}: {requested} requested[, {free} free]"),
        mark("{checkpointing} filled {node}: {full} in use[; Ray killed {ray_killed}]"),
        mark("{limited_job} hit its memory limit {doing}[: {oom_kills}]"),
        mark("{killed_process} was killed ({kill_code}) at {step_that_saves}, where a checkpoint is due"),
        mark("{killed_process} was killed ({kill_code}) {doing}"),
        mark("{checkpointing} ran out of {ram}[: {ram_requested} requested]"),
        mark("{checkpointing} ran out of memory[: {ram_requested} requested]"),
    ),
    pools=("host_ram", "cgroup", "gpu", "shm", "none"),
    silent=(several_models_were_loaded,),
    signs=(
        Row(a_copy_of_a_state_was_refused, Grade.PROVES),
        Row(who_held_most_was_saving, Grade.PROVES),
        Row(saves_wait_in_the_background, Grade.NAMES, OF_THE_BACKGROUND),
        Row(in_code_that_saves_a_state, Grade.NAMES),
        Row(in_code_that_loads_an_optimizers_state, Grade.NAMES, OPTIMIZER_KNOBS),
        Row(in_code_that_loads_a_state, Grade.NAMES),
        Row(while_a_checkpoint_was_written_or_read, Grade.NAMES),
        Row(killed_at_a_step_that_saves, Grade.POINTS),
        Row(a_line_on_a_checkpoint, Grade.HINTS),
        Row(other_words.state_by_the_message, Grade.HINTS),
    ),
    knobs=("sharded-checkpoint", "less-offload", "offload-parameters", "low-memory-loading", "more-host-memory"),
    knobs_where=(
        (saves_run_in_the_background, OF_THE_BACKGROUND),
        (no_memory_is_named, OF_A_CUT_LOG),
        (a_unit_was_put_together_for_a_state, OF_A_UNIT),
    ),
    before=("host-memory-exhausted", "killed-without-evidence", "process-ram-hog", "too-many-workers"),
)
