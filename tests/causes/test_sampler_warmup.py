from __future__ import annotations

import pytest
from engine_logs import RUNNER, WARMUP, grade, judged, refusal, traceback

from oomdoctor.decision.judgement import Finding
from oomdoctor.signs import Grade

CAUSE = "sampler-warmup"
FULL = refusal("786.00 MiB", 79.11, 0.14, 78.9, 68.8)


@pytest.mark.parametrize(
    "frames",
    [
        ((RUNNER, "execute_model"), ("vllm/v1/sample/sampler.py", "forward")),
        ((RUNNER, "profile_run"), (RUNNER, "_dummy_run")),
        ((RUNNER, "capture_model"), (RUNNER, "_dummy_run")),
    ],
)
def test_other_runs_of_the_model(frames: tuple[tuple[str, str], ...]) -> None:
    assert judged(CAUSE, traceback(*frames, end=FULL)) is None


def test_a_warmup_that_went_well() -> None:
    log = "INFO 10-08 12:02:50 [gpu_model_runner.py:2900] warming up sampler with 256 dummy requests\n"
    assert judged(CAUSE, log + traceback(("vllm/v1/worker/gpu_worker.py", "execute_model"), end=FULL)) is None


def test_the_dummy_run_in_the_traceback() -> None:
    log = traceback((RUNNER, "_dummy_sampler_run"), ("vllm/v1/sample/ops.py", "sort"), end=FULL)
    assert grade(CAUSE, log) == Grade.PROVES


def test_the_engine_says_so() -> None:
    log = traceback((RUNNER, "_dummy_sampler_run"), end=FULL) + WARMUP
    finding = judged(CAUSE, log)
    assert isinstance(finding, Finding)
    assert finding.grade == Grade.PROVES
    assert "1,024 dummy requests" in finding.why
    assert finding.stage == "engine_init"
