"""JAX takes three quarters of a GPU before anybody else asks: what lies beside its pool, and other processes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_logs import crash

from oomdoctor import diagnose
from oomdoctor.signs import arrays, library, neighbours

OF_XLA = "E external/xla/xla/stream_executor/cuda/cuda_blas.cc:77] failed to create cublas handle: "
REFUSED = f"{OF_XLA}the resource allocation failed"
JAX = "jax==0.4.31"
OFF = "export XLA_PYTHON_CLIENT_PREALLOCATE=false"
OF_TORCH = "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"

POOL = "W external/xla/xla/tsl/framework/bfc_allocator.cc:501] "
EMPTY = (
    f"{POOL}Allocator (GPU_0_bfc) ran out of memory trying to allocate 6.0KiB (rounded to 6144)requested by op ",
    f"{POOL}<allocator contains no memory>",
)
IN_AN_ACTOR = "ERROR raised in creation task, ray::Scorer.__init__() (pid=71, ip=10.0.0.2, repr=<s.Scorer object>)"
OF_TENSORFLOW = tuple(line.replace("external/xla/xla/tsl", "tensorflow/core/common_runtime") for line in EMPTY)


def knobs(*lines: str) -> tuple[str, ...]:
    found = library.a_library_was_refused(crash(*lines))
    assert found is not None
    return found.knobs


def test_a_library_beside_the_pool_of_jax() -> None:
    assert knobs(JAX, REFUSED)[:2] == ("cap-preallocation", "free-the-gpu")


@pytest.mark.parametrize(
    "lines", [(OFF, JAX, REFUSED), (OF_TORCH,), (JAX, "RuntimeError: CUFFT_ALLOC_FAILED")],
    ids=["nothing is reserved", "PyTorch", "another library"],
)  # fmt: skip
def test_a_library_beside_no_such_pool(lines: tuple[str, ...]) -> None:
    assert knobs(*lines) == ()


def test_the_line_that_gives_a_library_room(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"{JAX}\n{REFUSED}\n", encoding="utf-8")
    first = diagnose(log).incidents[0].diagnoses[0].remedies[0]
    assert first.snippet == "export XLA_PYTHON_CLIENT_PREALLOCATE=false"


def of_an_empty_pool(*lines: str) -> tuple[str, ...]:
    found = neighbours.its_pool_got_nothing(crash(*lines))
    assert found is not None
    return found.knobs


def test_other_processes_of_jax_are_capped_where_they_are_actors() -> None:
    assert of_an_empty_pool(JAX, *EMPTY, IN_AN_ACTOR) == ("cap-preallocation", "fix-placement", "free-the-gpu")


def test_who_holds_the_gpu_is_looked_up_first_where_nobody_shows_actors() -> None:
    assert of_an_empty_pool(JAX, *EMPTY)[:2] == ("free-the-gpu", "cap-preallocation")


def test_not_the_pool_of_tensorflow() -> None:
    assert of_an_empty_pool(*OF_TENSORFLOW) == ()


def test_an_actor_requests_a_whole_gpu(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("\n".join((JAX, *EMPTY, IN_AN_ACTOR)) + "\n", encoding="utf-8")
    lines = {one.knob: one.snippet for one in diagnose(log).incidents[0].diagnoses[0].remedies}
    assert lines["cap-preallocation"] == "export XLA_PYTHON_CLIENT_PREALLOCATE=false"
    assert (lines["fix-placement"] or "").startswith("@ray.remote(num_gpus=1)")
    assert "LOCAL_RANK" not in "".join(filter(None, lines.values()))


BARE = (
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2147483648 bytes."
)


def test_the_pool_may_take_more_than_three_quarters() -> None:
    found = arrays.array_without_a_shape(crash(BARE))
    assert found is not None
    assert "raise-allocator-cap" in found.knobs
    assert "cap-preallocation" not in found.knobs  # the pool is as large without it: it only grows


@pytest.mark.parametrize("name", ["XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"])
def test_not_where_somebody_has_set_how_much(name: str) -> None:
    found = arrays.array_without_a_shape(crash(f"export {name}=0.8", BARE))
    assert found is not None
    assert found.knobs == ()
