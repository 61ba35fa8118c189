from __future__ import annotations

from typing import Any

import pytest
from gpu_logs import FORWARD, crash, refused, trace

from oomdoctor.incident.model import Crash
from oomdoctor.signs import fragments

IDLE: dict[str, Any] = {"allocated": "40.00 GiB", "unallocated": "4.00 GiB", "own": None}


@pytest.mark.parametrize(("tried", "is_enough"), [("4.00 GiB", True), ("4.01 GiB", False)])
def test_what_lies_idle_is_held_against_the_request(tried: str, is_enough: bool) -> None:
    refusal = crash(refused(tried, **IDLE))
    assert (fragments.some_idle_in_pieces(refusal) is not None) is is_enough
    assert (fragments.idle_less_than_asked(refusal) is None) is is_enough


@pytest.mark.parametrize(
    ("tried", "unallocated", "total", "much"),
    [
        ("3.00 GiB", "8.00 GiB", "48.00 GiB", False),
        ("3.00 GiB", "9.00 GiB", "48.00 GiB", True),  # three times the request
        ("3.00 GiB", "8.00 GiB", "40.00 GiB", True),  # a fifth of the GPU
        ("3.00 GiB", "2.00 GiB", "9.00 GiB", False),
    ],
)
def test_little_that_lies_idle_would_soon_be_full_again(tried: str, unallocated: str, total: str, much: bool) -> None:
    refusal = crash(refused(tried, allocated="20.00 GiB", unallocated=unallocated, total=total, own=None))
    assert (fragments.idle_in_pieces(refusal) is not None) is much
    assert (fragments.some_idle_in_pieces(refusal) is not None) is (not much and unallocated >= tried)


@pytest.mark.parametrize(("unallocated", "is_ordinary"), [("3.99 GiB", True), ("4.00 GiB", False)])
def test_a_tenth_of_what_is_in_use_is_an_ordinary_cache(unallocated: str, is_ordinary: bool) -> None:
    refusal = crash(refused("1.00 GiB", allocated="40.00 GiB", unallocated=unallocated, own=None))
    assert (fragments.ordinary_cache(refusal) is not None) is is_ordinary


@pytest.mark.parametrize(
    ("tried", "free", "has_room"),
    [("2.00 GiB", "8.00 GiB", True), ("2.00 GiB", "7.90 GiB", False), ("8.10 GiB", "8.00 GiB", False)],
)
def test_room_is_a_tenth_of_the_card_and_the_request(tried: str, free: str, has_room: bool) -> None:
    refusal = crash(refused(tried, total="80.00 GiB", free=free, **IDLE))
    assert (fragments.room_beside_the_pieces(refusal) is not None) is has_room


@pytest.mark.parametrize(("others", "are_more"), [("8.00 GiB", False), ("8.01 GiB", True)])
def test_others_hold_twice_what_lies_idle(others: str, are_more: bool) -> None:
    line = refused("2.00 GiB", own="44.50 GiB", allocated="40.00 GiB", unallocated="4.00 GiB", others=((41, others),))
    assert (fragments.others_hold_more_than_lies_idle(crash(line)) is not None) is are_more


@pytest.mark.parametrize(
    ("own", "others", "are_most"),
    [
        ("38.50 GiB", "40.00 GiB", True),
        ("38.60 GiB", "39.50 GiB", False),
        ("44.50 GiB", None, False),
        (None, None, True),
    ],
)
def test_others_hold_half_of_the_card(own: str | None, others: str | None, are_most: bool) -> None:
    neighbours = () if others is None else ((41, others),)
    line = refused("2.00 GiB", own=own, allocated="34.00 GiB", unallocated="4.00 GiB", others=neighbours)
    assert (fragments.others_hold_most_of_the_card(crash(line)) is not None) is are_most


@pytest.mark.parametrize(("tried", "is_small"), [("20.00 MiB", True), ("22.00 MiB", False)])
def test_a_segment_for_small_tensors(tried: str, is_small: bool) -> None:
    assert (fragments.small_segment_refused(crash(refused(tried, **IDLE))) is not None) is is_small


def test_only_the_setting_that_is_on_cures_it() -> None:
    for value, is_set in (("True", True), ("False", False)):
        line = f"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:{value}"
        assert (fragments.expandable_segments_set(crash(line, refused(**IDLE))) is not None) is is_set


def test_graphs_pools_count_as_idle_where_the_message_does_not_print_them() -> None:
    graphs = trace(("vllm/worker/model_runner.py", "capture", "with torch.cuda.graph(self._graph):"))
    line = refused("1.00 GiB", allocated="31.00 GiB", unallocated="6.00 GiB")
    assert fragments.pools_of_graphs_counted_as_idle(crash(*graphs, line)) is not None
    assert fragments.pools_of_graphs_counted_as_idle(crash(*trace(FORWARD), line)) is None
    printed = line.replace("is allocated by PyTorch,", "is allocated by PyTorch, with 512.00 MiB allocated in private "
                           "pools (e.g., CUDA Graphs),")  # fmt: skip
    assert printed != line
    assert fragments.pools_of_graphs_counted_as_idle(crash(*graphs, printed)) is None


def pool(tried: int, used: str) -> Crash:
    """TensorFlow's pool of 8 GiB."""
    return crash(
        f"W bfc_allocator.cc:482] Allocator (GPU_0_bfc) ran out of memory trying to allocate {tried}.00MiB (rounded to "
        f"{tried << 20})requested by op conv",
        f"I bfc_allocator.cc:1110] Sum Total of in-use chunks: {used}",
        "I bfc_allocator.cc:1112] total_region_allocated_bytes_: 8589934592 memory_limit_: 8589934592 available bytes: "
        "0",
    )


@pytest.mark.parametrize(
    ("tried", "used", "in_pieces", "ordinary", "less"),
    [
        (2048, "6.00GiB", 1, 0, 0),
        (2047, "6.01GiB", 0, 0, 1),
        (1024, "6.01GiB", 0, 1, 0),
        (2049, "6.00GiB", 0, 0, 1),
    ],
)
def test_a_quarter_of_the_pool_and_the_request(tried: int, used: str, in_pieces: int, ordinary: int, less: int) -> None:
    refusal = pool(tried, used)
    assert bool(fragments.pool_in_pieces(refusal)) is bool(in_pieces)
    assert bool(fragments.ordinary_rest_of_the_pool(refusal)) is bool(ordinary)
    assert bool(fragments.pool_with_less_than_asked(refusal)) is bool(less)


def table(ooms: int, allocated: int, reserved: int, stuck: int) -> Crash:
    return crash(
        "|                  PyTorch CUDA memory summary, device ID 0                 |",
        f"|            CUDA OOMs: {ooms}            |        cudaMalloc retries: 1         |",
        "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |",
        f"| Allocated memory      |   {allocated} MiB |  {allocated} MiB |    2 GiB |    1 GiB |",
        f"| GPU reserved memory   |   {reserved} MiB |  {reserved} MiB |    2 GiB |    1 GiB |",
        f"| Non-releasable memory |   {stuck} MiB |  {stuck} MiB |    2 GiB |    1 GiB |",
    )


@pytest.mark.parametrize(
    ("allocated", "stuck", "in_pieces"), [(5000, 5000, True), (5100, 5000, False), (4000, 4900, False)]
)
def test_half_of_what_is_reserved_sticks_in_pieces(allocated: int, stuck: int, in_pieces: bool) -> None:
    assert (fragments.idle_by_the_table(table(1, allocated, 10_000, stuck)) is not None) is in_pieces


def test_a_message_says_more_than_the_table() -> None:
    lines = ("| Allocated memory | 10 MiB | 10 MiB | 1 GiB | 1 GiB |", refused("2.00 GiB", **IDLE))
    assert fragments.idle_by_the_table(crash(*lines)) is None


@pytest.mark.parametrize(
    ("tried", "unallocated", "would_do"),
    [
        ("27.00 GiB", "20.00 GiB", True),  # 20 idle + 8 free
        ("29.00 GiB", "20.00 GiB", False),  # beyond both together
        ("7.00 GiB", "20.00 GiB", False),  # what is free is enough: another reason
        ("27.00 GiB", "19.90 GiB", False),  # less than a quarter of the GPU
        ("11.00 GiB", "4.00 GiB", False),  # what any allocator keeps
    ],
)
def test_idle_pieces_that_would_do_with_what_is_free(tried: str, unallocated: str, would_do: bool) -> None:
    line = refused(tried, total="80.00 GiB", free="8.00 GiB", allocated="40.00 GiB", unallocated=unallocated, own=None)
    assert (fragments.idle_and_free_would_do(crash(line)) is not None) is would_do


def test_pieces_that_would_do_are_not_too_small() -> None:
    line = refused("27.00 GiB", total="80.00 GiB", free="8.00 GiB", allocated="40.00 GiB", unallocated="20.00 GiB",
                   own=None)  # fmt: skip
    assert fragments.idle_less_than_asked(crash(line)) is None
