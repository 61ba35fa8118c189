"""The job's own lines: those of its logger, whose process stands in brackets, and none of the kernel's table."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

KILLED = "job.sh: line 2:    71 Killed                  python -u harvest.py --in harvest.xml\n"
LOGGED = "2026-03-02 01:15:36,495 {} INFO  harvest - parsing harvest.xml\n"


def causes(tmp_path: Path, text: str) -> list[str]:
    return [diagnosis["cause"] for diagnosis in body(tmp_path, text)["diagnoses"]]


@pytest.mark.parametrize("who", ["[71]", "[4]", "[ 71 ]", "[MainThread]", "harvest[71]:"])
def test_a_logger_may_name_its_process_in_brackets(tmp_path: Path, who: str) -> None:
    assert causes(tmp_path, LOGGED.format(who) + KILLED)[0] == "dataset-in-ram"


@pytest.mark.parametrize(
    "row",
    [
        "[  71]     0    71   912345   811223  1024000        0             0 parsing.xml",
        "[ pid ]   uid  tgid total_vm      rss name parsing a.xml",
    ],
)
def test_a_row_of_the_kernels_table_is_none_of_the_jobs(tmp_path: Path, row: str) -> None:
    assert "dataset-in-ram" not in causes(tmp_path, row + "\n" + KILLED)


def test_a_traceback_that_was_caught_hides_no_line_behind_it(tmp_path: Path) -> None:
    caught = (
        'Traceback (most recent call last):\n  File "harvest.py", line 3, in proxy\n    connect()\nOSError: refused\n'
    )
    assert causes(tmp_path, caught + LOGGED.format("[71]") + KILLED)[0] == "dataset-in-ram"
