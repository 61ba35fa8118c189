"""The figures that a card's message adds up to, and when it does not add up."""

from __future__ import annotations

from typing import Any

from oomdoctor.families.cuda import DeviceOutOfMemory, OtherProcess
from oomdoctor.families.event import Place, Process
from oomdoctor.incident.card import Card, card_of
from oomdoctor.units import GIB


def card(*, pid: int | None = None, others: tuple[tuple[int, float | None], ...] = (), **figures: float) -> Card:
    sizes: dict[str, Any] = {f"{name}_bytes": round(value * GIB) for name, value in figures.items()}
    listed = tuple(OtherProcess(pid=p, bytes=None if size is None else round(size * GIB)) for p, size in others)
    place = Place("job.log", 1, 1, "")
    return card_of(DeviceOutOfMemory(at=place, process=Process(pid=pid), device="CUDA", others=listed, **sizes))


def gib(size: int | None) -> float | None:
    return None if size is None else round(size / GIB, 2)


def test_a_process_line_before_and_one_after_the_own_one_are_other_processes() -> None:
    it = card(
        total=79.14, free=1.02, in_use=40.77, allocated=39.01, unallocated=1.2, others=((51230, 31.18), (51988, 6.15))
    )
    assert gib(it.own_bytes) == 40.77
    assert gib(it.others_bytes) == 37.33
    assert gib(it.non_torch_bytes) == 0.56
    assert gib(it.unaccounted_bytes) == 0.02


def test_the_only_process_is_this_one_where_nothing_else_fits_beside_it() -> None:
    it = card(total=94.5, free=2.11, allocated=88.95, unallocated=1.64, others=((214, 92.38),))
    assert gib(it.own_bytes) == 92.38
    assert it.others_bytes == 0
    assert it.others == ()
    assert gib(it.non_torch_bytes) == 1.79


def test_the_only_process_is_another_one_where_this_one_fits_beside_it() -> None:
    it = card(total=94.5, free=4.0, allocated=50.0, unallocated=1.0, others=((8800, 38.0),))
    assert it.own_bytes is None
    assert gib(it.others_bytes) == 38.0
    assert it.non_torch_bytes is None


def test_the_pid_in_front_of_the_line_tells_which_process_is_this_one() -> None:
    it = card(pid=31, total=79.0, free=1.0, allocated=9.0, unallocated=1.0, others=((31, 20.0), (77, 57.5)))
    assert gib(it.own_bytes) == 20.0
    assert gib(it.others_bytes) == 57.5


def test_of_two_processes_only_one_can_hold_what_pytorch_reserved() -> None:
    it = card(total=79.25, free=25.9, allocated=45.3, unallocated=0.4, others=((520, 3.3), (530, 49.6)))
    assert gib(it.own_bytes) == 49.6
    assert gib(it.others_bytes) == 3.3


def test_old_messages_leave_one_rest_that_cannot_be_split() -> None:
    it = card(total=23.7, free=0.0065, allocated=1.21, reserved=1.22)
    assert gib(it.beyond_bytes) == 22.47
    assert it.others_bytes is None
    assert it.non_torch_bytes is None
    assert gib(it.unallocated_bytes) == 0.01


def test_cached_of_the_oldest_messages_is_the_unused_cache() -> None:
    it = card(total=10.91, free=0.38, allocated=9.62, cached=0.2)
    assert gib(it.reserved_bytes) == 9.82
    assert gib(it.unallocated_bytes) == 0.2


def test_graph_pools_are_allocated_and_not_live() -> None:
    assert gib(card(allocated=46.22, private_pools=1.35).live_bytes) == 44.87
    assert gib(card(allocated=46.22).live_bytes) == 46.22


def test_more_than_the_card_has_gives_no_figure_of_who_holds_it() -> None:
    it = card(total=31.84, free=0.0, allocated=52.93, unallocated=0.3, others=((9, 20.0),))
    assert it.oversubscribed
    assert (it.own_bytes, it.non_torch_bytes, it.unaccounted_bytes, it.beyond_bytes) == (None, None, None, None)


def test_figures_that_contradict_each_other_give_nothing() -> None:
    it = card(total=23.0, free=10.0, in_use=20.0, allocated=22.5, unallocated=0.1)
    assert it.non_torch_bytes is None
    assert it.unaccounted_bytes is None
    assert it.beyond_bytes is None


def test_what_is_missing_stays_missing() -> None:
    it = card(total=23.51, free=0.39)
    assert it.share(it.used_bytes) is not None
    assert (it.own_bytes, it.others_bytes, it.reserved_bytes, it.live_bytes) == (None, None, None, None)
    assert it.share(None) is None
    assert card(others=((6120, None),)).others_bytes is None


def test_a_driver_that_does_not_know_the_process_prints_no_bytes_in_use() -> None:
    it = card(total=31.5, free=9.48, in_use=0, allocated=20.91, unallocated=0.81)
    assert it.own_bytes is None
    assert it.unaccounted_bytes is None
    assert gib(it.beyond_bytes) == 0.3
