"""Which remedies one screen has: those about this job."""

from __future__ import annotations

import pytest

from oomdoctor.remedies import Gap, Remedy
from oomdoctor.report.contract import Diagnosis
from oomdoctor.report.words import particular

FIRST = Remedy(knob="stream-data", action="Stream the data")
SET = Remedy(knob="fewer-workers", action="Halve num_workers", setting="num_workers")
FEWER = Remedy(knob="fewer-workers", action="Run fewer worker processes")
VAGUE = Remedy(knob="clear-references", action="Drop references")
BOUGHT = Remedy(knob="more-host-memory", action="Use a node with more memory")
GENERAL = Remedy(knob="smaller-microbatch", action="Halve batch_size", setting="batch_size", general=True)
SPLIT = Remedy(knob="tensor-parallel", action="Split the model", setting="--tensor-parallel-size")
SPREAD = Remedy(knob="more-gpus", action="Spread the job over more GPUs")


def diagnosis(remedies: tuple[Remedy, ...], cause: str = "process-ram-hog") -> Diagnosis:
    return Diagnosis(
        cause=cause, headline="", title="", explanation="", confidence=0.9, pool="host_ram", stage="unknown",
        evidence=(), against=(), remedies=remedies,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ((FIRST, SET, BOUGHT), (FIRST, SET, BOUGHT)),
        ((FIRST, VAGUE, SET), (FIRST, SET)),
        ((FIRST, FEWER, SET), (FIRST, FEWER, SET)),
        ((SET, GENERAL), (SET,)),
        ((GENERAL,), (GENERAL,)),
        ((GENERAL, VAGUE), (VAGUE,)),
        ((SET, SPREAD), (SET, SPREAD)),
        ((SET, SPREAD, SPLIT), (SET, SPLIT)),
        ((), ()),
    ],
)
def test_what_any_job_would_be_told_is_left_out(given: tuple[Remedy, ...], kept: tuple[Remedy, ...]) -> None:
    assert particular(diagnosis(given), None) == kept


DELAY = Remedy(knob="tune-ray-monitor", action="Raise it", setting="RAY_memory_usage_threshold", current=0.95)
LOW = Remedy(knob="tune-ray-monitor", action="Raise it", setting="RAY_memory_usage_threshold", current=0.7)


@pytest.mark.parametrize(
    ("cause", "given", "kept"),
    [
        ("host-memory-exhausted", (SET, DELAY, BOUGHT), (SET, BOUGHT)),
        ("host-memory-exhausted", (DELAY, BOUGHT), (DELAY, BOUGHT)),
        ("host-memory-exhausted", (SET, LOW, BOUGHT), (SET, LOW, BOUGHT)),
        ("process-ram-hog", (SET, DELAY, BOUGHT), (SET, DELAY, BOUGHT)),
    ],
)
def test_a_delay_is_none_of_three_where_the_node_is_full(
    cause: str, given: tuple[Remedy, ...], kept: tuple[Remedy, ...]
) -> None:
    assert particular(diagnosis(given, cause), None) == kept


def test_what_the_arithmetic_counts_on_stays() -> None:
    gap = Gap(pool="gpu", missing_low_bytes=1, missing_high_bytes=1, derivation="", alone=("smaller-microbatch",))
    assert particular(diagnosis((SET, GENERAL)), gap) == (SET, GENERAL)


@pytest.mark.parametrize(
    ("cause", "kept"),
    [("container-limit", (SET,)), ("killed-without-evidence", (SET,)), ("dataset-in-ram", (SET, FIRST))],
)
def test_data_are_streamed_where_the_cause_is_about_data(cause: str, kept: tuple[Remedy, ...]) -> None:
    assert particular(diagnosis((SET, FIRST), cause), None) == kept
