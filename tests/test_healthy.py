"""Jobs that lack nothing stay healthy, and few of their lines are said to look like a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from healthy_logs import LOGS, LONG

from oomdoctor import diagnose

FEW = 5  # kinds of lookalikes; each is named once
REFUSED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79.11 GiB "
    "of which 1.31 GiB is free. Of the allocated memory 74.02 GiB is allocated by PyTorch, and 1.60 GiB is reserved by "
    "PyTorch but unallocated."
)


@pytest.mark.parametrize("lines", LOGS, ids=lambda lines: lines.__name__)
def test_a_healthy_log_is_no_memory_failure(lines: Callable[[], Iterator[str]], tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("\n".join(lines()) + "\n")
    assert log.stat().st_size > LONG  # long enough that only its ends and the places of anchors are read
    report = diagnose(log)
    assert (report.verdict, report.incidents) == ("no-oom", ())
    assert len(report.lookalikes) <= FEW, [(quote.line, quote.why) for quote in report.lookalikes]


@pytest.mark.parametrize("lines", LOGS, ids=lambda lines: lines.__name__)
def test_the_same_log_with_a_failure_in_its_middle_is_one(lines: Callable[[], Iterator[str]], tmp_path: Path) -> None:
    healthy = list(lines())
    middle = len(healthy) // 2
    log = tmp_path / "job.log"
    raised = ["Traceback (most recent call last):", REFUSED]
    log.write_text("\n".join([*healthy[:middle], *raised, *healthy[middle:]]) + "\n")
    report = diagnose(log)
    assert report.verdict == "oom"
    assert [event.usage["tried_bytes"] for event in report.events if event.role == "root"] == [2684354560]
