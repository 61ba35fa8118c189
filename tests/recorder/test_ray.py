"""Ray's memory monitor kills a worker inside a job that runs under the recorder. Needs Ray, here or in another Python
(OOMDOCTOR_RAY_PYTHON)."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from deaths import Done, recorded, run

DRIVER = """
import time
import ray

GIB = 2**30
said = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in open("/proc/meminfo")}
threshold = (said["MemTotal"] - said["MemAvailable"] + 1.8 * GIB) / said["MemTotal"]
config = {"memory_usage_threshold": threshold, "memory_monitor_refresh_ms": 100}
ray.init(num_cpus=1, object_store_memory=80_000_000, include_dashboard=False, _system_config=config)

@ray.remote(max_retries=0)
def grow():
    kept = []
    for _ in range(48):
        kept.append(bytearray(b"x") * (64 << 20))
        time.sleep(0.1)

ray.get(grow.remote())
"""


def _python() -> str | None:
    return sys.executable if importlib.util.find_spec("ray") else os.environ.get("OOMDOCTOR_RAY_PYTHON")


@pytest.mark.slow
@pytest.mark.skipif(_python() is None, reason="needs Ray")
def test_rays_monitor_inside_the_job_is_named(tmp_path: Path) -> None:
    record, driver = tmp_path / "flight.jsonl", tmp_path / "driver.py"
    driver.write_text(DRIVER)
    done = run(recorded([str(_python()), str(driver)], record))
    assert done.status == 1
    assert b"OUT OF MEMORY" in done.err
    report = Done(done.status, done.out, done.err, record).report()
    assert report["verdict"] == "oom"
    assert "ray_kill" in {event["family"] for event in report["events"]}
