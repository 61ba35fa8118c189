"""What the log says about the inference engine of a crash: its version, its share of the card, what is in the share,
and what it was doing when memory ran out."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from oomdoctor.arithmetic import sglang, vllm
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.event import Event
from oomdoctor.families.sglang import EngineStep
from oomdoctor.families.vllm_error import (
    ContextDoesNotFit,
    NotEnoughFree,
)
from oomdoctor.families.vllm_figures import EncoderProfile, GraphCapture, KvCacheSize, MemoryProfile, WeightsLoaded
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import some
from oomdoctor.job.model import Setting
from oomdoctor.versions import Version, version_of

# Every framework's name for vLLM's share of the card.
SHARE_SETTINGS: Final = ("gpu_memory_utilization", "vllm_gpu_memory_utilization", "vllm_gpu_util")
# SGLang's is a share of what was free at start.
FRACTION_SETTINGS: Final = ("mem_fraction_static", "sglang_mem_fraction_static", "sglang_mem_fraction")
# Of what the weights leave free: of LMDeploy and TensorRT-LLM
REST_SETTINGS: Final = (
    "cache_max_entry_count",
    "kv_cache_free_gpu_memory_fraction",
    "free_gpu_memory_fraction",
    "kv_cache_free_gpu_mem_fraction",
)
_OF_ITS_POOL: Final = ("weight_sync", "allocate")
_WAKES: Final = "wake_up"
# vllm/v1/executor/multiproc_executor.py up to 0.10.0
_OF_V1: Final = r"\(VllmWorker rank=\d"
# What the engine was doing: by its verb, else by its stage
_PHASE_OF_STEP: Final = {"wake": "waking", "warm": "warming"}
_PHASE_OF_STAGE: Final = {
    "cuda_graph_capture": "capturing",
    "memory_profiling": "profiling",
    "kv_cache_init": "allocating",
    "model_load": "loading",
    "serving": "serving",
    "rollout": "serving",
    "weight_sync": "syncing",
}


class EngineFacts(Struct, frozen=True):
    """Printed figures only; what the log does not say is None."""

    version: Version | None
    engine: str | None  # "V0" or "V1" of vLLM
    share: float | None  # gpu_memory_utilization as set or printed
    share_setting: Setting | None
    total_bytes: int | None = None
    requested_bytes: int | None = None
    weights_bytes: int | None = None
    non_torch_bytes: int | None = None
    activation_bytes: int | None = None
    graph_bytes: int | None = None
    kv_bytes: int | None = None
    max_model_len: int | None = None

    @property
    def era(self) -> vllm.Era | None:
        return vllm.era(self.version, self.engine)

    @property
    def reserved_bytes(self) -> int | None:
        """What the share comes to on this card."""
        if self.requested_bytes is not None:
            return self.requested_bytes
        if self.share is None or self.total_bytes is None:
            return None
        return round(self.share * self.total_bytes)


def facts(crash: Crash) -> EngineFacts:
    """Of several starts in one log the last before the failure counts; of several ranks the one with the least room."""
    events = [event for event in crash.events if event.at.file != crash.root.at.file or _until(event, crash.root)]
    share_setting = crash.setting(*SHARE_SETTINGS)
    share = _printed(events, "utilization")
    if share is None and share_setting is not None and isinstance(share_setting.value, (int, float)):
        share = float(share_setting.value)
    profiles = [event for event in events if isinstance(event, MemoryProfile)]
    tightest = min((p for p in profiles if p.kv_bytes is not None), key=lambda p: p.kv_bytes or 0, default=None)
    ordered: list[Event] = [*events, *([tightest] if tightest else [])]
    figures = {name: _printed(ordered, name) for name in _FIGURES}
    figures["max_model_len"] = figures["max_model_len"] or _printed(ordered, "request_tokens") or _set_length(crash)
    return EngineFacts(
        version=version_of(crash.context.frameworks.get(vllm.NAME)),
        engine=_engine(crash),
        share=share,
        share_setting=share_setting,
        **figures,
    )


class Loading(Struct, frozen=True):
    """What was free on a card before and after SGLang loaded its weights, on the rank with the least room."""

    free_before_bytes: int
    free_after_bytes: int

    @property
    def weights_bytes(self) -> int:
        return self.free_before_bytes - self.free_after_bytes

    @property
    def smallest_fraction(self) -> float:
        return sglang.smallest_fraction(self.free_after_bytes, self.free_before_bytes)


def loading(crash: Crash) -> Loading | None:
    """The engine reckons with the least of all ranks, before and after. What was free before is printed, or is what the
    weights took beside what they left: model_runner.py, "mem usage" of load_model."""
    steps = [step for step in crash.every(EngineStep) if step.free_bytes is not None and _until(step, crash.root)]
    ends = [step for step in steps if step.step == "weights"]
    printed = [step.free_bytes or 0 for step in steps if step.step == "before-weights"]
    before = min(printed or [(end.free_bytes or 0) + (end.used_bytes or 0) for end in ends], default=0)
    after = min((end.free_bytes or 0 for end in ends), default=0)
    return Loading(before, after) if before > after > 0 else None


def cache_that_fits(crash: Crash) -> MemoryProfile | None:
    """vLLM's account that names a size of the KV cache that fits, smaller than the one in use."""
    known = [event for event in crash.every(MemoryProfile) if event.kv_to_fit_bytes is not None]
    last = known[-1] if known else None
    return last if last is not None and 0 < (last.kv_to_fit_bytes or 0) < (last.kv_bytes or 0) else None


def ready_bytes(crash: Crash) -> int | None:
    """What SGLang had left on the card when it was ready to serve, on the rank with the least."""
    ready = (step.free_bytes for step in crash.every(EngineStep) if step.step == "ready" and _until(step, crash.root))
    return min((left for left in ready if left is not None), default=None)


def static_fraction(crash: Crash) -> float | None:
    """mem_fraction_static as set; the dump of the server's arguments holds the computed default."""
    setting = crash.setting(*FRACTION_SETTINGS)
    return float(setting.value) if setting is not None and isinstance(setting.value, (int, float)) else None


def share_of_the_rest(crash: Crash) -> float | None:
    """What an engine takes for its cache of the memory that its weights leave free, as set; larger numbers of
    LMDeploy's are entries."""
    stated = crash.setting(*REST_SETTINGS) if some(crash.job.frameworks, "takes a share of the rest") else None
    if stated is None or not isinstance(stated.value, float) or not 0 < stated.value < 1:
        return None
    return stated.value


def _set_length(crash: Crash) -> int | None:
    setting = crash.setting("max_model_len", "max_seq_len")
    return setting.value if setting is not None and isinstance(setting.value, int) else None


_FIGURES = (
    "total_bytes", "requested_bytes", "weights_bytes", "non_torch_bytes", "activation_bytes", "graph_bytes", "kv_bytes",
    "max_model_len",
)  # fmt: skip
_TELLING = (
    NotEnoughFree,
    ContextDoesNotFit,
    MemoryProfile,
    KvCacheSize,
    GraphCapture,
    WeightsLoaded,
    DeviceOutOfMemory,
)


def _until(event: Event, root: Event) -> bool:
    return event.at.line <= root.at.line or isinstance(event, (NotEnoughFree, ContextDoesNotFit))


def _printed(events: list[Event], name: str) -> Any:
    """The last print of this figure."""
    values = (getattr(event, name, None) for event in reversed(events) if isinstance(event, _TELLING))
    return next((value for value in values if value is not None), None)


def _engine(crash: Crash) -> str | None:
    """V0 or V1, told by files that only one of them has and by figures that only V0 prints."""
    if crash.in_trace(r"(?:^|/)vllm/v1/") or crash.mentions(r"a V1 LLM engine|vllm/v1/|EngineCore"):
        return "V1"
    if crash.in_trace(r"(?:^|/)vllm/worker/") or crash.mentions(
        r"a V0 LLM engine|VllmWorkerProcess|vllm/worker/worker\.py|\berr_execute_model_input_|\bMQLLMEngine\b"
    ):
        return "V0"
    for event in crash.events:
        if (isinstance(event, KvCacheSize) and event.cpu_blocks is not None) or (
            isinstance(event, ContextDoesNotFit) and event.kv_tokens is not None
        ):
            return "V0"
    return "V1" if crash.mentions(_OF_V1) else None


def phase(crash: Crash) -> str | None:
    """What the engine was doing: "waking", "syncing", "warming", "capturing", "profiling", "allocating", "loading",
    "serving"; None where neither frames nor the stage tell."""
    doing = crash.doing
    if (doing.stage, doing.step) == _OF_ITS_POOL:
        return "waking"
    return _PHASE_OF_STEP.get(doing.step or "") or _PHASE_OF_STAGE.get(doing.stage) or _of_last_figures(crash)


def takes_its_pool(crash: Crash) -> bool:
    """Whether nothing but the allocator of its sleep mode tells what the engine did, in any process of the crash. It
    maps what is taken back at wake-up and what is loaded: python_create_and_map and my_malloc of vLLM's
    csrc/cumem_allocator.cpp."""
    if (crash.doing.stage, crash.doing.step) != _OF_ITS_POOL:
        return False
    return not any(_WAKES in frame.function for event in crash.events for frame in event.around.trace)


def _of_last_figures(crash: Crash) -> str | None:
    """An engine that has just said for what its encoder is profiled is profiling it, until its next figures."""
    root = crash.root.at
    told = [e for e in crash.events if e.family == "vllm_figures" and e.at.file == root.file and e.at.line < root.line]
    return "profiling" if told and isinstance(told[-1], EncoderProfile) else None
