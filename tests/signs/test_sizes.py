from __future__ import annotations

import pytest
from gpu_logs import crash, refused

from oomdoctor.incident.model import Crash
from oomdoctor.signs import Sign, sizes

GIB, TIB = 2**30, 2**40
MEMORY = "MemTotal:       2113000000 kB"


def on_the_host(size: int, *before: str) -> Crash:
    line = f"RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate {size} bytes."
    return crash(*before, line)


@pytest.mark.parametrize(
    ("sign", "least", "most"),
    [
        (sizes.host_size_that_machines_have, 1, 64 * GIB - 1),
        (sizes.host_size_that_few_machines_have, 256 * GIB, 768 * GIB - 1),
        (sizes.host_size_of_the_largest, 768 * GIB, 2 * TIB - 1),
        (sizes.host_size_beyond_the_largest, 2 * TIB, 8 * TIB - 1),
        (sizes.host_size_that_no_machine_has, 8 * TIB, 800 * TIB),
    ],
)
def test_each_size_on_the_host_is_one_of_them_or_none(sign: Sign, least: int, most: int) -> None:
    for size, is_one in ((least - 1, False), (least, True), (most, True), (most + 1, False)):
        if 0 < size <= 800 * TIB:
            assert (sign(on_the_host(size)) is not None) is is_one


def test_few_machines_have_it_and_this_one_is_known() -> None:
    assert sizes.host_size_that_few_machines_have(on_the_host(300 * GIB, MEMORY)) is None
    assert sizes.host_size_of_the_largest(on_the_host(900 * GIB, MEMORY)) is not None


@pytest.mark.parametrize(
    ("tried", "ordinary", "several", "none"),
    [
        ("19.90 GiB", 0, 0, 0),
        ("20.00 GiB", 1, 0, 0),
        ("79.90 GiB", 1, 0, 0),
        ("80.00 GiB", 0, 0, 0),
        ("319.00 GiB", 0, 0, 0),
        ("320.00 GiB", 0, 1, 0),
        ("8191.00 GiB", 0, 1, 0),
        ("8192.00 GiB", 0, 1, 1),
    ],
)
def test_sizes_on_a_card_of_80_gib(tried: str, ordinary: int, several: int, none: int) -> None:
    refusal = crash(refused(tried=tried, total="80.00 GiB"))
    assert bool(sizes.device_size_that_cards_have(refusal)) is bool(ordinary)
    assert bool(sizes.device_size_of_several_cards(refusal)) is bool(several)
    assert bool(sizes.device_size_that_no_machine_has(refusal)) is bool(none)


def test_an_array_on_a_card_of_unknown_size() -> None:
    line = "jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate {} bytes."
    assert sizes.device_size_of_many_cards(crash(line.format(TIB - 1))) is None
    assert sizes.device_size_of_many_cards(crash(line.format(TIB))) is not None


def test_a_probe_is_a_request_for_what_a_framework_counts_as_free() -> None:
    line = "E rocm_driver.cc:606] failed to allocate {} from device: HIP_ERROR_OutOfMemory"
    assert sizes.probe_for_what_no_card_has(crash(line.format("7.90TiB (8686141860249 bytes)"))) is None
    assert sizes.probe_for_what_no_card_has(crash(line.format("8.00TiB (8796093022208 bytes)"))) is not None


ARRAY = (
    "numpy._core._exceptions._ArrayMemoryError: Unable to allocate {} for an array with shape {} and data type uint8"
)
CROP = "    patch = np.pad(crop, ((top, bottom), (left, right)))"


@pytest.mark.parametrize(
    ("line", "shape", "is_seen"),
    [
        (CROP, "(90001, 90002)", True),
        ("    view = cv2.resize(view, None, fx=k, fy=k)", "(65536, 65536, 3)", True),
        (CROP, "(65535, 90002)", False),
        (CROP, "(90001, 90002, 5)", False),
        ("    near = np.pad(near, ((0, k), (0, k)))", "(90001, 90002)", False),
        ("    crop = slide.read_region(box).crop(box)", "(90001, 90002)", False),
    ],
)
def test_a_picture_that_no_format_holds(line: str, shape: str, is_seen: bool) -> None:
    found = crash(line, ARRAY.format("7.54 GiB", shape))
    assert (sizes.picture_beyond_any_format(found) is not None) is is_seen
    assert (sizes.host_size_that_machines_have(found) is None) is is_seen


def test_numpy_counts_more_than_it_can() -> None:
    words = "ValueError: array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size."
    assert sizes.host_size_beyond_counting(crash(words)) is not None


@pytest.mark.parametrize(("size", "beyond"), [("67108864 Tb", True), ("671 Tb", False), ("67108864 Kb", False)])
def test_r_says_a_size_that_no_bytes_count(size: str, beyond: bool) -> None:
    found = crash(f"Error in tile(x) : cannot allocate memory block of size {size}")
    assert (sizes.host_size_beyond_counting(found) is not None) is beyond
