"""What one message says of its cause where nothing else stands beside it; each beside messages that are nearly it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

GIB = 1024**3

OUTSIDE = (
    "RuntimeError: the GPU is out of memory outside PyTorch's allocator. Consider calling "
    "torch.cuda.memory.set_per_process_memory_fraction(0.9) to leave some for the library."
)
STAGING = (
    "RuntimeError: [relay] alloc failed on the GPU (need 67108864 bytes, buffer total=33554432 bytes). "
    "Increase RELAY_STAGING_POOL_SIZE_MB."
)
FRAMES = "ValueError: the GPU frame pool cannot fit 12MB. Raise --frame-pool-size."
RELAY = (
    "RuntimeError: tensor relay on the GPU is out of memory: cannot allocate 2 tensors totaling 67108864 bytes. "
    "Consider increasing the pool size when calling make_relay_pool."
)
SWAPPING = "AssertionError: Not enough buffers 0 for swapping 2"
HOST_POOL = "ValueError: pinned host pool needs ~48 GiB but only 9 GiB of RAM is available. Lower host_pool_gib."
RESERVE = "RuntimeError: host memory exhausted: need 6.00GB, only 1.50GB left of what --hicache-size reserves"
HELD = (
    "ValueError: Externally held weights on device cuda:2 (30.5/47.4 GiB) exceed the desired GPU memory utilization "
    "(0.6, 28.44 GiB)."
)
PLANNED = (
    "2031-02-03T04:05:06.7Z ERROR vllm_rs::utils::kvcache_allocator: KVCache allocation failed: Insufficient GPU "
    "memory for KVCache allocation.\nAvailable: {there}.50 MB, Required: 131072.00 MB, Reserved: 512.00 MB.\n"
    "Tips: reduce --max-model-len."
)
CUT = "(autoscaler +{}s) {}{{'GPU': 1.0, 'CPU': 1.0}}{}. Add suitable node types to this cluster to resolve this."
LOADING = (
    "Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory for weights."
)
TENSORRT_LLM = (
    "[TensorRT-LLM][ERROR] CUDA runtime error in cudaMalloc(&p, n): out of memory (/src/runtime/tllmBuffers.h:88)"
)

# By the cause that has to come first, messages of several programs in their own order of words
FIRST = {
    "non-torch-memory": (
        OUTSIDE,
        "RuntimeError: CUDA ran out of memory outside of the caching allocator while it compiled a plan",
        "jax.errors.JaxRuntimeError: INTERNAL: Failed to allocate GPU memory for the dropout descriptor",
        "jax.errors.JaxRuntimeError: INTERNAL: Failed to allocate workspace for cuSOLVER: GPU memory is full",
        "RuntimeError: could not allocate 96 MiB of GPU memory for the cuDNN handle",
    ),
    "gpu-shared": (
        "InternalError: CUDA runtime implicit initialization on GPU:3 failed. Status: out of memory",
        "RuntimeError: could not create the CUDA context: out of memory",
        "RuntimeError: HIP device initialization failed: out of memory",
        "RuntimeError: Initialization of device 2 failed: not enough memory on the device",
    ),
    "allocator-cap": (
        "/src/ggml-vulkan.cpp:811: Requested preallocation size is too large\nAborted (core dumped)",
        "RuntimeError: requested allocation size is too large for the device",
        "ValueError: Requested buffer size too big for this GPU",
        STAGING,
        FRAMES,
        RELAY,
        "RuntimeError: expert static buffer capacity exceeded on the GPU: 4096 tokens > 2048",
        SWAPPING,
    ),
    "cpu-offload-overcommit": (
        "ValueError: Not enough host memory for the ring index cache. Requesting 48.00 GB but only have 7.50 GB free.",
        "ValueError: Not enough host memory for state pool s2. Requesting 48.00 GB but only have 7.50 GB free.",
        HOST_POOL,
        RESERVE,
        "RuntimeError: HiCache allocation failed: could not allocate 48.00 GB",
        "RuntimeError: Not enough host memory for sequence 11",
        "RuntimeError: CPU offload pool of the KV cache does not fit in host memory: 64 GiB needed, 31 GiB available",
    ),
    "ray-unschedulable": (
        "ValueError: Not enough resources to allocate 6 DP ranks on DP master node 10.1.0.4, possible to fit 3",
        "ValueError: Insufficient resources on this node to schedule 2 replicas",
        CUT.format(10, "Error: ", ""),
        CUT.format(11, "", "*2"),
    ),
    "model-does-not-fit": (LOADING,),
    "kv-cache-no-room": (HELD, "AssertionError: Memory pool size is too small", PLANNED.format(there=29353)),
    "gpu-memory-exhausted": (TENSORRT_LLM,),
}
# ... and what is nearly one of them
NOT_FIRST = {
    "non-torch-memory": (
        "RuntimeError: could not allocate 96 MiB of GPU memory for dropout",
        "RuntimeError: the caching allocator is out of GPU memory",
        "RuntimeError: could not allocate 96 MiB of GPU memory for the workspace of the planner",
        "RuntimeError: could not allocate 96 MiB of GPU memory. Do not run cuDNN beside it.",
    ),
    "gpu-shared": (
        "RuntimeError: failed to create execution context: out of GPU memory",
        "RuntimeError: weight initialization failed: out of GPU memory",
        "RuntimeError: failed to create a context of 8192 tokens: out of GPU memory",
    ),
    "allocator-cap": (
        "RuntimeError: requested allocation size exceeds the free GPU memory",
        "RuntimeError: out of GPU memory. Call torch.cuda.memory.empty_cache() first.",
        "RuntimeError: out of GPU memory, try cupy.cuda.memory.set_limit(size=None)",
        "RuntimeError: out of GPU memory. Increase the number of GPUs.",
        "RuntimeError: out of GPU memory. Lower RELAY_STAGING_POOL_SIZE_MB.",
        "RuntimeError: out of GPU memory. Increase --tensor-parallel-size.",
    ),
    "cpu-offload-overcommit": (
        "RuntimeError: Not enough host memory for the model",
        "RuntimeError: Not enough host memory to load the table: 48 GiB requested, 7 GiB free",
        "RuntimeError: the KV cache has no room for a sequence of 512 tokens",
        "RuntimeError: could not allocate 3 GiB of host memory for the host list",
    ),
    "ray-unschedulable": (
        "RuntimeError: not enough resources to allocate the workspace of 4 ranks on the GPU",
        "RuntimeError: out of GPU memory on master node 10.1.0.4",
    ),
    "vllm-utilization-too-high": (TENSORRT_LLM,),
}
# Of a cache its kind, and of a chip's memory the kernel's
NO_FAILURE = (
    "ValueError: sparse decoding needs 16 query heads per KV head, got 6",
    "ValueError: the transfer requires full KV blocks",
    "AssertionError: all layers of one KV cache group must be FullSpec",
    "RuntimeError: the draft model has no KV cache layers",
    "RuntimeError: layer 4 has no KV cache scales",
    "AssertionError: the source region exceeds the local KV block size",
    "NotImplementedError: the codec cannot store kv_cache_dtype=fp4 on this device",
    "ValueError: the requested SM100 specialization exceeds shared-memory capacity",
)
# ... and of how much there is
OF_A_CACHE = (
    "ValueError: layer 3 has no KV cache blocks left",
    "RuntimeError: the batch requires 12 KV cache pages but the pool is full",
    "RuntimeError: KV cache group 0 is out of blocks",
    "ValueError: kv_cache group 1 needs 12 blocks but only 4 are free",
    "RuntimeError: KV cache is full",
    "RuntimeError: not enough KV cache blocks: needs 12, has 4",
)


def first(tmp_path: Path, text: str) -> str:
    found: list[dict[str, Any]] = body(tmp_path, text)["diagnoses"]
    return str(found[0]["cause"]) if found else ""


@pytest.mark.parametrize(("cause", "text"), [(cause, text) for cause, texts in FIRST.items() for text in texts])
def test_a_message_names_its_cause(cause: str, text: str, tmp_path: Path) -> None:
    assert first(tmp_path, text) == cause


@pytest.mark.parametrize(("cause", "text"), [(cause, text) for cause, texts in NOT_FIRST.items() for text in texts])
def test_a_message_is_nearly_of_a_cause(cause: str, text: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    assert first(tmp_path, text) != cause


@pytest.mark.parametrize("text", NO_FAILURE)
def test_which_kind_of_cache_is_no_shortage(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize("text", OF_A_CACHE)
def test_how_much_of_a_cache_is_a_shortage(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["diagnoses"][0]["pool"] == "kv_cache"


@pytest.mark.parametrize(
    ("text", "knob", "setting"),
    [
        (STAGING, "raise-allocator-cap", "RELAY_STAGING_POOL_SIZE_MB"),
        (FRAMES, "raise-allocator-cap", "--frame-pool-size"),
        (RELAY, "raise-allocator-cap", "make_relay_pool"),
        (SWAPPING, "raise-allocator-cap", "buffer_count"),
        (HOST_POOL, "less-offload", "host_pool_gib"),
    ],
)
def test_the_option_that_a_message_names_is_the_remedy(text: str, knob: str, setting: str, tmp_path: Path) -> None:
    remedy = body(tmp_path, text)["diagnoses"][0]["remedies"][0]
    assert (remedy["knob"], remedy["setting"]) == (knob, setting)


def test_an_option_that_a_message_only_speaks_of_is_not_to_be_lower(tmp_path: Path) -> None:
    remedy = body(tmp_path, RESERVE)["diagnoses"][0]["remedies"][0]
    assert (remedy["knob"], remedy["setting"]) == ("less-offload", None)


def test_buffers_that_are_locked_are_of_their_pool(tmp_path: Path) -> None:
    assert body(tmp_path, SWAPPING)["diagnoses"][0]["pool"] == "pinned"
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/srv/vllm/distributed/kv_transfer/kv_connector/v1/p2p/{}.py", line 90, in allocate\n'
        '    raise ValueError("Insufficient memory")\nValueError: Insufficient memory\n'
    )
    assert body(tmp_path, trace.format("tensor_memory_pool"))["diagnoses"][0]["pool"] == "pinned"
    assert body(tmp_path, trace.format("other_memory_pool"))["diagnoses"][0]["pool"] == "kv_cache"


@pytest.mark.parametrize(("there", "knob"), [(29353, "shorter-context"), (99353, "raise-engine-reservation")])
def test_no_share_makes_up_for_a_cache_of_twice_the_room(there: int, knob: str, tmp_path: Path) -> None:
    diagnosis = body(tmp_path, PLANNED.format(there=there))["diagnoses"][0]
    assert "128.00 GiB requested" in diagnosis["explanation"]
    assert diagnosis["remedies"][0]["knob"] == knob


def test_a_share_of_tensorrt_llm_is_at_fault_where_its_cache_is_there(tmp_path: Path) -> None:
    cache = "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 31.20 GiB for max tokens in paged KV cache (262144).\n"
    assert first(tmp_path, cache + TENSORRT_LLM) == "vllm-utilization-too-high"


def test_a_pass_of_a_library_takes_its_state_beside_the_framework(tmp_path: Path) -> None:
    step = (
        'Traceback (most recent call last):\n  File "/srv/fit.py", line 7, in training_step\n'
        "    out = self.model(batch)\nRuntimeError: {}\n"
    )
    beside = step.format("the GPU is out of memory outside the framework's allocator")
    assert first(tmp_path, beside) == "non-torch-memory"
    assert first(tmp_path, step.format("the GPU is out of memory in the framework's allocator")) == "activations"


GO = "fatal error: runtime: out of memory\n\nruntime stack:\nruntime.{}\n\t/go/src/runtime/mem_linux.go:187 +0x11b\n"


@pytest.mark.parametrize(
    ("call", "tried"),
    [
        ("sysMapOS(0xc418000000, 0x2000000?)", 0x2000000),
        ("sysMap(0xc418000000?, 0x2000000?, 0x1?)", 0x2000000),
        ("sysAllocOS(0x4000000?)", 0x4000000),
        ("sysAlloc(0x10000, 0x8dc2a0)", 0x10000),
        ("throw({0x2a1c0f4?, 0x4000000?})", None),
    ],
)
def test_an_address_of_gos_runtime_is_no_size(call: str, tried: int | None, tmp_path: Path) -> None:
    report = body(tmp_path, GO.format(call))
    assert report["events"][0]["usage"].get("tried_bytes") == tried
    assert report["diagnoses"][0]["cause"] == "host-memory-exhausted"


START = "Free memory on device (1.25/19.75 GiB) on startup is less than desired GPU memory utilization (0.8, 15.8 GiB)."


@pytest.mark.parametrize(
    "text",
    [
        START,
        START.replace(" (", "("),
        START.replace(" GiB", "GiB").replace(", ", ","),
        START.replace(" ", "  "),
        f'"{START}"',
        f"> `ValueError: {START}`",
        f"**ValueError: {START}**",
    ],
)
def test_a_message_is_read_as_it_was_pasted(text: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["events"][0]["usage"]["free_bytes"] == 1.25 * GIB
    assert report["diagnoses"][0]["cause"] == "gpu-shared"
    assert report["diagnoses"][0]["stage"] == "engine_init"


@pytest.mark.parametrize(
    "text",
    [
        f'    "{START}"',
        f'raise_if(short, "{START}")',
        '"Free memory on device ({free}/{total} GiB) on startup is less than desired GPU memory utilization ({share})"',
    ],
)
def test_a_message_in_code_is_not_read(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


def test_weights_of_another_process_are_not_what_is_free(tmp_path: Path) -> None:
    usage = body(tmp_path, HELD)["events"][0]["usage"]
    assert (usage["external_bytes"], usage.get("free_bytes")) == (30.5 * GIB, None)


def test_a_server_of_diffusion_models_has_no_share(tmp_path: Path) -> None:
    trace = (
        'Traceback (most recent call last):\n  File "/venv/site-packages/sglang/{}/worker.py", line 80, in forward\n'
        "    raise Failed(\nFailed: The forward pass of rank 2 ran out of memory on the GPU\n"
    )
    assert first(tmp_path, trace.format("multimodal_gen/runtime")) == "activations"
    report = body(tmp_path, trace.format("srt/managers"))
    assert "vllm-utilization-too-high" in [one["cause"] for one in report["diagnoses"]]
