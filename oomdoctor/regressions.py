"""Versions that need more memory than others: what shows it, which are affected, which are not."""

from __future__ import annotations

from typing import Final

from oomdoctor.patterns import late
from oomdoctor.records import dataclass

_NUMBERS = late(r"\d{1,9}(?:\.\d{1,9}){0,4}")
Version = tuple[int, ...]


def version(text: str | None) -> Version | None:
    """The numbers of a version: "0.16.4+cu124" is (0, 16, 4)."""
    match = _NUMBERS.search(text or "")
    return tuple(int(part) for part in match[0].split(".")) if match else None


@dataclass(frozen=True, slots=True)
class Range:
    """Versions of one package from the first affected one up to, and without, the first that is not."""

    package: str
    first: str | None  # None: every version before the fixed one
    fixed: str | None  # None: no release is known to be free of it

    def holds(self, found: Version) -> bool:
        first, fixed = version(self.first), version(self.fixed)
        return (first is None or found >= first) and (fixed is None or found < fixed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """One known case. A symptom is all of what is stated here together; empty means that it does not matter."""

    id: str
    what: str  # for a person
    affected: Range
    carriers: tuple[Range, ...] = ()  # frameworks that pin an affected version
    pools: tuple[str, ...] = ("gpu",)
    stages: frozenset[str] = frozenset()
    zero_stages: frozenset[int] = frozenset()
    settings: tuple[tuple[str, ...], ...] = ()  # of each group one name is switched on
    trace: str | None = None  # a frame that belongs to it
    tell_tale: str | None = None  # a line that only it prints
    grows: bool = False  # memory grows step after step
    cure: str
    references: tuple[str, ...]


_CHECKPOINTING = (
    "gradient_checkpointing",
    "actor.gradient_checkpointing_enable",
    "gradient_checkpointing_enable",
    "enable_gradient_checkpointing",
    "activation_checkpointing",
)
_OFFLOAD = ("adam_offload", "offload_optimizer", "optimizer_offload", "offload_optimizer.device", "cpu_offload")
_SLEEP = ("vllm_enable_sleep", "enable_sleep_mode", "vllm_enable_sleep_mode", "free_cache_engine")

REGRESSIONS: Final = (
    Regression(
        id="deepspeed-zero3-checkpointing",
        what=(
            "ZeRO-3 with gradient checkpointing miscounts the gradients still to come when the forward pass is run "
            "again, and does not release parameters"
        ),
        affected=Range("deepspeed", "0.16.0", "0.16.8"),
        carriers=(Range("openrlhf", "0.5.8", "0.8.1"),),
        stages=frozenset({"backward", "forward", "optimizer_step"}),
        zero_stages=frozenset({3}),
        settings=(_CHECKPOINTING,),
        tell_tale=r"Invalidate trace cache @ step",
        cure="deepspeed>=0.16.8",
        references=("deepspeedai/DeepSpeed#7116", "deepspeedai/DeepSpeed#7258", "OpenRLHF/OpenRLHF#821"),
    ),
    Regression(
        id="deepspeed-offload-keeps-parameters",
        what="ZeRO-1 and 2 with an offloaded optimizer keep about three copies of the 16-bit parameters on the card",
        affected=Range("deepspeed", None, "0.17.0"),
        stages=frozenset({"backward", "forward", "optimizer_step", "model_load"}),
        zero_stages=frozenset({1, 2}),
        settings=(_OFFLOAD,),
        cure="deepspeed>=0.17.0",
        references=("deepspeedai/DeepSpeed#7309",),
    ),
    Regression(
        id="torch-fsdp2-state-dict",
        what="FSDP2 gathers a full state dict while it saves or loads a checkpoint",
        affected=Range("torch", "2.6.0", "2.7.0"),
        stages=frozenset({"checkpoint_save", "checkpoint_load"}),
        trace=r"state_dict|_state_dict_utils|fsdp",
        cure="torch>=2.7",
        references=("verl-project/verl#1517", "verl-project/verl#2464"),
    ),
    Regression(
        id="transformers-full-causal-mask",
        what="the whole causal mask of the longest context is materialised",
        affected=Range("transformers", "4.38", "4.40"),
        stages=frozenset({"forward", "backward", "logprob", "eval", "serving"}),
        trace=r"causal_mask",
        tell_tale=r"self\.causal_mask\b",  # kept whole only there
        cure="transformers>=4.40",
        references=("huggingface/transformers#30010",),
    ),
    Regression(
        id="transformers-4.47.0",
        what="fine-tuning needs more memory in its first step than with 4.46.3",
        affected=Range("transformers", "4.47.0", "4.47.1"),
        stages=frozenset({"forward", "backward"}),
        cure="transformers==4.46.3",
        references=("huggingface/transformers#35108",),
    ),
    Regression(
        id="vllm-wake-up-twice",
        what="waking the engine maps the weights and the KV cache before the new weights are loaded: weights twice",
        affected=Range("vllm", "0.7.0", "0.8.3"),
        stages=frozenset({"weight_sync"}),
        settings=(_SLEEP,),
        trace=r"wake_up",
        cure="vllm>=0.8.3, with wake_up(tags=...)",
        references=("vllm-project/vllm#15254", "vllm-project/vllm#15500"),
    ),
    Regression(
        id="vllm-sleep-leaves-memory",
        what="a sleeping engine leaves about 16 GB on the card",
        affected=Range("vllm", "0.14.0", "0.16.0"),
        stages=frozenset({"forward", "backward", "optimizer_step", "weight_sync"}),
        settings=(_SLEEP,),
        tell_tale=r"is still in use",
        cure="a vllm with #32947 (2026-02-10)",
        references=("vllm-project/vllm#32714", "vllm-project/vllm#32947"),
    ),
    Regression(
        id="vllm-n-samples-leak",
        what="sequences of requests with several samples are never freed: host memory grows with every rollout",
        affected=Range("vllm", "0.7.0", "0.8.0"),
        pools=("host_ram", "cgroup"),
        grows=True,
        cure="vllm>=0.8.5",
        references=("vllm-project/vllm#14326", "vllm-project/vllm#16472"),
    ),
    Regression(
        id="raylet-leak",
        what="the raylet itself leaks",
        affected=Range("ray", "2.41.0", "2.42.0"),
        pools=("host_ram", "cgroup"),
        tell_tale=r"\d\s+\S{0,200}raylet/raylet\b",
        grows=True,
        cure="a ray with #51051",
        references=("ray-project/ray#50955", "ray-project/ray#51051"),
    ),
)
