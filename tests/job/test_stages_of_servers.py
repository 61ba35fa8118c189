"""Stages that a server's own words, a data set's transforms and a loader's worker tell."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.98 GiB. GPU 0 has a total capacity of 22.07 GiB"
TRACE = 'Traceback (most recent call last):\n  File "/srv/{}", line 7, in {}\n    out = work(x)\n' + OOM
NUMPY = (
    'Traceback (most recent call last):\n  File "/opt/monai/{}", line 99, in __call__\n    y = np.zeros(shape)\n'
    "numpy.core._exceptions.MemoryError: Unable to allocate 502. MiB for an array with shape (512, 512, 251)"
)

# Of the router of Text Generation Inference, and of its start
SPAN = "2031-01-02T03:04:05.678901Z ERROR {}: text_generation_client: router/client/src/lib.rs:33: Server error: "
RESERVED = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 812.00 MiB on device 0: cudaMalloc failed: out of memory\n"
    "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 851443712\n{}"
)
ROUND = (
    "graph_reserve: failed to allocate compute buffers\nmemory_update: failed to reserve graph after the memory update"
)

SHAPE = (
    "ResourceExhaustedError: OOM when allocating tensor with shape[8,56,56,147] and type float on /device:GPU:0 by "
    "allocator GPU_0_bfc\n\t [[{{node net/stem/%s}}]]"
)
POOLS = ", with 18.00 MiB allocated in private pools (e.g., CUDA Graphs)"
WORKER = (
    f"(Worker_TP0 pid=31) ERROR 01-02 03:04:05 [multiproc_executor.py:97] {OOM} of which 12.00 MiB is free. Including "
    "non-PyTorch memory, this process has 22.05 GiB memory in use. Of the allocated memory 21.40 GiB is allocated by "
    "PyTorch%s, and 90.00 MiB is reserved by PyTorch but unallocated."
)
STAGES = (
    (SHAPE % "ExtractImagePatches", "forward"),
    (SHAPE % "ExtractVolumePatches", "forward"),
    (WORKER % POOLS, "unknown"),  # graphs were captured already: it may serve
    (WORKER % "", "engine_init"),
    (SPAN.format("batch{batch_size=2}:prefill:prefill{id=7 size=2}:prefill{id=7 size=2}") + OOM, "serving"),
    (SPAN.format("batch{batch_size=2}:decode:decode{size=2}:decode{size=2}") + OOM, "serving"),
    (SPAN.format("warmup{max_input_length=900 max_prefill_tokens=900}:warmup") + OOM, "unknown"),
    (RESERVED.format("llama_kv_cache_update_impl: failed to allocate compute buffers"), "serving"),
    (RESERVED.format(ROUND), "serving"),
    (RESERVED.format("graph_reserve: failed to allocate compute buffers"), "engine_init"),
    (f"xinference.core.model 21 ERROR    Model actor is out of memory, model id: rr-0, error: {OOM}", "serving"),
    (TRACE.format("rank.py", "rerank"), "serving"),
    (TRACE.format("tts.py", "inference_speech_batch"), "serving"),
    (TRACE.format("rank.py", "rank_all"), "unknown"),
    (TRACE.format("tts.py", "inference_config"), "unknown"),
    (NUMPY.format("apps/transforms.py"), "data_load"),
    (NUMPY.format("transforms/spatial.py"), "data_load"),
    (NUMPY.format("apps/grids.py"), "unknown"),
    (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        "data_load",
    ),
    (
        'level=ERROR msg="error loading llama server" error="llama runner process has terminated: signal: killed"',
        "model_load",
    ),
    (
        'level=ERROR msg="error stopping llama server" error="llama runner process has terminated: signal: killed"',
        "unknown",
    ),
)


@pytest.mark.parametrize(("text", "stage"), STAGES)
def test_stage(text: str, stage: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["diagnoses"][0]["stage"] == stage
