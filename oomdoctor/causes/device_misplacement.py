"""Several ranks or models share one card by mistake."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, engine_steps, placement

# The loader chooses the GPU, whatever device is set before it
OF_A_FILE = ("low-memory-loading", "fix-placement", "free-the-gpu")
OF_RANKS = ("fix-placement", "smaller-input", "more-gpus")
OF_CONTEXTS = ("fix-placement", "smaller-microbatch", "shorter-sequences", "smaller-input")
OF_AN_ENGINE = ("fix-placement", "pin-version", "free-the-gpu")

CAUSE = Cause(
    id="device-misplacement",
    title=mark("Several ranks or models are on one GPU by mistake"),
    headlines=(
        mark("{sharing} share {gpu}; the others hold {sharing_holds}[, {requested} requested]"),
        mark("torch.load restores tensors onto {restored}, where others hold {gpu_others}[: {requested} requested]"),
        mark("torch.load restores tensors onto {restored}, where others hold memory[: {requested} requested]"),
        mark(
            "{ranks} with nearby PIDs hold {ranks_hold} of {gpu}, like ranks of one job[; {requested} "
            "requested, {free} free]"
        ),
        mark("{on_several}; ranks open each other's GPU"),
        mark("{no_weights}'s weights took 0 GiB of {gpu}: the model may be on another GPU"),
        mark("MPI ranks {ranks_on_one} share {gpu}, the only one[: {requested} requested]"),
        mark("Other processes of equal size hold {gpu_others} of {gpu}[; {requested} requested]"),
        mark("Several processes share {gpu} by mistake[: {requested} requested]"),
    ),
    pools=("gpu",),
    signs=(
        Row(placement.own_ranks_on_the_card, Grade.PROVES),
        Row(placement.restored_beside_others, Grade.PROVES, OF_A_FILE),
        Row(placement.restored_by_a_rank, Grade.NAMES, OF_A_FILE),
        Row(placement.process_on_several_cards, Grade.NAMES),
        Row(placement.on_an_integrated_gpu, Grade.NAMES),
        Row(placement.ranks_in_a_row, Grade.NAMES),
        Row(placement.unsized_ranks_in_a_row, Grade.NAMES),
        Row(placement.several_ranks_and_one_card, Grade.POINTS, OF_RANKS),
        Row(placement.others_of_its_size, Grade.POINTS),
        Row(placement.other_ranks_opened_a_context, Grade.HINTS, OF_CONTEXTS),
        Row(placement.restored, Grade.POINTS, OF_A_FILE),
        Row(engine_steps.a_check_failed_without_weights, Grade.POINTS, OF_AN_ENGINE),
        Row(engine_steps.weights_on_another_card, Grade.POINTS, OF_AN_ENGINE),
    ),
    knobs=("fix-placement", "low-memory-loading"),
    before=("activations", "checkpoint-spike", "model-does-not-fit", "profiling-race"),
)
