"""Shared memory that is not set up: for want of room, or for a reason that the system names."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

KEY = "RuntimeError: Unable to {} shared memory key '/stub_3' {}"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (KEY.format("initialize", "to requested size (33554432 bytes)."), "oom"),
        (
            "| m | 1 | UNAVAILABLE: Internal: Unable to initialize shared memory key '/m_0' to requested size (9 MB)",
            "oom",
        ),
        (KEY.format("create", "of requested size (33554432 bytes)."), "oom"),
        (KEY.format("initialize", "to requested size (33554432 bytes): File exists"), "no-oom"),
        (KEY.format("create", ": Permission denied"), "no-oom"),
        (KEY.format("create", ": [Errno 2] No such file or directory"), "no-oom"),
        ("RuntimeError: Unable to initialize the shared memory backend", "no-oom"),
    ],
)
def test_why_it_was_not_set_up(text: str, verdict: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == verdict
