"""The engine's warm-up runs the sampler with as many dummy requests as it may ever serve at once."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.vllm_error import WarmupOutOfMemory
from oomdoctor.incident.engine_facts import in_engine, phase
from oomdoctor.incident.model import Crash
from oomdoctor.units import show

# The sampler's arguments in the warm-up's source: what a traceback that is cut above shows of it
_DUMMIES = r"\bsampling_metadata=dummy_metadata\b|_dummy_sampler_run"


def judge(crash: Crash) -> Judgement | None:
    warmup = crash.first(WarmupOutOfMemory)
    if warmup is None and phase(crash) != "warming" and not (in_engine(crash) and crash.mentions(_DUMMIES)):
        return None
    requests = warmup.requests if warmup is not None else None
    oom = next((event for event in crash.every(DeviceOutOfMemory) if event.tried_bytes is not None), None)
    asked = f" {show(oom.tried_bytes)} was asked for." if oom is not None and oom.tried_bytes is not None else ""
    many = f"with {requests} dummy requests" if requests is not None else "with its largest number of dummy requests"
    return Finding(
        weight=0.92 if warmup is not None else 0.85,
        why=(
            f"The engine had taken its share and warmed up the {warmup.what if warmup else 'sampler'} {many}. "
            f"Each needs its row of logits over the whole vocabulary, several times over, beside that share.{asked}"
        ),
        evidence=(warmup if warmup is not None else crash.root,),
        stage="engine_init",
    )


CAUSE = Cause(
    id="sampler-warmup",
    title="Warming up the engine's sampler ran out of device memory",
    pools=("gpu",),
    knobs=("fewer-sequences", "lower-engine-reservation", "eager-mode"),
    judge=judge,
)
