from __future__ import annotations

from oomdoctor.families.event import Event, Place
from oomdoctor.families.ray_death import WorkerDeath
from oomdoctor.families.ray_kill import NodeOutOfMemory, Victim
from oomdoctor.incident.timeline import earliest, in_order


def event(file: str, line: int, time: str | None = None) -> Event:
    return Event(at=Place(file, line, line, ""), time=time)


def told(root: Event, *events: Event) -> list[tuple[str, int, float | None]]:
    return [(one.event.at.file, one.event.at.line, one.after_seconds) for one in in_order(events, root)]


def test_without_times_in_the_order_of_the_logs() -> None:
    events = [event("b", 7), event("b", 9), event("a", 1)]
    assert told(events[1], *events) == [("b", 7, None), ("b", 9, None), ("a", 1, None)]


def test_by_time_across_logs() -> None:
    root = event("rank3.log", 90, "2026-03-01 10:00:00")
    driver = event("driver.log", 5, "2026-03-01 10:00:09")
    early = event("rank0.log", 70, "2026-03-01 09:59:58")
    later = event("rank0.log", 71, "2026-03-01 10:00:04")
    assert told(root, driver, early, later, root) == [
        ("rank0.log", 70, -2),
        ("rank3.log", 90, 0),
        ("rank0.log", 71, 4),
        ("driver.log", 5, 9),
    ]


def test_what_has_no_time_stays_behind_what_stands_before_it() -> None:
    root = event("a", 10, "2026-03-01 10:00:00")
    between = event("a", 11)
    after = event("a", 12, "2026-03-01 10:00:05")
    other = event("b", 3, "2026-03-01 10:00:02")
    assert [line for _, line, _ in told(root, root, between, after, other)] == [10, 11, 3, 12]


def test_what_has_no_time_at_the_beginning_of_its_log_comes_with_what_follows_it() -> None:
    root = event("a", 10, "2026-03-01 10:00:00")
    untimed, timed = event("b", 1), event("b", 2, "2026-03-01 10:00:03")
    assert [(line, after) for _, line, after in told(root, untimed, timed, root)] == [(10, 0), (1, None), (2, 3)]


def test_a_log_without_times_comes_last() -> None:
    root = event("b", 10, "2026-03-01 10:00:00")
    assert [file for file, _, _ in told(root, event("a", 1), root, event("c", 1, "2026-03-01 10:00:01"))] == [
        "b",
        "c",
        "a",
    ]


def test_the_kernels_clock_is_not_compared_with_a_programs() -> None:
    root = event("a", 10, "2026-03-01 10:00:00")
    kernel = event("dmesg", 4, "Mar  1 09:59:59")
    boot = event("dmesg", 5, "[1234.5]")
    assert told(root, kernel, boot, root) == [("a", 10, 0), ("dmesg", 4, None), ("dmesg", 5, None)]


def test_another_zone_is_no_order() -> None:
    root = event("a", 10, "2026-03-01 10:00:00")
    assert told(root, event("b", 1, "2026-03-01 02:00:07"), root) == [("a", 10, 0), ("b", 1, None)]


def test_within_one_log_hours_are_hours() -> None:
    root = event("a", 10, "2026-03-01 10:00:00")
    assert told(root, root, event("a", 99, "2026-03-01 13:00:00"))[-1] == ("a", 99, 10_800)


def test_one_second_keeps_the_logs_order() -> None:
    events = [event("a", line, "2026-03-01 10:00:00,500") for line in (3, 4, 5)]
    assert [line for _, line, _ in told(events[0], *events)] == [3, 4, 5]


def test_where_the_root_has_no_time_what_confirms_it_begins_the_count() -> None:
    root = event("driver.log", 22)
    seen = event("raylet.out", 204, "2026-03-01 09:01:33,515")
    later = event("gcs_server.out", 9, "2026-03-01 09:01:37,357")
    assert told(root, later, root, seen) == [("driver.log", 22, None), ("raylet.out", 204, 0), ("gcs_server.out", 9, 4)]


def test_a_clock_that_one_death_shows_to_be_ahead_is_set_back() -> None:
    victim = Victim(pid=71, worker_id="ab" * 28)
    root = NodeOutOfMemory(
        at=Place("n2/raylet.out", 5, 5, ""), time="2026-03-01 10:00:00", victims=(victim,), role="root"
    )
    death = WorkerDeath(at=Place("driver.log", 8, 8, ""), time="2026-03-01 12:00:03", worker_id="ab" * 28)
    after = event("driver.log", 9, "2026-03-01 12:00:10")
    assert told(root, after, root, death) == [("n2/raylet.out", 5, 0), ("driver.log", 8, 0), ("driver.log", 9, 7)]


def test_the_earliest_of_several_logs_is_the_first_failure() -> None:
    late = event("rank0.log", 9, "2026-03-01 10:05:10")
    early = event("rank1.log", 4, "2026-03-01 10:02:10")
    assert earliest([late, early], [late, early]) is early
    assert earliest([early, late], [late, early]) is early


def test_no_failure_is_earlier_by_another_clock_or_by_none() -> None:
    root = event("a", 10, "2026-03-01 10:00:00")
    others = [
        event("a", 12, "2026-03-01 09:59:00"),  # as the log stands
        event("b", 1),
        event("c", 1, "2026-03-01 04:59:58"),
        event("dmesg", 4, "Mar  1 09:59:59"),
    ]
    assert earliest([root, *others], [root, *others]) is root
    assert earliest([others[1], root], [root, others[1]]) is others[1]


def test_what_lies_in_one_folder_is_by_one_clock() -> None:
    victim = Victim(pid=71, worker_id="ab" * 28)
    root = NodeOutOfMemory(at=Place("head/driver.log", 5, 5, ""), victims=(Victim(pid=70),), role="root")
    kill = NodeOutOfMemory(
        at=Place("worker/raylet.out", 7, 7, ""), time="2026-03-01 09:20:00", victims=(victim,), role="confirmation"
    )
    death = WorkerDeath(at=Place("head/gcs.out", 8, 8, ""), time="2026-03-01 09:00:03", worker_id="ab" * 28)
    before = event("head/raylet.out", 3, "2026-03-01 08:59:58")
    after = event("worker/agent.log", 9, "2026-03-01 09:20:09")
    assert told(root, root, kill, death, before, after) == [
        ("head/driver.log", 5, None),
        ("head/raylet.out", 3, 0),
        ("worker/raylet.out", 7, 5),
        ("head/gcs.out", 8, 5),
        ("worker/agent.log", 9, 14),
    ]
