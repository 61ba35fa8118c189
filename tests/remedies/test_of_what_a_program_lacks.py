"""Programs without batches or sequences, releases without an operation, warm-ups that a limit says nothing of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remedy_logs import advise

from oomdoctor import diagnose
from oomdoctor.language import GPU, call_devices

REFUSED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 23 GiB of "
    "which 4.00 GiB is free. Of the allocated memory 18.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by "
    "PyTorch but unallocated."
)
FRAME = '  File "/job/model.py", line 4, in forward\n    {code}\n'
ARRAY = (
    "ResourceExhaustedError: OOM when allocating tensor with shape[96,64,200,200] and type float on "
    "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n"
)
WARM_UP = (
    "RuntimeError: Not enough memory to handle {what}. You need to decrease `--max-batch-{option}-tokens`\n"
    "text_generation_launcher: Method Warmup encountered an error.\n"
)


def first_of(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "job.log"
    path.write_text(text, encoding="utf-8")
    found: dict[str, Any] = diagnose(path).as_json()["incidents"][0]["diagnoses"][0]
    return found


@pytest.mark.parametrize(
    ("code", "grows"),
    [
        ("hidden = self.layers(x)", "Activations grow with batch size and sequence length."),
        ("out = gsplat.rasterization(means)", "Activations grow with the batch size and with the size of each input."),
        ("out = _C.rasterize_gaussians(*args)", "What it computes grows with the size of each input."),
    ],
)
def test_what_a_pass_grows_with(code: str, grows: str, tmp_path: Path) -> None:
    before = "gsplat/rendering.py\n" if "gsplat" in code else ""
    first = first_of(tmp_path, f"{before}Traceback (most recent call last):\n{FRAME.format(code=code)}{REFUSED}\n")
    assert first["explanation"].endswith(grows)
    assert ("smaller-microbatch" in [one["knob"] for one in first["remedies"]]) is grows.startswith("Activations")


@pytest.mark.parametrize(
    ("node", "is_there"),
    [("[[Node: conv/Relu = Relu[T=DT_FLOAT](conv/Conv2D)]]", False), ("[[{{node conv/Relu}}]]", True), ("", True)],
)
def test_what_tensorflow_had_before_2_is_no_line_of_2(node: str, is_there: bool, tmp_path: Path) -> None:
    written = [one["snippet"] or "" for one in first_of(tmp_path, f"{ARRAY}\t {node}\n")["remedies"]]
    assert any("tf.recompute_grad" in one for one in written) is is_there


@pytest.mark.parametrize(
    ("what", "option", "is_there"),
    [("4096 prefill tokens", "prefill", False), ("16000 total tokens with 4096 prefill tokens", "total", True)],
)
def test_a_warm_up_of_prefill_tokens_is_no_smaller_with_fewer_in_all(what: str, option: str, is_there: bool) -> None:
    chosen = advise(WARM_UP.format(what=what, option=option), "fewer-sequences", cause="activations")[0]
    assert ("fewer-sequences" in chosen) is is_there


# Programs that load their models themselves

SPLIT, BITS, BATCH, CARDS = "tensor-parallel", "quantize-weights", "smaller-microbatch", "more-gpus"
LOADS = '  File "/env/{}", line 9, in load\n    weights = file.read()\n' + REFUSED + "\n"


@pytest.mark.parametrize(
    ("file", "knobs"),
    [
        ("invokeai/backend/model_manager/load/model_cache.py", set()),
        ("whisper/model.py", set()),
        ("whisper/__init__.py", set()),
        ("comfy/model_management.py", {BITS}),  # has an option for it
        ("exllamav2/model.py", {SPLIT, BITS, CARDS}),  # text, by files of several precisions
        ("transformers/modeling_utils.py", {BITS, CARDS}),
    ],
)
def test_who_draws_by_options_splits_and_quantizes_by_them_alone(file: str, knobs: set[str]) -> None:
    chosen, _ = advise(LOADS.format(file), SPLIT, BITS, CARDS, cause="model-does-not-fit")
    assert set(chosen) == knobs


DRAWS = ">> Setting Sampler to k_lms\n" + REFUSED + "\n"
NEWER = "[2031-01-02 03:04:05,678]::[InvokeAI]::INFO --> ready\n" + REFUSED + "\n"


@pytest.mark.parametrize(
    ("log", "knob", "snippet"),
    [
        (NEWER, "offload-parameters", "enable_partial_loading: true"),
        (NEWER, "tiled-processing", "force_tiled_decode: true"),
        (NEWER, "smaller-input", None),
        (DRAWS, "offload-parameters", "invokeai --free_gpu_mem"),
        (DRAWS, "smaller-input", "-W 384 -H 384"),
    ],
)
def test_invokeai_is_told_of_what_its_release_has(log: str, knob: str, snippet: str | None) -> None:
    assert advise(log, knob, cause="activations")[0][knob].snippet == snippet


@pytest.mark.parametrize(("log", "knob"), [(DRAWS, BATCH), (NEWER, BATCH), (DRAWS, "tiled-processing")])
def test_invokeai_draws_one_picture_and_had_no_tiles(log: str, knob: str) -> None:
    assert knob not in advise(log, knob, cause="activations")[0]


REFUSED_ON_WINDOWS = (
    '  File "D:\\sd\\{}", line 9, in get_model\n    weights = read(name)\n'
    "RuntimeError: [enforce fail at ..\\c10\\core\\impl\\alloc_cpu.cpp:81] data. DefaultCPUAllocator: not enough "
    "memory: you tried to allocate 11796480 bytes.\n"
)


@pytest.mark.parametrize(
    ("file", "lines"), [("ldm\\invoke\\model_cache.py", ["invokeai --max_loaded_models 1"]), ("shop\\models.py", [])]
)
def test_who_keeps_several_models_in_ram_keeps_one(file: str, lines: list[str], tmp_path: Path) -> None:
    first = first_of(tmp_path, REFUSED_ON_WINDOWS.format(file))
    assert first["cause"] == "address-space-limit"
    assert [one["snippet"] for one in first["remedies"] if one["knob"] == "smaller-buffers"] == lines


@pytest.mark.parametrize(
    ("place", "several"),
    [("", True), (" (https://gpu.example:8080/#)", True), (" (https://localhost:8080/#)", False)],
)
def test_a_runtime_of_colab_has_one_gpu(place: str, several: bool, tmp_path: Path) -> None:
    log = f"cell 7{place} in load\n" + LOADS.format("exllamav2/model.py")
    assert (SPLIT in advise(log, SPLIT, cause="model-does-not-fit")[0]) is several


# Frameworks of networks with a world of their own

OF_DLIB = (
    "Error while calling cudaMalloc(&data, n) in file /w/dlib/dnn/gpu_data.cpp:7. code: 2, reason: out of memory\n"
)
OF_MXNET = "mxnet.base.MXNetError: src/storage/./pooled_storage_manager.h:1: cudaMalloc failed: out of memory\n"
OF_MXNET += "[bt] (0) /w/libmxnet.so(mxnet::op::PoolingOp::Forward(int)+0x4e) [0x7f11]\n"
OF_DARKNET = (
    "Learning Rate: 0.1, Momentum: 0.9, Decay: 0.0005\nCUDA Error: out of memory\ndarknet: ./src/utils.c:3: error\n"
)
OF_NEURON = "TDRV:dmem_alloc_internal  Failed to alloc DEVICE memory: 94371840\n[NMGR] Failed to load subgraph\n"


@pytest.mark.parametrize(
    ("text", "there", "missing"),
    [
        (OF_MXNET, "export MXNET_BACKWARD_DO_MIRROR=1", "memory-efficient-attention"),
        (OF_DLIB, "trainer.set_mini_batch_size(1)", "gradient-checkpointing"),
        (OF_DARKNET, "subdivisions=64", "gradient-checkpointing"),
        (OF_DARKNET, "subdivisions=64", "shorter-sequences"),
        (f"Resizing, random_coef = 1.40\n{OF_DARKNET}", "random=0", "mixed-precision"),
        (f"transformers_neuronx/module.py\n{OF_NEURON}", "tp_degree=2", "lora"),
        (f"transformers_neuronx/module.py\n{OF_NEURON}", "tp_degree=2", "shard-states"),
        (f"torch_neuron.so\n{OF_NEURON}", None, "tensor-parallel"),
        (f"torch_neuron.so\n{OF_NEURON}", None, "quantize-weights"),
    ],
)
def test_what_another_framework_has_is_not_advised(text: str, there: str | None, missing: str, tmp_path: Path) -> None:
    remedies = first_of(tmp_path, f"0 1 2\nusing the {text}")["remedies"]
    call_devices(GPU)
    assert there is None or there in [one["snippet"] for one in remedies]
    assert missing not in [one["knob"] for one in remedies]
    assert not any("torch." in (one["snippet"] or "") for one in remedies)
