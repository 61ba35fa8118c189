"""Other processes hold the card."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, neighbours, placement

AT_THE_START = ("free-the-gpu", "lower-engine-reservation", "start-in-sequence", "separate-placement")
BESIDE_AN_ENGINE = (
    "lower-engine-reservation",
    "free-the-gpu",
    "separate-placement",
    "engine-sleep",
    "start-in-sequence",
    "fix-placement",
)

OWN_PROCESSES = ("fix-placement", "free-the-gpu", "separate-placement", "lower-engine-reservation")

CAUSE = Cause(
    id="gpu-shared",
    title=mark("Other processes hold the card"),
    pools=("gpu",),
    excluded=(
        neighbours.asks_for_more_than_the_card,
        neighbours.others_hold_little,
        neighbours.nothing_was_taken_at_the_start,
    ),
    signs=(
        Row(neighbours.a_table_lists_another, Grade.PROVES),
        Row(neighbours.others_hold_as_much, Grade.PROVES),
        Row(neighbours.others_hold_very_much, Grade.PROVES),
        Row(neighbours.cards_are_unequal, Grade.PROVES),
        Row(neighbours.others_hold_much, Grade.NAMES),
        Row(neighbours.much_was_taken_at_the_start, Grade.NAMES, AT_THE_START),
        Row(neighbours.some_was_taken_at_the_start, Grade.POINTS, AT_THE_START),
        Row(neighbours.tensorflow_found_nearly_nothing_free, Grade.POINTS),
        Row(neighbours.what_tensorflow_counted_as_free_was_not, Grade.POINTS),
        Row(neighbours.a_table_lists_others_without_figures, Grade.POINTS),
        Row(neighbours.the_card_is_full_afterwards, Grade.POINTS),
        Row(neighbours.refused_at_the_first_touch, Grade.POINTS),
        Row(
            neighbours.refused_when_the_ranks_met, Grade.POINTS, ("free-the-gpu", "fix-placement", "start-in-sequence")
        ),
        Row(neighbours.a_small_program_was_refused, Grade.HINTS),
        Row(neighbours.little_was_taken_at_the_start, Grade.HINTS, AT_THE_START),
        Row(neighbours.an_engine_woke_to_less, Grade.HINTS),
        Row(neighbours.others_hold_some, Grade.HINTS),
        Row(neighbours.others_hold_hardly_any, Grade.LEFT),
    ),
    against=(Row(placement.ranks_in_a_row, Grade.HINTS),),
    knobs=("free-the-gpu", "separate-placement", "lower-engine-reservation", "fix-placement", "start-in-sequence"),
    knobs_where=(
        (placement.numbers_beside_its_own, OWN_PROCESSES),
        (neighbours.figures_of_a_card_beside_an_engine, BESIDE_AN_ENGINE),
    ),
    before=("vllm-utilization-too-high",),
)
