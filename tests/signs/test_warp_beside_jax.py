"""Warp's pool lies beside JAX's, which takes most of the GPU first."""

from __future__ import annotations

import pytest
from gpu_logs import crash, ranking

from oomdoctor.signs import library

REFUSED = "Warp CUDA error 2: out of memory (in function wp_alloc_device_async, /b/warp/native/warp.cu:412)"
CALLBACK = '  File "/env/warp/_src/jax_experimental/ffi.py", line 88, in ffi_callback'
WORLDS = (
    "Traceback (most recent call last):",
    CALLBACK,
    "    self.func(*arguments)",
    '  File "/env/mujoco_warp/_src/forward.py", line 12, in step',
    "    forward(m, d)",
)


@pytest.mark.parametrize(
    "lines",
    [
        (REFUSED,),
        ("RuntimeError: CUDA error: out of memory", *WORLDS),
        ("export XLA_PYTHON_CLIENT_PREALLOCATE=false", REFUSED, *WORLDS),
    ],
    ids=["without JAX", "not Warp's", "JAX takes nothing"],
)
def test_not_where_jax_leaves_all_or_another_was_refused(lines: tuple[str, ...]) -> None:
    assert library.warp_was_refused_in_jax(crash(*lines)) is None


def test_warp_is_refused_what_jax_took() -> None:
    found = library.warp_was_refused_in_jax(crash(REFUSED, *WORLDS))
    assert found is not None
    assert found.stage is None
    assert ranking(REFUSED, *WORLDS)[0] == "framework-preallocation"


def test_worlds_that_were_stepped_are_a_rollout() -> None:
    found = library.warp_was_refused_in_jax(crash("step: 400", REFUSED, *WORLDS))
    assert found is not None
    assert found.stage == "rollout"


def test_the_physics_of_a_simulator_is_no_pass_of_a_network() -> None:
    assert crash(REFUSED, *WORLDS).stage == "unknown"
    assert crash(REFUSED, *(line.replace("mujoco_warp/_src", "app/nets") for line in WORLDS)).stage == "forward"
