"""Tensors with one value per token and word of the vocabulary."""

from __future__ import annotations

from itertools import combinations_with_replacement, product
from math import prod
from typing import Final

from oomdoctor.arithmetic.training import FULL_PRECISION_BYTES, LAYER_BYTES
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.llama_cpp import BufferRefused
from oomdoctor.incident.model import Crash
from oomdoctor.incident.prints import number, own_lines
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.arrays import array_of_the_model
from oomdoctor.signs.first_step import (
    HALF,
    killed_bare_before_the_first_step,
    killed_in_the_first_step_on_the_cpu,
    memory_in_all,
)
from oomdoctor.signs.trace import ATTENTION, LOGITS, SAMPLER, asked, card, innermost, refusal
from oomdoctor.units import GIB, MIB, show

SPIKE: Final = GIB // 2  # less is a layer's
SCORES: Final = 2 * GIB  # in one piece, while tokens are scored
SMALL: Final = 64 * MIB  # less is no tensor over a vocabulary
FRAMES: Final = 4  # innermost ones that may work on the logits
# What torch.compile generates: "buf9 = empty_strided_cuda((s10, 1, 76032), (76032, 76032*s10, 1), torch.float32)"
_GENERATED = late(r"\bempty_strided\w{0,8}\(\([^()]{1,200}?, ?(\d{4,7}),?\), ?\([^()]{1,200}\), ?torch\.float32\)")
# The layers between are narrower, and compute in half precision.
FEWEST_WORDS, MOST_WORDS = 30_000, 600_000
_JOINED = (
    r"\b(?:torch|np|xp)\.(?:cat|concat\w*|[vh]?stack)\((?!.{0,40}(?:logsumexp|softmax|cross_entropy))|nested_concat"
)
# torch/nn/functional.py, softmax without a `dtype`: verl/utils/torch_functional.py, entropy_from_logits, up to 0.7
_IN_ITS_OWN_TYPE: Final = late(r"torch/nn/functional\.py ret = input\.softmax\(dim\)")
_OF_A_LAYER: Final = (
    r"(?i)attention|attn|modeling_\w{1,40}\.py|/hf_rollout\.py|\brollout\.generate|\b(?:_?sample|generate)\b"
)
# vllm/v1/worker/gpu_model_runner.py and sglang/srt/layers/logits_processor.py: of the prompts of a step
OF_PROMPTS: Final = r"\b_get_prompt_logprobs_dict\b|\bprocess_input_logprobs"
# vLLM's functions for the tokens of prompts, V0 (layers/sampler.py) and V1 (gpu_model_runner.py)
_OF_MANY_TOKENS = r"prompt_logprobs|\bget_logprobs\b"
_ROWS_OF_WORDS = late(r"\((\d{2,9}), ?(\d{4,7})\)")
_SCORES: Final = r"(?i)\b(?:self\.)?(?:scores|logits)\b"
_AXES = late(r"\[(?:\d{1,9},){1,3}(\d{4,7})\]")
# What computes no logits, where TensorFlow runs one operation at a time and names it
_OF_DATA = late(
    r"\[Op:(?:Mul|Add(?:V2)?|Sub|RealDiv|Square|Sqrt|Pow|Maximum|Minimum|Random\w{1,24}|Fill|Pack|ConcatV2|Transpose|Tile"
    r"|GatherV2|ResourceGather|StridedSlice)\]"
)
_VOCABULARY = ("vocab_size", "padded_vocab_size", "vocab", "vocabulary")
_WORDS_SAID: Final = late(r"(?i)\bvocab(?:ulary)?(?: size)?[ :=]{1,3}(\d{1,3}(?:,\d{3}){1,2}|\d{3,7})(?![\d.,])")
_BATCH = ("micro_train_batch_size", "per_device_train_batch_size", "ppo_micro_batch_size_per_gpu", "micro_batch_size",
          "batch_size", "batch", "bs", "train_batch")  # fmt: skip
_LENGTH = ("max_seq_length", "max_length", "max_len", "cutoff_len", "seq_length", "model_max_length",
           "seq_len", "sequence_length", "sequence_len", "block_size", "seq", "seqlen", "context", "ctx",
           "context_length")  # fmt: skip
_PROMPT: Final = ("max_prompt_length", "prompt_length", "prompt_len")
_ANSWER: Final = ("max_completion_length", "max_response_length", "max_new_tokens", "response_length")
_LAYERS: Final = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "layers", "depth")
_WIDTH: Final = ("hidden_size", "d_model", "n_embd", "hidden_dim", "dim", "width")
_OWN_BATCH: Final = ("train_batch_size",)  # of a program of one's own, which has no global one beside it
_BATCHES_OF_A_PASS: Final = ("micro_train_batch_size", "ppo_micro_batch_size_per_gpu", "micro_batch_size",
                             "mini_batch_size", *_BATCH, *_OWN_BATCH)  # fmt: skip
# RecBole, SASRec and others: a score for each item, as for each word
_LABELS: Final = ("num_labels", "n_labels", "num_classes", "n_classes", "nclasses")
_ITEMS: Final = ("num_items", "n_items", "item_num", "itemnum")
ROUNDING: Final = 2 * MIB  # to which the allocator rounds up
# "encoder (8, 160, 320)", "logits: [8, 160, 31, 500]", "torch.Size([8, 31, 320])"
_SHAPE: Final = late(r"[(\[]\d{1,9}(?:, ?\d{1,9}){1,4},?[)\]]")
_LENGTH_IN_IT: Final = late(r"\d{1,9}")
_SHAPES_ABOVE: Final = 12  # lines
_MOST_LENGTHS: Final = 12  # of more, some product fits whatever was asked for
_FEWEST_PIECES: Final = 100
_COPIES: Final = 3
TWO_DECIMALS: Final = 150  # what is printed with two decimals is off by one part in so many, at most


@sign
def output_buffer_refused(crash: Crash) -> Seen | None:
    """llama.cpp had no host memory for the outputs of a batch, of which there is one for each sequence at least."""
    root = crash.root
    if not isinstance(root, BufferRefused) or root.what != "output":
        return None
    words = say(
        "The output buffer could not be allocated. It holds one row over the vocabulary for each output of the batch."
    )
    return Seen(words=words, evidence=(root,))


@sign
def product_with_the_vocabulary(crash: Crash) -> Seen | None:
    """The requested size is batch x length x vocabulary x 2 or 4 bytes, all of them printed, and 512 MiB or more."""
    vocabulary, batch, length = _vocabulary(crash), _number(crash, _BATCH), _number(crash, _LENGTH)
    event, tried = refusal(crash) or crash.root, card(crash).tried_bytes
    if not (vocabulary and batch and length and tried):
        return None
    for width in (4, 2):
        wanted = vocabulary * batch * length * width
        if wanted >= SPIKE and abs(wanted - tried) <= max(ROUNDING, tried // TWO_DECIMALS):
            product = say(
                "{batch} x {length} tokens x {vocabulary} words x {width} bytes = {sum}",
                batch=batch,
                length=length,
                vocabulary=vocabulary,
                width=width,
                sum=show(wanted),
            )
            words = say(
                "{product}: exactly the requested size. The logits of the whole batch are allocated as one tensor.",
                product=product,
            )
            return Seen(words=words, evidence=(event,))
    return None


@sign
def product_with_the_labels(crash: Crash) -> Seen | None:
    """The requested size is exactly batch x labels (or items) x 4 or 2 bytes, both printed, and 64 MiB at least."""
    classes, batch = _number(crash, (*_LABELS, *_ITEMS)), _number(crash, (*_BATCH, *_OWN_BATCH))
    event, tried = refusal(crash) or crash.root, crash.root.figures("usage").get("tried_bytes")
    if not classes or classes < _FEWEST_PIECES or not batch or not isinstance(tried, int) or tried < SMALL:
        return None
    for width in (4, 2):
        if _is_asked(batch * classes * width, tried, exact=isinstance(crash.root, HostAllocation)):
            words = say(
                "{batch} x {classes} labels x {width} bytes = {sum}: exactly the requested size. The scores of the "
                "whole batch are allocated as one tensor.",
                batch=batch, classes=classes, width=width, sum=show(tried),
            )  # fmt: skip
            return Seen(words=words, evidence=(event,))
    return None


@sign
def product_of_printed_lengths(crash: Crash) -> Seen | None:
    """The requested size is exactly vocabulary x 4 or 2 bytes x two or three lengths of the shapes that stand in the
    last lines above: a value per word for all frames and labels, as transducers have, or for all tokens; 64 MiB or
    more."""
    vocabulary, event, tried = _vocabulary(crash), refusal(crash) or crash.root, card(crash).tried_bytes or 0
    lengths = _lengths_above(crash)
    if vocabulary is None or vocabulary < _FEWEST_PIECES or tried < SMALL or len(lengths) > _MOST_LENGTHS:
        return None
    for width, count in product((4, 2), (3, 2)):
        for chosen in combinations_with_replacement(lengths, count):
            wanted = prod(chosen) * vocabulary * width
            if _is_asked(wanted, tried, exact=isinstance(crash.root, HostAllocation)):
                words = say(
                    "{lengths} (printed in shapes above) x {vocabulary} words x {width} bytes = {sum}: exactly the "
                    "requested size. The logits of the whole batch are allocated as one tensor.",
                    lengths=" x ".join(map(str, chosen)), vocabulary=vocabulary, width=width, sum=show(wanted),
                )  # fmt: skip
                return Seen(words=words, evidence=(event,))
    return None


@sign
def most_of_the_first_step_on_the_cpu(crash: Crash) -> Seen | None:
    """A job that trains on the CPU was killed in its first step, and the logits of the stated batch, length and
    vocabulary, their probabilities and their gradient in 32 bits make half of what there is."""
    stated = [_number(crash, names) for names in (_BATCH, _LENGTH, _VOCABULARY)]
    whole = memory_in_all(crash)
    if not whole or not all(stated) or killed_in_the_first_step_on_the_cpu(crash) is None:
        return None
    batch, length, vocabulary = (number or 0 for number in stated)
    wanted = batch * length * vocabulary * FULL_PRECISION_BYTES * _COPIES
    if wanted < HALF * whole:
        return None
    words = say(
        "The job trains on the CPU and was killed before its first step was done. {batch} x {length} tokens x "
        "{vocabulary} words x 4 bytes x 3 (logits, their probabilities and their gradient) = {sum} of {whole}.",
        batch=batch, length=length, vocabulary=vocabulary, sum=show(wanted), whole=show(whole),
    )  # fmt: skip
    unseen = say("no line shows what the memory was for")
    return Seen(words=words, evidence=(crash.root,), against=(unseen,), unsure=True)


@sign
def most_of_a_bare_first_step(crash: Crash) -> Seen | None:
    """A job that trains got a SIGKILL for no printed reason before its first step was done, and the same three of the
    stated batch, length and vocabulary, or number of items to recommend, make 1 GiB or more, or a quarter of that where
    the layers' activations are fewer for each token."""
    stated = [_number(crash, _BATCHES_OF_A_PASS), _tokens_of_each(crash), _number(crash, (*_VOCABULARY, *_ITEMS))]
    if not all(stated) or killed_bare_before_the_first_step(crash) is None:
        return None
    batch, length, vocabulary = (number or 0 for number in stated)
    wanted = batch * length * vocabulary * FULL_PRECISION_BYTES * _COPIES
    if wanted < (GIB // 4 if _is_wider_than_the_layers(vocabulary, crash) else GIB):
        return None
    words = say(
        "The job trains and was killed before its first step was done; no line shows a GPU. {batch} x {length} tokens "
        "x {vocabulary} words x 4 bytes x 3 (logits, their probabilities and their gradient) = {sum}.",
        batch=batch, length=length, vocabulary=vocabulary, sum=show(wanted),
    )  # fmt: skip
    unseen = say("no line shows what the memory was for")
    return Seen(words=words, evidence=(crash.root,), against=(unseen,), stage="forward")


def _tokens_of_each(crash: Crash) -> int | None:
    """How many tokens a sequence has: of a policy, its prompt and what it answers."""
    prompt, answer = _number(crash, _PROMPT), _number(crash, _ANSWER)
    return prompt + answer if prompt and answer else _number(crash, _LENGTH)


def _is_wider_than_the_layers(vocabulary: int, crash: Crash) -> bool:
    """Whether a token has more logits, in 32 bits, than what its layers keep for the backward pass, in 16."""
    layers, width = _number(crash, _LAYERS), _number(crash, _WIDTH)
    if not layers or not width:
        return False
    return vocabulary * FULL_PRECISION_BYTES * _COPIES > layers * width * LAYER_BYTES


def _lengths_above(crash: Crash) -> list[int]:
    told = [line for line in crash.root.around.before if not line.startswith((" ", "Traceback"))]
    lines = told[-_SHAPES_ABOVE:]  # without the traceback's
    lengths = (
        int(length) for line in lines for shape in _SHAPE.findall(line) for length in _LENGTH_IN_IT.findall(shape)
    )
    return [length for length in dict.fromkeys(lengths) if length > 1]


def _is_asked(wanted: int, tried: int, *, exact: bool) -> bool:
    """The CUDA allocator rounds up to 2 MiB, and prints two decimals of a GiB."""
    if exact:
        return wanted == tried
    rounded = -(-wanted // ROUNDING) * ROUNDING
    return rounded == tried if tried < GIB else abs(rounded - tried) <= GIB // 200


def _vocabulary(crash: Crash) -> int | None:
    """How many words it has: by a setting, or by what the job prints of its model."""
    stated = _number(crash, _VOCABULARY)
    if stated is not None:
        return stated
    said = (match for line in own_lines(crash) for match in _WORDS_SAID.finditer(line))
    return next((number(match[1]) for match in said), None)


def _number(crash: Crash, names: tuple[str, ...]) -> int | None:
    setting = crash.setting(*names)
    return setting.whole if setting is not None else None


@sign
def compiled_code_over_a_vocabulary(crash: Crash) -> Seen | None:
    """Compiled code shows the requested shape; its last dimension is a vocabulary of 30,000 to 600,000."""
    event, it = refusal(crash), card(crash)
    frame = next(crash.frames(), None)
    if event is None or frame is None or (it.tried_bytes or 0) < SPIKE:
        return None
    match = _GENERATED.search(frame.code)
    values = int(match[1]) if match else 0
    if not FEWEST_WORDS <= values <= MOST_WORDS:
        return None
    words = say(
        "The allocation that failed is a float32 tensor with {words:,} values per token: a vocabulary, or one "
        "rank's part of it ({asked}).",
        words=values,
        asked=asked(it),
    )
    return Seen(words=words, evidence=(event,), stage="forward" if crash.stage == "unknown" else None)


@sign
def large_piece_while_scoring(crash: Crash) -> Seen | None:
    """A single allocation of 2 GiB or more failed while computing log-probabilities, outside attention."""
    event, it = refusal(crash), card(crash)
    if event is None or crash.stage != "logprob" or (it.tried_bytes or 0) < SCORES or crash.job.in_engine:
        return None
    if innermost(crash, ATTENTION) or innermost(crash, LOGITS, FRAMES):
        return None
    return Seen(
        words=say(
            "Computing log-probabilities ran out of memory: {asked}. This pass keeps nothing for a backward "
            "pass; its largest tensor has one value per token and vocabulary word.",
            asked=asked(it),
        ),
        evidence=(event,),
        against=(say("no frame in the traceback works on the logits"),),
    )


@sign
def working_on_logits(crash: Crash) -> Seen | None:
    """The innermost frames of the job's own model work on the logits."""
    return None if crash.job.in_engine else _working(crash)


@sign
def softmax_of_a_policy(crash: Crash) -> Seen | None:
    """PyTorch's softmax in the type of its input, of 512 MiB or more, in a job of reinforcement learning and outside of
    its engine: the entropy of its tokens. Attention of transformers computes it in float32, and in its own frames."""
    event, frame, tried = refusal(crash), next(crash.frames(), None), card(crash).tried_bytes or 0
    if event is None or frame is None or crash.job.task != "rl" or crash.job.in_engine or tried < SPIKE:
        return None
    if _IN_ITS_OWN_TYPE.search(f"{frame.path} {frame.code}") is None or crash.in_trace(_OF_A_LAYER) is not None:
        return None
    words = say(
        "PyTorch's softmax works in the type of its input here, outside of any layer: it is the one over the "
        "vocabulary, for the entropy or the probabilities of all tokens: {asked}.",
        asked=asked(card(crash)),
    )
    return Seen(words=words, evidence=(event,))


@sign
def engine_scoring_tokens(crash: Crash) -> Seen | None:
    """An engine computes log-probabilities of many tokens at once, and 512 MiB or more failed: one value per token and
    vocabulary word, which sampling never needs for more than one token of a request."""
    scores = crash.job.in_engine and innermost(crash, _OF_MANY_TOKENS, FRAMES)
    return _working(crash) if scores and (card(crash).tried_bytes or 0) >= SPIKE else None


@sign
def array_over_a_vocabulary(crash: Crash) -> Seen | None:
    """TensorFlow prints the shape that failed; its last axis is a vocabulary of 30,000 to 600,000."""
    array = crash.root
    if not isinstance(array, ArrayOutOfMemory) or array_of_the_model(crash) is not None:
        return None
    axes = _AXES.fullmatch(array.shape or "")
    if axes is None or (array.array_bytes or 0) < SMALL:
        return None
    if not FEWEST_WORDS <= int(axes[1]) <= MOST_WORDS or _OF_DATA.search(array.at.text):
        return None
    words = say(
        "The array that could not be allocated has the shape {shape}: {words:,} values per row, the size of a "
        "vocabulary.",
        shape=array.shape,
        words=int(axes[1]),
    )
    return Seen(words=words, evidence=(array,), stage="forward")


@sign
def scores_of_a_context_were_refused(crash: Crash) -> Seen | None:
    """NumPy could not make an array of one row per token of the context and one value per word of a vocabulary, at a
    line about scores or logits: llama-cpp-python with logits_all."""
    refused = crash.root
    if not isinstance(refused, HostAllocation) or not innermost(crash, _SCORES, 2):
        return None
    axes = _ROWS_OF_WORDS.fullmatch(refused.shape or "")
    if axes is None or not FEWEST_WORDS <= int(axes[2]) <= MOST_WORDS:
        return None
    words = say(
        "The array that could not be allocated has the shape {shape}: one row of {words:,} values, the size of a "
        "vocabulary, for each of {tokens:,} tokens.",
        shape=refused.shape, words=int(axes[2]), tokens=int(axes[1]),
    )  # fmt: skip
    return Seen(words=words, evidence=(refused,))


@sign
def engine_working_on_logits(crash: Crash) -> Seen | None:
    """The innermost frames of an inference engine work on the logits, without its sampler."""
    return _working(crash) if crash.job.in_engine and not in_a_sampler(crash) else None


@sign
def sampler_working_on_logits(crash: Crash) -> Seen | None:
    """The innermost frames are an engine's sampler."""
    return _working(crash) if crash.job.in_engine and in_a_sampler(crash) else None


def in_a_sampler(crash: Crash) -> bool:
    """Whether the innermost frames choose the next tokens."""
    return innermost(crash, SAMPLER, FRAMES) is not None


def _large_on_the_host(crash: Crash) -> HostAllocation | None:
    root = crash.root
    return root if isinstance(root, HostAllocation) and (root.tried_bytes or 0) >= SPIKE else None


def _working(crash: Crash) -> Seen | None:
    event, function = refusal(crash) or _large_on_the_host(crash), innermost(crash, LOGITS, FRAMES)
    if event is None or function is None or innermost(crash, _JOINED):
        return None
    words = say(
        "The innermost frames ({function}) work on a tensor with one value per token and vocabulary word: {asked}.",
        function=function,
        asked=asked(card(crash)),
    )
    unknown = crash.stage == "unknown" and not crash.job.in_engine
    return Seen(words=words, evidence=(event,), stage="forward" if unknown else None)


@sign
def small_for_logits(crash: Crash) -> Seen | None:
    """Less than 512 MiB was requested, which no product of printed lengths gives; of an engine, which has one row per
    request, less than 64 MiB."""
    tried = card(crash).tried_bytes
    if product_of_printed_lengths(crash) is not None:
        return None
    if tried is None or tried >= (SMALL if crash.job.in_engine else SPIKE):
        return None
    return Seen(words=say("{tried} is small for such a tensor", tried=show(tried)))


@sign
def too_small_for_a_vocabulary(crash: Crash) -> Seen | None:
    """Less than 64 MiB was requested, and no frame works on the logits, or one joins predictions."""
    tried = card(crash).tried_bytes
    if tried is None or tried >= SMALL or _working(crash) is not None:
        return None
    return Seen(words=say("{tried} was requested: too small for a tensor over a vocabulary", tried=show(tried)))
