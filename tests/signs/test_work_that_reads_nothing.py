"""A factorization reads no data, arrays of all data are no batches, and JAX computes where it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

SOLVES = (
    "Traceback (most recent call last):\n"
    '  File "solve.py", line 9, in run\n    lu = splu(matrix)\n'
    '  File "/opt/v/lib/python3.12/site-packages/scipy/sparse/{}", line 77, in splu\n    return f(N, data)\n'
    "MemoryError"
)
RAYS = (
    "+ ulimit -v 3145728\n+ python -u nerf_rays.py --N_rand {} --N_samples 16\n"
    "Traceback (most recent call last):\n"
    '  File "/home/ann/nerf_rays.py", line 41, in main\n    rays = np.reshape(rays, [-1, 3, 3])\n'
    '  File "/opt/v/lib/python3.12/site-packages/numpy/_core/fromnumeric.py", line 299, in reshape\n    return x\n'
    "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 412. MiB for an array with shape "
    "(30, 500, 400, 3, 3) and data type float64"
)


@pytest.mark.parametrize(("place", "reads"), [("linalg/_dsolve/linsolve.py", False), ("_compressed.py", True)])
def test_a_factorization_reads_no_data(place: str, reads: bool, tmp_path: Path) -> None:
    first = body(tmp_path, SOLVES.format(place))["diagnoses"][0]
    assert (first["cause"] == "dataset-in-ram") is reads


@pytest.mark.parametrize(("batch", "is_advised"), [(1024, False), (250, True)])
def test_an_array_without_an_axis_of_batches(batch: int, is_advised: bool, tmp_path: Path) -> None:
    """By an option of the program's own, as by those that are known."""
    first = body(tmp_path, RAYS.format(batch))["diagnoses"][0]
    assert ("smaller-microbatch" in [remedy["knob"] for remedy in first["remedies"]]) is is_advised


JAX = (
    "{}\nTraceback (most recent call last):\n"
    '  File "fit.py", line 7, in <module>\n    jax.block_until_ready(step(x))\n'
    "jax.errors.JaxRuntimeError: INTERNAL: Error dispatching computation: Out of memory allocating 412316860 bytes."
)


@pytest.mark.parametrize(
    ("device", "pool"),
    [("I pjrt_client.cc:583] Addressable device: CpuDevice(id=0)", "host_ram"), ("devices: CudaDevice(id=0)", "gpu")],
)
def test_where_jax_computes(device: str, pool: str, tmp_path: Path) -> None:
    assert body(tmp_path, JAX.format(device))["diagnoses"][0]["pool"] == pool
