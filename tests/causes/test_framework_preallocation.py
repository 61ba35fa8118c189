from __future__ import annotations

import pytest
from gpu_logs import finding, ranking, refused, says

from oomdoctor import families, streams
from oomdoctor.causes.framework_preallocation import CAUSE
from oomdoctor.decision.judgement import Finding
from oomdoctor.families.event import Lookalike
from oomdoctor.signs import Grade

LEFT = "E external/xla/xla/stream_executor/cuda/cuda_dnn.cc:443] Memory usage: {} bytes free, {} bytes total."
HANDLE = "E xla/stream_executor/cuda/cuda_dnn.cc:439] Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR"


@pytest.mark.parametrize(("free", "is_free"), [(4.0, True), (3.9, False)])
def test_a_card_with_room_is_no_failure(free: float, is_free: bool) -> None:
    lines = (HANDLE, LEFT.format(round(free * 2**30), 8 * 2**30))
    found = list(families.read(streams.page("job.log", 1, "\n".join(lines).encode())))
    assert all(isinstance(each, Lookalike) for each in found) is is_free


def test_not_a_job_without_such_a_framework() -> None:
    assert says(CAUSE, refused(own="4.00 GiB", allocated="3.00 GiB", others=((7, "74.80 GiB"),))) is None


def test_not_jax_that_took_little() -> None:
    lines = ("jax==0.4.35", refused(own="60.00 GiB", allocated="58.00 GiB", others=((7, "18.00 GiB"),)))
    assert not isinstance(says(CAUSE, *lines), Finding)


def test_a_handle_that_finds_three_quarters_taken() -> None:
    found = finding(CAUSE, HANDLE, LEFT.format(700 * 2**20, 4 * 2**30))
    assert found.grade == Grade.NAMES
    assert "700 MiB of 4.00 GiB" in found.why
    assert ranking(HANDLE, LEFT.format(700 * 2**20, 4 * 2**30))[0] == "framework-preallocation"


NO_HANDLE = "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Failed to create cuBLAS handle"


def test_a_handle_that_fails_in_a_program_of_jax() -> None:
    found = finding(CAUSE, "jax==0.4.35", NO_HANDLE)
    assert found.against
    assert ranking("jax==0.4.35", NO_HANDLE)[0] == "framework-preallocation"


def test_not_a_handle_that_fails_in_pytorch() -> None:
    line = "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"
    assert not isinstance(says(CAUSE, line), Finding)
    assert ranking(line)[0] == "non-torch-memory"


def test_what_pytorch_does_not_have_while_jax_runs_in_the_same_job() -> None:
    jax = "INFO jax 0.4.30 jaxlib 0.4.30"
    line = refused(free="1.00 GiB", own="78.00 GiB", allocated="18.00 GiB", unallocated="0.10 GiB")
    assert "59.90 GiB of GPU memory (76%) is not PyTorch's; jax runs in the same job" in finding(CAUSE, jax, line).why
    assert says(CAUSE, line) is None
    assert says(CAUSE, jax, refused(free="1.00 GiB", own="78.00 GiB", allocated="70.00 GiB")) is None
