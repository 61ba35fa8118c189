"""The allocator of an engine's sleep mode: whether the log tells if it failed at the load or at the wake-up."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

REFUSED = "CUDA Error: out of memory at /build/vllm/csrc/cumem_allocator.cpp:71"
FRAME = '  File "/env/vllm/device_allocator/cumem.py", line 9, in {}\n    call()\n'
TRACE = "Traceback (most recent call last):\n"
WOKEN = f"{TRACE}{FRAME.format('wake_up')}{FRAME.format('create_and_map')}RuntimeError: {REFUSED}"
NEITHER = "at load or wake-up"


def headline(folder: Path, text: str) -> str:
    return str(body(folder, text)["diagnoses"][0]["headline"])


@pytest.mark.parametrize("text", [REFUSED, f"step 7 of 9\n{REFUSED}\n{REFUSED}"])
def test_the_allocator_alone_tells_neither(text: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert NEITHER in report["diagnoses"][0]["headline"]
    assert "woke up and took" not in report["diagnoses"][0]["explanation"]


@pytest.mark.parametrize(
    "text",
    [
        WOKEN,
        f"(LLMRayActor pid=31) {REFUSED}\n" + "\n".join(f"(Actor pid=32) {line}" for line in WOKEN.split("\n")),
        "[core.cpp] CUresult error: 2 (out of memory)  file=csrc/core.cpp func=resume line=12",
    ],
)
def test_where_a_frame_wakes_it_or_a_function_resumes_it_did_not_load(text: str, tmp_path: Path) -> None:
    assert NEITHER not in headline(tmp_path, text)


def test_where_it_loads_it_does_not_wake(tmp_path: Path) -> None:
    load = f"{TRACE}{FRAME.format('load_model')}RuntimeError: {REFUSED}"
    assert NEITHER not in headline(tmp_path, load)
    assert "wake-up" not in headline(tmp_path, load)
