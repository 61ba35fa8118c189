"""What is said of a log that ends with a kernel for which a chip's own memory is too small."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.report import words

SCALARS = (
    "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space smem. Used 1.02M of 1.00M smem."
)
SHARED = (
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 122880, Hardware limit: 101376."
)


def verdict(folder: Path, *lines: str) -> str:
    (folder / "job.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return words.nothing_in_a_line(diagnose(folder / "job.log"))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (
            f"{SCALARS} Exceeded smem capacity by 20.5K.",
            "a kernel needs 20.5K more smem than the compiler's limit of 1.00M",
        ),
        (
            "ValueError: Scoped allocation with size 19.00M and limit 16.00M exceeded scoped vmem limit by 3.00M",
            "a kernel needs 3.00M more vmem than the compiler's limit of 16.00M",
        ),
        (
            "ValueError: space vmem: exceeded scoped vmem limit by 3.00M",
            "a kernel needs 3.00M more vmem than it may use",
        ),
        (SCALARS, "a kernel needs more memory on the chip than there is"),
        ("RuntimeError: Triton Error [HIP]: out of resources", "a kernel needs more memory on the chip than there is"),
    ],
)
def test_what_the_chip_lacks_is_said_at_once(tmp_path: Path, line: str, what: str) -> None:
    assert verdict(tmp_path, line) == f"NO MEMORY FAILURE FOUND in host or device memory: {what} (1 line read)"


@pytest.mark.parametrize(
    "lines",
    [
        ("RuntimeError: CUDA error: an illegal memory access was encountered",),
        (f"W autotuner: {SHARED} Ignoring this choice.", "step 12 loss 0.71", "ValueError: labels have 9 classes"),
        (f"compiling: {SCALARS}", "KeyError: 'lm_head'"),
    ],
)
def test_nothing_of_the_chip_where_the_job_ends_otherwise(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert "chip" not in verdict(tmp_path, *lines)
