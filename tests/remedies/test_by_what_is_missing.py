"""How much is missing decides what is worth changing: a context makes a tenth up, half a batch does not halve twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

OLLAMA = (
    'time=2026-03-25T09:28:05.821+08:00 level=WARN source=server.go:1044 msg="model request too large for system" '
    'requested="{needed} GiB" available="{free} GiB"\n'
)
TPU = (
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in "
    "memory space hbm. Used {used}G of 30.75G hbm. Exceeded hbm capacity by {over}G.\n\n"
    "Total hbm usage >= {used}G:\n    reserved          1.25G\n    program          {temporary}G\n    arguments        "
    "    {given}G\n\nProgram hbm requirement {temporary}G:\n    HLO temp         {temporary}G\n"
)
TENSOR = (
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[{shape}] "
    "and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n"
)


def remedies(tmp_path: Path, log: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body(tmp_path, log)["diagnoses"][0]["remedies"]
    return found


@pytest.mark.parametrize(
    ("needed", "free", "first"),
    [
        ("338.1", "328.0", "shorter-context"),
        ("338.1", "304.3", "shorter-context"),
        ("338.1", "304.2", "smaller-model"),  # more than a tenth is missing
        ("164.2", "13.4", "smaller-model"),
    ],
)
def test_a_context_makes_a_tenth_of_a_model_up(tmp_path: Path, needed: str, free: str, first: str) -> None:
    found = remedies(tmp_path, OLLAMA.format(needed=needed, free=free))
    assert found[0]["knob"] == first


def test_no_context_makes_half_of_a_model_up(tmp_path: Path) -> None:
    twice = {one["knob"] for one in remedies(tmp_path, OLLAMA.format(needed="164.2", free="13.4"))}
    less = {one["knob"] for one in remedies(tmp_path, OLLAMA.format(needed="20.0", free="13.4"))}
    assert "shorter-context" in less - twice


@pytest.mark.parametrize(
    ("used", "given", "action"),
    [
        ("63.80", "0", "1/3"),
        ("123.80", "0", "1/5"),
        ("75.75", "10.75", "1/4"),  # 65 GiB in the 20 GiB that the arguments leave
        ("61.40", "0", "Halve the batch size"),
        ("40.80", "0", "Halve the batch size"),
    ],
)
def test_into_how_many_parts_a_program_has_to_go(tmp_path: Path, used: str, given: str, action: str) -> None:
    log = TPU.format(used=used, over=f"{float(used) - 30.75:.2f}", given=given,
                     temporary=f"{float(used) - float(given):.2f}")  # fmt: skip
    batch = next(one for one in remedies(tmp_path, log) if one["knob"] == "smaller-microbatch")
    assert action in batch["action"]


@pytest.mark.parametrize(
    ("shape", "now"),
    [
        ("1098,16,128,128,3", 1098),
        ("64,128,128,3", 64),
        ("3,3,3,16,32", None),
        ("1,16,128,128,3", None),
        ("64,4,4", None),
    ],
)
def test_volumes_begin_with_the_batch_as_pictures_do(tmp_path: Path, shape: str, now: int | None) -> None:
    batch = [one for one in remedies(tmp_path, TENSOR.format(shape=shape)) if one["knob"] == "smaller-microbatch"]
    assert [one["current"] for one in batch if one["current"]] == ([now] if now else [])
