"""SGLang finds cards of one group with unequal free memory before it loads anything."""

from __future__ import annotations

from engine_logs import grade, judged

from oomdoctor.decision.judgement import Finding

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
