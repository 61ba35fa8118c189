"""A log that is cut inside an engine's traceback: a hint at the step's usual causes, proof of none."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_logs import RUNNER, crash_of, traceback

from oomdoctor import diagnose
from oomdoctor.decision.judgement import Finding, judgements
from oomdoctor.decision.ranking import ranked
from oomdoctor.report.headline.deaths import cut_line
from oomdoctor.signs import Grade


def found(log: str) -> list[tuple[str, Finding]]:
    crash = crash_of(log)
    assert not crash.proven
    judged = [(cause, judgement) for cause, judgement in judgements(crash) if isinstance(judgement, Finding)]
    return [(answer.cause.id, answer.finding) for answer in ranked(crash, judged, frozenset()).answers]


@pytest.mark.parametrize(
    ("function", "cause"),
    [("_dummy_sampler_run", "sampler-warmup"), ("capture_model", "cuda-graph-capture")],
)
def test_the_steps_usual_cause_comes_first_and_proves_nothing(function: str, cause: str) -> None:
    answers = found(traceback((RUNNER, function), end="    ^^^^^"))
    assert answers[0][0] == cause
    assert not any(finding.shows_memory for _, finding in answers)
    assert "ends before" in answers[0][1].against[-1]
    assert answers[0][1].next_evidence


def test_the_encoder_comes_first_where_the_log_speaks_of_it() -> None:
    said = "INFO 11-22 08:08:21 enc_dec_model_runner.py:301] Starting profile run for multi-modal models.\n"
    answers = found(said + traceback((RUNNER, "profile_run"), end="    ^^^^^"))
    assert answers[0][0] == "multimodal-profiling"


def test_an_error_of_another_kind_is_no_crash_of_memory() -> None:
    log = traceback((RUNNER, "profile_run"), end="AttributeError: 'DemoModel' object has no attribute 'layers'")
    with pytest.raises(IndexError):
        crash_of(log)


def test_an_error_that_begins_as_no_other_does_is_proof() -> None:
    begun = traceback(("vllm/device_allocator/cumem.py", "python_create_and_map"), end="RuntimeError: CUDA Error: ou")
    crash = crash_of(begun)
    assert crash.proven
    judged = [judgement for _, judgement in judgements(crash) if isinstance(judgement, Finding)]
    assert max(finding.grade or 0 for finding in judged) >= Grade.POINTS
    assert all(finding.against[0] == 'the message is cut off after "CUDA Error: ou"' for finding in judged)
    other = traceback(("vllm/device_allocator/cumem.py", "python_create_and_map"), end="RuntimeError: CUDA E")
    assert not crash_of(other).proven


LONG = "INFO 11-22 08:08:21 metrics.py:455] Avg prompt throughput: 0.0 tokens/s\n" * 4500


def test_a_long_log_is_cut_at_its_end_too(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    cut = traceback((RUNNER, "capture_model"), end="    ^^^^^")
    log.write_text(LONG + cut)
    assert diagnose(str(log)).incidents[0].diagnoses[0].cause == "cuda-graph-capture"


def test_where_a_part_of_a_long_log_ends_it_is_not_cut(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    cut = traceback((RUNNER, "capture_model"), end="    ^^^^^")
    log.write_text(LONG + cut + LONG)
    assert not diagnose(str(log)).incidents


@pytest.mark.parametrize(
    ("log", "last"),
    [
        (traceback((RUNNER, "profile_run"), ("torch/nn/modules/module.py", "_call_impl"), end="    ^^^^^"), 6),
        (traceback(("torch/_tensor.py", "backward"), ("app/hooks.py", "note"), end='  File "/opt/en'), 6),
        (traceback((RUNNER, "profile_run"), end="torch.OutOfMemoryError: CUDA out of mem"), None),
    ],
)
def test_where_the_log_ends_is_its_last_line(log: str, last: int | None) -> None:
    crash = crash_of(log + "\n")
    assert cut_line(crash) == (None if last is None else str(last))
