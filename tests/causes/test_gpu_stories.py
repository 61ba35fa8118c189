"""Two of the founding stories, as whole logs: the right cause first, the tempting ones behind it or ruled out."""

from __future__ import annotations

from pathlib import Path

from gpu_logs import crash, ranking

from oomdoctor.decision.judgement import RuledOut, judgements

STORIES = Path(__file__).parent.parent.parent / "fixtures" / "stories"


def lines(name: str) -> list[str]:
    return (STORIES / name / "log.txt").read_text(encoding="utf-8").splitlines()


def ruled_out(log: list[str]) -> dict[str, str]:
    return {cause.id: told.why for cause, told in judgements(crash(*log)) if isinstance(told, RuledOut)}


def test_an_engine_that_starts_with_more_idle_than_it_asks_for() -> None:
    log = lines("openrlhf-vllm-start-fragmented")
    assert ranking(*log)[0] == "allocator-fragmentation"
    assert ranking(*log).index("gpu-shared") > ranking(*log).index("activations")
    assert "vllm-utilization-too-high" not in ranking(*log)[:2]
    assert "604 MiB" in ruled_out(log)["non-torch-memory"]


def test_llama3_70b_with_zero_3_checkpointing_and_an_affected_deepspeed() -> None:
    log = lines("openrlhf-llama3-70b-zero3")
    assert crash(*log).stage == "backward"
    assert ranking(*log)[:2] == ["framework-regression", "activations"]
    assert "1.1% of the GPU" in ruled_out(log)["allocator-fragmentation"]


def test_the_same_job_with_a_sound_deepspeed_is_about_its_activations() -> None:
    log = [line.replace("0.16.3", "0.16.9") for line in lines("openrlhf-llama3-70b-zero3")]
    assert ranking(*log)[0] == "activations"
    assert "0.16.9 is not affected" in ruled_out(log)["framework-regression"]
