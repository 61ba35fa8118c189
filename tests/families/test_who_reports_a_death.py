"""Deaths as a test runner, Slurm's controller and a shell of any language report them."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

XDIST = "worker 'gw3' crashed while running 'test_a.py::test_b[1]'"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [(XDIST, "inconclusive"), (XDIST.replace("crashed while", "was idle while"), "no-oom"), (f"# {XDIST}", "no-oom")],
)
def test_a_worker_of_a_test_runner_that_is_gone(text: str, verdict: str, tmp_path: Path) -> None:
    assert body(tmp_path, f"[gw3] linux -- Python 3.12.1\n{text}")["verdict"] == verdict


@pytest.mark.parametrize(("status", "verdict"), [("WTERMSIG 9", "inconclusive"), ("WTERMSIG 15", "no-oom")])
def test_the_signal_that_slurms_controller_saw(status: str, verdict: str, tmp_path: Path) -> None:
    assert body(tmp_path, f"[2031-01-02T03:04:05.678] _job_complete: JobId=4711 {status}")["verdict"] == verdict


@pytest.mark.parametrize("killed", ["Killed", "已杀死", "Getötet", "Убито"])
@pytest.mark.parametrize("before", ["  0%|      | 0/7 [00:00<?, ?it/s]", "reading 3 of 7..."])
def test_a_shells_word_behind_what_had_not_ended(before: str, killed: str, tmp_path: Path) -> None:
    told = body(tmp_path, f"$ python fold.py\n{before}{killed}")
    assert told["verdict"] == "inconclusive"
    assert body(tmp_path, f"$ python fold.py\n{before}{killed} it all")["verdict"] == "no-oom"
