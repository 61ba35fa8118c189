"""Pools that say last that they are exhausted and refused a size, and batches of tables that cannot be split; each
beside pools that go on, and batches of a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

WARNS = "31/02/03 04:05:06 WARN DeviceMemoryEventHandler: "
EXHAUSTED = "exhausted, unable to allocate 2147483648 bytes"
STORE = f"{WARNS}Device store {EXHAUSTED}. Total RMM allocated is 25769803776 bytes."
RETRY = (
    f"{WARNS}[RETRY 1] Retrying allocation of 2147483648 after a synchronize. Total RMM allocated is 9663676416 bytes."
)
SPLIT = "com.nvidia.spark.rapids.jni.GpuSplitAndRetryOOM: GPU OutOfMemory: a batch of 1 cannot be split!"
SHORT = (
    (STORE, "gpu"),
    (f"{RETRY}\n{STORE}", "gpu"),
    (f"WARN arena.cc:88 arena {EXHAUSTED}", "host_ram"),
)
GOES_ON = (
    RETRY,
    f"{WARNS}Device store exhausted, spilled 2147483648 bytes.",
    f"WARN arena.cc:88 arena {EXHAUSTED}; allocating from the system instead",
    f"WARN arena.cc:88 arena {EXHAUSTED}, will retry",
    f"INFO arena.cc:88 arena {EXHAUSTED}",
    "WARN arena.cc:88 unable to allocate 2147483648 bytes",
    f"WARN arena.cc:88 arena {EXHAUSTED}\n" + "INFO stage 12 ended\n" * 4,
)
BATCHES = (
    (f"Caused by: {SPLIT}\n\tat com.nvidia.spark.rapids.Retry.split(Retry.scala:8)", "gpu-memory-exhausted"),
    ("ai.rapids.cudf.CudfException: GPU OutOfMemory: a batch of 7 tables cannot be joined", "gpu-memory-exhausted"),
    ("RuntimeError: GPU OutOfMemory: a batch of 1 picture cannot be split", "activations"),
    ("RuntimeError: out of GPU memory: a micro batch of 1 cannot be split", "activations"),
)


@pytest.mark.parametrize(("text", "pool"), SHORT)
def test_what_it_says_last_is_that_it_gives_up(tmp_path: Path, text: str, pool: str) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    assert report["diagnoses"][0]["pool"] == pool
    assert report["events"][-1]["usage"]["tried_bytes"] == 2147483648


@pytest.mark.parametrize("text", GOES_ON)
def test_a_pool_that_goes_on(tmp_path: Path, text: str) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize(("text", "cause"), BATCHES)
def test_a_batch_of_a_table_is_no_pass(tmp_path: Path, text: str, cause: str) -> None:
    assert body(tmp_path, text)["diagnoses"][0]["cause"] == cause
