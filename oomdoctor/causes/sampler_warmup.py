"""The engine's warm-up runs the sampler with as many dummy requests as it may ever serve at once."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.vllm_error import WarmupOutOfMemory
from oomdoctor.incident.engine_facts import in_engine, phase
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say
from oomdoctor.units import show

# The sampler's arguments in the warm-up's source: what a traceback that is cut above shows of it
_DUMMIES = r"\bsampling_metadata=dummy_metadata\b|_dummy_sampler_run"


def judge(crash: Crash) -> Judgement | None:
    warmup = crash.first(WarmupOutOfMemory)
    if warmup is None and phase(crash) != "warming" and not (in_engine(crash) and crash.mentions(_DUMMIES)):
        return None
    requests = warmup.requests if warmup is not None else None
    oom = next((event for event in crash.every(DeviceOutOfMemory) if event.tried_bytes is not None), None)
    asked = (
        say("{tried} was asked for.", tried=show(oom.tried_bytes))
        if oom is not None and oom.tried_bytes is not None
        else ""
    )
    what = warmup.what if warmup is not None else "sampler"
    warmed = (
        say(
            "The engine had taken its share and warmed up the {what} with {requests} dummy requests.",
            what=what,
            requests=requests,
        )
        if requests is not None
        else say(
            "The engine had taken its share and warmed up the {what} with its largest number of dummy requests.",
            what=what,
        )
    )
    rows = say("Each needs its row of logits over the whole vocabulary, several times over, beside that share.")
    return Finding(
        weight=0.92 if warmup is not None else 0.85,
        why=joined((warmed, rows, asked)),
        evidence=(warmup if warmup is not None else crash.root,),
        stage="engine_init",
    )


CAUSE = Cause(
    id="sampler-warmup",
    title=mark("Warming up the engine's sampler ran out of device memory"),
    pools=("gpu",),
    knobs=("fewer-sequences", "lower-engine-reservation", "eager-mode"),
    rule=judge,
)
