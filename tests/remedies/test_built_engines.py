"""An engine that Triton serves was built before: its sizes are options of that build, with defaults of their own."""

from __future__ import annotations

import pytest
from remedy_logs import advise

REFUSED = (
    "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory "
    "(/src/cpp/tensorrt_llm/runtime/tllmBuffers.h:98)\n"
)
OF_TRITON = "1  0x7f01 /opt/tritonserver/backends/tensorrtllm/libtriton_tensorrtllm.so(+0x11f70) [0x7f01]\n"
SERVE = "trtllm-serve some/model --backend pytorch\n"


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (REFUSED + OF_TRITON, "Halve --max_batch_size (value not in the log)"),
        (SERVE + REFUSED, "Halve --max_batch_size: 2048 (default) -> 1024"),
    ],
)
def test_the_default_of_a_server_is_none_of_a_build(log: str, said: str) -> None:
    chosen, _ = advise(log, "fewer-sequences", cause="vllm-utilization-too-high")
    assert chosen["fewer-sequences"].action == said
