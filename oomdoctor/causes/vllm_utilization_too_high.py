"""An engine's share of the card takes what others, or the engine itself beside its share, need."""

from __future__ import annotations

import math

from oomdoctor.arithmetic import shares
from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.gpu import beyond_share
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.tensorrt_llm import CreationFailed, EngineFigures
from oomdoctor.families.tgi import WarmupShort
from oomdoctor.families.vllm_error import NotEnoughFree
from oomdoctor.families.vllm_figures import Sleep
from oomdoctor.incident.card import Card, card_of
from oomdoctor.incident.engine_facts import (
    EngineFacts,
    beside_engine,
    facts,
    in_engine,
    loading,
    phase,
    ready_bytes,
    static_fraction,
)
from oomdoctor.incident.model import Crash
from oomdoctor.incident.recognition import FRAMEWORKS, TRAINERS
from oomdoctor.units import GIB, show

# What a desktop, a driver or a forgotten notebook takes: a share that ignores it is simply too large.
SMALL_NEIGHBOUR = 2 * GIB
LARGE_NEIGHBOUR = 0.25  # of the card: from here on it is the neighbour that has to go
FULL = 0.85  # of the card in the asking process: nothing but a reservation fills it like this

_WEIGHTS = {"allocating": 0.82, "waking": 0.75, "serving": 0.7, "capturing": 0.6, "warming": 0.55, "syncing": 0.4}
_DOING = {
    "allocating": "while it allocated its KV cache",
    "waking": "when it woke up and asked for its memory back",
    "serving": "while it ran requests beside its share",
    "capturing": "while it captured CUDA graphs beside its share",
    "warming": "in the sampler's warm-up, after its share was taken",
    "syncing": "while it took new weights",
}
# Where a trainer shares the card, what the engine does with its requests changes nothing for it.
_SHARED_CARD_KNOBS = (
    "lower-engine-reservation",
    "engine-sleep",
    "offload-optimizer",
    "clear-references",
    "offload-parameters",
    "separate-placement",
    "shorter-context",
)
# Where the share is no share of the card.
_MEANINGS = {
    "lmdeploy": "LMDeploy gives its KV cache a share (cache_max_entry_count) of what is free after the weights.",
    "tensorrt-llm": "TensorRT-LLM gives its KV cache a share (free_gpu_memory_fraction) of what is free after the "
    "engine is loaded.",
    "text-generation-inference": "TGI caps the whole process at a share of the card (cuda-memory-fraction) and fills "
    "what the warm-up leaves with KV cache.",
}
_AT_START_KNOBS = ("lower-engine-reservation", "free-the-gpu", "start-in-sequence", "separate-placement")
_STARTING = ("model_load", "engine_init", "launch", "unknown")


def judge(crash: Crash) -> Judgement | None:
    starts = crash.every(NotEnoughFree)
    if starts:
        return _at_start(crash, min(starts, key=lambda start: start.free_bytes or 0))
    failed = crash.first(CreationFailed)
    if failed is not None:
        return _cache_of_what_is_free(crash, failed)
    if crash.first(WarmupShort) is not None:
        return RuledOut("the engine was still measuring what it needs; it takes its KV cache only afterwards")
    if isinstance(crash.root, LibraryOutOfMemory) and crash.root.library == "TensorRT":
        return RuledOut("TensorRT was laying out the engine; what is left becomes KV cache only afterwards")
    if in_engine(crash):
        return _in_engine(crash)
    if not isinstance(crash.root, DeviceOutOfMemory):
        return None
    return _beside_engine(crash, crash.root) if beside_engine(crash) else _captured(crash, crash.root)


def _captured(crash: Crash, root: DeviceOutOfMemory) -> Finding | None:
    """PyTorch names private pools only where they hold something: CUDA graphs, which engines capture once they have
    taken their share."""
    it = card_of(root)
    full = (it.own_bytes or 0) >= FULL * (root.total_bytes or math.inf)
    if not root.private_pools_bytes or not full or root.around.trace or crash.context.frameworks.keys() & TRAINERS:
        return None
    return Finding(
        weight=0.3,
        why=f"{show(root.private_pools_bytes)} lie in private pools, those of CUDA graphs. Programs that serve "
        "a model capture them once its KV cache has its share of the card, and ask for more beside it afterwards.",
        evidence=(root,),
        against=("nothing else shows an inference engine; compiled training captures graphs too",),
    )


def _at_start(crash: Crash, start: NotEnoughFree) -> Judgement | None:
    free, total, wanted = start.free_bytes, start.total_bytes, start.requested_bytes
    if free is None or not total or wanted is None:
        return None
    others = total - free
    fits = shares.largest(free, total)
    why = (
        f"The engine's share of {start.utilization} comes to {show(wanted)} of {show(total)}, but only {show(free)} "
        f"was free when it started. The largest share that this leaves is {fits:.2f}."
    )
    against = []
    weight = 0.9 if others < SMALL_NEIGHBOUR else 0.7 if others < 0.15 * total else 0.5
    weights = facts(crash).weights_bytes
    if fits <= 0.05 or (weights is not None and fits * total < weights):
        against.append(f"no share helps: {show(free)} does not hold the model, {show(others)} is in use already")
        weight = 0.35
    return Finding(weight=weight, why=why, evidence=(start,), against=tuple(against), knobs=_AT_START_KNOBS)


def _cache_of_what_is_free(crash: Crash, failed: CreationFailed) -> Judgement | None:
    """TensorRT-LLM's fraction is one of what is free once the model is loaded, and for the KV cache alone."""
    if failed.stage != "kv_cache_init":
        return RuledOut(f"it was no KV cache that found no room: {failed.component or 'another part of the engine'}")
    fractions = [event.fraction for event in crash.every(EngineFigures) if event.fraction is not None]
    fraction = f"{fractions[-1]:g}" if fractions else "a fraction"
    free = f" ({show(failed.free_bytes)})" if failed.free_bytes is not None else ""
    return Finding(
        weight=0.85,
        why=f"The engine takes {fraction} of what is free once the model is loaded{free} for its KV cache, and that "
        "was refused: what is measured before leaves out what comes with the cache.",
        evidence=(failed,),
        knobs=("lower-engine-reservation", "smaller-prefill", "fewer-sequences", "eager-mode", "free-the-gpu"),
    )


def _in_engine(crash: Crash) -> Judgement | None:
    doing = phase(crash)
    if doing == "loading":
        return RuledOut("the engine was still loading its weights; it takes its share only afterwards")
    if doing == "profiling":
        return RuledOut("the engine was still measuring what it needs; it takes its share only afterwards")
    known = facts(crash)
    root = crash.root
    weight = _WEIGHTS.get(doing or "", 0.55)
    against: list[str] = []
    if isinstance(root, DeviceOutOfMemory) and root.total_bytes:
        card = card_of(root)
        weight = 0.88 if _certain(card, doing) else weight - _doubt(card, doing, against, known.share)
    elif doing is None and not (isinstance(root, DeviceRefusal) and root.layer == "cumem"):
        weight = 0.35
    return Finding(
        weight=weight,
        why=f"{_taken(crash, known)} {_ran_out(root, doing)} Smaller batches do not make the share smaller.",
        evidence=(root,),
        against=tuple(against),
        knobs=_SHARED_CARD_KNOBS if crash.context.frameworks.keys() & TRAINERS else (),
    )


def _taken(crash: Crash, known: EngineFacts) -> str:
    return _fraction(crash) or _meaning(crash) or _share(known)


def _share(known: EngineFacts) -> str:
    reserved, total = known.reserved_bytes, known.total_bytes
    if known.share is None:
        return "An inference engine fills its share of the card with KV cache, whatever the requests need."
    if reserved is None or total is None:
        return f"The engine takes {known.share:g} of the card for itself and fills it with KV cache."
    return (
        f"The engine takes {known.share:g} of the card, {show(reserved)} of {show(total)}, and fills it with KV cache; "
        f"{show(total - reserved)} is left for all the rest."
    )


def _meaning(crash: Crash) -> str | None:
    """What the share is one of, where it is not vLLM's."""
    return next((words for name, words in _MEANINGS.items() if name in crash.context.frameworks), None)


def _fraction(crash: Crash) -> str | None:
    """SGLang's share is one of what was free before it loaded its weights, and holds them."""
    fraction, loaded = static_fraction(crash), loading(crash)
    if fraction is None or loaded is None:
        return None
    left = ready_bytes(crash)
    rest = f" {show(left)} were left once it was ready." if left is not None else ""
    return (
        f"The engine takes {fraction:g} of the {show(loaded.free_before_bytes)} that were free before it loaded its "
        f"weights, and fills it with KV cache.{rest}"
    )


def _ran_out(root: object, doing: str | None) -> str:
    when = _DOING.get(doing or "", "")
    if not isinstance(root, DeviceOutOfMemory) or root.tried_bytes is None:
        return f"It got no more memory {when}.".replace(" .", ".")
    rest = f" with {show(root.free_bytes)} free" if root.free_bytes is not None else ""
    return f"It asked for {show(root.tried_bytes)}{rest} {when}".rstrip() + "."


def _certain(card: Card, doing: str | None) -> bool:
    """The engine was taking the memory of its share when the card was full, and it holds most of it itself."""
    held = card.own_bytes or card.allocated_bytes
    return doing in ("allocating", "waking") and held is not None and held > 0.75 * (card.total_bytes or held)


def _doubt(card: Card, doing: str | None, against: list[str], share: float | None) -> float:
    """How much the card's figures speak against the engine's own share."""
    doubt = 0.0
    total = card.total_bytes or 0
    held = card.own_bytes or card.allocated_bytes
    if held is not None and held < FULL * total and doing in (None, "serving"):
        doubt += 0.25
        against.append(f"the engine's process holds {show(held)} of {show(total)}")
    if (card.allocated_bytes or 0) > beyond_share(share) * total:
        doubt += 0.2
        against.append(
            f"tensors of this process alone fill {show(card.allocated_bytes or 0)}, more than a share allows"
        )
    others = (card.others_bytes or 0) + (card.unaccounted_bytes or 0)
    if others > LARGE_NEIGHBOUR * total:
        doubt += 0.2
        against.append(f"others hold {show(others)} of the card")
    return doubt


def _beside_engine(crash: Crash, root: DeviceOutOfMemory) -> Judgement | None:
    """A trainer asked; the card is shared with an engine."""
    known = facts(crash)
    reserved, total = known.reserved_bytes, root.total_bytes
    if reserved is None or not total:
        return None
    card = card_of(root)
    neighbour = max((other.bytes or 0 for other in card.others), default=0)
    wanted = (card.own_bytes or card.allocated_bytes or 0) + (card.tried_bytes or 0)
    if neighbour and abs(neighbour - reserved) < 0.1 * reserved:
        weight = 0.75
        seen = f"another process on the card holds {show(neighbour)}, which is the engine's share"
    elif not _shares_cards(crash) or wanted + reserved <= total:
        return None
    elif crash.stage in _STARTING and not crash.every(Sleep):
        weight = 0.6
        seen = f"the trainer on the same card holds or asks for {show(wanted)}"
    else:
        weight = 0.3
        seen = f"the trainer on the same card holds or asks for {show(wanted)}; the engine may be asleep by then"
    why = f"{_share(known)} The models of this job share their cards: {seen}, and together that is more than there is."
    return Finding(weight=weight, why=why, evidence=(root,), knobs=_SHARED_CARD_KNOBS)


def _shares_cards(crash: Crash) -> bool:
    setting = crash.setting("colocate_all", "colocate_all_models", "colocate", "vllm_mode")
    if setting is not None:
        return setting.value in (True, "colocate")
    return any(each.engine == "colocated" for each in FRAMEWORKS if each.name in crash.context.frameworks)


CAUSE = Cause(
    id="vllm-utilization-too-high",
    title="The inference engine's share of the card leaves too little for the rest",
    pools=("gpu",),
    knobs=(
        "lower-engine-reservation",
        "smaller-prefill",
        "fewer-sequences",
        "shorter-context",
        "eager-mode",
        "engine-sleep",
        "separate-placement",
        "tensor-parallel",
    ),
    judge=judge,
)
