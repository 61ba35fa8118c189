"""A line says that memory ran out, or that an allocation failed, and nothing in the log says which memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

OPEN = (
    "step prepared\nOOM",
    "Error: OOM",
    "state: oom",
    "Reason: OOM",
    "allocation failed",
    "ERROR alloc failed",
    "E grid: reallocation failed.",
    "ERROR: could not allocate",
)
CLOSED = (
    "INFO oom",
    "OOM\nINFO all 7 shards completed successfully",
    "no OOM",
    "INFO: allocation failed",
    "ERROR dhcp: allocation failed",
    "ERROR port allocation failed",
    "cell: allocation failed, retrying",
)
NAMED = (
    ("out of memory", "host_ram"),
    ("tool: not enough memory", "host_ram"),
    ("ERROR failed to allocate 3 GiB on the host", "host_ram"),
    ("ERROR vulkan: out of device memory", "gpu"),
    ("loading onto cuda:0\nOOM", "gpu"),
)


@pytest.mark.parametrize("text", OPEN)
def test_without_a_word_on_the_memory_the_log_leaves_it_open(text: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "inconclusive"
    assert report["diagnoses"] == []
    assert report["events"][0]["role"] == "root"
    assert report["incidents"][0]["next_evidence"]


@pytest.mark.parametrize("text", CLOSED)
def test_what_the_log_explains_is_quiet(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize(("text", "pool"), NAMED)
def test_what_names_the_memory_is_a_failure(text: str, pool: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert (report["verdict"], report["diagnoses"][0]["pool"]) == ("oom", pool)
