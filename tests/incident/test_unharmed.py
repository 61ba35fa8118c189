"""A warning that nothing came of is told of a log without a failure, and of no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose

SLOW = (
    "2026-02-03 09:12:44,118 WARNING services.py:2101 -- WARNING: The object store is using /tmp instead of /dev/shm "
    "because /dev/shm has only 134217728 bytes available. This will harm performance! You may be able to free up space "
    "by deleting files in /dev/shm."
)
REFUSED = (
    "ValueError: The configured object store size (12.582912 GB) exceeds /dev/shm size (0.3145728 GB). This will harm "
    "performance."
)
OUT = "MemoryError: Unable to allocate 9.00 GiB for an array with shape (1200, 1000000) and data type float64"


@pytest.mark.parametrize(("lines", "told"), [((SLOW,), 1), ((SLOW, OUT), 0), ((REFUSED,), 0), (("ray.init()",), 0)])
def test_a_store_on_disk_is_slower_and_no_failure(tmp_path: Path, lines: tuple[str, ...], told: int) -> None:
    (tmp_path / "head.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = diagnose(tmp_path / "head.log")
    whys = [look.why for look in report.lookalikes if "object store on disk" in look.why]
    assert len(whys) == told
    assert not told or (report.verdict == "no-oom" and "128 MiB" in whys[0])
