"""Capturing CUDA graphs needs more than the engine's share left free."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.sglang import CaptureFailed
from oomdoctor.families.vllm_figures import GraphCapture
from oomdoctor.incident.engine_facts import facts, phase
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say
from oomdoctor.units import show


def judge(crash: Crash) -> Judgement | None:
    captured = _captured_before(crash)
    if phase(crash) != "capturing":
        if captured is not None and captured.graph_bytes is not None:
            return RuledOut(
                say("the graphs were captured before that; they took {graph}", graph=show(captured.graph_bytes))
            )
        return None
    eager = crash.setting("enforce_eager")
    if eager is not None and eager.value is True:
        return RuledOut(say("enforce_eager is set: no graphs are captured"))
    return Finding(
        weight=0.85 if crash.first(CaptureFailed) or crash.in_trace(r"captur|cuda/graphs\.py|cuda_?graph") else 0.65,
        why=joined((say("The card ran out while CUDA graphs were captured."), _where_they_count(crash), _asked(crash))),
        evidence=(crash.root,),
        stage="cuda_graph_capture",
    )


def _captured_before(crash: Crash) -> GraphCapture | None:
    root = crash.root.at
    return next(
        (
            event
            for event in crash.every(GraphCapture)
            if event.phase == "finished" and event.at.file == root.file and event.at.line < root.line
        ),
        None,
    )


def _where_they_count(crash: Crash) -> str:
    era = facts(crash).era
    if era is None:
        return say("Graphs and their private pools come on top of the KV cache, which is full-sized by then.")
    if era.graphs_inside:
        return say("This version estimates their size and takes it off the KV cache; the estimate was too small.")
    return say("In this version they come on top of the engine's share of the card.")


def _asked(crash: Crash) -> str:
    root = crash.root
    if not isinstance(root, DeviceOutOfMemory) or root.tried_bytes is None or root.free_bytes is None:
        return ""
    return say("{tried} was asked for, {free} was free.", tried=show(root.tried_bytes), free=show(root.free_bytes))


CAUSE = Cause(
    id="cuda-graph-capture",
    title=mark("Capturing CUDA graphs ran out of device memory"),
    pools=("gpu",),
    knobs=("lower-engine-reservation", "eager-mode", "fewer-sequences", "shorter-context"),
    rule=judge,
)
