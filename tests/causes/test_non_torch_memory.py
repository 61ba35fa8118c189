from __future__ import annotations

from gpu_logs import crash, finding, ranking, refused, ruled_out, says

from oomdoctor.causes.non_torch_memory import CAUSE
from oomdoctor.signs import Grade


def test_not_an_ordinary_context() -> None:
    assert "usually take as much" in ruled_out(CAUSE, refused())


def test_not_other_processes() -> None:
    line = refused(own="30.00 GiB", allocated="28.00 GiB", unallocated="1.20 GiB", others=((4, "48.80 GiB"),))
    assert "819 MiB" in ruled_out(CAUSE, line)


def test_nothing_is_said_where_the_message_is_cut() -> None:
    assert says(CAUSE, refused(unallocated=None)) is None


def test_not_the_allocators_of_the_program_itself() -> None:
    line = "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 6,442,450 bytes (allocated so far: 24 bytes)"
    assert says(CAUSE, line) is None


def test_an_ambiguous_state_is_less_than_a_name() -> None:
    found = finding(
        CAUSE, "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
    )
    assert found.grade == Grade.POINTS
    assert found.against


def test_nccl_says_it() -> None:
    lines = (
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3384, unhandled cuda error",
        "ncclUnhandledCudaError: Call to CUDA function failed.",
        "Last error:",
        "Cuda failure 2 'out of memory'",
    )
    assert finding(CAUSE, *lines).grade == Grade.PROVES
    assert ranking(*lines)[0] == "non-torch-memory"


def test_cublas_says_it() -> None:
    line = "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
    assert "cuBLAS" in finding(CAUSE, line).why


def test_much_outside_pytorch_shows_by_subtraction() -> None:
    found = finding(CAUSE, refused(own="78.60 GiB", allocated="55.00 GiB", unallocated="1.00 GiB"))
    assert "22.60 GiB" in found.why


RAFT = "RuntimeError: cuSOLVER error encountered at: line=88: Reason=7:CUSOLVER_STATUS_INTERNAL_ERROR"


def test_a_library_that_fails_beside_a_pool_of_rmm() -> None:
    for line in (
        "rmm.reinitialize(pool_allocator=True, initial_pool_size=9 * 2**30)",
        "pool = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=9 * 2**30)",
    ):
        assert "libraries beside it" in finding(CAUSE, line, RAFT).why
        assert finding(CAUSE, line, RAFT).grade == Grade.POINTS
    for line in ("rmm.reinitialize(pool_allocator=False)", "rmm.statistics.enable_statistics()", "pool_allocator=True"):
        assert "libraries beside it" not in finding(CAUSE, line, RAFT).why


HANDLE = (
    "CUDA error: the resource allocation failed",
    "  current device: 0, in function cublas_handle at /src/ggml/src/ggml-cuda/common.cuh:1010",
    "  cublasCreate_v2(&cublas_handles[device])",
)
WARMS_UP = "Starting model warm up, please wait a moment..."


def test_a_program_of_ggml_gets_no_handle_in_its_warm_up() -> None:
    assert ranking(WARMS_UP, *HANDLE)[0] == CAUSE.id
    assert "sampler-warmup" not in ranking(WARMS_UP, *HANDLE)  # it warms up with an empty run
    assert finding(CAUSE, WARMS_UP, *HANDLE).knobs[:2] == ("offload-parameters", "shorter-context")
    assert crash(WARMS_UP, *HANDLE).stage == "engine_init"
    assert crash(*HANDLE).stage == "unknown"
    torch = "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
    assert "offload-parameters" not in finding(CAUSE, torch).knobs
