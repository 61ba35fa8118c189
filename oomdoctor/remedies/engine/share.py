"""The engine's share of the card: what states it, and where it says nothing of what was refused."""

from __future__ import annotations

from typing import Final

from oomdoctor.arithmetic import vllm
from oomdoctor.families.vllm_error import NotEnoughFree
from oomdoctor.families.vllm_figures import GraphCapture, MemoryProfile
from oomdoctor.incident.engine_facts import FRACTION_SETTINGS, SHARE_SETTINGS, phase
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import among
from oomdoctor.language import say, translated
from oomdoctor.remedies.engine.known import engine_version, sleeps
from oomdoctor.remedies.initial import as_default
from oomdoctor.remedies.proposal import Refusal
from oomdoctor.remedies.settings import Spelling, known_versions, spelling

BEFORE_THE_CACHE: Final = ("loading", "profiling")
TRAINING: Final = frozenset({"forward", "backward", "optimizer_step", "logprob", "reward", "eval"})


def share(crash: Crash) -> tuple[float, tuple[str, ...]] | None:
    """The engine's share of the card, and what had to be assumed for it."""
    stated = share_stated(crash)
    return (stated, ()) if stated is not None else _default_share(crash)


def share_stated(crash: Crash) -> float | None:
    """The engine's share by a setting or a message."""
    stated = crash.setting(*SHARE_SETTINGS, *FRACTION_SETTINGS)
    if stated is not None and isinstance(stated.value, float | int) and 0 < stated.value <= 1:
        return float(stated.value)
    for event in crash.events:
        printed = getattr(event, "utilization", None)
        if isinstance(event, NotEnoughFree | MemoryProfile | GraphCapture) and printed:
            return float(printed)
    return None


def _default_share(crash: Crash) -> tuple[float, tuple[str, ...]] | None:
    for trainer in (each for each in among(crash.context.frameworks) if each.engine != "never"):
        default = _begun_with(trainer.name, crash) or trainer.share
        source = translated(trainer.share_by) or say("{program}'s default", program=trainer.title)
        told = say("share {share} ({source}, not in the log)", share=default, source=source)
        return (default, (told,)) if default else None
    version = engine_version(crash)
    default = vllm.default_share(version)
    if default is None:
        return None
    number = crash.context.frameworks[vllm.NAME]
    told = say("share {share} (default of vLLM {version}, not in the log)", share=default, version=number)
    return default, (told,)


def _begun_with(trainer: str, crash: Crash) -> float | None:
    """The share that all releases of a trainer begin with which the job may have."""
    row = spelling("lower-engine-reservation", crash.context, trainer)
    begun = shares_begun(row, crash) if row is not None else set()
    return min(begun) if len(begun) == 1 else None


def shares_begun(row: Spelling, crash: Crash) -> set[float]:
    known = known_versions(row.framework, crash.context)
    return {float(value) for value, where in row.defaults if where.overlaps(known)}


def not_its_share(crash: Crash) -> str | None:
    """Why an engine's share says nothing of what was refused; None where it does."""
    if crash.first(NotEnoughFree) is not None:
        return None
    step = phase(crash)
    if crash.job.in_reserving_engine and step in BEFORE_THE_CACHE:
        return (
            say("the engine was still loading: it takes its share later")
            if step == "loading"
            else say("the engine was still profiling: it takes its share later")
        )
    if not crash.job.in_reserving_engine and sleeps(crash) and crash.stage in TRAINING:
        return say("the engine slept: its GPU memory was free for the trainer")
    return None


def fixed_cache(crash: Crash) -> Refusal | None:
    """vLLM 0.10.2 and later: a cache whose size is stated in bytes does not hang on the share, which has to be free at
    start all the same."""
    stated = crash.setting("kv_cache_memory_bytes", "kv_cache_memory")
    if stated is None or not stated.value:
        return None
    return Refusal(say("{name} is set ({place}) and overrides the share", name=stated.name, place=stated.place))


def as_known(now: float, assumed: tuple[str, ...]) -> str:
    return as_default(f"{now:.2f}") if assumed else f"{now:.2f}"
