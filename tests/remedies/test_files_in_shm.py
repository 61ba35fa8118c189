"""A limit that files in memory fill: they go to a disk first, and a limit for all of them is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

KERNEL = (
    "[1.0] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
    "[1.0] memory: usage 409600kB, limit 409600kB, failcnt 0\n"
    "[1.0] Tasks state (memory values in pages):\n"
    "[1.0] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name\n"
    "[1.0] [    801]     0   801     9000     {pages}   155648        0             0 python\n"
    "[1.0] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/j,"
    "task_memcg=/j,task=python,pid=801,uid=0\n"
    "[1.0] Memory cgroup out of memory: Killed process 801 (python) total-vm:36000kB, anon-rss:{kb}kB, "
    "file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:152kB oom_score_adj:0\n"
)
PRINTS = "".join(f"clip {n} of 80, /dev/shm/clips: {18 * n} MB of 500 MB used\n" for n in (5, 10, 20))


def diagnosis(tmp_path: Path, options: str, prints: str = PRINTS, pages: int = 5000) -> dict[str, Any]:
    log = f"+ python -u clips.py {options}\n{prints}{KERNEL.format(pages=pages, kb=pages * 4)}"
    found: dict[str, Any] = body(tmp_path, log)["diagnoses"][0]
    return found


@pytest.mark.parametrize(
    ("options", "setting", "snippet"),
    [
        ("--cache shm --num-workers 4 --batch-size 16", "--cache", None),
        ("--scratch-dir /dev/shm/clips --num-workers 4", "--scratch-dir", "--scratch-dir /PATH/ON/A/DISK"),
        ("--scratch-dir /dev/shm --num-workers 4", "--scratch-dir", "--scratch-dir /PATH/ON/A/DISK"),
        ("--scratch-dir /dev/shmem/clips", None, "df -h"),
        ("--scratch-dir /tmp/clips --num-workers 4", None, "df -h"),
        ("--cache-size 4 --num-workers 4 --batch-size 16", None, "df -h"),
        ("--transport shm --num-workers 4", None, "df -h"),
    ],
)
def test_they_go_to_a_disk_first(tmp_path: Path, options: str, setting: str | None, snippet: str | None) -> None:
    remedies = diagnosis(tmp_path, options)["remedies"]
    assert [one["knob"] for one in remedies][:2] == ["spill-to-disk", "raise-container-limit"]
    assert remedies[0]["setting"] == setting
    assert (remedies[0]["snippet"] or "").startswith(snippet or "")
    assert not {"fewer-workers", "smaller-microbatch"} & {one["knob"] for one in remedies}


def test_a_limit_for_all_of_them(tmp_path: Path) -> None:
    found = diagnosis(tmp_path, "--fast")
    raised = next(one for one in found["remedies"] if one["knob"] == "raise-container-limit")
    assert raised["suggested"] == "2G"  # (1.44 GB + 20 MB) x 1.25
    assert "343 MiB x 80 / 20" in raised["derivation"]
    assert "380 MiB of it is in no process" in found["headline"]


def test_without_a_count_the_need_is_unknown(tmp_path: Path) -> None:
    remedies = diagnosis(tmp_path, "--fast", "clips in /dev/shm: 360 MB used\n")["remedies"]
    raised = next(one for one in remedies if one["knob"] == "raise-container-limit")
    assert raised["suggested"] == "500M"


def test_what_the_process_holds_is_no_file(tmp_path: Path) -> None:
    found = diagnosis(tmp_path, "--cache shm --num-workers 4", pages=95_000)
    assert "spill-to-disk" not in [one["knob"] for one in found["remedies"]]
    assert "no process" not in found["headline"]


LISTINGS = (("31M", "16G", 1), ("4.0G", "12G", 25), ("9.0G", "7.0G", 57), ("16G", "90M", 99))
CLIMB = "".join(f"tmpfs 16G {used} {rest} {part}% /dev/shm\n" for used, rest, part in LISTINGS)
BUS = "RuntimeError: DataLoader worker (pid 31) is killed by signal: Bus error.\n"
TORCHS_OWN = "unable to open shared memory object </torch_31_7> in read-write mode\n"  # in either strategy


@pytest.mark.parametrize(
    ("beside", "looks"),
    [
        ("", "lsof +L1 /dev/shm"),
        (TORCHS_OWN, "lsof +L1 /dev/shm"),
        ("torch.multiprocessing.set_sharing_strategy('file_system')\n", "ls -laS /dev/shm"),
        ("-rw------- 1 u u 9663676416 /dev/shm/clips.bin\n", "ls -laS /dev/shm"),
        ("shm = SharedMemory(name='psm_1a2b3c4d')\n", "ls -laS /dev/shm"),
    ],
)
def test_a_listing_shows_no_segment_whose_name_is_deleted(tmp_path: Path, beside: str, looks: str) -> None:
    first = body(tmp_path, CLIMB + beside + BUS)["diagnoses"][0]
    snippets = {one["knob"]: one["snippet"] for one in first["remedies"]}
    assert snippets["clear-references"].startswith(looks)
