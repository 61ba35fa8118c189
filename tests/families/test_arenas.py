"""ONNX Runtime's arena serves the CPU as it serves a card: the providers that the log names tell which."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

REFUSED = (
    "/onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal("
    "size_t, bool) Failed to allocate memory for requested buffer of size 805306368"
)


@pytest.mark.parametrize(
    ("before", "pool"),
    [
        ("session ready, providers ['CPUExecutionProvider']\n", "host_ram"),
        ("session ready, providers ['CUDAExecutionProvider', 'CPUExecutionProvider']\n", "gpu"),
        ("TensorrtExecutionProvider is not available\nusing CPUExecutionProvider\n", "gpu"),
        ("session ready\n", "gpu"),
    ],
)
def test_whose_memory_an_arena_has(before: str, pool: str, tmp_path: Path) -> None:
    report = body(tmp_path, before + REFUSED)
    assert report["diagnoses"][0]["pool"] == pool
    assert len(report["events"]) == 1
    assert report["events"][0]["usage"]["tried_bytes"] == 805306368


def test_a_batch_goes_into_as_many_parts_as_the_limit_asks_for(tmp_path: Path) -> None:
    log = f"+ ulimit -v 1228800\n+ python -u rank.py --batch-size 64\nproviders ['CPUExecutionProvider']\n{REFUSED}\n"
    remedy = body(tmp_path, log)["diagnoses"][0]["remedies"][0]
    assert (remedy["knob"], remedy["suggested"]) == ("smaller-microbatch", 16)
