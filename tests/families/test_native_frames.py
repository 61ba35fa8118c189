"""The frames of compiled programs, where a message has no traceback of Python's."""

from __future__ import annotations

import pytest

from oomdoctor.families.event import Event, Frame, Place
from oomdoctor.families.surroundings import Neighbourhood
from oomdoctor.job.doing import doing_of
from oomdoctor.streams import page

REFUSED = "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
CPP = f"""\
{REFUSED}
Exception raised from createHandle at /build/aten/src/ATen/cuda/HandlePool.cpp:11 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x4d (0x7f12 in /env/lib/libc10.so)
frame #1: <unknown function> + 0xcfc185 (0x7f13 in /env/lib/libtorch_cuda.so)
frame #2: at::native::(anonymous namespace)::slow_conv2d_backward_out<at::Half, (int)3>(int) + 0x15 (0x7f in /l.so)
frame #3: torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::Node>&) + 0x8a (0x7f15 in /l.so)
frame #4: torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::Task> const&) + 0x3f (0x7f in /l.so)
"""
RUST = """\
Error: DriverError(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")
   0: candle_core::error::Error::bt
             at /src/candle-core/src/error.rs:264:25
   1: <candle_nn::linear::Linear as candle_core::Module>::forward
   2: tool::run::{{closure}}::h0123456789abcdef
Retrying later
"""
DEBUG = (
    'ERROR engine: step failed: Bt { inner: Cuda("out of memory"), backtrace: '
    'Backtrace [{ fn: "candle_core::Error::bt" }, '
    '{ fn: "candle_core::quantized::QTensor::dequantize_f16", file: "./src/q.rs", line: 31 }, '
    '{ fn: "candle_core::quantized::QMatMul::forward_via_f16" }, { fn: "<T as core::Engine>::step::{{closure}}" }] }'
)


LUA = """\
/lua/nn/THNN.lua:88: $ Torch: not enough memory: you tried to reallocate 7GB. Buy new RAM! at /lib/TH/THGeneral.c:251
stack traceback:
\t[C]: in function 'v'
\t/lua/nn/THNN.lua:88: in function 'Sigmoid_updateOutput'
\t/lua/nn/Sigmoid.lua:4: in function </lua/nn/Sigmoid.lua:3>
\t[C]: in function 'xpcall'
\tfit.lua:31: in function 'evaluate_all'
\tfit.lua:70: in main chunk
"""


GLOG = """\
F0711 09:41:02.118230 6117 syncedmem.cpp:71] Check failed: error == cudaSuccess (2 vs. 0)  out of memory
*** Check failure stack trace: ***
    @     0x7f51c20ad5cd  google::LogMessage::Fail()
    @     0x7f51c2c80e10  caffe::SyncedMemory::to_gpu()
    @     0x7f51c2d3c1f0  caffe::PoolingLayer<>::Backward_gpu()
    @     0x7f51c2b4a717  caffe::Net<>::Backward()
    @           0x40b1c0  train()
    @              (nil)  (unknown)
Aborted (core dumped)
"""
DMLC = """\
[09:15:02] src/storage/./pooled_storage_manager.h:151: cudaMalloc failed: out of memory

Stack trace returned 4 entries:
[bt] (0) /opt/mx/libmxnet.so(+0x3d28a0) [0x7f11c03d28a0]
[bt] (1) /opt/mx/libmxnet.so(_ZN5mxnet11StorageImpl5AllocEmNS_7ContextE+0x69) [0x7f11c3178069]
[bt] (2) /opt/mx/libmxnet.so(mxnet::op::PoolingOp<mshadow::gpu, float>::Forward(mxnet::OpContext const&)+0x4e) [0x7f11]
[bt] (3) /opt/mx/libmxnet.so(_ZN5mxnet3OpsIfE8BackwardEv+0x2) [0x7f11c3178001]
"""
NUMBERED = """\
CUDA Error: out of memory
backtrace (3 entries):
1/3: ./darknet(log_backtrace+0x38) [0x55ab1c]
2/3: ./darknet(cuda_make_array+0x91) [0x55ab90]
3/3: ./darknet(backward_network_gpu+0x10) [0x55ac04]
"""
GDB = """\
CUDA Error: out of memory
#1  0x00007f1ab2 in caffe::Net<float>::Forward (this=0x55d0, loss=0x0) at src/net.cpp:544
#2  0x0000560011 in main (argc=3, argv=0x7ffd) at tools/fit.cpp:30
"""


def trace(text: str) -> tuple[Frame, ...]:
    return Neighbourhood(page("a", 1, text.encode())).around(0).trace


def functions(text: str) -> list[str]:
    return [frame.function for frame in trace(text)]


def test_c10s_frames_are_innermost_last_and_without_their_parameters() -> None:
    assert functions(CPP) == [
        "Engine.thread_main",
        "Engine.evaluate_function",
        "slow_conv2d_backward_out",
        "function",
        "Error.Error",
    ]


def test_rusts_frames_stand_below_the_message() -> None:
    assert functions(RUST) == ["run", "Module.forward", "Error.bt"]


def test_luas_frames_stand_below_their_title() -> None:
    assert functions(LUA) == ["evaluate_all", "xpcall", "Sigmoid_updateOutput", "v"]
    assert functions(LUA.replace("stack traceback:", "called from:")) == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (GLOG, ["train", "Net.Backward", "PoolingLayer.Backward_gpu", "SyncedMemory.to_gpu", "LogMessage.Fail"]),
        # what no symbol names is left out, and what a compiler has written is read
        (DMLC, ["Ops.Backward", "PoolingOp.Forward", "StorageImpl.Alloc"]),
        (NUMBERED, ["backward_network_gpu", "cuda_make_array", "log_backtrace"]),
        (GDB, ["main", "Net.Forward"]),
    ],
)
def test_frames_of_c_and_cpp_stand_below_the_message(text: str, named: list[str]) -> None:
    assert functions(text) == named


def test_rusts_frames_stand_in_the_message() -> None:
    assert functions(DEBUG) == ["Engine.step", "QMatMul.forward_via_f16", "QTensor.dequantize_f16", "Error.bt"]


@pytest.mark.parametrize(
    "text",
    [
        f"{REFUSED}\nstep 3\nstep 4\nstep 5\nframe #0: c10::Error::Error(int) + 0x4d (0x7f12 in /env/lib/libc10.so)\n",
        f"{REFUSED}\n   1: retries left\n   2: tasks are waiting\n",
        f'{REFUSED}\n  0: "std::vector"\n',
        f"{REFUSED}\nframe #12 was dropped by the decoder + 0x3\n",
        REFUSED + ' { fn: "core::run" }',
        f"{REFUSED}\n@ 0x40 is where it lies\n",  # one blank, and words
        f"{REFUSED}\n    @ home in the forward pass\n",
        f"{REFUSED}\n#4 of 9 was refused in Net::Forward (again)\n",
        f"{REFUSED}\n3/9: loss(x+0x1) of the batch [0]\n",
        f"{REFUSED}\nstep 3 of 9: ./fit(backward+0x1) [0x5]\n",
        # a symbol that nothing closes has no name
        f"{REFUSED}\n[bt] (0) /opt/mx/libmxnet.so(_ZN5mxnet3OpsINS_3gpuEE8BackwardEv+0x2) [0x7f11]\n",
    ],
)
def test_what_only_looks_like_frames(text: str) -> None:
    assert trace(text) == ()


def test_a_traceback_of_python_says_more() -> None:
    text = f'Traceback (most recent call last):\n  File "/app/fit.py", line 3, in fit\n    model(x)\n{CPP}'
    lines = page("a", 1, text.encode())
    assert [frame.function for frame in Neighbourhood(lines).around(3).trace] == ["fit"]


@pytest.mark.parametrize(
    ("frames", "stage"),
    [
        (("frame #2: at::native::slow_conv2d_backward(at::Tensor&) + 0x15 (0x7f in /l.so)",), "backward"),
        # the autograd engine runs a node's function, and evaluates no model
        (("frame #3: torch::autograd::Engine::evaluate_function(int) + 0x8a (0x7f in /l.so)",), "unknown"),
        (("   3: candle_core::quantized::QMatMul::forward_via_f16",), "forward"),
        # what it calls unpacks weights, and loads none
        (("   2: candle_core::QTensor::dequantize_f16", "   3: candle_core::QMatMul::forward_via_f16"), "forward"),
        (("   2: candle_core::QTensor::dequantize_f16", "   3: tool::Model::from_gguf"), "unknown"),
        (("    @     0x7f51  caffe::Net<>::Forward()", "    @     0x7f52  caffe::Solver<>::Step()"), "forward"),
        # a pass of each kind, by what it was in
        (("    @     0x7f51  caffe::Net<>::ForwardBackward()",), "forward"),
        (
            ("    @     0x7f50  caffe::Net<>::Backward()", "    @     0x7f51  caffe::Net<>::ForwardBackward()"),
            "backward",
        ),
        (("    @     0x7f51  caffe::SGDSolver<>::ApplyUpdate()",), "optimizer_step"),
        (("    @     0x7f51  caffe::Net<>::CopyTrainedLayersFrom()",), "model_load"),
        # a net is laid out with its batches, and its weights are filled in RAM
        (("    @     0x7f51  caffe::Net<>::Init()", "    @     0x7f52  caffe::Solver<>::InitTrainNet()"), "unknown"),
        (("    @     0x7f51  caffe::DataLayer<>::DataLayerSetUp()",), "unknown"),
        (("    @     0x7f51  caffe::ConvolutionLayer<>::Reshape()",), "unknown"),
        (("1/2: ./darknet(resize_network+0x3) [0x55]",), "forward"),
        (("1/2: ./darknet(load_convolutional_weights+0x3) [0x55]",), "model_load"),
    ],
)
def test_what_they_say_of_the_stage(frames: tuple[str, ...], stage: str) -> None:
    around = Neighbourhood(page("a", 1, "\n".join((REFUSED, *frames)).encode())).around(0)
    assert doing_of(Event(at=Place("a.log", 1, 1, REFUSED), around=around)).stage == stage
