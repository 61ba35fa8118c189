"""Whatever is done to a log: a report comes out, the same each time, and nothing in it that a terminal obeys.

A few hundred inputs; `python -m fuzz.mutate` goes on for as long as one likes.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz import mutations
from fuzz.checks import ALL, WrongError, check, printed, unsafe

FEW = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def keeps_what_is_promised(log: Path, data: bytes) -> None:
    log.write_bytes(data)
    check(log, len(data), ALL)


@FEW
@given(dice=st.randoms(use_true_random=False))
def test_mutated_fixtures_keep_what_is_promised(tmp_path: Path, dice: random.Random) -> None:
    keeps_what_is_promised(tmp_path / "job.log", mutations.mutated(dice))


@pytest.mark.slow
@settings(FEW, max_examples=200)
@given(dice=st.randoms(use_true_random=False))
def test_more_mutated_fixtures_keep_what_is_promised(tmp_path: Path, dice: random.Random) -> None:
    keeps_what_is_promised(tmp_path / "job.log", mutations.mutated(dice))


@settings(FEW, max_examples=100)
@given(data=st.binary(max_size=300))
def test_any_bytes_keep_what_is_promised(tmp_path: Path, data: bytes) -> None:
    keeps_what_is_promised(tmp_path / "job.log", data)


def test_an_input_follows_from_its_seed_and_number() -> None:
    assert mutations.input_of(8, 17) == mutations.input_of(8, 17) != mutations.input_of(9, 17)


@pytest.mark.parametrize(
    "sign", ["\x1b", "\x07", "\x9b", "\r", "\u202e", "\u200b", "\ufeff", "\u2028", "\U000e0041", "\U0001d173"]
)
def test_the_check_sees_what_a_terminal_obeys(sign: str) -> None:
    assert unsafe(f"a{sign}b\n") == {sign}


@pytest.mark.parametrize("text", ["", "memory\n 内存 é █ 🦥 ⚠️\u0301", "\u0600 \u00a0"])
def test_the_check_takes_plain_text(text: str) -> None:
    assert unsafe(text) == set()


def test_the_check_sees_a_figure_that_is_not_printed() -> None:
    report = {"events": [{"id": "e1", "usage": {"used_bytes": 5 * 1024**3}, "threshold": {}}]}
    assert printed(b"used 5.0 GiB of 8", report) == []
    assert printed(b"used 6.0 GiB of 8", report) == [("e1", "used_bytes", 5 * 1024**3)]
    assert printed(b"used 5,0 GiB of 8", report) == []
    assert printed(b"used 5,120 MiB of 22,0.01", report) == []
    assert printed(b"| 512\n0 MiB |", report) == []
    assert printed(b"| 51\n| 20 MiB |", report) == [("e1", "used_bytes", 5 * 1024**3)]


@pytest.mark.slow
def test_the_same_report_comes_out_of_another_process(tmp_path: Path) -> None:
    """Whatever the order of sets is there."""
    code = (
        "import sys, hashlib, pathlib; from fuzz.mutations import input_of; import oomdoctor\n"
        "from oomdoctor.report import as_json\n"
        "log, said = pathlib.Path(sys.argv[1]), hashlib.sha256()\n"
        "for number in range(60):\n"
        "    log.write_bytes(input_of(11, number)); said.update(as_json.document(oomdoctor.diagnose(log)).encode())\n"
        "print(said.hexdigest())"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    said = {
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "job.log")],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": paths},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1


def test_the_check_is_not_satisfied_by_slowness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(b"CUDA out of memory\n")
    monkeypatch.setattr("fuzz.checks.FLOOR", -1.0)
    monkeypatch.setattr("fuzz.checks.SECONDS_PER_BYTE", 0.0)
    with pytest.raises(WrongError, match="slow"):
        check(log, 1)
