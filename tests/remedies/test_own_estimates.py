"""A program's own estimate above its limit, printed right before the end: what it makes does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remedy_logs import crashes_of
from reports import body

from oomdoctor.signs.estimates import estimate_beyond_the_limit

KILLED = (
    "[  88.1] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
    "[  88.1] memory: usage 2097152kB, limit 2097152kB, failcnt 9\n"
    "[  88.1] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/jobs/a,task_memcg=/jobs/a,task=python,"
    "pid=71,uid=0\n"
    "[  88.1] Memory cgroup out of memory: Killed process 71 (python) total-vm:3000000kB, anon-rss:2080000kB, "
    "file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:900kB oom_score_adj:0\n"
)
GENSIM = (
    "09:00 INFO : estimated required memory for 81000 words, 3000000 buckets and 300 dimensions: 3700000000 bytes\n"
    "09:01 INFO : resetting layer weights\n"
)
SMALL = GENSIM.replace("3700000000", "1700000000")


def first(tmp_path: Path, text: str) -> dict[str, Any]:
    diagnosis: dict[str, Any] = body(tmp_path, text)["diagnoses"][0]
    return diagnosis


@pytest.mark.parametrize(
    "line",
    [
        "estimated required memory for 9000 words and 100 dimensions: 3,700,000,000 bytes",
        "The index will need about 3.5 GB of RAM",
        "building the graph requires 3584 MiB of memory",
        "expected peak memory: 3.5 GiB",
    ],
)
def test_it_is_read_in_many_words(line: str) -> None:
    assert estimate_beyond_the_limit(crashes_of(f"{line}\nbuilding\n{KILLED}")[0]) is not None


@pytest.mark.parametrize(
    "line",
    [
        "estimated required memory for 9000 words and 100 dimensions: 1,700,000,000 bytes",
        "The index will need about 3.5 GB of GPU memory",
        "The index will need about 3.5 GB of disk, and little memory",
        "requires 3584 MiB of memory, 2048 MiB available",
        "expected peak memory: 3.5 GiB of VRAM",
        "needs at least 4 GB of RAM",
        "estimated time 3.5 h, memory 1.1 GB",
        "required files: 3584, memory ok",
        "peak memory was 3.5 GiB",
    ],
)
def test_what_is_no_such_estimate(line: str) -> None:
    assert estimate_beyond_the_limit(crashes_of(f"{line}\nbuilding\n{KILLED}")[0]) is None


def test_of_a_step_long_before_it_says_nothing() -> None:
    text = GENSIM + "".join(f"epoch {epoch} done\n" for epoch in range(12)) + KILLED
    assert estimate_beyond_the_limit(crashes_of(text)[0]) is None


def test_what_it_makes_is_made_smaller(tmp_path: Path) -> None:
    diagnosis = first(tmp_path, f"+ python -u tags.py --bucket 3000000 --vector-size 300\n{GENSIM}{KILLED}")
    assert diagnosis["cause"] == "process-ram-hog"
    assert [one["snippet"] for one in diagnosis["remedies"][:2]] == ["--bucket 1500000", "--vector-size 150"]
    limit = diagnosis["remedies"][2]
    assert (limit["knob"], limit["suggested"]) == ("raise-container-limit", "5G")
    assert "own estimate" in limit["derivation"]


def test_by_the_librarys_arguments_where_the_program_has_no_options(tmp_path: Path) -> None:
    remedies = first(tmp_path, f"+ python -u tags.py\n{GENSIM}{KILLED}")["remedies"]
    assert {"smaller-model", "smaller-buffers"} <= {one["knob"] for one in remedies}
    assert "vector_size" in str(remedies)
    assert "clear-references" not in str(remedies)


@pytest.mark.parametrize("text", [SMALL, "", "resetting layer weights\n"])
def test_else_the_limit_was_hit(text: str, tmp_path: Path) -> None:
    diagnosis = first(tmp_path, f"+ python -u tags.py --bucket 3000000 --vector-size 300\n{text}{KILLED}")
    assert diagnosis["cause"] == "container-limit"
    assert "own estimate" not in str(diagnosis["remedies"])
