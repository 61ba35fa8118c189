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


PHYSX = (
    "[8,104ms] [Error] [omni.physx.plugin] PhysX error: {} buffer overflow detected, please increase its size to at "
    "least {} in the scene desc!, FILE /b/PxgNarrowphaseCore.cpp, LINE 1272"
)
LAB = "[INFO]: Scene manager:  <class InteractiveScene>"
CONFIG = (
    "The application needs to increase PxgDynamicsMemoryConfig::{} to {} , otherwise, the simulation will miss "
    "interactions"
)


def _told(folder: Path, *lines: str) -> list[str]:
    (folder / "sim.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = diagnose(folder / "sim.log")
    assert report.verdict == "no-oom" or "OutOfMemory" in lines[-1]
    return [look.why for look in report.lookalikes if "fixed size" in look.why]


@pytest.mark.parametrize(
    ("lines", "setting"),
    [
        (
            (LAB, PHYSX.format("Patch", 301_056)),
            "env.sim.physx.gpu_max_rigid_patch_count=524288 (2**19, the next power of two for the 301,056",
        ),
        ((LAB, PHYSX.format("Contact", 9_000_000)), "env.sim.physx.gpu_max_rigid_contact_count=16777216 "),
        ((LAB, PHYSX.format("Friction patch", 262_144)), "env.sim.physx.gpu_max_rigid_patch_count=262144 "),
        ((LAB, CONFIG.format("foundLostPairsCapacity", 70_001)), "env.sim.physx.gpu_found_lost_pairs_capacity=131072 "),
        (
            (LAB, CONFIG.format("foundLostAggregatePairsCapacity", 5)),
            "env.sim.physx.gpu_found_lost_aggregate_pairs_capacity=8 ",
        ),
        ((PHYSX.format("Patch", 301_056),), "set maxRigidPatchCount=524288 "),  # no framework that sets it
        (
            ('  File "/v/mujoco_warp/_src/forward.py", line 3', "nefc overflow - please increase njmax to 131"),
            "mujoco_warp.put_data(model, data, njmax=256) ",
        ),
        (
            ("broadphase overflow - please increase nconmax to 40 or naconmax to 9000",),
            "set naconmax=16384 (2**14, the next power of two for the 9,000",
        ),
        (
            ("Contact buffer overflow detected, please increase its size in the scene desc!",),
            "raise maxRigidContactCount,",
        ),
    ],
)
def test_a_buffer_of_a_simulator_is_named_with_its_option(tmp_path: Path, lines: tuple[str, ...], setting: str) -> None:
    (why,) = _told(tmp_path, *lines)
    assert setting in why


def test_the_largest_figure_of_a_buffer_counts_and_each_buffer_has_one(tmp_path: Path) -> None:
    needs = (301_056, 600_000, 290_000)
    why, other = _told(tmp_path, LAB, *(PHYSX.format("Patch", need) for need in needs), PHYSX.format("Contact", 7))
    assert "gpu_max_rigid_patch_count=1048576 (2**20, the next power of two for the 600,000" in why
    assert "gpu_max_rigid_contact_count=8 " in other
    assert diagnose(tmp_path / "sim.log").lookalikes[0].line == 3  # the line that prints it


def test_it_is_not_called_the_error_that_ended_the_job(tmp_path: Path) -> None:
    assert _told(tmp_path, LAB, PHYSX.format("Patch", 301_056))
    assert diagnose(tmp_path / "sim.log").last_error is None


@pytest.mark.parametrize(
    "lines",
    [
        (LAB, "[Error] [omni.physx.plugin] PhysX error: the scene desc names no such actor"),
        (LAB, "please increase its size to at least 4 GB, the disk is nearly full"),
        (LAB, PHYSX.format("Patch", 301_056), f"torch.OutOfMemoryError: {OUT}"),  # a failure has a report of its own
    ],
)
def test_nothing_is_said_of_other_buffers_or_beside_a_failure(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert _told(tmp_path, *lines) == []
