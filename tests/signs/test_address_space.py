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
