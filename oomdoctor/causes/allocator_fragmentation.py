"""Memory that PyTorch holds and cannot hand out in one piece."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, NotEnough, RuledOut
from oomdoctor.causes.gpu import GRAPHS, STRAW, card, refusal
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.memory_summary import MemorySummary
from oomdoctor.incident.card import Card
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say
from oomdoctor.units import percent, show

# Less than this part of the live tensors is what every allocator keeps for the next request.
CACHE_SHARE = 0.10

# What is idle of TensorFlow's pool is spread over its bins; less than this part of it is.
POOL_SHARE = 0.25

OTHERS = 2  # times what lies idle: then it is they who are to go
# While an engine starts, no batch of training is on the card yet.
ENGINE_STAGES = ("engine_init", "memory_profiling", "kv_cache_init", "cuda_graph_capture")
ENGINE_KNOBS = ("allocator-config", "lower-engine-reservation", "free-the-gpu")


def judge(crash: Crash) -> Judgement | None:
    if isinstance(crash.root, ArrayOutOfMemory):
        return _pool(crash.root)
    it = card(crash)
    event = refusal(crash)
    if event is None:
        return None
    summary = _summary(crash)
    idle = it.unallocated_bytes
    if idle is None and summary is not None:
        idle = summary.idle_bytes
    if idle is None or it.tried_bytes is None:
        return NotEnough(say("the rest of the allocator's message: how much is reserved but unallocated"))
    tried = it.tried_bytes
    share = percent(it.share(idle))
    if it.free_bytes is not None and it.free_bytes >= tried and (it.share(it.free_bytes) or 0) >= CACHE_SHARE:
        return RuledOut(
            say("{free} are free beside it: the request did not need one of its pieces", free=show(it.free_bytes))
        )
    if idle < tried:
        return RuledOut(
            say(
                "{idle} reserved but unallocated is {share} of the card, and less than the {tried} "
                "asked for: whole it would not do either",
                idle=show(idle),
                share=share,
                tried=show(tried),
            )
        )
    if it.allocated_bytes and idle < CACHE_SHARE * it.allocated_bytes:
        return RuledOut(
            say(
                "{idle} reserved but unallocated is {share} of the card and {used} of what is in use: "
                "an ordinary cache",
                idle=show(idle),
                share=share,
                used=percent(idle / it.allocated_bytes),
            )
        )
    if str(_segments(crash)).lower().find("expandable_segments:true") >= 0:
        return RuledOut(
            say(
                "{idle} reserved but unallocated is {share} of the card, but expandable segments, "
                "which cure it, are set already",
                idle=show(idle),
                share=share,
            )
        )
    against = _against(crash, it)
    return Finding(
        weight=0.45 if against else 0.8 if tried <= STRAW else 0.93,
        why=say(
            "PyTorch holds {idle} that no tensor uses, more than the {tried} that were asked for, "
            "and cannot hand them out in one piece: they are spread over blocks of other sizes.",
            idle=show(idle),
            tried=show(tried),
        ),
        evidence=(event,) if summary is None else (event, summary),
        against=against,
        knobs=ENGINE_KNOBS if crash.stage in ENGINE_STAGES else (),
    )


def _summary(crash: Crash) -> MemorySummary | None:
    """The last table of the card that refused."""
    gpu = crash.root.process.gpu
    tables = [event for event in crash.every(MemorySummary) if gpu in (None, event.process.gpu)]
    return tables[-1] if tables else None


def _pool(root: ArrayOutOfMemory) -> Judgement | None:
    """TensorFlow's pool says what it has of the driver, and what of that is in use."""
    tried, region, used = root.array_bytes, root.region_bytes, root.in_use_bytes
    if tried is None or region is None or used is None:
        return None
    idle = region - used
    if tried <= idle < POOL_SHARE * region:
        return RuledOut(
            say(
                "The pool has {region} of the driver and {used} of it in use: {idle} are idle: an ordinary rest",
                region=show(region),
                used=show(used),
                idle=show(idle),
            )
        )
    if idle < tried:
        return RuledOut(
            say(
                "The pool has {region} of the driver and {used} of it in use: {idle} are idle, less "
                "than what was asked for ({asked})",
                region=show(region),
                used=show(used),
                idle=show(idle),
                asked=root.array_words,
            )
        )
    why = say(
        "The pool has {region} of the driver and {used} of it in use: {idle} are idle, more "
        "than what was asked for ({asked}), and not in one piece.",
        region=show(region),
        used=show(used),
        idle=show(idle),
        asked=root.array_words,
    )
    return Finding(weight=0.85, why=why, evidence=(root,))


def _segments(crash: Crash) -> object:
    setting = crash.setting("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
    return setting.value if setting else None


def _against(crash: Crash, it: Card) -> tuple[str, ...]:
    """Neighbours take more than is lost; up to PyTorch 2.4 the pools of CUDA graphs were counted as unallocated."""
    event = refusal(crash)
    others = it.others_bytes or 0
    if others > OTHERS * (it.unallocated_bytes or 0):
        return (say("other processes hold {others} of the card, much more than lies idle here", others=show(others)),)
    graphs = crash.stage == "cuda_graph_capture" or crash.in_trace(GRAPHS) is not None
    if graphs and event is not None and event.private_pools_bytes is None and it.own_bytes is not None:
        return (say("CUDA graphs were captured: before PyTorch 2.5 their pools are counted as unallocated"),)
    return ()


CAUSE = Cause(
    id="allocator-fragmentation",
    title=mark("The memory is there, but not in one piece"),
    pools=("gpu",),
    knobs=("allocator-config", "smaller-microbatch", "shorter-sequences", "token-budget-batching"),
    rule=judge,
)
