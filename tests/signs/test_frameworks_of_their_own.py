"""Refusals without figures, of frameworks of neural networks that ask the driver themselves."""

from __future__ import annotations

import pytest
from gpu_logs import crash, ranking

from oomdoctor.decision.diagnosis import decide
from oomdoctor.signs import loading, passes

CAFFE = "F0711 09:41:02.118230 6117 syncedmem.cpp:71] Check failed: error == cudaSuccess (2 vs. 0)  out of memory"
DLIB = (
    "terminate called after throwing an instance of 'dlib::cuda_error'",
    "  what():  Error while calling cudaMalloc(&data, n) in file /dlib/dnn/data.cpp:7. code: 2, reason: out of memory",
)
DARKNET = (
    "Done! Loaded 91 layers from weights-file",
    "CUDA Error: out of memory",
    "darknet: ./src/utils.c:318: error: x",
)
MXNET = "mxnet.base.MXNetError: [09:15:02] src/storage/./pooled_storage_manager.h:1: cudaMalloc failed: out of memory"
BARE = "RuntimeError: CUDA error: out of memory"
SIZED = "I0711 09:41:01.177494 6117 data_layer.cpp:45] output data size: 640,3,180,180"
MEAN = "I0711 09:41:01.149355 6117 data_transformer.cpp:25] Loading mean file from: mean_image.binaryproto"
RATES = "Learning Rate: 0.00261, Momentum: 0.949, Decay: 0.0005"
AVERAGE = " 17: 812.506714, 806.881226 avg loss, 0.000000 rate, 2.41 seconds, 1088 images, 40.1 hours left"


@pytest.mark.parametrize(
    ("lines", "guessed"),
    [
        ((CAFFE,), True),
        (DLIB, True),
        (DARKNET, True),
        ((MXNET,), True),
        (
            ("import pygpu.gpuarray", "MemoryError: Error allocating 94371840 bytes of device memory (out of memory)."),
            True,
        ),
        ((MEAN, SIZED, CAFFE), True),  # the batches come next
        ((MEAN, CAFFE), False),
        # where a line or a frame tells
        (("I0711 09:41:00 6117 solver.cpp:327] Iteration 40, loss = 2.31", CAFFE), False),
        ((RATES, *DARKNET[1:]), False),
        ((CAFFE, "*** Check failure stack trace: ***", "    @     0x7f51  caffe::Net<>::Forward()"), False),
        # where nobody trains, and where PyTorch has an allocator between itself and the driver
        ((BARE,), False),
        (("import torch", BARE), False),
        (("faiss/gpu/GpuResources.cpp", BARE), False),
        # where nobody says that it trains
        (("ERROR  TDRV:dmem_alloc_internal  Failed to alloc DEVICE memory: 94371840",), False),
        # host memory
        (("mxnet.base.MXNetError: std::bad_alloc",), False),
    ],
)
def test_a_refusal_of_a_framework_that_trains_is_of_its_passes(lines: tuple[str, ...], guessed: bool) -> None:
    assert (passes.tensor_of_a_running_job(crash(*lines)) is not None) is guessed
    assert not guessed or ranking(*lines)[0] == "activations"


def test_it_is_likely_at_most() -> None:
    best = decide(crash(CAFFE)).answers[0]
    assert best.finding.unsure
    assert best.confidence < 0.85


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("I0711 09:41:00.1 6117 solver.cpp:289] Solving PetNet", "forward"),
        ("I0711 09:41:00.1 6117 solver.cpp:347] Iteration 0, Testing net (#0)", "eval"),
        ("I0711 09:41:00.1 6117 solver.cpp:57] Solver scaffolding done.", "unknown"),
    ],
)
def test_what_caffe_says_that_it_is_doing(line: str, stage: str) -> None:
    assert crash(line, CAFFE).stage == stage


@pytest.mark.parametrize("line", [RATES, AVERAGE, "Resizing, random_coef = 1.40"])
def test_darknets_loop(line: str) -> None:
    assert ranking(line, *DARKNET[1:])[0] == "activations"
    assert crash(line, *DARKNET[1:]).stage == "forward"


NEURON = "2031-Apr-02 07:10:44.1020  611:611  ERROR  TDRV:dmem_alloc_internal  Failed to alloc DEVICE memory: 94371840"
TRACED = "----> 4 net = torch_neuronx.trace(net, example)"
STAGED = "[NMGR:dlr_kelf_stage] Failed to load subgraph"


@pytest.mark.parametrize(
    ("lines", "loads"),
    [
        ((NEURON, TRACED), True),
        ((NEURON, STAGED), True),
        (("net = torch_neuronx.trace(net, example)", "traced", NEURON), False),  # long ago
        ((NEURON,), False),
        ((NEURON, "----> 4 net = torch_neuronx.jit_load(path)"), False),
        (("INFO 04-02 [llm_engine.py:161] Initializing an LLM engine (v0.5.4)", NEURON, STAGED), False),
        (("Loading model.safetensors...", BARE), False),
    ],
)
def test_what_fails_with_a_refusal_tells_what_it_was_for(lines: tuple[str, ...], loads: bool) -> None:
    assert (loading.another_loader_was_refused(crash(*lines)) is not None) is loads
    assert not loads or ranking(*lines)[0] == "model-does-not-fit"


GIVEN = "MemoryError: Error allocating 94371840 bytes of device memory (out of memory)."


@pytest.mark.parametrize(
    ("node", "stage"),
    [
        ("GpuDnnConvGradI{inplace=True}(GpuContiguous.0)", "backward"),
        ("GpuDnnConv{inplace=True}(GpuContiguous.0)", "forward"),
        ("GpuContiguous(GpuReshape.0)", "unknown"),
        ("if{inplace,gpu}(Gradient.0)", "unknown"),
    ],
)
def test_theano_names_the_node_that_failed(node: str, stage: str) -> None:
    assert crash(GIVEN, f"Apply node that caused the error: {node}").stage == stage


def test_lua_has_none_of_pytorchs_functions() -> None:
    frames = (
        "stack traceback:",
        "\t[C]: in function 'resize'",
        "\t/u/torch/share/lua/5.1/nn/A.lua:9: in function 'backward'",
    )
    assert crash("cuda runtime error (2) : out of memory at /u/THC/THCStorage.cu:66", *frames).job.world == "own"
    assert crash("cuda runtime error (2) : out of memory at /u/torch/THC/THCStorage.cu:66").job.world != "own"


@pytest.mark.parametrize(
    ("line", "stage"), [("Epoch[ 2 of 9]-Minibatch[ 1- 10]: x", "forward"), ("Minibatch 3", "unknown")]
)
def test_what_cntk_says_that_it_is_doing(line: str, stage: str) -> None:
    refused = "EXCEPTION occurred: CUDA failure 2: out of memory ; GPU=0 ; hostname=box ; expr=cudaMalloc(&p, n)"
    assert crash(line, refused).stage == stage
