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
from oomdoctor.job.recognition import FRAMEWORKS, TRAINERS
from oomdoctor.language import joined, mark, say, translated
from oomdoctor.units import GIB, show

# What a desktop, a driver or a forgotten notebook takes: a share that ignores it is simply too large.
SMALL_NEIGHBOUR = 2 * GIB
LARGE_NEIGHBOUR = 0.25  # of the card: from here on it is the neighbour that has to go
FULL = 0.85  # of the card in the asking process: nothing but a reservation fills it like this

_WEIGHTS = {"allocating": 0.82, "waking": 0.75, "serving": 0.7, "capturing": 0.6, "warming": 0.55, "syncing": 0.4}
_DOING = {
    "allocating": mark("while it allocated its KV cache"),
    "waking": mark("when it woke up and asked for its memory back"),
    "serving": mark("while it ran requests beside its share"),
    "capturing": mark("while it captured CUDA graphs beside its share"),
    "warming": mark("in the sampler's warm-up, after its share was taken"),
    "syncing": mark("while it took new weights"),
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
    "lmdeploy": mark("LMDeploy gives its KV cache a share (cache_max_entry_count) of what is free after the weights."),
    "tensorrt-llm": mark(
        "TensorRT-LLM gives its KV cache a share (free_gpu_memory_fraction) of what is free after the engine is loaded."
    ),
    "text-generation-inference": mark(
        "TGI caps the whole process at a share of the card (cuda-memory-fraction) and fills what the warm-up leaves "
        "with KV cache."
    ),
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
        return RuledOut(say("the engine was still measuring what it needs; it takes its KV cache only afterwards"))
    if isinstance(crash.root, LibraryOutOfMemory) and crash.root.library == "TensorRT":
        return RuledOut(say("TensorRT was laying out the engine; what is left becomes KV cache only afterwards"))
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
        why=say(
            "{private_pools} lie in private pools, those of CUDA graphs. Programs that serve a "
            "model capture them once its KV cache has its share of the card, and ask for more "
            "beside it afterwards.",
            private_pools=show(root.private_pools_bytes),
        ),
        evidence=(root,),
        against=(say("nothing else shows an inference engine; compiled training captures graphs too"),),
    )


def _at_start(crash: Crash, start: NotEnoughFree) -> Judgement | None:
    free, total, wanted = start.free_bytes, start.total_bytes, start.requested_bytes
    if free is None or not total or wanted is None:
        return None
    others = total - free
    fits = shares.largest(free, total)
    why = say(
        "The engine's share of {utilization} comes to {wanted} of {total}, but only {free} "
        "was free when it started. The largest share that this leaves is {share}.",
        utilization=start.utilization,
        wanted=show(wanted),
        total=show(total),
        free=show(free),
        share=f"{fits:.2f}",
    )
    against = []
    weight = 0.9 if others < SMALL_NEIGHBOUR else 0.7 if others < 0.15 * total else 0.5
    weights = facts(crash).weights_bytes
    if fits <= 0.05 or (weights is not None and fits * total < weights):
        against.append(
            say(
                "no share helps: {free} does not hold the model, {others} is in use already",
                free=show(free),
                others=show(others),
            )
        )
        weight = 0.35
    return Finding(weight=weight, why=why, evidence=(start,), against=tuple(against), knobs=_AT_START_KNOBS)


def _cache_of_what_is_free(crash: Crash, failed: CreationFailed) -> Judgement | None:
    """TensorRT-LLM's fraction is one of what is free once the model is loaded, and for the KV cache alone."""
    if failed.stage != "kv_cache_init":
        component = failed.component or say("another part of the engine")
        return RuledOut(say("it was no KV cache that found no room: {component}", component=component))
    fractions = [event.fraction for event in crash.every(EngineFigures) if event.fraction is not None]
    fraction = f"{fractions[-1]:g}" if fractions else say("a fraction")
    return Finding(
        weight=0.85,
        why=say(
            "The engine takes {fraction} of what is free once the model is loaded ({free}) for "
            "its KV cache, and that was refused: what is measured before leaves out what comes "
            "with the cache.",
            fraction=fraction,
            free=show(failed.free_bytes),
        )
        if failed.free_bytes is not None
        else say(
            "The engine takes {fraction} of what is free once the model is loaded for its KV "
            "cache, and that was refused: what is measured before leaves out what comes with the "
            "cache.",
            fraction=fraction,
        ),
        evidence=(failed,),
        knobs=("lower-engine-reservation", "smaller-prefill", "fewer-sequences", "eager-mode", "free-the-gpu"),
    )


def _in_engine(crash: Crash) -> Judgement | None:
    doing = phase(crash)
    if doing == "loading":
        return RuledOut(say("the engine was still loading its weights; it takes its share only afterwards"))
    if doing == "profiling":
        return RuledOut(say("the engine was still measuring what it needs; it takes its share only afterwards"))
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
        why=joined(
            (
                _taken(crash, known),
                _ran_out(root, doing),
                say("Smaller batches do not make the share smaller."),
            )
        ),
        evidence=(root,),
        against=tuple(against),
        knobs=_SHARED_CARD_KNOBS if crash.context.frameworks.keys() & TRAINERS else (),
    )


def _taken(crash: Crash, known: EngineFacts) -> str:
    return _fraction(crash) or _meaning(crash) or _share(known)


def _share(known: EngineFacts) -> str:
    reserved, total = known.reserved_bytes, known.total_bytes
    if known.share is None:
        return say("An inference engine fills its share of the card with KV cache, whatever the requests need.")
    if reserved is None or total is None:
        return say("The engine takes {share:g} of the card for itself and fills it with KV cache.", share=known.share)
    return say(
        "The engine takes {share:g} of the card, {reserved} of {total}, and fills it with KV "
        "cache; {rest} is left for all the rest.",
        share=known.share,
        reserved=show(reserved),
        total=show(total),
        rest=show(total - reserved),
    )


def _meaning(crash: Crash) -> str | None:
    """What the share is one of, where it is not vLLM's."""
    return next((translated(words) for name, words in _MEANINGS.items() if name in crash.context.frameworks), None)


def _fraction(crash: Crash) -> str | None:
    """SGLang's share is one of what was free before it loaded its weights, and holds them."""
    fraction, loaded = static_fraction(crash), loading(crash)
    if fraction is None or loaded is None:
        return None
    left = ready_bytes(crash)
    rest = say("{left} were left once it was ready.", left=show(left)) if left is not None else ""
    taken = say(
        "The engine takes {fraction:g} of the {free} that were free before it loaded its "
        "weights, and fills it with KV cache.",
        fraction=fraction,
        free=show(loaded.free_before_bytes),
    )
    return joined((taken, rest))


def _ran_out(root: object, doing: str | None) -> str:
    """What it asked for, and when, as a clause of time that every language puts where it likes."""
    when = translated(_DOING.get(doing or "", ""))
    if not isinstance(root, DeviceOutOfMemory) or root.tried_bytes is None:
        return say("It got no more memory {when}.", when=when) if when else say("It got no more memory.")
    tried, free = show(root.tried_bytes), root.free_bytes
    if free is None:
        return (
            say("It asked for {tried} {when}.", tried=tried, when=when)
            if when
            else say("It asked for {tried}.", tried=tried)
        )
    if when:
        return say("It asked for {tried} with {free} free {when}.", tried=tried, free=show(free), when=when)
    return say("It asked for {tried} with {free} free.", tried=tried, free=show(free))


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
        against.append(say("the engine's process holds {held} of {total}", held=show(held), total=show(total)))
    if (card.allocated_bytes or 0) > beyond_share(share) * total:
        doubt += 0.2
        against.append(
            say(
                "tensors of this process alone fill {allocated}, more than a share allows",
                allocated=show(card.allocated_bytes or 0),
            )
        )
    others = (card.others_bytes or 0) + (card.unaccounted_bytes or 0)
    if others > LARGE_NEIGHBOUR * total:
        doubt += 0.2
        against.append(say("others hold {others} of the card", others=show(others)))
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
        seen = say(
            "another process on the card holds {neighbour}, which is the engine's share", neighbour=show(neighbour)
        )
    elif not _shares_cards(crash) or wanted + reserved <= total:
        return None
    elif crash.stage in _STARTING and not crash.every(Sleep):
        weight = 0.6
        seen = say("the trainer on the same card holds or asks for {wanted}", wanted=show(wanted))
    else:
        weight = 0.3
        seen = say(
            "the trainer on the same card holds or asks for {wanted}; the engine may be asleep by then",
            wanted=show(wanted),
        )
    shared = say(
        "The models of this job share their cards: {seen}, and together that is more than there is.", seen=seen
    )
    why = joined((_share(known), shared))
    return Finding(weight=weight, why=why, evidence=(root,), knobs=_SHARED_CARD_KNOBS)


def _shares_cards(crash: Crash) -> bool:
    setting = crash.setting("colocate_all", "colocate_all_models", "colocate", "vllm_mode")
    if setting is not None:
        return setting.value in (True, "colocate")
    return any(each.engine == "colocated" for each in FRAMEWORKS if each.name in crash.context.frameworks)


CAUSE = Cause(
    id="vllm-utilization-too-high",
    title=mark("The inference engine's share of the card leaves too little for the rest"),
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
    rule=judge,
)
