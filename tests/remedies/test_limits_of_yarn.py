"""YARN ends a container for its RAM or for its address space, in Hadoop's words and in Spark's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remedy_logs import crashes_of

from oomdoctor import diagnose
from oomdoctor.families.container import LimitKill

HADOOP_2 = (
    "Container [pid=7001,containerID=container_16000001_0004_01_07] is running beyond {} memory limits. Current "
    "usage: 600.0 MB of 3 GB physical memory used; 7.1 GB of 6.3 GB virtual memory used. Killing."
)
HADOOP_3 = (
    "Container [pid=7001,containerID=container_16000001_0004_01_07] is running 858993459B beyond the '{}' memory "
    "limit. Current usage: 600.0 MB of 3 GB physical memory used; 7.1 GB of 6.3 GB virtual memory used. Killing."
)
SPARK = (
    "20/02/03 04:05:06 WARN YarnScheduler: Lost executor 4 on worker7: Container killed by YARN for exceeding {}memory "
    "limits. {} memory used. Consider boosting {}."
)
OLD, NEW = "spark.yarn.executor.memoryOverhead", "spark.executor.memoryOverhead"


def kill_of(text: str) -> LimitKill:
    (crash,) = crashes_of(text)
    return next(iter(crash.every(LimitKill)))


def first_of(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "driver.log"
    path.write_text(text + "\n", encoding="utf-8")
    found: dict[str, Any] = diagnose(path).as_json()["incidents"][0]["diagnoses"][0]
    return found


def gib(figure: float) -> int:
    return round(figure * 1024**3)


@pytest.mark.parametrize(
    ("text", "virtual", "used", "limit", "resident"),
    [
        (HADOOP_2.format("physical"), None, gib(600 / 1024), gib(3), None),
        (HADOOP_3.format("PHYSICAL"), None, gib(600 / 1024), gib(3), None),
        (SPARK.format("", "9.2 GB of 9 GB physical", OLD), None, gib(9.2), gib(9), None),
        (SPARK.format("physical ", "9.2 GB of 9 GB physical", NEW), None, gib(9.2), gib(9), None),
        (HADOOP_2.format("virtual"), True, gib(7.1), gib(6.3), gib(600 / 1024)),
        (HADOOP_3.format("VIRTUAL"), True, gib(7.1), gib(6.3), gib(600 / 1024)),
        (SPARK.format("", "5.6 GB of 4.2 GB virtual", OLD), True, gib(5.6), gib(4.2), None),
        (SPARK.format("virtual ", "5.6 GB of 4.2 GB virtual", NEW), True, gib(5.6), gib(4.2), None),
    ],
)
def test_which_figures_the_limit_is_about(
    text: str, virtual: bool | None, used: int, limit: int, resident: int | None
) -> None:
    kill = kill_of(text)
    assert (kill.virtual, kill.used_bytes, kill.limit_bytes) == (virtual, used, limit)
    assert kill.resident_bytes == resident


def test_a_limit_on_ram_is_raised(tmp_path: Path) -> None:
    first = first_of(tmp_path, HADOOP_2.format("physical"))
    assert first["cause"] == "container-limit"
    assert "raise-container-limit" in [one["knob"] for one in first["remedies"]]


def test_an_executor_is_named_by_its_number(tmp_path: Path) -> None:
    first = first_of(tmp_path, SPARK.format("", "9.2 GB of 9 GB physical", NEW))
    assert first["cause"] == "container-limit"
    assert "Spark's executor 4 hit its memory limit of 9 GiB" in first["headline"]


@pytest.mark.parametrize(
    ("text", "knobs"),
    [
        (HADOOP_3.format("VIRTUAL"), ["more-address-space"]),
        (SPARK.format("", "5.6 GB of 4.2 GB virtual", OLD), ["more-address-space", "raise-container-limit"]),
    ],
)
def test_no_ram_is_saved_where_address_space_was_counted(text: str, knobs: list[str], tmp_path: Path) -> None:
    first = first_of(tmp_path, text)
    assert first["cause"] == "address-space-limit"
    assert [one["knob"] for one in first["remedies"]] == knobs
    assert first["remedies"][0]["snippet"] == "yarn.nodemanager.vmem-check-enabled=false"
    assert all(one["suggested"] in (False, None) for one in first["remedies"])
    assert ("It held 600 MiB of RAM" in first["explanation"]) is ("physical" in text)
