"""One huge tensor over the vocabulary: logits, log-softmax, cross-entropy."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.gpu import ATTENTION, LOGITS, SAMPLER, asked, card, in_engine, innermost, refusal
from oomdoctor.incident.card import Card
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say
from oomdoctor.patterns import late
from oomdoctor.units import GIB, MIB, show

SPIKE = GIB // 2
SCORES = 2 * GIB  # in one piece, while tokens are scored
# What torch.compile generates: "buf9 = empty_strided_cuda((s10, 1, 76032), (76032, 76032*s10, 1), torch.float32)"
_GENERATED = late(r"\bempty_strided\w{0,8}\(\([^()]{1,200}?, ?(\d{4,7}),?\), ?\([^()]{1,200}\), ?torch\.float32\)")
# The layers between are narrower, and compute in half precision.
FEWEST_WORDS, MOST_WORDS = 30_000, 600_000
ENGINE_KNOBS = ("lower-engine-reservation", "fewer-sequences", "smaller-prefill", "tensor-parallel", "chunked-logits")
# Predictions that an evaluation joins are judged by another cause.
_JOINED = r"\b(?:torch|np|xp)\.(?:cat|concat\w*|[vh]?stack)\(|nested_concat"
_VOCABULARY = ("vocab_size", "padded_vocab_size")
_BATCH = ("micro_train_batch_size", "per_device_train_batch_size", "ppo_micro_batch_size_per_gpu", "micro_batch_size")
_LENGTH = ("max_seq_length", "max_length", "max_len", "cutoff_len", "seq_length", "model_max_length")


def judge(crash: Crash) -> Judgement | None:
    it = card(crash)
    event = refusal(crash)
    if event is None:
        return None
    if sizes := _over_vocabulary(crash, it):
        return Finding(
            weight=0.93,
            why=say("{product} is what was asked for: the logits of the whole batch, in one piece.", product=sizes),
            evidence=(event,),
        )
    if words := _in_generated_code(crash, it):
        return Finding(
            weight=0.86,
            why=say(
                "The refused tensor is a float32 one with {words:,} values per token, which is a "
                "vocabulary (or one rank's part of it): {asked}.",
                words=words,
                asked=asked(it),
            ),
            evidence=(event,),
            stage="forward" if crash.stage == "unknown" else None,
        )
    function = innermost(crash, LOGITS, 4)
    if function is None and _while_scoring(crash, it):
        return Finding(
            weight=0.74,
            why=say(
                "It failed while log-probabilities were computed: {asked}. Nothing is kept for a "
                "backward pass there, and the largest tensor has one value per token and word of the "
                "vocabulary.",
                asked=asked(it),
            ),
            evidence=(event,),
            against=(say("no frame that works on the logits is shown"),),
        )
    if function is None or innermost(crash, _JOINED):
        if it.tried_bytes is not None and it.tried_bytes < 64 * MIB:
            return RuledOut(say("{tried} were asked for: no tensor over a vocabulary", tried=show(it.tried_bytes)))
        return None
    large = it.tried_bytes is None or it.tried_bytes >= SPIKE
    weight = 0.84 if large else 0.55
    if in_engine(crash):
        weight = 0.45 if innermost(crash, SAMPLER, 4) else 0.6
    return Finding(
        weight=weight,
        why=say(
            "The innermost frames ({function}) work on a tensor with one value per token and word "
            "of the vocabulary: {asked}.",
            function=function,
            asked=asked(it),
        ),
        evidence=(event,),
        against=() if large else (say("{tried} is small for such a tensor", tried=show(it.tried_bytes or 0)),),
        stage="forward" if crash.stage == "unknown" and not in_engine(crash) else None,
        knobs=ENGINE_KNOBS if in_engine(crash) else (),
    )


def _while_scoring(crash: Crash, it: Card) -> bool:
    attends = innermost(crash, ATTENTION) is not None
    return crash.stage == "logprob" and (it.tried_bytes or 0) >= SCORES and not attends and not in_engine(crash)


def _in_generated_code(crash: Crash, it: Card) -> int | None:
    """The last dimension of the tensor, where compiled code shows the shape it asked for and it is a vocabulary's."""
    if it.tried_bytes is None or it.tried_bytes < SPIKE:
        return None
    innermost_frame = next(crash.frames(), None)
    match = _GENERATED.search(innermost_frame.code) if innermost_frame is not None else None
    words = int(match[1]) if match else 0
    return words if FEWEST_WORDS <= words <= MOST_WORDS else None


def _over_vocabulary(crash: Crash, it: Card) -> str | None:
    """The product that gives the refused size, where the log prints its factors."""
    vocabulary, batch, length = (_number(crash, names) for names in (_VOCABULARY, _BATCH, _LENGTH))
    if not (vocabulary and batch and length and it.tried_bytes):
        return None
    for width in (4, 2):
        wanted = vocabulary * batch * length * width
        # The allocator rounds up to 2 MiB, and the message prints two decimals.
        if wanted >= SPIKE and abs(wanted - it.tried_bytes) <= max(2 * MIB, it.tried_bytes // 150):
            return say(
                "{batch} x {length} tokens x {vocabulary} words x {width} bytes = {sum}",
                batch=batch,
                length=length,
                vocabulary=vocabulary,
                width=width,
                sum=show(wanted),
            )
    return None


def _number(crash: Crash, names: tuple[str, ...]) -> int | None:
    setting = crash.setting(*names)
    value = setting.value if setting else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


CAUSE = Cause(
    id="logits-spike",
    title=mark("One tensor over the whole vocabulary is too large"),
    pools=("gpu",),
    knobs=(
        "chunked-logits",
        "smaller-microbatch",
        "token-budget-batching",
        "shorter-sequences",
        "sequence-parallel",
        "mixed-precision",
    ),
    rule=judge,
)
