from __future__ import annotations

import pytest
from gpu_logs import BACKWARD, crash, finding, ranking, refused, says, trace

from oomdoctor import families, streams
from oomdoctor.causes.gpu_memory_exhausted import CAUSE
from oomdoctor.families.memory_summary import MemorySummary
from oomdoctor.signs import Grade
from oomdoctor.signs.card import refused_beside_a_reservation


def test_not_before_anything_that_tells_more() -> None:
    for lines in (
        [*trace(BACKWARD), refused()],
        [refused(own="9.00 GiB", allocated="8.00 GiB", others=((1, "69.00 GiB"),))],
    ):
        assert ranking(*lines)[0] != "gpu-memory-exhausted"
        assert "gpu-memory-exhausted" in ranking(*lines)


def test_nothing_else_is_left_where_a_frame_is_known_and_where_none_is() -> None:
    assert finding(CAUSE, *trace(BACKWARD), refused()).grade == finding(CAUSE, refused()).grade == Grade.LEFT


def test_not_a_hint_that_does_not_speak_of_memory() -> None:
    assert says(CAUSE, "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR") is None


def test_a_bare_refusal_is_all_there_is() -> None:
    line = (
        "RuntimeError: CUDA out of memory. Tried to allocate 16.00 MiB (GPU 0; 3.94 GiB total capacity; 3.50 GiB "
        "already allocated; 13.81 MiB free; 3.55 GiB reserved in total by PyTorch)"
    )
    assert ranking(line) == ["activations", "gpu-memory-exhausted"]
    assert ranking("RuntimeError: CUDA error: out of memory") == ["gpu-memory-exhausted"]


def test_what_a_library_asked_for_is_said() -> None:
    refusal = (
        "XGBoostError: Memory allocation error on worker 0: std::bad_alloc: cudaErrorMemoryAllocation: out of memory",
        "- Free memory: 9437184",
        "- Requested memory: 41943040",
    )
    assert "an allocation of 40 MiB failed with 9 MiB free" in finding(CAUSE, *refusal).why


TABLE = (
    "|                  PyTorch CUDA memory summary, device ID 0                 |",
    "|            CUDA OOMs: {ooms}            |        cudaMalloc retries: 1         |",
    "| Allocated memory      |  21407 MiB |  21950 MiB |  90253 MiB |  68846 MiB |",
    "|===========================================================================|",
)


def table(ooms: int) -> list[str]:
    return [line.format(ooms=ooms) for line in TABLE]


def test_a_log_that_ends_with_the_allocators_table_of_refusals() -> None:
    found = finding(CAUSE, *table(ooms=1))
    assert found.grade == Grade.HINTS
    assert "1 failed allocation, 20.91 GiB in tensors" in found.why
    assert found.against


def test_not_the_table_of_a_job_that_goes_on_or_was_refused_nothing() -> None:
    assert no_crash(*table(ooms=1), "epoch 4 loss 1.9")
    assert no_crash(*table(ooms=0))


def no_crash(*lines: str) -> bool:
    page = streams.page("job.log", 1, "\n".join(lines).encode())
    return all(found.role == "context" for found in families.read(page) if isinstance(found, MemorySummary))


POOL = (
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[48,512] and "
    "type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
)
LAUNCH = "F ./tensorflow/core/kernels/fill_functor.cu.cc:41] Non-OK-status: GpuLaunchKernel(Fill, n) status: Internal: "


@pytest.mark.parametrize(
    ("line", "is_beside"),
    [
        (f"2021-11-30 04:05:06.070809: {LAUNCH}out of memory", True),
        ("tensorflow.python.framework.errors_impl.InternalError: failed to allocate a stream: out of memory", True),
        (POOL, False),
        # No pool of TensorFlow's
        (refused(), False),
        ("RuntimeError: CUDA error: out of memory", False),
    ],
)
def test_who_is_refused_beside_tensorflows_pool(line: str, is_beside: bool) -> None:
    assert (refused_beside_a_reservation(crash(line)) is not None) is is_beside
