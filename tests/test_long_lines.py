"""Lines that would keep a careless pattern busy: as long as a pattern is let loose on without patience, and beside a
failure, so that everything that is asked of a log is asked of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from oomdoctor import diagnose
from oomdoctor.patterns import LONG

# Of the processor. The slowest line takes a tenth of it; a pattern that tries every way takes twice as long and more.
SECONDS: Final = 2.0
FAILURE: Final = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79.11 GiB "
    "of which 1.31 GiB is free."
)
# How a line begins, what it goes on with, how it ends
LINES: Final = (
    ("Qwen", "0", ""),
    ("model='Qwen/Qwen", "0", "'"),
    ("Namespace(model='llama", "0", "')"),
    ("", " ", "{'zero_stage'"),
    ("", " ", "ram: free"),
    ("Mem:", " ", ""),
    ("", "\t", "Mem: 1"),
    ("Resources\n----\nUsage:\n ", "0", ""),
    ("", "0", "/0"),
    ("", "G ", "/dev/shm"),
    ("python train.py --a", "a-", ""),
    ("python -m vllm.entrypoints ", '\\"', '"'),
    ("Namespace(", "'a", ""),
    ("", "{", "'zero_stage': 3"),
    ("{'zero_stage': ", "[", ""),
    ("offload_optimizer", "offload_optimizer", " device="),
    ("", "zero_stage=", ""),
    ("", "a-", "zero_stage"),
    ("", "torch ", ""),
    ("", "vllm==1", ""),
    ("ray::", "/", ""),
    ("Out of memory: Killed process 12 (", "/", ")"),
    ("Loading checkpoint shards", " ", "100%"),
    ("loss", " ", "="),
    ("<|im_start|>", "{,", '"role": "user"'),
    ("|", " 0 |", ""),
)


@pytest.mark.parametrize(("begins", "goes_on", "ends"), LINES)
def test_a_long_line_takes_no_longer_than_others(begins: str, goes_on: str, ends: str, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    repeated = goes_on * ((LONG - len(begins) - len(ends)) // len(goes_on))
    log.write_text(f"{begins}{repeated}{ends}\n{FAILURE}\n")
    began = time.process_time()
    report = diagnose(log)
    assert time.process_time() - began < SECONDS
    assert report.verdict == "oom"
