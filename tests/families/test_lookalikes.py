"""What separates the words from the message: who read the line, whether a sample is closed, whether a job ran on."""

from __future__ import annotations

import pytest

from oomdoctor import families
from oomdoctor.families import Event, Lookalike
from oomdoctor.families.ended import STEPS
from oomdoctor.families.spoken import SPOKEN
from oomdoctor.streams import page

REFUSED = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB."
KILLED = "run.sh: line 4: 2210 Killed                  python train.py"


def read(*lines: str) -> tuple[list[str], list[str]]:
    """The kinds of failures, and the reasons of lookalikes."""
    found = list(families.read(page("job.log", 1, "\n".join(lines).encode() + b"\n")))
    failures = [item.kind for item in found if isinstance(item, Event) and item.role == "root"]
    return failures, [item.why for item in found if isinstance(item, Lookalike)]


def test_a_line_that_a_family_reads_is_not_named_for_its_words() -> None:
    assert read("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. See /docs/oom-faq.md") == (
        ["out-of-memory"],
        [],
    )


@pytest.mark.parametrize("end", ["[score] 0.5", "[ground_truth] 7", "[response] None."])
def test_what_stands_in_a_printed_sample_is_its_text(end: str) -> None:
    assert read("[prompt] My job prints:", REFUSED, end) == ([], [SPOKEN])


def test_a_sample_that_is_not_closed_hides_no_crash() -> None:
    failures, _ = read("[prompt] Two and two?", "[response] Four.", "Traceback (most recent call last):", REFUSED)
    assert failures == ["out-of-memory"]


def test_what_another_process_prints_amid_a_sample_is_its_own() -> None:
    failures, _ = read(
        "(TaskRunner pid=7) [prompt] Two and two?", f"(WorkerDict pid=9) {REFUSED}", "(TaskRunner pid=7) [score] 1.0"
    )
    assert failures == ["out-of-memory"]


def test_a_request_that_is_answered_with_an_error_is_no_sample() -> None:
    failures, _ = read('{"prompt": "Two and two?", "error": "CUDA out of memory. Tried to allocate 2.50 GiB."}')
    assert failures == ["out-of-memory"]


@pytest.mark.parametrize("command", ["$ ray stop --force", "$ pkill -9 -f serve.py", "$ docker stop old", "^C"])
def test_a_clean_up_explains_a_kill_only_where_the_job_did_not_run_on(command: str) -> None:
    steps = [f"step {number}: loss 1.0" for number in range(STEPS)]
    failures, reasons = read(command, KILLED)
    assert (failures, len(reasons)) == ([], 1)
    assert read(command, *steps, KILLED) == (["kill"], [])
