"""Whether what an engine or a pass of the model keeps lies in host memory, because it computes there."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.event import RAM
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.llama_cpp import Buffer
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import engine_printing
from oomdoctor.language import say
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.first_step import killed_at_a_limit_while_computing, killed_bare_at_a_step

_DEVICES: Final = ("device_config", "device")
_CACHE: Final = r"(?i)\bKV[ _-]?cache\b"
_ANSWERS: Final = ("serving", "inference", "unknown")  # tasks
_LENGTHS: Final = ("max_model_len", "max_seq_len", "max_context_length", "context_length", "n_ctx", "ctx_size")
_OF_A_PASS: Final = frozenset({"forward", "backward", "optimizer_step", "logprob", "rollout", "eval"})
_MODEL: Final = r"(?:^|/)torch/nn/|keras/(?:src/)?layers|(?:^|/)torch/(?:autograd|optim)/|/modeling_\w{1,40}\.py"
# vLLM: vllm/v1/worker/cpu_worker.py, cpu_model_runner.py, vllm/platforms/cpu.py and __init__.py
_ENGINE_ON_THE_CPU: Final = (
    r"\bcpu_(?:worker|model_runner)\b|\bCPU(?:Worker|ModelRunner)|\bCPU backend\b|\bCpuPlatform\b"
    r"|\bdetected platform cpu\b|\bVLLM_CPU_KVCACHE_SPACE\b"
)


@sign
def an_engine_computes_on_the_host(crash: Crash) -> Seen | None:
    """A serving engine ran out of host memory and runs on the CPU, by its own words or because llama.cpp has no GPU
    buffer: weights, cache and scratch space are in host memory."""
    ways = (_was_refused, on_the_processor, _without_a_card, _with_a_cache_of_its_own)
    if crash.pool not in RAM or not any(way(crash) for way in ways):
        return None
    words = say("The engine runs on the CPU: its weights, KV cache and buffers are in host memory.")
    return Seen(words=words, evidence=(crash.root,))


def _was_refused(crash: Crash) -> bool:
    """An engine whose process died says nothing of what it computed on."""
    return crash.proven and crash.root.pool in RAM and engine_printing(crash.root.family) is not None


def on_the_processor(crash: Crash) -> bool:
    """Whether a serving engine says that it runs on the CPU."""
    device = crash.setting(*_DEVICES)
    told = device is not None and str(device.value).lower() == "cpu" and crash.job.task == "serving"
    return told or crash.mentions(_ENGINE_ON_THE_CPU) is not None


def _without_a_card(crash: Crash) -> bool:
    if crash.job.world != "ggml" or crash.context.hardware.get("gpu_name") is not None:
        return False
    of_devices = (buffer for buffer in crash.every(Buffer) if not _is_sum_of_a_cache(buffer))
    return all(buffer.pool in RAM for buffer in of_devices)


def _with_a_cache_of_its_own(crash: Crash) -> bool:
    """A server that somebody wrote speaks of its KV cache, whose length it was started with, and of no GPU."""
    job = crash.job
    if job.task not in _ANSWERS or job.runs_engine or crash.context.hardware.get("gpu_name") is not None:
        return False
    return crash.mentions(_CACHE) is not None and crash.setting(*_LENGTHS) is not None


def _is_sum_of_a_cache(buffer: Buffer) -> bool:
    """ "KV self size", "llama_kv_cache: size": of all devices, and it names none."""
    return buffer.what == "kv" and buffer.device is None


@sign
def a_pass_computes_on_the_host(crash: Crash) -> Seen | None:
    """A pass of a model failed to allocate host memory for its computation."""
    if crash.pool not in RAM or not isinstance(crash.root, HostAllocation | ArrayOutOfMemory):
        return None
    if crash.stage not in _OF_A_PASS and crash.in_trace(_MODEL) is None:
        return None
    return Seen(words=say("The model runs on the CPU."), evidence=(crash.root,))


def computes_on_the_host(crash: Crash) -> bool:
    """Whether what it computes with lies in host memory."""
    ways = (
        an_engine_computes_on_the_host,
        a_pass_computes_on_the_host,
        killed_at_a_limit_while_computing,
        killed_bare_at_a_step,
    )
    return any(one(crash) is not None for one in ways)


__all__ = ["a_pass_computes_on_the_host", "an_engine_computes_on_the_host", "computes_on_the_host"]
