from __future__ import annotations

import pytest
from engine_logs import crash_of

from oomdoctor.signs import address_space

CHECK = "__vm_enough_memory: pid: 9120, comm: python3, bytes: 68719476736 not enough memory for the allocation"
OTHER = "RuntimeError: could not reserve 64 GiB of RAM, not enough memory for the allocation"
ALLOWED = "card-uvm: vmalloc error: size 536870912, failed to allocate pages, mode:0xdc2, mems_allowed=0-1"


@pytest.mark.parametrize(("log", "named"), [(CHECK, True), (OTHER, False)])
def test_the_kernel_names_the_check_of_its_policy(log: str, named: bool) -> None:
    assert (address_space.overcommit_was_refused(crash_of(log + "\n")) is not None) is named


def test_a_mask_of_nodes_is_no_limit() -> None:
    root = crash_of(ALLOWED + "\n").root
    assert getattr(root, "limited", None) is None


@pytest.mark.parametrize(
    ("call", "error", "is_seen"),
    [
        (
            "mm = mmap.mmap(fid.fileno(), bytes, access=acc, offset=start)",
            "OSError: [Errno 12] Cannot allocate memory",
            True,
        ),
        ("return pa.memory_map(path)", "OSError: Memory mapping file failed: Cannot allocate memory", True),
        ("mm = mmap.mmap(-1, bytes)", "OSError: [Errno 12] Cannot allocate memory", False),  # nobody's file
        ("mm = mmap.mmap(fileno=-1, length=n)", "OSError: [Errno 12] Cannot allocate memory", False),
        ("mm = mmap.mmap(f, 0, access=mmap.ACCESS_COPY)", "OSError: [Errno 12] Cannot allocate memory", False),
        ("pid = os.fork()", "OSError: [Errno 12] Cannot allocate memory", False),
    ],
)
def test_a_file_that_was_not_mapped(call: str, error: str, is_seen: bool) -> None:
    log = f"""
        Traceback (most recent call last):
          File "/srv/read.py", line 12, in open_shard
            {call}
        {error}
        """
    found = crash_of(log)
    assert (address_space.a_file_was_not_mapped(found) is not None) is is_seen


MAPPING = "RuntimeError: unable to mmap {} bytes from file <{}>: {}"
NO_MEMORY = "Cannot allocate memory (12)"


@pytest.mark.parametrize(
    ("size", "file", "why", "is_seen"),
    [
        (2048, "/torch_71_905_3", NO_MEMORY, True),
        (2**30 - 1, "/torch_71_905_3", NO_MEMORY, True),
        (2**30, "/torch_71_905_3", NO_MEMORY, False),
        (2048, "/srv/weights.bin", NO_MEMORY, False),
        (2048, "/torch_71_905_3", "Invalid argument (22)", False),
    ],
)
def test_a_shared_tensor_that_was_not_mapped(size: int, file: str, why: str, is_seen: bool) -> None:
    found = crash_of(MAPPING.format(size, file, why) + "\n")
    assert (address_space.a_shared_tensor_was_not_mapped(found) is not None) is is_seen


def test_a_limit_on_private_memory() -> None:
    line = "mmap: grid (812): VmData 4294971392 exceed data ulimit 4294967296. Update limits or use boot option"
    seen = address_space.data_of_a_process_is_limited(crash_of(f"[   71.500000] {line} ignore_rlimit_data.\n"))
    assert seen is not None
    assert "grid (PID 812)" in seen.words


GO = "runtime: VirtualAlloc of {} bytes failed with errno={}\nfatal error: out of memory\n"


@pytest.mark.parametrize(
    ("log", "tried"),
    [
        (GO.format(419430400, 1455), 419430400),
        ("loader.exe: error code 1455 while mapping a file\n", None),
        ("pool: VirtualAlloc(2147483648) failed, GetLastError() = 1455\n", 2147483648),
    ],
)
def test_error_1455_is_windows_commit_limit_whoever_prints_it(log: str, tried: int | None) -> None:
    found = crash_of(log)
    assert address_space.windows_commit_is_used_up(found) is not None
    assert found.root.tried_bytes == tried  # type: ignore[attr-defined]


@pytest.mark.parametrize("log", [GO.format(419430400, 12), "could not allocate 1455 bytes of RAM: std::bad_alloc\n"])
def test_another_number_is_not(log: str) -> None:
    assert address_space.windows_commit_is_used_up(crash_of(log)) is None


FREE = """Native memory allocation (mmap) failed to map {} bytes for committing reserved memory.
free -m
             total       used       free     shared    buffers     cached
Mem:         32108       6502      25605         10        118       2479
"""


@pytest.mark.parametrize(("tried", "is_left_out"), [(4194304, True), (21474836480, False)])
def test_a_larger_machine_has_no_more_of_what_is_short_where_much_is_free(tried: int, is_left_out: bool) -> None:
    seen = address_space.refused_with_more_free(crash_of(FREE.format(tried)))
    assert seen is not None
    assert (bool(seen.knobs) and "more-host-memory" not in seen.knobs) is is_left_out
    assert "ulimit" in seen.next_evidence[0]
