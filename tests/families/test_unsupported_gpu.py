"""A GPU that the installed PyTorch does not support: its libraries fail, and memory is not short."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose

NO_ALGORITHM = "RuntimeError: Unable to find a valid cuDNN algorithm to run convolution\n"


@pytest.mark.parametrize(
    ("before", "verdict"),
    [
        ("    PyTorch no longer supports this GPU because it is too old.\n", "no-oom"),
        ("G 1 with CUDA capability sm_120 is not compatible with the current PyTorch installation.\n", "no-oom"),
        ("the GPU is old\n", "oom"),
        ("", "oom"),
    ],
)
def test_a_gpu_that_is_not_supported_fails_for_that(tmp_path: Path, before: str, verdict: str) -> None:
    log = tmp_path / "train.log"
    log.write_text(before + NO_ALGORITHM, encoding="utf-8")
    assert diagnose(log).verdict == verdict
