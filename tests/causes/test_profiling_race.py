from __future__ import annotations

from pathlib import Path

import pytest
from engine_logs import NO_BLOCKS, judged, not_enough_free, refusal

from oomdoctor import diagnose
from oomdoctor.decision.judgement import Finding
from oomdoctor.report.words import headline
from oomdoctor.signs import Grade

CAUSE = "profiling-race"


def disturbed(initial: str, current: str) -> str:
    return (
        f"AssertionError: Error in memory profiling. Initial free memory {initial}, current free memory {current}. "
        "This happens when other processes sharing the same container release GPU memory while vLLM is profiling.\n"
    )


@pytest.mark.parametrize(
    "log", [not_enough_free(3.22, 4.0, 0.9), NO_BLOCKS, refusal("2.00 GiB", 23.55, 1.0, 22.0, 21.0)]
)
def test_failures_for_want_of_memory(log: str) -> None:
    assert judged(CAUSE, log + "\n") is None


def test_a_neighbour_that_freed_memory() -> None:
    finding = judged(CAUSE, disturbed("14.31488037109375 GiB", "22.7919921875 GiB"))
    assert isinstance(finding, Finding)
    assert finding.grade == Grade.PROVES
    assert "from 14.31 GiB to 22.79 GiB" in finding.why
    assert "No memory was missing" in finding.why


def test_equal_figures_are_a_weaker_sign() -> None:
    finding = judged(CAUSE, disturbed("30.3 GiB", "30.3 GiB"))
    assert isinstance(finding, Finding)
    assert finding.grade == Grade.NAMES
    assert finding.against


def test_weights_on_another_card() -> None:
    log = "INFO 08-01 10:00:00 model_runner.py:926] Loading model weights took 0.0000 GB\n"
    finding = judged(CAUSE, log + disturbed("35180838912", "35316957184"))
    assert isinstance(finding, Finding)
    assert "another one" in finding.against[0]


@pytest.mark.parametrize(
    "other", ["activations", "gpu-memory-exhausted", "vllm-utilization-too-high", "kv-cache-no-room"]
)
def test_no_cause_of_a_shortage_claims_it(other: str) -> None:
    assert not isinstance(judged(other, disturbed("14.3 GiB", "22.8 GiB")), Finding)


@pytest.mark.parametrize(
    ("log", "banner"),
    [
        (disturbed("9.5 GiB", "17.25 GiB"), "MEMORY CHECK FAILED"),
        (not_enough_free(3.22, 4.0, 0.9) + "\n", "OUT OF MEMORY"),
        (refusal("2.00 GiB", 23.55, 1.0, 22.0, 21.0) + "\n", "OUT OF MEMORY"),
    ],
)
def test_what_is_not_short_has_not_run_out(log: str, banner: str, tmp_path: Path) -> None:
    path = tmp_path / "serve.log"
    path.write_text(log, encoding="utf-8")
    assert headline(diagnose(path).incidents[0]).verdict == banner


@pytest.mark.parametrize(
    ("log", "waits"),
    [
        (disturbed("9.5 GiB", "17.25 GiB"), True),
        (disturbed("30.3 GiB", "30.3 GiB"), False),  # nobody may have held anything
        (not_enough_free(3.22, 4.0, 0.9) + "\n", False),
        (refusal("2.00 GiB", 23.55, 1.0, 22.0, 21.0) + "\n", False),
    ],
)
def test_who_has_let_go_is_not_hunted(log: str, waits: bool, tmp_path: Path) -> None:
    path = tmp_path / "serve.log"
    path.write_text(log, encoding="utf-8")
    remedies = diagnose(path).incidents[0].diagnoses[0].remedies
    assert (remedies[0].knob == "start-in-sequence") is waits
    assert ("memory.used --format=csv -l" in str(remedies[0].snippet)) is waits
    assert not waits or not {"free-the-gpu", "shorter-context", "fewer-sequences"} & {one.knob for one in remedies}
