"""Limits and lacks in words: pools of a program, largest sizes, resources, retries that find nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

RETRY = (
    "W srv update_slots: failed to find free space in the KV cache, retrying with smaller batch size - n_batch = {}\n"
)
FAILED = "E llama_decode: failed to decode, ret = 1\n"
RETRIES = "".join(RETRY.format(size) + FAILED for size in (64, 32, 16))
RMM = (
    "[2031-01-23 14:33:04.213] [RMM] [error] [A][Stream 0x1][Upstream 67108864B][FAILURE maximum pool size exceeded]\n"
)
CHAINED = (
    'Traceback (most recent call last):\n  File "/srv/run.py", line 7, in probe\n    raise KeyError(name)\n{}\n\n'
    "The above exception was the direct cause of the following exception:\n\n"
    "RuntimeError: The probe failed. This might be due to insufficient GPU memory."
)

SHORT = (
    ("ERROR arena.c:7: scratch buffer too small: needed 73400320 bytes, available 67108864", "allocator-cap"),
    ("E grid: not enough space in the context's memory pool (needed 73400320, available 67108864)", "allocator-cap"),
    ("ValueError: allocation of 640 GiB exceeds the maximum allocation size", "allocator-cap"),
    ("RuntimeError: an array of 3000 TB exceeds the maximum array size", "absurd-size"),
    ("Error using solve\nRequested 3e11x7 (178176.0GB) array exceeds maximum array size preference.", "absurd-size"),
    ("Error: Model loading aborted due to insufficient system resources.", "host-memory-exhausted"),
    (RETRIES, "kv-pool-exhausted"),
    (RMM, "allocator-cap"),
    (CHAINED.format("MemoryError: the probe got no memory"), "host-memory-exhausted"),
)
QUIET = (
    "W grid: work pool: needed 67108864, available 73400320",
    "ERROR upload of 3 GB exceeds the maximum file size",
    "ERROR request of 3 GB exceeds the maximum request size",
    "ValueError: array of 12 GB does not exceed the maximum array size",
    "INFO: not enough resources to load the model, waiting",
    "Error: insufficient system resources to load the model, which needs NaN GB",
    "INFO loader: enough system resources to load the model",
    RETRIES + "I slot print_timing: eval time = 7 ms\n",
    RETRY.format(64) + FAILED,
    RMM + "[       OK ] ChunkTest.Grows (417 ms)",
    CHAINED.format("KeyError: 'limits'"),
)


@pytest.mark.parametrize(("text", "cause"), SHORT)
def test_what_is_short_is_a_failure(text: str, cause: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    assert cause in [one["cause"] for one in report["diagnoses"]][:2]


@pytest.mark.parametrize("text", QUIET)
def test_what_is_not_is_quiet(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"
