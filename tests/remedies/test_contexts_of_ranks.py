"""Ranks that opened a context on another rank's GPU hold one and the same little there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from reports import body

PLACE = "fix-placement"
CONTEXT = "device-misplacement"


def refused(sizes: Sequence[int], rank: str = "[rank2]: ", tried: int = 4, free: float = 3.1) -> str:
    """Of a card of 40 GiB."""
    others = " ".join(f"Process {7100 + n} has {size}.00 MiB memory in use." for n, size in enumerate(sizes))
    own = 40.0 - (sum(sizes) + free) / 1024
    return (
        f"{rank}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}.00 MiB. GPU 2 has a total "
        f"capacity of 40.00 GiB of which {free} MiB is free. {others} Including non-PyTorch memory, this process has "
        f"{own:.2f} GiB memory in use. Of the allocated memory {own - 1:.2f} GiB is allocated by PyTorch, and "
        "30.00 MiB is reserved by PyTorch but unallocated."
    )


def first(tmp_path: Path, log: str) -> tuple[dict[str, Any], dict[str, Any]]:
    report = body(tmp_path, log)
    return report["diagnoses"][0], report["ledger"][0]


def rows(ledger: dict[str, Any]) -> list[str]:
    return [row["what"] for row in ledger["rows"] if " each" in row["what"] or row["what"].startswith("process ")]


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        (refused([412, 412, 412]), ["3 other ranks, 412 MiB each"]),
        (refused([412, 412]), ["2 other ranks, 412 MiB each"]),
        (refused([300, 300]), ["2 other ranks, 300 MiB each"]),
        (refused([700, 700]), ["2 other ranks, 700 MiB each"]),
        (refused([412, 412], rank=""), ["2 other processes, 412 MiB each"]),
        (refused([412, 900, 412]), ["2 other ranks, 412 MiB each", "process 7101"]),
        (refused([412]), ["process 7100"]),
        (refused([412, 415]), ["process 7100", "process 7101"]),
        (refused([299, 299]), ["process 7100", "process 7101"]),
        (refused([701, 701]), ["process 7100", "process 7101"]),
    ],
)
def test_those_of_one_size_share_a_row(tmp_path: Path, log: str, shown: list[str]) -> None:
    assert rows(first(tmp_path, log)[1]) == shown


@pytest.mark.parametrize(
    "log",
    [
        refused([412, 412, 412]),
        refused([412, 412], tried=827),
        refused([412, 412], tried=2, free=2.1),
        "torchrun --nproc_per_node 4 train.py\n" + refused([412, 412, 412], rank=""),
    ],
)
def test_what_they_opened_comes_back(tmp_path: Path, log: str) -> None:
    best, _ = first(tmp_path, log)
    assert best["cause"] == CONTEXT
    assert best["remedies"][0]["knob"] == PLACE
    assert best["remedies"][0]["snippet"] == 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))'


@pytest.mark.parametrize(
    "log",
    [
        refused([412, 412], tried=828),
        refused([412, 415]),
        refused([412, 412], rank=""),
    ],
)
def test_little_of_others_is_no_cause(tmp_path: Path, log: str) -> None:
    best, _ = first(tmp_path, log)
    assert best["cause"] != CONTEXT
    assert PLACE not in [remedy["knob"] for remedy in best["remedies"][:2]]


BACKWARD = (
    "Traceback (most recent call last):\n"
    '  File "/srv/run.py", line 40, in main\n'
    "    loss.backward()\n"
    '  File "/venv/lib/python3.11/site-packages/torch/_tensor.py", line 626, in backward\n'
    "    torch.autograd.backward(\n"
    '  File "/venv/lib/python3.11/site-packages/transformers/modeling_utils.py", line 99, in run\n'
    "    return fn(*args)\n"
)


def test_whatever_the_cause_it_stands_among_the_first(tmp_path: Path) -> None:
    ranked = "".join(f"[rank2]: {line}\n" for line in BACKWARD.splitlines())
    best, _ = first(tmp_path, ranked + refused([412, 412, 412], tried=600))
    assert best["cause"] != CONTEXT
    place = next(n for n, remedy in enumerate(best["remedies"]) if remedy["knob"] == PLACE)
    assert place < 3
    assert 'device_map={"": int(os.environ["LOCAL_RANK"])}' in best["remedies"][place]["snippet"]
    best, _ = first(tmp_path, ranked + refused([412, 412, 412], tried=1300))
    assert PLACE not in [remedy["knob"] for remedy in best["remedies"][:3]]
