"""Creating or stepping the optimizer's state needs the memory."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, first_step, optimizer, other_words, snapshot

OF_COPIES = ("low-memory-optimizer", "shard-states", "offload-optimizer", "lora", "mixed-precision", "more-gpus")
ON_THE_CPU = ("low-memory-optimizer", "smaller-model", "mixed-precision", "smaller-microbatch", "more-host-memory")
# They alone come next: a batch is through
OF_THE_STATES = ("low-memory-optimizer", "lora", "mixed-precision", "smaller-model", "more-host-memory")
# Which of the two memories that they move between was full, is not said
OF_PAGED_STATES = ("low-memory-optimizer", "lora", "smaller-model")
# L-BFGS has no other states
OF_A_HISTORY = ("smaller-buffers", "low-memory-optimizer", "smaller-model", "mixed-precision", "more-host-memory")
# Of training on the CPU: what is stated of the batch, then what costs accuracy
OF_THE_BATCH = ("smaller-microbatch", "shorter-sequences", "smaller-input", "gradient-checkpointing",
                "mixed-precision", "smaller-model", "more-host-memory")  # fmt: skip
# The same where nothing shows what it was killed for: what the job states for its logits, too
OF_A_BARE_STEP = (OF_THE_BATCH[0], "chunked-logits", *OF_THE_BATCH[1:])
OF_SMALLER_STATES = ("smaller-microbatch", "low-memory-optimizer", "smaller-model", "shorter-sequences",
                     "smaller-input", "mixed-precision", "more-host-memory")  # fmt: skip
IN_A_BARE_STEP = (
    Row(first_step.states_are_told, Grade.HINTS, OF_SMALLER_STATES),
    Row(first_step.killed_bare_before_the_first_step, Grade.HINTS, OF_A_BARE_STEP),
    Row(first_step.killed_bare_after_the_inputs_grew, Grade.HINTS, OF_A_BARE_STEP),
    Row(first_step.killed_bare_in_a_pass, Grade.HINTS, OF_A_BARE_STEP),
)
IN_A_FIRST_STEP = (
    mark("{kernel_limit} was hit {in_first_step}[: {limit_killed} held {limit_killed_most}]"),
    mark("{limited_job} hit its memory limit[ of {job_limit}] {in_first_step}"),
    mark("{killer} killed {killed_sized} {in_first_step}"),
    mark("{killed_process} was killed ({kill_code}) {before_first_step}"),
)
# While sharded parameters are gathered
SHARDED_KNOBS = ("smaller-microbatch", "offload-optimizer", "offload-parameters", "shorter-sequences", "more-gpus")

CAUSE = Cause(
    id="optimizer-states",
    title=mark("The optimizer states do not fit beside the weights"),
    headlines=(
        *IN_A_FIRST_STEP,
        mark("{killed_process} was killed ({kill_code}) {before_adams_states}"),
        mark("{kernel_limit} was hit {before_adams_states}[: {limit_killed} held {limit_killed_most}]"),
        mark("{limited_job} hit its memory limit[ of {job_limit}] {before_adams_states}"),
        mark("{killer} killed {killed_sized} {before_adams_states}"),
        mark("Optimizer states hold {optimizer_held} of {tensors_held} allocated on {gpu}"),
        mark("{managed_library} could not get managed memory, which the GPU and the host share, for paged states"),
        mark("The optimizer step needed {requested} more; {free}[ of {total}] were free on {gpu}"),
        mark("An allocation of {requested} failed although {plenty}[ of {total}] were free on {gpu}[ {doing}]"),
        mark("The optimizer states do not fit on {gpu}: {requested} requested[ ({place})]"),
        mark("The optimizer states do not fit on {gpu}[ for an array of shape {shape}][ ({place})]"),
        mark("{kernel_limit} was hit: {limit_killed} held {limit_killed_most}"),
    ),
    stage="optimizer_step",
    pools=("gpu", "host_ram", "cgroup"),
    silent=(optimizer.host_memory_of_no_refusal,),
    excluded=(optimizer.another_stage_than_the_optimizers,),
    signs=(
        Row(snapshot.optimizer_states_hold_most, Grade.PROVES),
        Row(first_step.states_of_the_first_step_on_the_cpu, Grade.NAMES, ON_THE_CPU),
        Row(first_step.states_weigh_most, Grade.POINTS, ON_THE_CPU),
        Row(first_step.adams_states_come_next_at_a_limit, Grade.NAMES, OF_THE_STATES),
        Row(first_step.adams_states_come_next, Grade.POINTS, OF_THE_STATES),
        Row(optimizer.lbfgs_fills_a_limit, Grade.NAMES, OF_A_HISTORY),
        Row(optimizer.lbfgs_keeps_its_history, Grade.POINTS, OF_A_HISTORY),
        Row(optimizer.paged_states_were_refused, Grade.NAMES, OF_PAGED_STATES),
        Row(optimizer.in_the_optimizer, Grade.NAMES),
        Row(optimizer.zero_sets_up_its_optimizer, Grade.NAMES),
        Row(optimizer.stage_of_the_optimizer, Grade.NAMES),
        Row(snapshot.optimizer_states_hold_much, Grade.POINTS),
        Row(other_words.optimizer_by_the_message, Grade.POINTS),
    ),
    knobs=("shard-states", "offload-optimizer", "low-memory-optimizer", "lora", "mixed-precision", "more-gpus"),
    knobs_where=((optimizer.copies_of_whole_lists, OF_COPIES),),
)
