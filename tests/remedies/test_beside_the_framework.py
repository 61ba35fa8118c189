"""What a library beside the framework, the driver or a neighbour needs: room, and nothing that does not make any."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.remedies import Remedy

NCCL = "n4:52:77 [1] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'"
SIZED = f"{NCCL}\nn4:52:77 [1] include/alloc.h:185 NCCL WARN Failed to CUDA calloc 8388608 bytes"
CUBLAS = "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
FAILED = "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"


def remedies(folder: Path, text: str) -> dict[str, Remedy]:
    log = folder / "job.log"
    log.write_text(text + "\n", encoding="utf-8")
    first = diagnose(log).incidents[0].diagnoses[0]
    return {each.knob: each for each in first.remedies}


@pytest.mark.parametrize(
    ("log", "action", "derivation"),
    [
        (NCCL, "Leave NCCL room on the GPU: halve the batch size", None),
        (SIZED, "Leave NCCL room on the GPU: halve the batch size", "NCCL requested 8 MiB"),
        (CUBLAS, "Leave cuBLAS room on the GPU: halve the batch size", None),
    ],
)
def test_who_lacks_room_is_left_some_first(tmp_path: Path, log: str, action: str, derivation: str | None) -> None:
    found = remedies(tmp_path, log)
    first = next(iter(found.values()))
    assert (first.knob, first.action, first.derivation) == ("smaller-microbatch", action, derivation)
    assert "fix-environment" not in found


@pytest.mark.parametrize(
    ("log", "action"),
    [
        (FAILED, "Halve the batch size"),  # it does not say that it got none
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB", "Halve the batch size"),
    ],
)
def test_who_does_not_say_that_it_lacks_room_is_not_named(tmp_path: Path, log: str, action: str) -> None:
    assert remedies(tmp_path, log)["smaller-microbatch"].action == action


def test_versions_matter_to_a_library_that_only_fails(tmp_path: Path) -> None:
    assert "fix-environment" in remedies(tmp_path, FAILED)
