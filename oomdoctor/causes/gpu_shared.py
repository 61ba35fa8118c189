"""Other processes hold the card."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, neighbours, other_words, placement

AT_THE_START = ("free-the-gpu", "lower-engine-reservation", "fix-placement", "start-in-sequence",
                "separate-placement")  # fmt: skip
BESIDE_ITS_OWN = ("lower-engine-reservation", "fix-placement", "start-in-sequence", "separate-placement")
BESIDE_AN_ENGINE = ("lower-engine-reservation", "free-the-gpu", "separate-placement", "engine-sleep",
                    "start-in-sequence", "fix-placement")  # fmt: skip

OWN_PROCESSES = ("fix-placement", "free-the-gpu", "separate-placement", "lower-engine-reservation")
# SGLang compares what is free before it takes anything: its share is no matter
BEFORE_THE_SHARE = ("free-the-gpu", "fix-placement")
AT_WAKE_UP = ("free-the-gpu", "start-in-sequence", "lower-engine-reservation", "fix-placement")
BESIDE_A_SLEEPING_ENGINE = ("free-the-gpu", "separate-placement", "offload-optimizer")
WHEN_RANKS_MEET = ("free-the-gpu", "fix-placement", "start-in-sequence")

CAUSE = Cause(
    id="gpu-shared",
    title=mark("Other processes hold GPU memory"),
    headlines=(
        mark("{engine_first} wants {share} of {gpu}, but {taken_at_start} of {total} were in use before it started"),
        mark("{its_parent} holds {gpu_others} of {total} on {gpu}, where its child failed[ ({requested} requested)]"),
        mark("{neighbour} holds {gpu_others} of {total} on {gpu}[; {requested} requested, {free} free]"),
        mark("{gpu_unlisted} of {total} on {gpu} is not this process's[; {requested} requested, {free} free]"),
        mark("Other processes hold {gpu_others} of {total} on {gpu}[; {requested} requested, {free} free]"),
        mark(
            "{unequal} finds less memory free on one GPU of its group than on another[: {least_free} and {most_free}]"
        ),
        mark("TensorFlow may take only {tensorflow_limit} of {gpu}: the rest was in use at its start"),
        mark("TensorFlow counted {counted_as_free} as free on {gpu} and did not get it"),
        mark("{listed_neighbour} holds {listed_held} of GPU memory, and an allocation on {gpu} failed"),
        mark("An allocation failed on {gpu}, where {table_tool} lists other processes (PID {table_pids})"),
        mark("{table_tool} shows {in_table} of a GPU in use, by processes that it cannot list"),
        mark("A program that needs only {program_needs} found {gpu} full"),
        mark("{waking} could not take its memory back: other processes probably hold {gpu}[ ({place})]"),
        mark("{gpu_head} was already full[ {doing}] ({asker}): other processes probably hold it"),
    ),
    pools=("gpu",),
    excluded=(neighbours.asks_for_more_than_the_card, neighbours.others_hold_little,
              neighbours.nothing_was_taken_at_the_start),
    signs=(
        Row(neighbours.a_table_lists_another, Grade.PROVES),
        Row(neighbours.others_hold_as_much, Grade.PROVES),
        Row(neighbours.others_hold_very_much, Grade.PROVES),
        Row(neighbours.cards_are_unequal, Grade.PROVES, BEFORE_THE_SHARE),
        Row(neighbours.a_table_lists_another_that_holds_much, Grade.PROVES),
        Row(neighbours.others_hold_much, Grade.NAMES),
        Row(neighbours.a_process_of_the_log_was_there_first, Grade.NAMES, BESIDE_ITS_OWN),
        Row(neighbours.much_was_taken_at_the_start, Grade.NAMES, AT_THE_START),
        Row(neighbours.some_was_taken_at_the_start, Grade.POINTS, AT_THE_START),
        Row(neighbours.its_pool_got_nothing, Grade.NAMES),
        Row(neighbours.tensorflow_found_nearly_nothing_free, Grade.POINTS),
        Row(neighbours.what_tensorflow_counted_as_free_was_not, Grade.POINTS),
        Row(neighbours.a_table_lists_others_without_figures, Grade.POINTS),
        Row(neighbours.the_card_is_full_afterwards, Grade.POINTS),
        Row(neighbours.refused_at_the_first_touch, Grade.POINTS),
        Row(neighbours.no_context_could_be_created, Grade.POINTS),
        Row(neighbours.refused_when_the_ranks_met, Grade.POINTS, WHEN_RANKS_MEET),
        Row(neighbours.a_trainer_started_beside_a_sleeping_engine, Grade.HINTS, BESIDE_A_SLEEPING_ENGINE),
        Row(neighbours.a_small_program_was_refused, Grade.HINTS),
        Row(neighbours.little_was_taken_at_the_start, Grade.HINTS, AT_THE_START),
        Row(neighbours.a_server_woke_to_less, Grade.NAMES, AT_WAKE_UP),
        Row(neighbours.an_engine_woke_to_less, Grade.HINTS),
        Row(neighbours.others_hold_some, Grade.HINTS), Row(other_words.others_by_the_message, Grade.HINTS),
        Row(neighbours.others_hold_hardly_any, Grade.LEFT),
    ),
    against=(Row(placement.ranks_in_a_row, Grade.HINTS),),
    knobs=("free-the-gpu", "separate-placement", "lower-engine-reservation", "fix-placement", "start-in-sequence"),
    knobs_where=(
        (placement.numbers_beside_its_own, OWN_PROCESSES),
        (neighbours.figures_of_a_card_beside_an_engine, BESIDE_AN_ENGINE),
    ),
    before=("vllm-utilization-too-high",),
)  # fmt: skip
