"""Programs that found no room for what they write to a disk for want of memory: where else it may go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

SORT = "sort: write failed: {folder}/sortq1W2e3: No space left on device\nexit code: 2\n"
DF = "Filesystem      Size  Used Avail Use% Mounted on\ntmpfs           200M     0  200M   0% {mount}\n"
ELSEWHERE = "/PATH/ON/A/LARGER/DISK"


def diagnosis(tmp_path: Path, log: str) -> dict[str, Any]:
    found: dict[str, Any] = body(tmp_path, log)["diagnoses"][0]
    assert found["cause"] == "spill-disk-full"
    return found


@pytest.mark.parametrize(
    ("options", "folder", "setting"),
    [
        ("--scratch parts --parallel 2", "parts", "--scratch"),
        ("--tmp /srv/parts/", "/srv/parts", "--tmp"),
        ("--scratch parts2", "parts", None),
        ("--scratch parts", "/srv/parts", None),
        ("--parallel 2", "/tmp", None),
    ],
)
def test_the_option_that_names_the_folder(tmp_path: Path, options: str, folder: str, setting: str | None) -> None:
    remedy = diagnosis(tmp_path, f"+ bash merge.sh {options}\n{SORT.format(folder=folder)}")["remedies"][0]
    assert remedy["knob"] == "free-disk"
    assert remedy["setting"] == setting
    lines = remedy["snippet"].splitlines()
    assert lines[0] == (f"{setting} {ELSEWHERE}" if setting else f"sort -T {ELSEWHERE} ...")
    assert lines[1].startswith("sort --compress-program=gzip")


def test_only_what_the_log_shows_is_told(tmp_path: Path) -> None:
    found = diagnosis(tmp_path, SORT.format(folder="/srv/parts"))
    assert found["headline"] == "sort found no room on disk for its temporary files in /srv/parts"
    assert "clear-references" not in [one["knob"] for one in found["remedies"]]


@pytest.mark.parametrize(
    ("mount", "is_told"), [("/srv/parts", True), ("/mnt/srv/parts", False), ("/srv", False), ("/parts", False)]
)
def test_how_large_the_disk_is(tmp_path: Path, mount: str, is_told: bool) -> None:
    found = diagnosis(tmp_path, DF.format(mount=mount) + SORT.format(folder="/srv/parts"))
    assert ("200 MiB in all" in (found["remedies"][0]["derivation"] or "")) is is_told


def test_a_program_with_a_limit_tells_of_it(tmp_path: Path) -> None:
    log = (
        "duckdb.duckdb.OutOfMemoryException: Out of Memory Error: failed to offload data block of size 256.0 KiB "
        "(1.8 GiB/1.8 GiB used)\n"
    )
    found = diagnosis(tmp_path, f"duckdb 1.1.0\n{log}")
    assert "its memory limit is reached: 1.8 of 1.8 GiB in use" in found["headline"]
    assert "sort" not in (found["remedies"][0]["snippet"] or "")


def test_a_file_of_another_program(tmp_path: Path) -> None:
    refused = "failed to create spill file '/srv/a/spill-0.ipc': No space left on device (os error 28)"
    log = f"+ ./fold --work-dir /srv/a\n{refused}\n"
    remedy = diagnosis(tmp_path, log)["remedies"][0]
    assert remedy["snippet"] == f"--work-dir {ELSEWHERE}"


def test_objects_of_a_table_may_be_dropped(tmp_path: Path) -> None:
    log = (
        "Traceback (most recent call last):\n"
        '  File "/srv/fold.py", line 3, in <module>\n    rows = table.sort("x").collect()\n'
        '  File "/env/polars/lazyframe/frame.py", line 30, in collect\n    return wrap_df(ldf.collect())\n'
        "RuntimeError: could not write spill data for partition 0: No space left on device\n"
    )
    assert "clear-references" in [one["knob"] for one in diagnosis(tmp_path, log)["remedies"]]
