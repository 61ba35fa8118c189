"""An engine's share of the card takes what others, or the engine itself beside its share, need."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, engine, loading, passes
from oomdoctor.signs.kv_cache import a_step_takes_a_whole_prompt
from oomdoctor.signs.logits import sampler_working_on_logits

AT_THE_START = ("lower-engine-reservation", "free-the-gpu", "start-in-sequence", "separate-placement")
OF_WHAT_IS_FREE = ("lower-engine-reservation", "smaller-prefill", "fewer-sequences", "eager-mode", "free-the-gpu")
BESIDE_A_TRAINER = ("lower-engine-reservation", "engine-sleep", "offload-optimizer", "clear-references",
                    "offload-parameters", "separate-placement", "shorter-context")  # fmt: skip
# A sampler's tensors have one row per request; fewer tokens per step do not shrink them
IN_THE_SAMPLER = ("fewer-sequences", "lower-engine-reservation", "eager-mode", "tensor-parallel")
OF_WHOLE_PROMPTS = ("lower-engine-reservation", "shorter-context", "fewer-sequences", "eager-mode", "tensor-parallel")
# Engines sleep and wake up beside a trainer, which has to leave the GPU first
AT_WAKE_UP = ("lower-engine-reservation", "clear-references", "offload-optimizer", "offload-parameters",
              "separate-placement", "start-in-sequence")  # fmt: skip
# It takes back what it had: what the trainer has put on the GPU since is new
BEHIND_A_TRAINING = ("offload-optimizer", "clear-references", "lower-engine-reservation", "offload-parameters",
                     "separate-placement", "start-in-sequence")  # fmt: skip

CAUSE = Cause(
    id="vllm-utilization-too-high",
    title=mark("The inference engine reserves too much GPU memory"),
    headlines=(
        mark("{engine_first} wants {share} of {gpu} ({wanted}), but {free_at_start} of {total} were free at its start"),
        mark("{engine_first} takes {cache_fraction} of the {free_before} free on {gpu} for its KV cache: too much"),
        mark("{apart_from_pytorch} holds {outside} of {total} on {gpu}[; {requested} requested, {free} free]"),
        mark("{waking} could not take its memory back at wake-up: {requested} requested, {free} free on {gpu}"),
        mark("{waking} could not take its memory back at wake-up: out of memory on {gpu}[ ({place})]"),
        mark("{pool_taker} ran out of memory on {gpu} for its sleep-mode pool, at load or wake-up[ ({place})]"),
        mark("{beside_engine} needed {requested} more beside {engine_within}[ ({share} reserved)]; "
             "{free} were free on {gpu}"),
        mark("{beside_engine} ran out of memory on {gpu} beside {engine_within}[, which reserves {share} of it]"),
        mark("{server} reserves {share} of {gpu} and needed {requested} more[ {doing}]; {free} were free"),
        mark("{server} needed {requested} more[ {doing}]; {free}[ of {total}] were free on {gpu}"),
        mark("An allocation of {requested} failed although {plenty}[ of {total}] were free on {gpu}[ {doing}]"),
        mark("{server} needed {requested} more on {gpu}[ {doing}][ ({share} reserved)][ ({place})]"),
        mark("{server} ran out of memory on {gpu}[ {doing}][, with {share} of it reserved][ ({place})]"),
        mark("An allocation of {requested} failed on {gpu} beside CUDA graphs ({graph_pools})[: {free} free]"),
        mark("Out of memory on {gpu}[ {doing}], beside the share of an inference engine[: {requested} requested]"),
    ),
    pools=("gpu",),
    excluded=(engine.still_laying_out, engine.still_measuring, engine.still_loading, engine.cache_is_a_small_part,
              passes.one_piece_beyond_the_card),
    signs=(
        Row(engine.share_beside_a_small_neighbour, Grade.PROVES, AT_THE_START),
        Row(engine.cache_of_what_is_free_was_refused, Grade.PROVES, OF_WHAT_IS_FREE),
        Row(engine.share_fills_the_card, Grade.PROVES),
        Row(engine.share_beside_a_neighbour, Grade.NAMES, AT_THE_START),
        Row(engine.refused_while_taking_its_share, Grade.NAMES),
        Row(engine.refused_while_serving, Grade.NAMES),
        Row(engine.an_engine_outside_pytorch, Grade.NAMES),
        Row(engine.a_neighbour_holds_the_share, Grade.NAMES, BESIDE_A_TRAINER),
        Row(engine.share_larger_than_what_is_free, Grade.POINTS, AT_THE_START),
        Row(engine.refused_while_preparing, Grade.POINTS),
        Row(engine.refused_behind_its_cache, Grade.POINTS),
        Row(engine.refused_with_figures, Grade.POINTS),
        Row(engine.a_trainer_starts_beside_the_share, Grade.POINTS, BESIDE_A_TRAINER),
        Row(engine.refused_in_an_engine, Grade.HINTS),
        Row(engine.a_trainer_beside_the_share, Grade.HINTS, BESIDE_A_TRAINER),
        Row(engine.graphs_on_a_full_card, Grade.HINTS),
    ),
    against=(
        Row(loading.weights_by_their_name_fill_the_card, Grade.HINTS), Row(engine.no_share_helps, Grade.HINTS),
        Row(engine.memory_saver_of_nobody_named, Grade.POINTS),
        Row(engine.the_engine_holds_too_little, Grade.HINTS),
        Row(engine.tensors_beyond_a_share, Grade.HINTS),
        Row(engine.others_beside_the_engine, Grade.HINTS),
    ),
    knobs=("lower-engine-reservation", "smaller-prefill", "fewer-sequences", "shorter-context", "eager-mode",
           "engine-sleep", "separate-placement", "tensor-parallel"),
    knobs_where=((engine.woke_up_behind_a_training, BEHIND_A_TRAINING), (engine.waking_up, AT_WAKE_UP),
                 (engine.beside_a_trainer, BESIDE_A_TRAINER), (engine.its_pool_was_refused, AT_THE_START),
                 (sampler_working_on_logits, IN_THE_SAMPLER), (a_step_takes_a_whole_prompt, OF_WHOLE_PROMPTS)),
    before=("activations",),
)  # fmt: skip
