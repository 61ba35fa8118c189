"""Sizes that are none, and figures in two notations: programs that miscount, or that print for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

GIB = 1024**3
MIB = 1024**2

# A count that has overflowed is printed below nothing, or just below 2^64; 2^63 is the least of its kind.
ABSURD = (
    ("ERROR pool.c:88: wanted 18446744073709551104 bytes for the index, malloc failed", 18446744073709551104),
    ("mesher: fatal: could not allocate -2147483648 bytes for the list of nodes", -2147483648),
    ("tilebuild: cannot reserve 9223372036854775807 bytes for tiles", 9223372036854775807),
    ("terminate: failed to allocate 18446744071562067968 bytes on device 0 (hip out of memory)", 18446744071562067968),
    ("Failed to allocate 18446744069414584321 bytes at runs.c line 12: Cannot allocate memory", 18446744069414584321),
    ("ERROR arena out of device memory\n  requested bytes:  9223372036854775808 B\n  free bytes: 12.5 GiB", 2**63),
)
QUIET = (
    "INFO stats: limit is 18446744073709551615 bytes (unlimited), used 1073741824 bytes",
    "WARN memory.limit_in_bytes = 9223372036854771712",
    "INFO offset is now -2147483648 bytes from the end of the memory map",
    "INFO could not allocate -1 bytes of memory, skipped",
)
# A figure that brackets or a stroke show once more for people is one figure.
TWICE = (
    (
        "ERROR QueryGuard: plan would be [6442450944/6gb], which is larger than the limit of [4294967296/4gb]",
        {"tried_bytes": 6 * GIB, "limit_bytes": 4 * GIB},
    ),
    (
        "ERROR Request 77 would use 5,368,709,120 (5.0GiB) of heap, limit 4,294,967,296 (4.0GiB)",
        {"tried_bytes": 5 * GIB, "limit_bytes": 4 * GIB},
    ),
    (
        "FATAL: sorter: needed 2147483648 [2.0 GiB] of memory, available 1073741824 [1.0 GiB]",
        {"tried_bytes": 2 * GIB, "free_bytes": GIB},
    ),
)
TWICE_QUIET = (
    "DEBUG QueryGuard: plan would be [1073741824/1gb], which is smaller than the limit of [4294967296/4gb]",
    "INFO Request 77 would use 1,368,709,120 (1.3GiB) of heap, limit 4,294,967,296 (4.0GiB)",
    "ERROR upload would be [6442450944/6gb], which is larger than the limit of [4294967296/4gb]",
    "the table would be larger than memory if you enabled replication",
)
BELOW = (
    (
        "PoolManager: out of gpu memory\n[askedSpace: 734003200 B]\n[freeSpace: 52428800 B]",
        {"tried_bytes": 700 * MIB, "free_bytes": 50 * MIB},
    ),
    (
        "ERROR arena out of device memory\n  requested bytes:  512.0 MiB\n  free bytes: 12.5 MiB",
        {"tried_bytes": 512 * MIB, "free_bytes": round(12.5 * MIB)},
    ),
    ("ERROR arena out of device memory\nloaded: 12 files\n  requested bytes:  512.0 MiB", {"tried_bytes": None}),
)


def root(report: dict[str, Any]) -> dict[str, Any]:
    event = next(event for event in report["events"] if event["role"] == "root")
    return {**event["usage"], **event["threshold"]}


@pytest.mark.parametrize(("text", "tried"), ABSURD)
def test_a_size_that_is_none_is_absurd(text: str, tried: int, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["diagnoses"][0]["cause"] == "absurd-size"
    assert root(report)["tried_bytes"] == tried


@pytest.mark.parametrize("text", (*QUIET, *TWICE_QUIET))
def test_what_fails_for_nothing_is_quiet(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize(("text", "figures"), (*TWICE, *BELOW))
def test_figures_are_read_where_they_stand(text: str, figures: dict[str, Any], tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    read = root(report)
    assert {name: read.get(name) for name in figures} == figures


# What was multiplied for a size stands in brackets, or on both sides of a word.
OVERFLOWED = (
    "RuntimeError: Storage size calculation overflowed with sizes=[771751936, 98304, 65536, 8]",
    "RuntimeError: Storage size calculation overflowed with sizes=[4294967296, 4294967296] and strides=[4294967296, 1]",
    "RuntimeError: numel: integer multiplication overflow",
    "RuntimeError: size calculation overflowed for shape (5000000000, 4000000000, 16)",
    "OverflowError: shape [3000000000, 3000000000, 64] overflows: too many elements",
    "RuntimeError: CUDA array size overflow: dims = 500000 x 500000 x 500000",
    "InvalidArgumentError: Encountered overflow when multiplying 8589934592 with 4294967296, result: -1 [Op:Fill]",
    "terminate called after throwing 'std::overflow_error'\n  what():  size overflow: (4294967296, 999999)",
)
NOT_A_SIZE = (
    "RuntimeError: Storage size calculation overflowed with sizes=[2, 3]",
    "RuntimeError: Trying to create tensor with negative dimension -4: [-4, 3]",
    "RuntimeError: int32 overflow for sizes [65536, 65536]",
    "RuntimeError: integer overflow in index computation for tensor of size [3, 1000, 1000, 1000]",
    "FloatingPointError: overflow encountered in multiply of arrays with shapes (3, 4) (4, 5)",
    "ArrowInvalid: offset overflow while concatenating arrays (4294967296, 4294967296)",
    "RuntimeError: loss scale overflow [4294967296, 4294967296]",
    "OverflowError: Python int too large to convert to C long",
)
EXABYTE = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 4, in <module>\n    main()\n'
    '  File "{}", line 3, in {}\n    {}\n'
    "torch.OutOfMemoryError: {} out of memory. Tried to allocate more than 1EB memory."
)
OF_A_SHAPE = (
    ("sim.py", "grid", "g = torch.zeros(n ** 7, device='cuda')"),
    ("/v/lib/python3.11/site-packages/torch/functional.py", "meshgrid", "return _VF.meshgrid(tensors, **kwargs)"),
)
FROM_ELSEWHERE = (
    ("/v/torch/distributed/distributed_c10d.py", "all_gather_object", "input_tensor.resize_(max_object_size)"),
    ("metrics.py", "merge", "gathered = self.accelerator.pad_across_processes(preds)"),
    ("pipe.py", "recv_meta", "buf = torch.empty(meta_len, device='cuda')"),
    ("cache.py", "load", "obj = pickle.loads(buf)"),
    ("batch.py", "pad", "x = torch.nn.functional.pad(x, (0, max_len.item()))"),
)


@pytest.mark.parametrize("text", OVERFLOWED)
def test_a_product_that_no_machine_has_is_absurd(tmp_path: Path, text: str) -> None:
    assert body(tmp_path, text)["diagnoses"][0]["cause"] == "absurd-size"


@pytest.mark.parametrize("text", NOT_A_SIZE)
def test_what_else_overflows_takes_no_memory(tmp_path: Path, text: str) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize("device", ["CUDA", "NPU"])
@pytest.mark.parametrize("frame", OF_A_SHAPE)
def test_more_than_an_exabyte_of_the_program_s_own_shape(
    tmp_path: Path, frame: tuple[str, str, str], device: str
) -> None:
    said = body(tmp_path, EXABYTE.format(*frame, device))
    assert said["diagnoses"][0]["cause"] == "absurd-size"
    assert [event["usage"] for event in said["events"]] == [{"beyond_bytes": 1 << 60}]


@pytest.mark.parametrize("frame", FROM_ELSEWHERE)
def test_more_than_an_exabyte_by_a_size_from_elsewhere_is_no_shape(tmp_path: Path, frame: tuple[str, str, str]) -> None:
    assert body(tmp_path, EXABYTE.format(*frame, "CUDA"))["verdict"] == "no-oom"


@pytest.mark.parametrize("above", ["Watchdog caught collective operation timeout", "an illegal memory access was met"])
def test_more_than_an_exabyte_behind_another_failure_is_no_shape(tmp_path: Path, above: str) -> None:
    assert body(tmp_path, f"{above}\n{EXABYTE.format(*OF_A_SHAPE[0], 'CUDA')}")["verdict"] == "no-oom"


SENT = "a corrupt size that another rank sent"


@pytest.mark.parametrize("frame", FROM_ELSEWHERE)
def test_only_of_an_object_it_is_said_that_a_rank_sent_its_size(tmp_path: Path, frame: tuple[str, str, str]) -> None:
    (look,) = body(tmp_path, EXABYTE.format(*frame, "CUDA"))["lookalikes"]
    assert (SENT in look["why"]) == (frame[1] == "all_gather_object")
