"""Several ranks or models share one card by mistake."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, engine_steps, placement

CAUSE = Cause(
    id="device-misplacement",
    title=mark("Several ranks or models ended up on one card"),
    pools=("gpu",),
    signs=(
        Row(placement.own_ranks_on_the_card, Grade.PROVES),
        Row(placement.restored_beside_others, Grade.PROVES),
        Row(placement.restored_by_a_rank, Grade.NAMES),
        Row(placement.process_on_several_cards, Grade.NAMES),
        Row(placement.on_an_integrated_gpu, Grade.NAMES),
        Row(placement.ranks_in_a_row, Grade.NAMES),
        Row(placement.others_of_its_size, Grade.POINTS),
        Row(placement.restored, Grade.POINTS),
        Row(engine_steps.weights_on_another_card, Grade.POINTS),
    ),
    knobs=("fix-placement", "low-memory-loading", "free-the-gpu"),
    before=("activations", "checkpoint-spike", "model-does-not-fit", "profiling-race"),
)
