"""Creating or stepping the optimizer's state needs the memory."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, optimizer, other_words, snapshot

OF_COPIES = ("low-memory-optimizer", "shard-states", "offload-optimizer", "lora", "mixed-precision", "more-gpus")

CAUSE = Cause(
    id="optimizer-states",
    title=mark("The optimizer states do not fit beside the weights"),
    headlines=(
        mark("Optimizer states hold {optimizer_held} of {tensors_held} allocated on {gpu}"),
        mark("The optimizer step needed {requested} more; {free}[ of {total}] were free on {gpu}"),
        mark("An allocation of {requested} failed although {plenty}[ of {total}] were free on {gpu}[ {doing}]"),
        mark("The optimizer states do not fit on {gpu}: {requested} requested[ ({place})]"),
        mark("The optimizer states do not fit on {gpu}[ for an array of shape {shape}][ ({place})]"),
    ),
    stage="optimizer_step",
    pools=("gpu", "host_ram"),
    silent=(optimizer.host_memory_of_no_refusal,),
    excluded=(optimizer.another_stage_than_the_optimizers,),
    signs=(
        Row(snapshot.optimizer_states_hold_most, Grade.PROVES),
        Row(optimizer.in_the_optimizer, Grade.NAMES),
        Row(optimizer.stage_of_the_optimizer, Grade.NAMES),
        Row(snapshot.optimizer_states_hold_much, Grade.POINTS),
        Row(other_words.optimizer_by_the_message, Grade.POINTS),
    ),
    knobs=("shard-states", "offload-optimizer", "low-memory-optimizer", "lora", "mixed-precision", "more-gpus"),
    knobs_where=((optimizer.copies_of_whole_lists, OF_COPIES),),
)
