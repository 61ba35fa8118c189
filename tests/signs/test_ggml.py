from __future__ import annotations

import pytest
from engine_logs import crash_of
from gpu_logs import crash

from oomdoctor.remedies.advise import remedies
from oomdoctor.signs import ggml

COMMAND = "Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"


def test_a_command_that_failed_on_metal_is_a_buffer_of_llama_cpps_alone() -> None:
    assert ggml.some_buffer_refused(crash_of(f"RuntimeError: {COMMAND}\n")) is None
    assert (
        ggml.some_buffer_refused(
            crash_of(f"ggml_metal_graph_compute: command buffer 3 failed with status 5\nerror: {COMMAND}\n")
        )
        is not None
    )


CACHE = {
    "fork": "llama_new_context_with_model: KV self size  =  704.00 MiB, c^KV (q8_0):  704.00 MiB, kv^T: not used\n",
    "mainline": "llama_new_context_with_model: KV self size  =  704.00 MiB, K (f16): 352.00 MiB, V (f16): 352.00 MiB\n",
}
COPIES = "llama_new_context_with_model: pipeline parallelism enabled (n_copies={})\n"
ASKED = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 90112.00 MiB on device 1: cudaMalloc failed: "
REFUSED = f"{ASKED}out of memory\nggml_gallocr_reserve_n: failed to allocate CUDA1 buffer of size 94489280512\n"


@pytest.mark.parametrize(
    ("whose", "copies", "is_one"), [("fork", 4, True), ("fork", 2, True), ("fork", 1, False), ("mainline", 4, False)]
)
def test_copies_of_the_inputs_make_the_buffer_of_the_fork_that_has_several(
    whose: str, copies: int, is_one: bool
) -> None:
    it = crash(CACHE[whose] + COPIES.format(copies) + REFUSED)
    seen = ggml.several_copies_in_a_fork(it)
    assert (seen is not None) is is_one
    if seen is not None:
        assert f"keeps {copies} copies" in seen.words
        chosen, _ = remedies("activations", seen.knobs, it)
        lines = {remedy.knob: remedy.snippet for remedy in chosen}
        assert lines["smaller-buffers"] == "cmake -B build -DGGML_SCHED_MAX_COPIES=1"
        assert lines["memory-efficient-attention"] == "-amb 512"


def test_copies_alone_are_no_buffer_that_was_refused() -> None:
    said = f"{ASKED}out of memory\nllama_model_load: error loading model: unable to allocate CUDA1 buffer\n"
    assert ggml.several_copies_in_a_fork(crash(CACHE["fork"] + COPIES.format(4) + said)) is None
