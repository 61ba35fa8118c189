from __future__ import annotations

from pathlib import Path

import pytest
from gpu_logs import finding, ranking, says
from host_logs import TRAINERS, kill
from system_logs import crashes_of

from oomdoctor import diagnose
from oomdoctor.causes.spill_disk_full import CAUSE
from oomdoctor.report.words import headline
from oomdoctor.signs import Grade

REFUSED = (
    "ray.exceptions.OutOfDiskError: Local disk is full",
    (
        "The object cannot be created because the local object store is full and the local disk's utilization is "
        "over capacity (95% by default).Tip: Use `df` on this node to check disk usage and `ray memory` to check "
        "object store memory usage."
    ),
)
WARNED = (
    "(raylet) [2026-02-03 07:14:20,501 E 4411 4437] (raylet) file_system_monitor.cc:116: /scratch/ray/session_1 "
    "is over 95% full, available space: 38.25 GB; capacity: 931.5 GB. Object creation will fail if spilling is "
    "required."
)


def test_not_a_kill_for_memory() -> None:
    assert says(CAUSE, *kill(*TRAINERS)) is None


def test_not_a_full_store() -> None:
    line = (
        "ray.exceptions.ObjectStoreFullError: Failed to put object 71c0e2b971c0e2b9 in object store because it "
        "is full. Object size is 53687091200 bytes."
    )
    assert says(CAUSE, line) is None


def test_not_a_warning_that_is_not_repeated() -> None:
    assert not crashes_of(WARNED)
    assert not crashes_of(f"{WARNED}\nINFO the sweeper made room on /scratch")


def test_the_warning_alone_is_weaker() -> None:
    found = finding(CAUSE, WARNED, WARNED)
    assert found.grade is Grade.POINTS
    assert "38.25 GiB of 931.50 GiB is left" in found.why
    assert found.against


def test_a_threshold_of_the_users_own_and_a_line_that_is_cut() -> None:
    assert "more than 96% full: 38.25 GiB of" in finding(CAUSE, *2 * [WARNED.replace("95%", "96.4%")]).why
    assert "more than 95% full." in finding(CAUSE, *2 * [WARNED.partition("; capacity")[0]]).why


def test_not_another_thing_that_is_over_a_share() -> None:
    assert not crashes_of(WARNED.replace("is over 95% full", "is over 95% used"))


def test_an_object_was_refused() -> None:
    found = finding(CAUSE, *REFUSED)
    assert found.grade is Grade.PROVES
    assert ranking(*REFUSED)[0] == "spill-disk-full"


def test_the_warning_gives_the_figures_to_the_refusal() -> None:
    assert "more than 95% full" in finding(CAUSE, WARNED, *REFUSED).why


def test_a_bare_no_space_behind_spilling_says_how_much_was_spilled() -> None:
    found = finding(
        CAUSE,
        "(raylet) Spilled 2048 MiB, 9 objects, write throughput 810 MiB/s.",
        "(raylet) Spilled 18432 MiB, 71 objects, write throughput 902 MiB/s.",
        "OSError: [Errno 28] No space left on device",
    )
    assert "18.00 GiB" in found.why
    assert found.against


def test_what_could_not_be_written_behind_the_store() -> None:
    for refused in (
        "plasma_allocator.cc:151: Plasma fallback allocator failed, likely out of disk space.",
        "local_object_manager.cc:334: Failed to spill objects: [Errno 28] No space left on device",
        "dlmalloc.cc:212: Out of disk space with fallocate error: 28",
    ):
        assert ranking(f"[2026-02-03 07:14:20,501 E 44 44] (raylet) {refused}")[0] == "spill-disk-full"


@pytest.mark.parametrize(
    ("lines", "banner"),
    [
        ((WARNED, WARNED), "DISK NEARLY FULL"),
        ((WARNED, *REFUSED), "OUT OF MEMORY"),
        (REFUSED, "OUT OF MEMORY"),
    ],
)
def test_a_warning_is_called_one(lines: tuple[str, ...], banner: str, tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert headline(diagnose(path).incidents[0]).verdict == banner


@pytest.mark.parametrize(
    ("lines", "advised"),
    [
        ((WARNED, WARNED), False),
        ((WARNED, *REFUSED), True),
        (REFUSED, True),
    ],
)
def test_a_larger_store_empties_no_disk(lines: tuple[str, ...], advised: bool, tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    remedies = {one.knob: one for one in diagnose(path).incidents[0].diagnoses[0].remedies}
    assert ("bigger-object-store" in remedies) is advised
    sizes = "du -sh /scratch/ray/session_* | sort -h"
    assert (sizes in str(remedies["free-disk"].snippet)) is (lines[0] == WARNED)


@pytest.mark.parametrize(
    ("path", "spills"),
    [
        ("/scratch/ray/session_9/ray_spilled_objects/7c", True),
        ("/scratch/ray/session_9/ray_spilled_objects_40b1/7c", True),
        ("/scratch/ray/session_9/logs/worker.out", False),
        ("/scratch/checkpoints/step-9.pt", False),
    ],
)
def test_a_full_disk_below_rays_spill_folder_is_the_one_it_spills_to(path: str, spills: bool) -> None:
    found = crashes_of(f"step 9 loss 2.1\nOSError: [Errno 28] No space left on device: '{path}'")
    assert [one.root.kind for one in found] == (["disk-full"] if spills else [])


SPILL_FAILED = (
    "2031-04-02 09:10:11,003 - distributed.spill - ERROR - Spill to disk failed; keeping data in memory",
    "Traceback (most recent call last):",
    '  File "/opt/env/zict/file.py", line 135, in __setitem__',
    "    fh.writelines(value)",
    "{error}",
)
PAUSED = (
    (
        "2031-04-02 09:10:12,003 - distributed.worker.memory - WARNING - Worker is at 82% memory usage. Pausing "
        "worker.  Process memory: 1.64 GiB -- Worker memory limit: 2.00 GiB"
    ),
    (
        "2031-04-02 09:10:13,003 - distributed.worker.memory - WARNING - Worker is at 61% memory usage. Resuming "
        "worker. Process memory: 1.22 GiB -- Worker memory limit: 2.00 GiB"
    ),
)
RESTARTED = (
    (
        "2031-04-02 09:10:14,003 - distributed.nanny.memory - WARNING - Worker tcp://10.9.0.4:40311 (pid=7710) "
        "exceeded 95% memory budget. Restarting..."
    ),
)
NO_SPACE = "OSError: [Errno 28] No space left on device"


@pytest.mark.parametrize(
    ("error", "end", "cause"),
    [
        (NO_SPACE, (), None),  # the work goes on
        (NO_SPACE, PAUSED, None),
        ("PermissionError: [Errno 13] Permission denied", RESTARTED, "allocator-cap"),
        (NO_SPACE, RESTARTED, "spill-disk-full"),
    ],
)
def test_a_dask_worker_that_cannot_spill(error: str, end: tuple[str, ...], cause: str | None, tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    path.write_text("\n".join((*SPILL_FAILED[:-1], error, *end)) + "\n", encoding="utf-8")
    report = diagnose(path).as_json()
    assert [one["cause"] for one in report["diagnoses"][:1]] == ([cause] if cause else [])
    if cause == "spill-disk-full":
        first = report["diagnoses"][0]["remedies"][0]
        assert first["action"] == "Free the disk that dask spills to, or let it spill to a larger one"
        assert first["snippet"] == "dask worker SCHEDULER --local-directory=/PATH/ON/A/LARGER/DISK"
        assert "smaller-partitions" not in [one["knob"] for one in report["diagnoses"][0]["remedies"]]


def test_a_program_without_a_name_is_not_ray(tmp_path: Path) -> None:
    path = tmp_path / "sort.log"
    path.write_text("RuntimeError: could not write spill data for run 7: No space left on device\n", encoding="utf-8")
    first = diagnose(path).as_json()["diagnoses"][0]["remedies"][0]
    assert first["action"] == "Free the disk that the program spills to, or let it spill to a larger one"


@pytest.mark.parametrize(
    ("line", "spills"),
    [
        ("sort: write failed: /scratch/tmp/sortk3Zb9Q: No space left on device", True),
        ("sort: write failed: 'standard output': No space left on device", False),
        ("sort: write failed: /out/sorted.txt: No space left on device", False),
        ("cp: error writing '/out/sortk3Zb9Q': No space left on device", False),
    ],
)
def test_what_sort_keeps_beside_its_buffer(line: str, spills: bool, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(f"{line}\n", encoding="utf-8")
    found = diagnose(path).as_json()["diagnoses"]
    assert ([one["cause"] for one in found[:1]] == ["spill-disk-full"]) is spills


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ("--spill-dir /scratch/ray/session_1", "--spill-dir"),
        ("--spill-dir /scratch/ray/session_1/spill", "--spill-dir"),
        ("--spill-dir /scratch/other", None),
        ("--spill-dir /scratch/ray/session_12", None),
    ],
)
def test_the_option_that_names_the_full_disk(tmp_path: Path, options: str, setting: str | None) -> None:
    path = tmp_path / "job.log"
    path.write_text("\n".join((f"+ python shuffle.py {options}", WARNED, *REFUSED, "")), encoding="utf-8")
    first = diagnose(path).as_json()["diagnoses"][0]["remedies"][0]
    assert first["knob"] == "free-disk"
    assert (first["setting"] == "--spill-dir") is (setting is not None)
    if setting is not None:
        assert first["snippet"] == "--spill-dir /PATH/ON/A/LARGER/DISK"
