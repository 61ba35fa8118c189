"""One huge tensor over the vocabulary: logits, log-softmax, cross-entropy."""

from __future__ import annotations

from oomdoctor.causes import Cause, Row
from oomdoctor.causes.optimizer_states import IN_A_FIRST_STEP
from oomdoctor.language import mark
from oomdoctor.signs import Grade, first_step, logits, other_words

# On the CPU: a chunk of the tokens at a time, then fewer of them
OF_A_FIRST_STEP = ("chunked-logits", "smaller-microbatch", "shorter-sequences", "mixed-precision", "more-host-memory")
# Of ggml on the host: a row for each sequence (-np)
OUTPUT_KNOBS = ("fewer-sequences", "more-host-memory")
ENGINE_KNOBS = ("lower-engine-reservation", "fewer-sequences", "smaller-prefill", "tensor-parallel", "chunked-logits")
# Sampling needs one row of logits per request
REQUEST_KNOBS = ("fewer-sequences", "lower-engine-reservation", "tensor-parallel", "eager-mode")
# One row for each token that the context may hold
CONTEXT_KNOBS = ("shorter-context", "shorter-sequences", "smaller-model")
# Of ggml on a card: what it computes with, of `activations`
COMPUTE_KNOBS = ("smaller-prefill", "memory-efficient-attention", "shorter-context", "offload-parameters",
                 "quantize-kv-cache", "quantize-weights")  # fmt: skip
SCORES_KNOBS = ("memory-efficient-attention", "shorter-context", "smaller-prefill", "offload-parameters")
# Attention without a kernel of its own: in its passes, and where one array holds its scores
ATTENTION_KNOBS = ("memory-efficient-attention", "smaller-microbatch", "smaller-input", "shorter-sequences",
                   "gradient-checkpointing", "token-budget-batching", "sequence-parallel")  # fmt: skip
# Samples that run through a model while it is quantized: nothing is kept for a backward pass
CALIBRATION_KNOBS = ("smaller-microbatch", "shorter-sequences", "smaller-buffers", "free-the-gpu", "more-gpus")
PAIR_KNOBS = ("shorter-sequences", "gradient-checkpointing", "smaller-microbatch", "memory-efficient-attention")

CAUSE = Cause(
    id="logits-spike",
    title=mark("The logits over the vocabulary do not fit"),
    headlines=(
        *IN_A_FIRST_STEP,
        mark("The logits over the vocabulary need {requested} more; {free}[ of {total}] were free on {gpu}"),
        mark("An allocation of {requested} failed although {plenty}[ of {total}] were free on {gpu}[ {doing}]"),
        mark("The logits over the vocabulary need {requested}[ (shape {shape})] on {gpu}[ ({place})]"),
        mark("The logits over the vocabulary do not fit on {gpu}[ {doing}][ ({place})]"),
        mark("The logits over the vocabulary do not fit in {ram}[: {requested} requested]"),
    ),
    stage="forward",
    pools=("gpu", "host_ram", "cgroup"),
    excluded=(logits.too_small_for_a_vocabulary,),
    signs=(
        Row(logits.product_with_the_vocabulary, Grade.PROVES),
        Row(logits.product_with_the_labels, Grade.PROVES),
        Row(logits.product_of_printed_lengths, Grade.PROVES),
        Row(logits.most_of_the_first_step_on_the_cpu, Grade.NAMES),
        Row(logits.most_of_a_bare_first_step, Grade.POINTS, OF_A_FIRST_STEP),
        Row(first_step.killed_bare_while_scoring, Grade.POINTS, OF_A_FIRST_STEP),
        Row(first_step.killed_at_a_limit_while_scoring, Grade.NAMES, OF_A_FIRST_STEP),
        Row(logits.output_buffer_refused, Grade.NAMES, OUTPUT_KNOBS),
        Row(logits.compiled_code_over_a_vocabulary, Grade.PROVES),
        Row(logits.large_piece_while_scoring, Grade.NAMES),
        Row(logits.working_on_logits, Grade.NAMES),
        Row(logits.softmax_of_a_policy, Grade.NAMES),
        Row(logits.array_over_a_vocabulary, Grade.NAMES),
        Row(logits.scores_of_a_context_were_refused, Grade.NAMES, CONTEXT_KNOBS),
        Row(logits.engine_scoring_tokens, Grade.NAMES, ENGINE_KNOBS),
        Row(other_words.logits_by_the_message, Grade.POINTS),
        Row(logits.engine_working_on_logits, Grade.POINTS, REQUEST_KNOBS),
        Row(logits.sampler_working_on_logits, Grade.HINTS, REQUEST_KNOBS),
    ),
    against=(Row(logits.small_for_logits, Grade.POINTS),),
    knobs=(
        "chunked-logits",
        "smaller-microbatch",
        "token-budget-batching",
        "shorter-sequences",
        "sequence-parallel",
        "mixed-precision",
    ),
    before=("activations", "killed-without-evidence"),
)
