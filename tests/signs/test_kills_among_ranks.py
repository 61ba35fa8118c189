"""One of several processes that a launcher started alike was killed: what all of them may have held."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

LAUNCHER = "[2031-04-05 06:07:08,910] [INFO] [launch.py:315:sigkill_handler] Killing subprocess {}\n"
KILL = (
    "[4711.250000] Out of memory: Killed process 6002 (kiln) total-vm:99999999kB, anon-rss:{}kB, file-rss:4kB, "
    "shmem-rss:{}kB, UID:1000 pgtables:88kB oom_score_adj:0"
)
GIB_IN_KB = 1024 * 1024


def explained(folder: Path, own: int, shared: int, *pids: int) -> str:
    launched = "".join(LAUNCHER.format(pid) for pid in pids)
    log = launched + KILL.format(own * GIB_IN_KB, shared * GIB_IN_KB)
    return " ".join(one["explanation"] for one in body(folder, log)["diagnoses"])


def test_shared_memory_counts_once(tmp_path: Path) -> None:
    told = explained(tmp_path, 20, 9, 6001, 6002)
    assert "if alike, 2 x 20.00 GiB + 9.00 GiB shared = 49.00 GiB." in told


def test_without_shared_memory_all_of_it_is_their_own(tmp_path: Path) -> None:
    assert "if each held as much, 3 x 20.00 GiB = 60.00 GiB." in explained(tmp_path, 20, 0, 6001, 6002, 6003)


@pytest.mark.parametrize("pids", [(), (6002,), (6001, 6003)])
def test_alone_or_not_among_them_it_is_not_multiplied(pids: tuple[int, ...], tmp_path: Path) -> None:
    assert "such processes" not in explained(tmp_path, 20, 9, *pids)


def remedies_of(folder: Path, own: int, shared: int, *pids: int) -> dict[str, dict[str, object]]:
    launched = "".join(LAUNCHER.format(pid) for pid in pids)
    told = body(folder, launched + KILL.format(own * GIB_IN_KB, shared * GIB_IN_KB))["diagnoses"][0]["remedies"]
    return {one["knob"]: one for one in told}


def test_a_node_is_sized_for_all_of_them_and_fewer_come_first(tmp_path: Path) -> None:
    told = remedies_of(tmp_path, 20, 9, 6001, 6002, 6003)
    assert next(iter(told)) == "fewer-workers"
    assert told["fewer-workers"]["snippet"] == "deepspeed --num_gpus 1 ..."
    assert "69.00 GiB" in str(told["more-host-memory"]["action"])
    assert "shared memory counts once; else 87.00 GiB" in str(told["more-host-memory"]["assumes"])


def test_what_is_not_shared_is_not_assumed(tmp_path: Path) -> None:
    told = remedies_of(tmp_path, 20, 0, 6001, 6002)
    assert "40.00 GiB" in str(told["more-host-memory"]["action"])
    assert "shared" not in str(told["more-host-memory"]["assumes"])


@pytest.mark.parametrize("pids", [(), (6002,), (6001, 6003)])
def test_alone_the_node_is_sized_by_the_killed_one(pids: tuple[int, ...], tmp_path: Path) -> None:
    told = remedies_of(tmp_path, 20, 9, *pids)
    assert "fewer-workers" not in told
    assert "alone held 29.00 GiB" in str(told["more-host-memory"]["action"])


TABLE = (
    "[4711.2] Mem-Info:\n"
    "[4711.2] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name\n"
    "[4711.2] [   6002]  1000  6002 24999999  5242880 88000    {}             0 kiln\n"
)
BAR = "Loading checkpoint shards:  50%|█████     | {} [00:08<00:08,  2.83s/it]\n"
GIB_IN_PAGES = 256 * 1024


@pytest.mark.parametrize(
    ("above", "needs"),
    [
        (TABLE.format(5 * GIB_IN_PAGES), "more than 25.00 GiB"),
        (TABLE.format(GIB_IN_PAGES // 2), "alone held 20.00 GiB"),
        (BAR.format("2/5"), "more than 50.00 GiB"),
        (BAR.format("5/5"), "alone held 20.00 GiB"),
        (BAR.format("0/5"), "alone held 20.00 GiB"),
        ("2/5 files\n", "alone held 20.00 GiB"),
    ],
)
def test_what_is_in_swap_or_still_to_load_needs_memory_as_well(above: str, needs: str, tmp_path: Path) -> None:
    log = above + KILL.format(20 * GIB_IN_KB, 0)
    told = {one["knob"]: one for one in body(tmp_path, log)["diagnoses"][0]["remedies"]}
    assert needs in str(told["more-host-memory"]["action"])
