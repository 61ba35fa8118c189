"""SGLang finds cards of one group with unequal free memory before it loads anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_logs import grade, judged

from oomdoctor.decision.judgement import Finding
from oomdoctor.report.words import headline
from oomdoctor.street import diagnose

CHECK = "MEMORY CHECK FAILED"

LINE = (
    "The memory capacity is unbalanced. Some GPUs may be occupied by other processes. min_per_gpu_memory=41.2, "
    "local_gpu_memory=78.4, local_gpu_memory * 0.9=70.56\n"
)


def test_a_neighbour_on_one_of_the_cards() -> None:
    finding = judged("gpu-shared", f"ValueError: {LINE}")
    assert isinstance(finding, Finding)
    assert "41.20 GiB" in finding.why


def test_the_engines_own_share_is_not_to_blame() -> None:
    assert grade("vllm-utilization-too-high", f"ValueError: {LINE}") < grade("gpu-shared", f"ValueError: {LINE}")


def test_unequal_cards_are_a_failed_check_and_likely_a_neighbour(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"ValueError: {LINE}")
    found = diagnose(log).incidents[0]
    assert headline(found).verdict == "MEMORY CHECK FAILED"
    assert headline(found).words.endswith("(likely)")
    assert "vllm-utilization-too-high" not in [one.cause for one in found.diagnoses]  # nothing was reserved yet


@pytest.mark.parametrize(
    ("end", "verdict"),
    [
        (
            "AssertionError: Error in memory profiling. This happens when the GPU memory was not properly cleaned up.",
            CHECK,
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB", "OUT OF MEMORY"),
    ],
)
def test_no_weights_are_a_failed_check_where_no_allocation_failed(tmp_path: Path, end: str, verdict: str) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"INFO 05-02 08:11:31 model_runner.py:1070] Loading model weights took 0.0000 GB\n{end}\n")
    assert headline(diagnose(log).incidents[0]).verdict == verdict
