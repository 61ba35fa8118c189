"""What the forward pass keeps for the backward pass: the batch or the sequences are too large."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.causes.logits_spike import ATTENTION_KNOBS, CALIBRATION_KNOBS, COMPUTE_KNOBS, PAIR_KNOBS, SCORES_KNOBS
from oomdoctor.causes.optimizer_states import IN_A_BARE_STEP, IN_A_FIRST_STEP, OF_THE_BATCH, SHARDED_KNOBS
from oomdoctor.causes.sampler_warmup import IN_A_PASS, IN_A_WARM_UP
from oomdoctor.language import mark
from oomdoctor.signs import Grade, allocator, arrays, generation, ggml, logits, other_words, passes, snapshot, warm_up
from oomdoctor.signs.card import profiling_disturbed
from oomdoctor.signs.first_step import killed_at_a_limit_in_a_step, states_of_the_first_step_on_the_cpu
from oomdoctor.signs.loading import live_tensors_before_any_step
from oomdoctor.signs.made import KNOBS, of_all_pairs, of_one_input
from oomdoctor.signs.neighbours import others_hold_many_times_what_was_missing

INFERENCE_KNOBS = ("smaller-microbatch", "smaller-input", "shorter-sequences", "quantize-weights",
                   "memory-efficient-attention", "smaller-model", "offload-parameters")  # fmt: skip
MAC_KNOBS = ("smaller-microbatch", "gradient-checkpointing", "shorter-sequences", "raise-allocator-cap")
OUTPUT_KNOBS = ("smaller-buffers", "smaller-microbatch", "gradient-checkpointing", "mixed-precision")

CAUSE = Cause(
    id="activations", title=mark("Activations do not fit: batch size or sequence length too large"),
    headlines=(*IN_A_FIRST_STEP,
        mark("{gpu_head} has no room for {made} ({made_by})[: {requested} requested][, {free} free]"),
        mark("{work} needed {requested} more; {free}[ of {total}] were free on {gpu}"),
        mark("{engine_first}'s compute buffer of {compute_buffer} does not fit on {gpu}"),
        mark("{engine_first}'s warm-up batch of {warmup_tokens} does not fit on {gpu}"),
        mark("A compiled program needs {program_beyond}[, {padding} of it padding]; {gpu} has {total}"),
        mark("An allocation of {requested}[ for shape {shape}][ {doing}] is larger than {gpu} ({too_small})"),
        mark("An allocation of {requested} failed although {plenty}[ of {total}] were free on {gpu}[ {doing}]"),
        mark("{work} needed {requested} more on {gpu}[ for an array of shape {shape}][ ({place})]"),
        mark("An allocation of {guessed} for activations failed on {gpu}: {free}[ of {total}] free"),
        mark("Activations do not fit on {gpu}[ {doing}]: {requested} requested, {free} free[ of {total}]"),
        mark("Activations do not fit on {gpu}[ {doing}]: {requested} requested[ ({place})]"),
        mark("Activations do not fit in {ram}[ {doing}][: {requested} requested][ for shape {shape}][ ({allocator})]"),
        mark("{work} ran out of memory on {gpu}[ for an array of shape {shape}] ({asker})"),
        mark("Activations do not fit on {gpu}[ {doing}][ ({asker})]")),
    pools=("gpu", "host_ram", "cgroup"), before=("absurd-size", "killed-without-evidence"), silent=(profiling_disturbed,
        passes.host_memory_of_no_pass, arrays.small_array_on_a_full_card, arrays.array_beyond_the_limit),
    excluded=(arrays.array_of_the_model, passes.while_loading_or_updating, snapshot.model_states_hold_most),
    signs=(*IN_A_BARE_STEP, Row(snapshot.passes_hold_most, Grade.PROVES), Row(of_one_input, Grade.NAMES),
        Row(of_all_pairs, Grade.NAMES), Row(ggml.several_copies_in_a_fork, Grade.NAMES),
        Row(killed_at_a_limit_in_a_step, Grade.NAMES, OF_THE_BATCH),
        Row(passes.bucket_was_refused, Grade.NAMES, OUTPUT_KNOBS), Row(passes.in_a_backward_pass, Grade.NAMES),
        Row(passes.in_a_forward_pass, Grade.NAMES), Row(ggml.scores_fill_the_compute_buffer, Grade.NAMES, SCORES_KNOBS),
        Row(ggml.compute_buffer_of_some_size_refused, Grade.NAMES, COMPUTE_KNOBS),
        Row(arrays.outputs_hold_most, Grade.NAMES, OUTPUT_KNOBS), Row(arrays.padded_beyond_the_device, Grade.NAMES),
        Row(arrays.array_of_a_shape, Grade.NAMES), Row(arrays.program_of_unknown_parts, Grade.NAMES),
        Row(arrays.program_works_with_more_than_the_device, Grade.NAMES),
        Row(ggml.compute_buffer_refused, Grade.POINTS, COMPUTE_KNOBS), Row(passes.measuring_its_need, Grade.POINTS),
        Row(warm_up.no_room_for_the_largest_batch, Grade.POINTS, IN_A_WARM_UP),
        Row(passes.in_an_engines_pass, Grade.POINTS), Row(arrays.array_without_a_shape, Grade.POINTS),
        Row(arrays.array_of_a_step_on_the_host, Grade.POINTS), Row(warm_up.warm_up_short, Grade.POINTS, IN_A_WARM_UP),
        Row(passes.a_piece_of_a_training_on_the_cpu, Grade.POINTS), Row(arrays.array_of_a_program, Grade.HINTS),
        Row(passes.one_piece_beside_a_model, Grade.HINTS, ATTENTION_KNOBS),
        Row(passes.while_parameters_are_gathered, Grade.HINTS, SHARDED_KNOBS),
        Row(passes.in_its_own_computation, Grade.HINTS), Row(passes.in_a_dummy_pass, Grade.HINTS, passes.OF_A_GUESS),
        Row(passes.others_waited_in_a_late_collective, Grade.LEFT), Row(snapshot.passes_hold_much, Grade.POINTS),
        Row(passes.a_piece_larger_than_a_card, Grade.HINTS), Row(passes.tensor_of_a_running_job, Grade.HINTS),
        Row(other_words.pass_by_the_message, Grade.POINTS)),
    against=(
        Row(generation.cache_of_a_generation_was_refused, Grade.POINTS), Row(passes.at_the_logits, Grade.POINTS),
        Row(generation.little_was_generated, Grade.LEFT), Row(passes.evaluation_without_the_model, Grade.POINTS),
        Row(others_hold_many_times_what_was_missing, Grade.POINTS),
        Row(passes.library_was_refused, Grade.HINTS), Row(passes.holds_less_than_half, Grade.HINTS),
        Row(passes.in_an_engines_special_step, Grade.HINTS), Row(logits.sampler_working_on_logits, Grade.HINTS),
        Row(live_tensors_before_any_step, Grade.LEFT), Row(states_of_the_first_step_on_the_cpu, Grade.POINTS),
        Row(passes.most_is_outside_pytorch, Grade.POINTS), Row(passes.a_straw_on_the_host, Grade.LEFT)),
    knobs=("cap-primitives", "fewer-environments", "smaller-microbatch", "smaller-input", "gradient-checkpointing",
           "shorter-sequences", "memory-efficient-attention", "token-budget-batching", "sequence-parallel",
           "offload-activations", "packing", "smaller-buffers"),
    knobs_where=((passes.while_boxes_are_matched, KNOBS["boxes"]), (passes.with_an_engines_settings, IN_A_PASS),
                 (passes.calibrating, CALIBRATION_KNOBS), (passes.drawing_by_plain_attention, passes.OF_SCORES),
                 (passes.drawing, passes.OF_DRAWING), (arrays.pairs_hold_most, PAIR_KNOBS),
                 (passes.of_a_recording, passes.OF_SOUND), (passes.generating, INFERENCE_KNOBS),
                 (passes.in_attention, ATTENTION_KNOBS),
                 (allocator.beyond_the_watermark, MAC_KNOBS), (passes.tensor_of_a_running_job, passes.OF_A_GUESS)),
)  # fmt: skip
