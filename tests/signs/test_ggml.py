from __future__ import annotations

from pathlib import Path

import pytest
from engine_logs import crash_of
from gpu_logs import crash, ranking
from reports import body

from oomdoctor.decision.diagnosis import decide
from oomdoctor.remedies.advise import remedies
from oomdoctor.signs import ggml

COMMAND = "Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"


@pytest.mark.parametrize(
    ("text", "family"),
    [
        (f"ggml_metal_graph_compute: command buffer 3 failed with status 5\nerror: {COMMAND}\n", "llama_cpp"),
        (f"RuntimeError: {COMMAND}\n", "gpu_library"),
        # a model's name is no program built on ggml
        (f"Loading Llama-3.2-3B-Instruct-4bit\nlibc++abi: std::runtime_error: [METAL] {COMMAND}\n", "gpu_library"),
    ],
)
def test_a_command_that_failed_on_metal_is_a_buffer_of_llama_cpps_alone(text: str, family: str) -> None:
    assert crash_of(text).root.family == family


def test_no_layers_move_where_metal_refused_another_program(tmp_path: Path) -> None:
    """Its options are not llama.cpp's."""
    first = body(tmp_path, f"Applying weights\nIOGPUMetalError\n{COMMAND}\n")["diagnoses"][0]
    assert first["cause"] == "gpu-memory-exhausted"
    knobs = {remedy["knob"] for remedy in first["remedies"]}
    assert knobs
    assert "offload-parameters" not in knobs


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


HOST = "ggml_gallocr_reserve_n: failed to allocate CPU buffer of size {size}\n"


@pytest.mark.parametrize(
    ("size", "is_small"), [(71_303_168, True), (1_073_741_823, True), (1_073_741_824, False), (42_949_672_960, False)]
)
def test_a_small_buffer_of_the_host_is_not_what_filled_it(size: int, is_small: bool) -> None:
    it = crash(
        "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size {size}", HOST.format(size=size)
    )
    assert (ggml.small_piece_of_the_host_refused(it) is not None) is is_small
    assert (ggml.compute_buffer_refused(it) is None) is is_small
    assert (ranking(HOST.format(size=size))[0] == "address-space-limit") is is_small


def test_a_small_buffer_of_a_card_is_its_compute_buffer() -> None:
    it = crash(REFUSED.replace("94489280512", "71303168").replace("90112.00", "68.00"))
    assert ggml.small_piece_of_the_host_refused(it) is None
    assert ggml.compute_buffer_refused(it) is not None


OF_A_RUNNER = "Error: llama runner process has terminated: CUDA error: out of memory"
CALLED = "  current device: 1, in function {function} at /src/ggml/src/ggml-cuda/ggml-cuda.cu:2898\n  {call}"


@pytest.mark.parametrize("head", [OF_A_RUNNER, "CUDA error: out of memory"])
@pytest.mark.parametrize(
    ("function", "call", "is_for_a_context"),
    [
        ("ggml_backend_cuda_device_get_memory", "cudaMemGetInfo(free, total)", True),
        ("ggml_cuda_set_device", "cudaSetDevice(device)", True),
        ("alloc", "cuMemCreate(&handle, reserve_size, &prop, 0)", False),
        ("ggml_backend_cuda_graph_compute", "cudaGraphInstantiate(&instance, graph, 0)", False),
        ("ggml_backend_cuda_synchronize", "cudaStreamSynchronize(cuda_ctx->stream())", False),
    ],
)
def test_a_call_that_only_looks_at_the_card_is_refused_for_its_context(
    head: str, function: str, call: str, is_for_a_context: bool
) -> None:
    first = ranking(head, CALLED.format(function=function, call=call))[0]
    assert (first == "gpu-shared") is is_for_a_context


OF_A_PLAN = (
    'level=INFO source=sched.go:1 msg="offload to cuda" layers.requested=-1 layers.model=33 layers.offload=20 '
    'memory.available="[7.0 GiB]" memory.required.full="9.1 GiB" memory.required.partial="6.9 GiB"'
)


@pytest.mark.parametrize(
    ("lines", "is_named"),
    [
        ((OF_A_RUNNER,), False),
        (
            (
                OF_A_PLAN,
                OF_A_RUNNER,
            ),
            True,
        ),
        (("Error: memory layout cannot be allocated",), True),
    ],
)
def test_a_runner_that_says_no_figure_does_not_name_the_model(lines: tuple[str, ...], is_named: bool) -> None:
    it = crash(*lines)
    assert (ggml.model_refused_by_ollama(it) is not None) is is_named
    assert (ggml.some_buffer_refused(it) is None) is is_named
    assert ranking(*lines)[0] == "model-does-not-fit"


@pytest.mark.parametrize(
    ("line", "is_sized"),
    [
        ("ggml_gallocr_reserve_n: failed to allocate CUDA1 buffer of size 94489280512", True),
        ("llama_new_context_with_model: failed to allocate compute buffers", False),
    ],
)
def test_a_compute_buffer_without_a_size_is_no_name(line: str, is_sized: bool) -> None:
    it = crash(line)
    assert (ggml.compute_buffer_of_some_size_refused(it) is not None) is is_sized
    assert ggml.compute_buffer_refused(it) is not None


@pytest.mark.parametrize(
    ("weights", "compute", "is_little"),
    [("3946.35", 69730304, True), ("3946.35", 469730304, False), ("250.00", 69730304, False)],
)
def test_a_small_compute_buffer_speaks_for_the_weights(weights: str, compute: int, *, is_little: bool) -> None:
    it = crash(
        f"llm_load_tensors:      CUDA0 buffer size =  {weights} MiB",
        "llama_kv_cache_init:      CUDA0 KV buffer size =    11.00 MiB",
        f"ggml_backend_cuda_buffer_type_alloc_buffer: allocating {compute / 2**20:.2f} MiB on device 0: cudaMalloc "
        "failed: out of memory",
        f"ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size {compute}",
        "llama_new_context_with_model: failed to allocate compute buffers",
    )
    assert (ggml.little_was_refused_beside_the_weights(it) is not None) == is_little
    first = decide(it).answers[0].cause.id
    assert first == ("model-does-not-fit" if is_little else "activations")
