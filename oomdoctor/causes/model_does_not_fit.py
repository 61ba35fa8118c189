"""The weights (and what training keeps beside them) are larger than the device."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.language import mark
from oomdoctor.signs import Grade, arrays, engine, ggml, loading, made, other_words, passes, snapshot, warm_up
from oomdoctor.signs.model_size import its_states_are_little_of_the_tensors

KNOBS = ("shard-states", "quantize-weights", "tensor-parallel", "smaller-model", "offload-parameters", "lora",
         "mixed-precision", "more-gpus")  # fmt: skip
# Where nothing is trained there are no states to shard; another model is another answer, and comes behind more GPUs.
INFERENCE_KNOBS = ("quantize-weights", "tensor-parallel", "smaller-model", "offload-parameters", "more-gpus",
                   "shard-states", "mixed-precision")  # fmt: skip
OF_A_PLAN = ("quantize-weights", "free-the-gpu", "offload-parameters", "smaller-model", "tensor-parallel")
BUFFER_KNOBS = ("offload-parameters", "quantize-weights", "smaller-model", "shorter-context", "more-gpus")
CACHE_KNOBS = ("shorter-context", "quantize-kv-cache", "offload-parameters", "quantize-weights", "smaller-model")
ENGINE_KNOBS = ("fewer-sequences", "shorter-context", "quantize-weights", "tensor-parallel", "smaller-model")
WORKSPACE_KNOBS = ("quantize-weights", "tensor-parallel", "fewer-sequences", "smaller-model", "shorter-context")

CAUSE = Cause(
    id="model-does-not-fit", title=mark("The model does not fit in GPU memory"),
    headlines=(
        mark("{gpu_head} has no room for {made_gradients} beside the weights[: {requested} requested, {free} free]"),
        mark("Parameters and gradients hold {weights_held} of {tensors_held} allocated on {gpu}"),
        mark("The model's weights ({share_weights}) do not fit in the {share_room} that {engine_within} may use"),
        mark("Metal ran out of memory[ {doing}], after a KV cache of {cache_before} was allocated"),
        mark("The model as planned ({plan}) does not fit on {gpu}, which has {plan_free} free"),
        mark("The weights of {layers_planned} ({weights_buffer}) do not fit on {gpu}[, which has {loader_free} free]"),
        mark("The model's weights ({weights_buffer}) do not fit on {gpu}[, which has {loader_free} free]"),
        mark("{kept_arguments} ({arguments}) do not fit on {gpu} ({total})"),
        mark("A compiled program needs {program_beyond}; {gpu} has {total}"),
        mark("The weights left {left_by_weights} of {left_of} free on {gpu}: the model does not fit"),
        mark("{gpu} is full of PyTorch tensors before any step: {tensors_before_steps}"
             "[; {requested} more requested, {free} free]"),
        mark("Loading the model filled {gpu} ({own_held} of {total})[; {requested} more requested, {free} free]"),
        mark("The model[ {model_name}] does not fit on {gpu}: {requested} requested, {free} free[ of {total}]"),
        mark("The model[ {model_name}] does not fit on {gpu}: {requested} requested, more than its {too_small}"),
        mark("The model[ {model_name}] does not fit on {gpu}: {requested} requested[ ({place})]"),
        mark("The model {model_name} does not fit on {gpu}"),
        mark("{beside_weights} has no room for its buffers beside the model's weights on {gpu}[ ({place})]"),
        mark("{engine}'s model does not fit on {gpu}[ ({place})]"),
        mark("The model does not fit on {gpu}[ ({gpu_model})][ ({place})]"),
    ),
    pools=("gpu",), before=("activations", "gpu-memory-exhausted"), silent=(passes.simulating,),
    excluded=(loading.beyond_loading, its_states_are_little_of_the_tensors), signs=(
        Row(snapshot.weights_hold_most, Grade.PROVES, KNOBS), Row(made.of_all_gradients, Grade.PROVES),
        Row(arrays.arguments_larger_than_the_device, Grade.PROVES, KNOBS),
        Row(ggml.weights_larger_than_what_was_free, Grade.PROVES, BUFFER_KNOBS),
        Row(ggml.plan_larger_than_what_is_free, Grade.PROVES, BUFFER_KNOBS),
        Row(ggml.weights_larger_than_the_loaders_table, Grade.PROVES, BUFFER_KNOBS),
        Row(loading.weights_larger_than_the_share, Grade.PROVES, INFERENCE_KNOBS),
        Row(loading.executor_without_weights, Grade.PROVES, INFERENCE_KNOBS),
        Row(loading.weights_left_off_the_card, Grade.PROVES, OF_A_PLAN),
        Row(loading.weights_by_their_name_fill_the_card, Grade.NAMES, INFERENCE_KNOBS),
        Row(loading.loading_fills_the_card, Grade.PROVES), Row(ggml.weights_refused, Grade.NAMES, BUFFER_KNOBS),
        Row(ggml.model_refused_by_ollama, Grade.NAMES, BUFFER_KNOBS), Row(loading.refused_by_vllm, Grade.NAMES),
        Row(loading.message_says_that_the_model_is_too_large, Grade.PROVES, INFERENCE_KNOBS),
        Row(loading.executors_weights_fill_the_card, Grade.NAMES, INFERENCE_KNOBS),
        Row(loading.no_step_beside_the_weights, Grade.NAMES, INFERENCE_KNOBS),
        Row(warm_up.weights_there_in_the_warm_up, Grade.NAMES, INFERENCE_KNOBS),
        Row(arrays.arguments_most_of_the_device, Grade.NAMES, KNOBS), Row(loading.a_card_for_no_model, Grade.NAMES),
        Row(arrays.program_larger_than_the_device, Grade.POINTS, KNOBS),
        Row(arrays.array_of_the_model, Grade.POINTS, ("free-the-gpu", *INFERENCE_KNOBS)),
        Row(arrays.arguments_hold_most, Grade.POINTS, KNOBS),
        Row(loading.loading_meets_a_full_card, Grade.POINTS), Row(loading.live_tensors_before_any_step, Grade.LEFT),
        Row(loading.refused_while_laying_out_weights, Grade.POINTS, INFERENCE_KNOBS),
        Row(loading.live_tensors_beyond_any_share, Grade.POINTS, INFERENCE_KNOBS),
        Row(ggml.command_beside_a_cache, Grade.POINTS, CACHE_KNOBS),
        Row(ggml.little_was_refused_beside_the_weights, Grade.NAMES, BUFFER_KNOBS),
        Row(ggml.some_buffer_refused, Grade.POINTS, BUFFER_KNOBS),
        Row(warm_up.warm_up_after_loading, Grade.HINTS, INFERENCE_KNOBS),
        Row(ggml.buffer_beside_the_weights_refused, Grade.HINTS, BUFFER_KNOBS),
        Row(loading.building_on_the_card, Grade.HINTS), Row(loading.program_makes_its_model, Grade.HINTS),
        Row(loading.one_piece_on_an_empty_card, Grade.HINTS), Row(loading.another_loader_was_refused, Grade.HINTS),
        Row(loading.refused_to_tensorrt, Grade.HINTS, WORKSPACE_KNOBS),
        Row(engine.no_room_beside_the_weights, Grade.HINTS, ENGINE_KNOBS),
        Row(snapshot.weights_hold_much, Grade.POINTS, KNOBS), Row(other_words.weights_by_the_message, Grade.POINTS)),
    knobs=KNOBS, knobs_where=((loading.nothing_is_trained, INFERENCE_KNOBS),),
)  # fmt: skip
