"""What is said first about the refusals of inference engines, each in the meaning of its own fraction."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.report.contract import Diagnosis

FIXTURES = Path(__file__).parents[2] / "fixtures"

FIRST = (
    ("llama_cpp/weights", "model-does-not-fit", "gpu", "model_load"),
    ("llama_cpp/kv-cache", "kv-cache-no-room", "gpu", "kv_cache_init"),
    ("llama_cpp/compute", "activations", "gpu", "engine_init"),
    ("llama_cpp/host", "host-model-load", "host_ram", "model_load"),
    ("llama_cpp/host-kv-cache", "kv-cache-no-room", "host_ram", "kv_cache_init"),
    ("llama_cpp/context-full", "kv-pool-exhausted", "kv_cache", "serving"),
    ("llama_cpp/first-generation", "pinned-memory-exhausted", "pinned", "model_load"),
    ("ollama/short-of-system-memory", "host-model-load", "host_ram", "model_load"),
    ("ollama/short-allocations", "activations", "gpu", "engine_init"),
    ("ollama/short-runner", "model-does-not-fit", "gpu", "model_load"),
    ("ollama/short-layout", "model-does-not-fit", "gpu", "model_load"),
    ("tensorrt_llm/creation-failed", "vllm-utilization-too-high", "gpu", "kv_cache_init"),
    ("tensorrt_llm/creation-failed-model", "model-does-not-fit", "gpu", "model_load"),
    ("tensorrt_llm/creation-failed-cut", "activations", "gpu", "memory_profiling"),
    ("tensorrt_llm/cache-too-small", "kv-pool-exhausted", "kv_cache", "serving"),
    ("tensorrt_llm/one-sequence", "max-model-len-too-long", "kv_cache", "kv_cache_init"),
    ("tgi/warmup", "activations", "gpu", "memory_profiling"),
    ("lmdeploy/host-cache", "cpu-offload-overcommit", "host_ram", "kv_cache_init"),
    ("lmdeploy/cache-full", "kv-pool-exhausted", "kv_cache", "serving"),
    ("lmcache/buffer-full", "kv-pool-exhausted", "host_ram", "serving"),
    ("mlc/no-room", "model-does-not-fit", "gpu", "kv_cache_init"),
    ("mlc/no-room-for-buffers", "kv-cache-no-room", "gpu", "kv_cache_init"),
)


def diagnoses(text: bytes, tmp_path: Path) -> list[Diagnosis]:
    log = tmp_path / "engine.log"
    log.write_bytes(text)
    return list(diagnose(log).incidents[0].diagnoses)


@pytest.mark.parametrize(("name", "cause", "pool", "stage"), FIRST, ids=[row[0] for row in FIRST])
def test_the_first_cause(name: str, cause: str, pool: str, stage: str, tmp_path: Path) -> None:
    first = diagnoses((FIXTURES / f"{name}.log").read_bytes(), tmp_path)[0]
    assert (first.cause, first.pool, first.stage) == (cause, pool, stage)


FULL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of 23.53 GiB "
    "of which {free} is free. Of the allocated memory {allocated} GiB is allocated by PyTorch, and 231.40 MiB is "
    "reserved by PyTorch but unallocated.\n"
    "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease `--max-batch-prefill-tokens`\n"
)


def test_weights_that_fill_the_card_are_not_the_prefill_tokens_that_tgi_blames(tmp_path: Path) -> None:
    assert (
        diagnoses(FULL.format(tried="48.00 MiB", free="21.00 MiB", allocated="22.73").encode(), tmp_path)[0].cause
        == "model-does-not-fit"
    )


def test_a_warm_up_on_a_card_that_was_half_empty_is_the_batch(tmp_path: Path) -> None:
    found = diagnoses(FULL.format(tried="12.00 GiB", free="9.75 GiB", allocated="13.10").encode(), tmp_path)
    assert found[0].cause == "activations"
    assert not any(remedy.knob == "lower-engine-reservation" for remedy in found[0].remedies)


def test_ollamas_estimate_is_held_against_what_its_runner_asked_for(tmp_path: Path) -> None:
    plan = (FIXTURES / "ollama/plan.log").read_bytes()
    refused = (
        b"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 61440.00 MiB on device 0: "
        b"cudaMalloc failed: out of memory\n"
        b"llama_model_load: error loading model: unable to allocate CUDA0 buffer\n"
    )
    first = diagnoses(plan + refused, tmp_path)[0]
    assert first.cause == "model-does-not-fit"
    assert "44 of 81 layers" in first.explanation
    assert "too low" in first.explanation


@pytest.mark.parametrize(
    "name",
    [
        "llama_cpp/loaded-2023", "llama_cpp/loaded-2026", "llama_cpp/near-misses", "llama_cpp/near-goes-on",
        "ollama/plan", "ollama/parts", "ollama/near-misses", "tensorrt_llm/runtime-start", "tensorrt_llm/near-misses",
        "tgi/settled", "tgi/near-misses", "lmdeploy/cache", "lmdeploy/near-misses", "lmcache/near-misses",
        "lmcache/transfer", "mlc/estimate", "mlc/near-misses", "forge/plans",
    ],
)  # fmt: skip
def test_a_healthy_start_is_none(name: str) -> None:
    report = diagnose(FIXTURES / f"{name}.log")
    assert report.verdict == "no-oom"


FULL_BUFFER = (
    "LMCache WARNING: Failed to allocate memory block of size 33554432 because no memory is available "
    "(memory_management.py:911:lmcache.v1.memory_management)\n"
)


@pytest.mark.parametrize(
    ("behind", "told"),
    [
        ("ERROR 02-03 04:05:06 serving_chat.py:371] Traceback (most recent call last):\n", False),
        ("ERROR 02-03 04:05:06 engine.py:139] AttributeError(\"'NoneType' object has no attribute 'shape'\")\n", True),
        ("ERROR 02-03 04:05:06 core.py:90] vllm.v1.engine.exceptions.EngineDeadException: gone\n", True),
    ],
)
def test_an_engine_whose_error_is_cut_off_may_have_another(behind: str, *, told: bool, tmp_path: Path) -> None:
    first = diagnoses((FULL_BUFFER + behind).encode(), tmp_path)[0]
    assert first.cause == "kv-pool-exhausted"
    assert any("own error is not in the log" in doubt for doubt in first.against) is not told
    assert all("fixed size" in one.action for one in first.remedies if one.knob == "more-host-memory")
