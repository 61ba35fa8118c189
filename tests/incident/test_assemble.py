"""Which events belong to one crash, which of them is its root, and what the others are to it."""

from __future__ import annotations

from msgspec.structs import replace

from oomdoctor import streams
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.event import Event, Lookalike, Place, Process
from oomdoctor.families.ray_death import WorkerDeath
from oomdoctor.families.ray_kill import KillCount, NodeOutOfMemory
from oomdoctor.families.ray_schedule import Unschedulable
from oomdoctor.incident.assemble import MOST_OF_A_KIND, Gathered, crashes
from oomdoctor.incident.model import Crash
from oomdoctor.job.model import Context

GIB = 1024**3


def at(line: int, file: str = "job.log") -> Place:
    return Place(file, line, line, f"line {line}")


def gpu(line: int, stage: str = "unknown", tried: int = GIB, rank: int | None = None) -> DeviceOutOfMemory:
    return DeviceOutOfMemory(
        at=at(line), device="CUDA", tried_bytes=tried, total_bytes=80 * GIB, stage=stage, process=Process(rank=rank)
    )


def node(line: int, file: str = "job.log", used: int = 239 * GIB) -> NodeOutOfMemory:
    return NodeOutOfMemory(at=at(line, file), used_bytes=used, total_bytes=251 * GIB)


def told(*events: Event | Lookalike) -> tuple[Crash, ...]:
    gathered = Gathered()
    for event in events:
        gathered.add(event)
    return crashes(gathered, Context())


def test_a_log_without_events_has_no_crash() -> None:
    assert told() == ()


def test_a_lookalike_alone_is_no_crash() -> None:
    assert told(Lookalike(at(3), "on-chip shared memory")) == ()


def test_context_alone_is_no_crash() -> None:
    assert told(replace(gpu(3), role="context")) == ()


def test_the_same_failure_on_every_rank_is_one_crash_and_the_first_rank_is_its_root() -> None:
    (crash,) = told(gpu(10, "backward", rank=3), gpu(11, "backward", rank=0), gpu(12, rank=1))
    assert crash.root.process.rank == 3
    assert [event.role for event in crash.events] == ["root", "confirmation", "confirmation"]


def test_the_same_message_again_is_counted_not_kept() -> None:
    (crash,) = told(*[gpu(line) for line in range(5)])
    assert [event.repeats for event in crash.events] == [5]
    assert crash.root.at.line == 0


def test_a_fuller_print_of_the_same_kill_takes_the_place_of_a_beheaded_one() -> None:
    beheaded = NodeOutOfMemory(at=at(5), used_bytes=239 * GIB, process=Process(pid=8805))
    whole = replace(beheaded, at=at(90), total_bytes=251 * GIB, reason="over the threshold")
    (crash,) = told(beheaded, whole)
    assert isinstance(crash.root, NodeOutOfMemory)
    assert crash.root.total_bytes == 251 * GIB


def test_a_fuller_print_keeps_the_time_of_the_first() -> None:
    first = NodeOutOfMemory(at=at(5), used_bytes=239 * GIB, process=Process(pid=8805), time="2026-03-01 10:02:10")
    whole = replace(first, at=at(90), total_bytes=251 * GIB, reason="over the threshold", time="2026-03-01 10:02:19")
    for print_of_it, time in ((first, first.time), (replace(first, time=None), whole.time)):
        (crash,) = told(print_of_it, whole)
        assert (crash.root.at.line, crash.root.time) == (90, time)


def test_a_death_that_shows_no_memory_failure_confirms_none() -> None:
    death = WorkerDeath(at=at(9), process=Process(pid=77), cause="killed", strength=1, pool="host_ram")
    (crash,) = told(node(5), replace(node(7), at=at(7, "raylet.out"), used_bytes=240 * GIB), death)
    assert [event.role for event in crash.events] == ["root", "confirmation", "cascade"]


def test_of_two_prints_of_one_death_the_one_that_shows_a_failure_stands() -> None:
    driver = WorkerDeath(at=at(3, "driver.log"), process=Process(pid=77), cause="killed", strength=1)
    events = replace(driver, at=at(1, "event_RAYLET.log"), role="cascade", strength=0, worker_id="5e", node_id="a1")
    for pair in ((driver, events), (events, driver)):
        (crash,) = told(*pair)
        assert crash.root.at.file == "driver.log"
        assert crash.root.repeats == 2


def test_the_first_failure_is_the_root_whatever_the_order_of_the_logs() -> None:
    late = replace(gpu(9, rank=0), at=at(9, "rank0.log"), time="2026-03-01 10:05:10")
    early = replace(gpu(4, rank=1), at=at(4, "rank1.log"), time="2026-03-01 10:02:10")
    for pair in ((late, early), (early, late)):
        (crash,) = told(*pair)
        assert crash.root.process.rank == 1


def test_stronger_evidence_later_in_the_log_is_the_root_of_a_weaker_one() -> None:
    (crash,) = told(KillCount(at=at(2), killed=1), node(700))
    assert isinstance(crash.root, NodeOutOfMemory)
    assert [event.role for event in crash.events] == ["confirmation", "root"]


def test_the_host_and_the_card_are_two_crashes_in_the_order_of_the_log() -> None:
    first, second = told(gpu(10), node(2000))
    assert (first.pool, second.pool) == ("gpu", "host_ram")
    assert not {id(e) for e in first.events} & {id(e) for e in second.events}


def test_failures_of_one_side_far_apart_at_different_stages_are_two_crashes() -> None:
    assert len(told(gpu(10, "engine_init"), gpu(9000, "backward", tried=2 * GIB))) == 2
    assert len(told(gpu(10, "engine_init"), gpu(90, "backward", tried=2 * GIB))) == 1


def test_a_request_that_waits_is_told_after_a_memory_failure() -> None:
    waiting = Unschedulable(at=at(1), requested={"GPU": 8.0})
    assert [crash.pool for crash in told(waiting, gpu(800))] == ["gpu", "scheduling"]


def test_context_goes_with_every_crash_and_its_own_failures_only_with_one() -> None:
    seen = replace(gpu(1, tried=5 * GIB), role="context")
    first, second = told(seen, gpu(10), node(2000))
    assert [e.at.line for e in first.events] == [1, 10]
    assert [e.at.line for e in second.events] == [1, 2000]


def test_a_figure_printed_for_days_is_kept_at_its_beginning_and_its_end() -> None:
    gathered = Gathered()
    for line in range(10 * MOST_OF_A_KIND):
        gathered.add(replace(gpu(line, tried=line + 1), role="context"))
    lines = [event.at.line for event in gathered.events.values()]
    assert len(lines) == MOST_OF_A_KIND
    assert lines[0] == 0
    assert lines[-1] == 10 * MOST_OF_A_KIND - 1


PRINTS = streams.page("job.log", 1, b"first\nrefused\nsecond\nrefused again\n")


def around(*prints: tuple[Event, int]) -> list[tuple[str, ...]]:
    gathered = Gathered()
    for event, index in prints:
        gathered.add(event, index)
    gathered.look_around(PRINTS)
    return [event.around.before for event in gathered.events.values()]


def test_an_event_that_is_printed_again_keeps_what_stands_around_its_first_print() -> None:
    assert around((gpu(2), 1), (gpu(4), 3)) == [("first",)]


def test_the_fuller_print_brings_what_stands_around_it() -> None:
    assert around((node(2), 1), (replace(node(4), call="train"), 3)) == [("first", "refused", "second")]
