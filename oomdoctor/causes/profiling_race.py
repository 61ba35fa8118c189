"""A neighbour freed memory while the engine measured its own: its account does not add up, and nothing is short."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.families.vllm_error import ProfilingDisturbed
from oomdoctor.families.vllm_figures import WeightsLoaded
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say
from oomdoctor.units import show


def judge(crash: Crash) -> Judgement | None:
    disturbed = crash.first(ProfilingDisturbed)
    if disturbed is None:
        return None
    freed = freed_bytes(disturbed)
    against = []
    weight = 0.9 if freed else 0.75
    if freed == 0:
        against.append(say("free memory did not change at all: some versions take equal figures for a disturbance"))
    if any(loaded.weights_bytes == 0 for loaded in crash.every(WeightsLoaded)):
        against.append(say("the weights took nothing on this card: the model may sit on another one"))
        weight = 0.5
    return Finding(
        weight=weight,
        why=joined(
            (
                _grew(disturbed, freed),
                say(
                    "Another process on the card gave memory back in the meantime, so the measurement is "
                    "worth nothing. No memory was short."
                ),
            )
        ),
        evidence=(disturbed,),
        against=tuple(against),
    )


def freed_bytes(disturbed: ProfilingDisturbed) -> int | None:
    """What others gave back at least; the engine's own use hides the rest of it."""
    if disturbed.current_free_bytes is not None and disturbed.initial_free_bytes is not None:
        return max(0, disturbed.current_free_bytes - disturbed.initial_free_bytes)
    if disturbed.current_used_bytes is not None and disturbed.initial_used_bytes is not None:
        return max(0, disturbed.initial_used_bytes - disturbed.current_used_bytes)
    return None


def _grew(disturbed: ProfilingDisturbed, freed: int | None) -> str:
    if freed is None:
        return say("While the engine measured what it needs, more memory became free instead of less.")
    if disturbed.current_free_bytes is not None and disturbed.initial_free_bytes is not None:
        return say(
            "While the engine measured what it needs, free memory went from {before} to {after} instead of down.",
            before=show(disturbed.initial_free_bytes),
            after=show(disturbed.current_free_bytes),
        )
    before, after = disturbed.initial_used_bytes or 0, disturbed.current_used_bytes or 0
    return say(
        "While the engine measured what it needs, the memory in use went down by {freed}, "
        "from {before} to {after}, instead of up.",
        freed=show(freed),
        before=show(before),
        after=show(after),
    )


CAUSE = Cause(
    id="profiling-race",
    title=mark("Another process freed memory while the engine measured; nothing is short"),
    pools=("gpu",),
    knobs=("start-in-sequence", "free-the-gpu", "pin-version"),
    rule=judge,
)
