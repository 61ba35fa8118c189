"""An answer that rests on one line is no surer than such answers were right on logs read for the first time."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.decision.ranking import ALONE
from oomdoctor.report.contract import Incident
from oomdoctor.report.text import rendered

LINE = (
    "(2) Resource exhausted: Attempting to allocate 271.25M. That was not possible. There are 90.50M free.; "
    "(0x1x0_HBM0)"
)
FRAME = '  File "/srv/venv/lib/python3.9/site-packages/jax/_src/api.py", line 420, in cache_miss'
KERNEL = (
    "[ 7120.331204] Out of memory: Killed process 8834 (kiln) total-vm:91827364kB, anon-rss:61234567kB, "
    "file-rss:1024kB, shmem-rss:2048kB, UID:1000 pgtables:120000kB oom_score_adj:0"
)
COMPILER = "c++: fatal error: Killed signal terminated program cc1plus"
LIMIT = "slurmstepd: error: Detected 1 oom_kill event in StepId=77120.0. Some of the step tasks have been OOM Killed."


def _crash(folder: Path, *lines: str) -> Incident:
    (folder / "job.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return diagnose(folder / "job.log").incidents[0]


def test_a_line_that_only_points_at_its_cause_leaves_it_open(tmp_path: Path) -> None:
    crash = _crash(tmp_path, LINE)
    assert crash.diagnoses[0].grade == "points"
    assert crash.diagnoses[0].confidence == ALONE
    assert crash.cause_open
    text = rendered(diagnose(tmp_path / "job.log"), width=100, color=False, unicode=False, verbose=False)
    assert "% sure" not in text
    assert "Open: " in text


@pytest.mark.parametrize(
    "lines",
    [
        (FRAME, LINE),  # the framework
        ("epoch 3 step 17: loss 1.25", LINE),  # what the job was doing
        (KERNEL,),  # a record with its figures
        (LIMIT,),
        (COMPILER,),  # it proves its cause
    ],
)
def test_what_stands_beside_it_or_proves_it_counts(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert _crash(tmp_path, *lines).diagnoses[0].confidence > ALONE
