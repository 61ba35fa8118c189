"""Failures of memory in words of no program that exists are read: their pool, their figures and who refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shortage_wordings import WORDINGS, Wording

import oomdoctor
from oomdoctor.families.loudness import is_source
from oomdoctor.streams import page


def body(folder: Path, text: str) -> dict[str, Any]:
    log = folder / "job.log"
    log.write_text(text + "\n", encoding="utf-8")
    return oomdoctor.diagnose(log).as_json()


def figures(report: dict[str, Any]) -> dict[str, Any]:
    roots = [event for event in report["events"] if event["role"] == "root"]
    return {
        name: value for root in roots for part in ("usage", "threshold", "fields") for name, value in root[part].items()
    }


def name(wording: Wording) -> str:
    return wording.text.rsplit("\n", 1)[-1][:60]


@pytest.mark.parametrize("wording", WORDINGS, ids=name)
def test_a_failure_in_any_words_is_read(wording: Wording, tmp_path: Path) -> None:
    report = body(tmp_path, wording.text)
    assert report["verdict"] == "oom"
    assert report["diagnoses"][0]["pool"] == wording.pool
    read = figures(report)
    assert {key: read.get(key) for key in wording.figures} == wording.figures
    assert not wording.refuser or read["refuser"] == wording.refuser


@pytest.mark.parametrize("wording", WORDINGS, ids=name)
def test_its_quiet_twin_is_none(wording: Wording, tmp_path: Path) -> None:
    assert body(tmp_path, wording.twin)["verdict"] == "no-oom"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ('  File "/opt/pool/allocator.py", line 88, in out_of_memory', True),
        ('File "/opt/pool/allocator.py", line 88, in out_of_memory', True),
        ('cannot map File "/data/pool.bin": out of memory', False),
        ("File cache: out of memory, 2 GiB needed", False),
        ("  File too large for the memory pool", False),
    ],
)
def test_a_frame_is_a_programs_own_text_and_is_not_parsed(text: str, is_one: bool) -> None:
    assert is_source(page("job.log", 1, f"{text}\n".encode(), ends=True), 0, text) == is_one
