"""How full a machine is by what its tools print: each counts the cache in its own way."""

from __future__ import annotations

import pytest

from oomdoctor import families, streams
from oomdoctor.families.machine_memory import MachineMemory, every


def printed(*lines: str) -> list[MachineMemory]:
    page = streams.page("job.log", 1, "\n".join(lines).encode())
    return [found for _, found in families.found_in(page) if isinstance(found, MachineMemory)]


def one(*lines: str) -> MachineMemory:
    (found,) = printed(*lines)
    return found


@pytest.mark.parametrize(
    ("lines", "share"),
    [
        (("Mem:          100000       40000       10000         100       50000       58000",), 0.42),
        (("Mem:  100000000  90000000  10000000  0  2000000  48000000",), 0.40),  # 3.3.9: used with its cache
        (("Mem:  100000000  90000000  10000000  0  2000000  48000000", "-/+ buffers/cache:  39000000  61000000"), 0.39),
        (("Mem:   100   95    1    0    4    4",), 0.96),
        (("\ttotal\tused\tfree\tbuffers\tcached", "RAM\t100.0G\t60.0G\t10.0G\t2.0G\t28.0G"), 0.60),
        (("MiB Mem : 100000.0 total,  2000.0 free,  60000.0 used,  38000.0 buff/cache",), 0.60),
        (("KiB Mem: 100000000 total, 98000000 used,  2000000 free,  1000000 buffers",
          "KiB Swap:        0 total,        0 used,        0 free. 27000000 cached Mem"), 0.70),
        (("svmem(total=1000000000, available=30000000, percent=97.0, used=950000000, free=10000000)",), 0.97),
        (("worker 3: RAM 61.0/64.0 GB",), 61 / 64),
        (("host memory usage: 97.5%",), 0.975),
        (("[m] cpu_percent=12 ram_percent=99.6 swap_percent=100.0",), 0.996),
        (("host mem: used=48 GiB free=16 GiB",), 0.75),
        (("NAME  MEM USAGE / LIMIT  MEM %", "a  48GiB / 64GiB   75.00%"), 0.75),
        (("--system-- ---memory-usage---", "  time | used  free  buff  cach", "10:00 |60.0G 30.0G  1.0G 9.0G"), 0.60),
        (("12:00:01 AM kbmemfree kbavail kbmemused %memused kbbuffers kbcached",
          "12:10:01 AM 10000000 20000000 90000000 90.00 0 10000000"), 0.80),
        (("12:00:01 AM kbmemfree kbmemused %memused kbbuffers kbcached",
          "12:10:01 AM 1000000 99000000 99.00 100000 90000000"), None),  # counts the cache, too
    ],
)  # fmt: skip
def test_a_share_counts_no_cache(lines: tuple[str, ...], share: float | None) -> None:
    found = one(*lines).share
    assert (found is None) == (share is None)
    assert found is None or share is None or abs(found - share) < 0.005


@pytest.mark.parametrize(
    ("total", "bytes_each"),
    [("64000000", 1024), ("64000", 1024**2), ("64", 1024**3), ("64000000000", 1), ("62Gi", 1024**3), ("62G", 1024**3)],
)
def test_a_table_without_a_unit_is_of_a_machine_of_ordinary_size(total: str, bytes_each: int) -> None:
    found = one(f"Mem:  {total}  {total}  0  0  0  0").total_bytes
    assert found == int(total.rstrip("Gi")) * bytes_each


@pytest.mark.parametrize(
    "line",
    [
        "GPU memory usage: 98.0%",
        "mem: 78.2/79.1 GB on cuda:0",
        "KV cache memory usage: 98%",
        "memory usage: 120%",
        "Mem: 64 GB is what the machine has",
        "Object store memory 4.1/4.2 GB",
        "memory limit is at 95%",
        "the table has total used free shared",
        "hbm memory: 31/32 GB",
        "gmem: 31.0/32.0 GB",
        "memory: 5432 MB",
        "memory=0.95",
        "gpu_mem_percent=98.0",
        "mem used=4 of what is free=9",
        "MEM USAGE / LIMIT is a column of docker stats",
    ],
)
def test_other_memory_is_not_the_machines(line: str) -> None:
    assert printed(line) == []


def test_rows_of_a_few_seconds_are_one_event_and_each_a_reading() -> None:
    lines = ["r b swpd free buff cache si so", *(f"1 0 0 {free} 10 20 0 0" for free in (9000, 5000, 100)), "done"]
    assert one(*lines).free_bytes == 100 * 1024
    page = streams.page("job.log", 1, "\n".join(lines).encode())
    assert [event.at.line for event in every(page, 0)] == [2, 3, 4]


def test_a_row_of_other_columns_ends_the_table() -> None:
    found = one("  PID   RSS COMMAND", "  501 20480 python a.py --n 4", "  502 10240 sh", "PID 503 is gone", "504 8 sh")
    assert [(row.pid, row.bytes // 1024, row.command) for row in found.processes] == [
        (501, 20480, "python a.py --n 4"),
        (502, 10240, "sh"),
    ]


def test_a_table_of_the_card_has_no_rows() -> None:
    assert (
        printed("# gpu  pid  type  fb  command", "  0  501  C  20480  python", "PID MEM(GB) COMMAND", "1 2.0 x") == []
    )


WINDOWS = ("TotalVisibleMemorySize : 33468264", "FreePhysicalMemory     : 20123456")
COMMIT = ("TotalVirtualMemorySize : 38455144", "FreeVirtualMemory      : 1234567")


@pytest.mark.parametrize(("lines", "limit"), [((*WINDOWS, *COMMIT), 38455144 * 1024), (WINDOWS, None)])
def test_what_windows_prints_of_its_memory(lines: tuple[str, ...], limit: int | None) -> None:
    found = one(*lines)
    assert (found.tool, found.total_bytes, found.available_bytes) == ("windows", 33468264 * 1024, 20123456 * 1024)
    assert found.commit_limit_bytes == limit


def test_other_rows_of_windows_are_none() -> None:
    assert printed("TotalVisibleMemorySize : unknown", WINDOWS[1]) == []
    assert printed(WINDOWS[0], "a line between", WINDOWS[1]) == []
