from __future__ import annotations

import pytest
from gpu_logs import crash
from host_logs import kill

from oomdoctor.signs import host_refusals


def numpy(size: str) -> str:
    return f"numpy.core._exceptions.MemoryError: Unable to allocate {size} for an array with shape (1,)"


@pytest.mark.parametrize(("size", "large"), [("1023. MiB", False), ("1.00 GiB", True)])
def test_a_large_piece_is_a_gigabyte(size: str, large: bool) -> None:
    assert (host_refusals.large_piece_refused(crash(numpy(size))) is not None) == large


@pytest.mark.parametrize(("size", "much"), [("39.9 GiB", False), ("40.1 GiB", True)])
def test_a_piece_is_much_of_the_machine_from_forty_percent(size: str, much: bool) -> None:
    log = crash(numpy(size), *kill(used=95.0, total=100.0))
    assert (host_refusals.one_piece_of_the_machine_refused(log) is not None) == much
    assert host_refusals.large_piece_refused(log) is not None


def test_of_a_machine_whose_size_is_not_printed_no_piece_is_much() -> None:
    assert host_refusals.one_piece_of_the_machine_refused(crash(numpy("400. GiB"))) is None


def test_a_refusal_without_a_size_is_open() -> None:
    bare = crash("terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc")
    assert host_refusals.host_refused_without_a_size(bare) is not None
    assert host_refusals.host_refused_without_a_size(crash(numpy("3.00 GiB"))) is None
    assert host_refusals.host_refused_without_a_size(crash("MemoryError")) is None
