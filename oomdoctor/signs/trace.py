"""What signs of a card share: the refusal, the card's figures, and what the traceback was busy with."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.peer import LostPeer
from oomdoctor.incident.card import Card, card_of
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.units import MIB, apart, show

# Frames by what they do. A pattern is searched in "file function code" of each frame, the innermost first.
STATES: Final = (
    r"DeepSpeedEngine|_configure_distributed_model|_configure_zero_optimizer|flatten_dense_tensors|flat_param"
)
# ".to(torch.float32)" and ".to(x.dtype)" move nothing: a layer computes in that type
_A_TYPE: Final = (
    r"(?:dtype ?= ?)?(?:(?:torch\.)?(?:b?float\d{0,2}|half|double|complex\d{0,3}|u?int\d{0,2}|bool)|[\w.]{0,60}dtype)\)"
)
MOVE: Final = rf"\.(?:to|cuda)\((?!{_A_TYPE})[^)]{{0,60}}\)|\bconvert\b.{{0,40}}\bt\.to\(|_apply\b"
LOGITS: Final = (
    r"(?<!binary_)cross_entropy|log_softmax|logsumexp|\blm_head\b|\blogits\b(?!\s?=\s?(?:self\.)?(?:model|net|network|module)\()|logprobs?_from_logits|log_?probs\b|ForCausalLMLoss"
    r"|entropy_from_logits|vocab_parallel|compute_logits|selective_log|nll_loss|float_conversion|float16_to_fp32|\b_?convert_to_fp32\b"
)
SAMPLER: Final = r"sampler\.py|topk_topp|top_k_top_p|\b_dummy_sampler_run\b"
GRAPHS: Final = r"cuda_?graph|capture_model|capture_begin|\bgraph_capture\b|CUDAGraph"
# An array that is made for the model's own variables: a node of TensorFlow's graph, a constructor, JAX' init functions
CREATED: Final = (
    r"/Initializer/|/Assign\b|\bfailed at assign_op\.h|\brandom_(?:uniform|normal)\b|truncated_normal"
    r"|\binit_\w{1,30}\(|\.init\(|, in __init__$|\binitiali[sz]e_\w{0,20}(?:params|weights|variables)"
)
# "model.generate(", "self._forward_generate("
GENERATES: Final = r"(?:\b|_)generate\b"
VISION: Final = r"multimodal|\bvision|visual\b|image_encoder|get_multimodal|encoder_cudagraph|audio_tower"

ATTENTION: Final = r"softmax|attention|attn|baddbmm|causal_mask|scaled_dot"

TRAINING_STAGES: Final = frozenset({"forward", "backward", "optimizer_step", "logprob", "reward"})
LATER_THAN_LOADING: Final = TRAINING_STAGES | {"rollout", "eval", "checkpoint_save", "serving", "weight_sync"}

# Of what a job may be doing, what a pass over the model is made of
_PHASES: Final = {
    "optimize": "optimizer",
    "backward": "backward",
    "load": "load",
    "forward": "forward",
    "train": "forward",
    "score": "forward",
    "restore": "load",
}
# Where the job failed, by its stage; others are told by their names.
_WHERE: Final = {
    "model_load": mark("while loading the model"),
    "forward": mark("in the forward pass"),
    "backward": mark("in the backward pass"),
    "logprob": mark("while computing log probabilities"),
    "optimizer_step": mark("in the optimizer step"),
    "eval": mark("during evaluation"),
    "rollout": mark("during the rollout"),
    "serving": mark("while serving"),
    "weight_sync": mark("while sending weights to the engine"),
    "checkpoint_save": mark("while saving a checkpoint"),
    "checkpoint_load": mark("while loading a checkpoint"),
}
SOURCE_CHARACTERS: Final = 200  # longer lines are commands and dumps of settings
SOURCE_LINES: Final = 3

# Of the card, in live tensors of an engine: a cache that is cut to a share leaves more free than that.
BEYOND_ANY_SHARE: Final = 0.99
BESIDE_A_SHARE: Final = 0.2  # of the card: the most that an engine itself holds beside its share

# The allocator asks the driver for 2 and 20 MiB on behalf of small tensors: the straw, not the load.
STRAW: Final = 20 * MIB


# A check of a program's own, which fails where nothing is computed. "raise e", "raise self._exc", "raise Error(status)"
# and what is raised from another exception pass on what failed elsewhere.
_CHECKS = late(
    r"\s*(?:assert\b|raise (?:[a-z_]\w{0,40}\.){0,4}[A-Z]\w{0,80}(?:\((?!\w{1,60}(?:\.\w{1,60}){0,3}\)$)|\s*$)"
    r"(?!.{0,400}\bfrom\b))"
)

_ASSERTED = late(r"\s*AssertionError\b")

# Collectives of a group: setting a job up takes a broadcast of each parameter at most, hundreds in a large model.
SET_UP: Final = 1000
_COLLECTIVE = late(r"\bWorkNCCL\(SeqNum=(\d{1,12}), OpType=(?!BROADCAST\b)")


def refusal(crash: Crash) -> DeviceOutOfMemory | None:
    """The allocator's sentence that tells most about this crash: the root, or the first that confirms it."""
    if isinstance(crash.root, DeviceOutOfMemory):
        return crash.root
    return crash.first(DeviceOutOfMemory)


def card(crash: Crash) -> Card:
    """The card's figures, all missing where no sentence prints them; of a refusal on the host its size alone, of one of
    a library what it had besides."""
    event, root = refusal(crash), crash.root
    if event is not None:
        return card_of(event)
    if isinstance(root, LibraryOutOfMemory):
        return Card(tried_bytes=root.tried_bytes, allocated_bytes=root.allocated_bytes)
    return Card(tried_bytes=root.tried_bytes) if isinstance(root, HostAllocation) else Card()


def innermost(crash: Crash, pattern: str, depth: int = 3) -> str | None:
    """What fits among the innermost few frames, or in the source lines right before a message that has lost them.

    It is a function's name or the words that fit, never a line of the log: it is told in explanations.
    """
    wanted = re.compile(pattern)
    for frame in islice(crash.frames(), depth):
        if match := wanted.search(f"{frame.file} {frame.function} {frame.code}"):
            return frame.function if frame.function.isidentifier() else match[0]
    if crash.root.around.trace:
        return None
    source = (line.strip() for line in reversed(crash.root.around.before[-SOURCE_LINES:]))
    bare = (wanted.search(line) for line in source if len(line) <= SOURCE_CHARACTERS)
    return next((match[0] for match in bare if match), None)


def checked(crash: Crash) -> bool:
    """Whether the traceback ends in a statement that raises or asserts: it tells who looked, not which tensor was to be
    allocated."""
    last = next(crash.frames(), None)
    if last is not None and _ASSERTED.match(crash.root.at.text):
        return True
    return last is not None and _CHECKS.match(last.code) is not None


def phase(crash: Crash) -> str | None:
    """What the job was busy with: "optimizer", "backward", "load" or "forward"."""
    return _PHASES.get(crash.doing.step or "")


def in_a_whole_step(crash: Crash) -> bool:
    """Whether no more is seen than a step of training, which is a forward pass and a backward pass."""
    return crash.stage == "forward" and crash.doing.step == "train"


def where(crash: Crash) -> str:
    """In which stage the job failed: a clause of place or time."""
    if in_a_whole_step(crash):
        return say("in a training step")
    return translated(_WHERE.get(crash.stage, "")) or say("in {stage}", stage=crash.stage)


def stepped(crash: Crash) -> bool:
    """Whether the log shows that the job had been stepping: its bar or counter, or how many collectives there were."""
    return bool(crash.context.progress) or late_collective(crash) is not None


def late_collective(crash: Crash) -> tuple[int, LostPeer] | None:
    """The collective, and its number, in which the other ranks waited for the one that failed, where setting a job up
    does not take so many."""
    for event in crash.every(LostPeer):
        waited = _COLLECTIVE.search(event.at.text)
        if waited and int(waited[1]) >= SET_UP:
            return int(waited[1]), event
    return None


def beyond_share(share: float | None) -> float:
    """The part of the card from which on live tensors are more than an engine's cache explains."""
    return min(BEYOND_ANY_SHARE, share + BESIDE_A_SHARE) if share else BEYOND_ANY_SHARE


def asked(it: Card) -> str:
    """The allocation that failed: a clause, to stand behind a comma, a colon or a semicolon."""
    if it.tried_bytes is None:
        return say("an allocation failed")
    if it.free_bytes is None:
        return say("an allocation of {tried} failed", tried=show(it.tried_bytes))
    tried, free = apart(it.tried_bytes, it.free_bytes)
    if not it.total_bytes:
        return say("an allocation of {tried} failed with {free} free", tried=tried, free=free)
    return say(
        "an allocation of {tried} failed with {free} of {total} free",
        tried=tried,
        free=free,
        total=show(it.total_bytes),
    )
