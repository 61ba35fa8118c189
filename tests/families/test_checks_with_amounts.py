"""Checks on memory that print both sides of what they compare."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

SHORT = (
    (
        "kiln.core.EnforceNotMet: enforce allocating <= available failed, 9663676416 > 1073741824\nat [gpu_info.cc:7]",
        "gpu",
    ),
    (
        "F0203 04:05:06.1 77 pool.cc:88] Check failed: alloc_bytes <= free_bytes (9663676416 vs. 1073741824) on gpu 0",
        "gpu",
    ),
    ("AssertionError: assert alloc_size <= budget failed: 9663676416 > 1073741824", "host_ram"),
    ("RuntimeError: CUDA tiler: check cpu_mem < mem_limit failed, 9663676416 > 1073741824", "host_ram"),
)
OTHERS = (
    "AssertionError: enforce rows <= capacity failed, 9663676416 > 1073741824",  # of what, it does not say
    "RuntimeError: enforce allocating <= available failed, 12 > 4",  # too few for bytes
    "RuntimeError: enforce allocating <= available failed, 1073741824 > 9663676416",
    "RuntimeError: enforce members <= limit failed, 9663676416 > 1073741824",
    "RuntimeError: enforce memory <= 7 failed, 9663676416 > 1073741824",
    "INFO check alloc_bytes <= free_bytes: 1073741824 <= 9663676416",
    "# enforce allocating <= available failed, 9663676416 > 1073741824",
    "Check failed: offset <= index (9663676416 vs. 1073741824)",
)


@pytest.mark.parametrize(("text", "pool"), SHORT)
def test_what_was_asked_for_and_what_there_was(text: str, pool: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    assert report["diagnoses"][0]["pool"] == pool
    usage = report["events"][0]["usage"]
    assert (usage["tried_bytes"], usage["free_bytes"]) == (9663676416, 1073741824)


@pytest.mark.parametrize("text", OTHERS)
def test_another_comparison_is_none_of_memory(text: str, tmp_path: Path) -> None:
    assert not any(event["usage"].get("free_bytes") for event in body(tmp_path, text)["events"])
