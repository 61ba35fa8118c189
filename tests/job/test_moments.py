"""Times of several clocks, and which records of the kernel lie too far from a failure to explain it."""

from __future__ import annotations

import pytest

from oomdoctor.families.event import Event, Place, Process
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import Kill
from oomdoctor.incident.records import set_apart
from oomdoctor.job.moments import moment, seconds_between, seconds_since


@pytest.mark.parametrize(
    ("one", "other", "seconds"),
    [
        ("Wed Mar 18 21:07:43 2026", "2026-03-18 21:07:44,118", 1),
        ("Mar 18 21:07:43", "Mar 18 21:09:43.5", 120),
        ("Mar  8 21:07:43", "2026-03-08T21:07:43.118042Z", 0),
        ("2026-03-18T21:07:43+01:00", "2026-03-18T20:07:43Z", 0),
        ("0318 21:07:43.118000", "03-18 21:07:53", 10),
        ("Dec 31 23:59:50", "Jan  1 00:00:10", 20),
        ("Wed Mar 18 21:07:43 2026", "Tue Mar 18 21:07:43 2025", 365 * 86_400),
    ],
)
def test_how_far_apart(one: str, other: str, seconds: int) -> None:
    first, second = moment(one), moment(other)
    assert first is not None
    assert second is not None
    assert seconds_between(first, second) == seconds


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "722.423903",
        "Abc 18 21:07:43",
        "2026-13-40 25:61:99",
        "+3m12s",
        "99-99 10:00:00",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:59-05:00",
    ],
)
def test_what_is_no_moment(text: str | None) -> None:
    assert moment(text) is None


def record(name: str | None, time: str | None, pid: int = 40_771) -> KernelKill:
    return KernelKill(at=Place("kern.log", 1, 1, ""), time=time, process=Process(pid=pid, name=name))


def kill(time: str | None, pid: int | None = 9114) -> Kill:
    return Kill(at=Place("job.log", 9, 9, ""), time=time, process=Process(pid=pid), reporter="shell")


def apart(*events: Event) -> bool:
    return bool(set_apart(events))


def test_another_program_hours_before_explains_nothing() -> None:
    assert apart(record("firefox", "Mar 18 02:00:00"), kill("Mar 18 21:07:44"))


def test_the_same_minute_explains_whatever_the_name() -> None:
    assert not apart(record("firefox", "Mar 18 21:06:00"), kill("Mar 18 21:07:44"))


def test_the_same_process_needs_no_time() -> None:
    assert not apart(record("a.out", "Mar 18 02:00:00", pid=9114), kill("Mar 18 21:07:44"))


def test_a_jobs_process_may_be_in_another_zone_and_another_program_may_not() -> None:
    other_zone = kill("2026-03-19 04:07:44")
    assert not apart(record("pt_main_thread", "Wed Mar 18 21:07:43 2026"), other_zone)
    assert apart(record("firefox", "Wed Mar 18 21:07:43 2026"), other_zone)


def test_one_clock_has_one_zone() -> None:
    assert apart(record("python", "Mar 18 20:07:44"), kill("Mar 18 21:07:44"))


@pytest.mark.parametrize("time", [None, "722.423903"])
def test_without_a_time_nothing_is_set_apart(time: str | None) -> None:
    assert not apart(record("firefox", time), kill("Mar 18 21:07:44"))
    assert not apart(record("firefox", "Mar 18 02:00:00"), kill(None))


def test_one_failure_that_may_be_explained_is_enough() -> None:
    assert not apart(record("firefox", "Mar 18 02:00:00"), kill("Mar 18 21:07:44"), kill(None, pid=7))


def test_kernel_records_alone_are_the_failure() -> None:
    assert not apart(record("firefox", "Mar 18 02:00:00"), record("python", "Mar 18 21:00:00", pid=3))


@pytest.mark.parametrize(
    ("one", "other", "seconds"),
    [
        ("2026-03-01 10:00:00", "2026-03-01 10:00:12", 12),
        ("2026-03-01 10:00:12", "2026-03-01 10:00:00", -12),
        ("12-31 23:59:50", "01-01 00:00:10", 20),
        ("01-01 00:00:10", "12-31 23:59:50", -20),
    ],
)
def test_which_of_two_is_the_later(one: str, other: str, seconds: float) -> None:
    first, second = moment(one), moment(other)
    assert first is not None
    assert second is not None
    assert seconds_since(first, second) == seconds
    assert seconds_between(first, second) == abs(seconds)
