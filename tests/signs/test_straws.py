"""A small piece that is refused says that something else filled the memory: on the host before, on a card by others."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

DECODING = (
    "Traceback (most recent call last):\n"
    '  File "C:\\\\ui\\\\comfy\\\\sd.py", line 330, in decode\n    out = self.first_stage_model.decode(samples)\n'
    '  File "C:\\\\ui\\\\torch\\\\nn\\\\modules\\\\conv.py", line 460, in forward\n    return conv(input)\n'
    "RuntimeError: [enforce fail at alloc_cpu.cpp:72] data. DefaultCPUAllocator: not enough memory: you tried to "
    "allocate {tried} bytes.\n"
)
POOL = (
    "2031-01-02 03:04:06.98: W xla/tsl/framework/bfc_allocator.cc:479] Allocator (GPU_0_bfc) ran out of memory trying "
    "to allocate {tried} (rounded to 22528)requested by op \n"
    "2031-01-02 03:04:06.98: W xla/tsl/framework/bfc_allocator.cc:491] {pool}\n"
    '  File "/srv/fold/model/utils.py", line 79, in flat_params_to_haiku\n    params[scope] = jnp.array(array)\n'
)


def first(tmp_path: Path, log: str) -> str:
    return str(body(tmp_path, log)["diagnoses"][0]["cause"])


@pytest.mark.parametrize(("tried", "is_the_pass"), [(5 << 20, False), (20 << 20, False), (21 << 20, True)])
def test_a_pass_is_no_reason_for_a_straw_on_the_host(tmp_path: Path, tried: int, *, is_the_pass: bool) -> None:
    assert (first(tmp_path, DECODING.format(tried=tried)) == "activations") is is_the_pass


@pytest.mark.parametrize(
    ("tried", "pool", "are_there"),
    [
        ("22.0KiB", "<allocator contains no memory>", True),
        ("22.0KiB", "**************************_*********", False),
        ("22.0GiB", "<allocator contains no memory>", False),
    ],
)
def test_a_pool_that_got_nothing_has_others_beside_it(
    tmp_path: Path, tried: str, pool: str, *, are_there: bool
) -> None:
    assert (first(tmp_path, POOL.format(tried=tried, pool=pool)) == "gpu-shared") is are_there
