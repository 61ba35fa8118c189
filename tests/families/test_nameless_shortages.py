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
    "map(tile, 4): out of memory handler installed",
    "tiler: no memory left over from step 3",
    "no memory allocation errors in this run",
    "reserving 12 GB ... done",
    "    'Realloc' could not allocate memory',",
    "  'tile' could not be found",
)
NAMED = (
    ("out of memory", "host_ram"),
    ("tool: not enough memory", "host_ram"),
    ("ERROR failed to allocate 3 GiB on the host", "host_ram"),
    ("ERROR vulkan: out of device memory", "gpu"),
    ("loading onto cuda:0\nOOM", "gpu"),
    ("Freeing the memory pool, then once more.\nCould not allocate again.", "host_ram"),
    ("using cuda\nClearing the cache, then once more.\nFailed to allocate again.", "gpu"),
    ("map(tile, 4): out of memory (tiles.h:31)", "host_ram"),
    ("oled->front()): out of memory (/srv/tiles.h:31)", "host_ram"),
    ("tiler: no memory left", "host_ram"),
    ("STOP: memory allocation error", "host_ram"),
    ("reserving 12 GB ... failed", "host_ram"),
    ("Error in tile(x) :\n  'Realloc' could not allocate memory (71000000 of 8 bytes)", "host_ram"),
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


FIELDS = (
    ' memory.weights.rest="709.3 MiB" memory.graph.full="3.0 GiB" memory.graph.partial="1.0 GiB"',
    'memory.full="3 GiB" memory.free="1 GiB" requested="2 GiB"',
    "cache.full=12 pool.size=3 ram_free=0",
    "thp_zero_page_alloc_failed 0",
    "/sys/fs/cgroup/job/memory.stat:page_alloc_failed 12",
)
SAID_IN_FIELDS = (
    'level=error msg="out of memory" size="3 GiB"',
    'level=error error="not enough memory: need 3 GiB, have 1 GiB" pool=2',
    "E memory exhausted requested=3GiB free=1GiB",
    "page allocation failed, 12 GiB requested, 3 GiB free",
)


@pytest.mark.parametrize("text", FIELDS)
def test_names_of_fields_with_figures_are_no_sentence(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize("text", SAID_IN_FIELDS)
def test_a_sentence_among_fields_is_heard(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "oom"
