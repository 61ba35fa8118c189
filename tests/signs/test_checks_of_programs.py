"""A traceback that ends in a check tells who looked, not what was computed."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

EVALUATING = """Traceback (most recent call last):
  File "run.py", line 12, in <module>
    trainer.evaluate()
  File "/opt/py/site-packages/transformers/trainer.py", line 3307, in evaluation_loop
    {code}
RuntimeError: CUDA error: out of memory
"""
TRAINING = """Traceback (most recent call last):
  File "train.py", line 148, in main
    out = model(batch)
  File "train.py", line 31, in forward
    {code}
{message}
"""


def first(tmp_path: Path, text: str) -> str:
    return str(body(tmp_path, text)["diagnoses"][0]["cause"])


@pytest.mark.parametrize(
    "code", ["self.all_preds.update(logits)", "raise e", "raise self._exc", "raise DeviceError(status)"]
)
def test_an_evaluation(tmp_path: Path, code: str) -> None:
    assert first(tmp_path, EVALUATING.format(code=code)) == "eval-accumulation"


@pytest.mark.parametrize("code", ["raise RuntimeError(", "assert free > needed", "raise pool.PoolError(f'no {n}')"])
def test_a_check_in_an_evaluation(tmp_path: Path, code: str) -> None:
    assert first(tmp_path, EVALUATING.format(code=code)) != "eval-accumulation"


@pytest.mark.parametrize(
    ("code", "message", "cause"),
    [
        ("return self.conv(x)", "RuntimeError: Failed to allocate 8589934592 bytes on device 'cuda:0'", "activations"),
        ("raise RuntimeError(", "AssertionError: Dynamic peer memory pool exhausted", "allocator-cap"),
        ("return self.conv(x)", "AssertionError: Cache too small for batch shape", "kv-pool-exhausted"),
        ("return self.conv(x)", "RuntimeError: No free states.", "kv-pool-exhausted"),
        ("return self.conv(x)", "ValueError: No usable cache memory left", "kv-pool-exhausted"),
        (
            "return self.conv(x)",
            "petals.server.memory_cache.AllocationFailed: Could not allocate 4096 bytes immediately: out of memory",
            "kv-pool-exhausted",
        ),
        (
            "return self.conv(x)",
            "pandas.errors.ParserError: Error tokenizing data. C error: out of memory",
            "dataset-in-ram",
        ),
    ],
)
def test_what_the_message_says_wins(tmp_path: Path, code: str, message: str, cause: str) -> None:
    assert first(tmp_path, TRAINING.format(code=code, message=message)) == cause


@pytest.mark.parametrize(("error", "looked"), [("AssertionError", True), ("RuntimeError", False)])
def test_who_asserts_looked_whatever_line_it_calls(tmp_path: Path, error: str, looked: bool) -> None:
    text = EVALUATING.format(code="self.all_preds.update(logits)").replace("RuntimeError", error)
    assert (first(tmp_path, text) != "eval-accumulation") is looked
