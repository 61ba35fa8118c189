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
