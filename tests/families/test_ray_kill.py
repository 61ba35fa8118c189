from __future__ import annotations

from collections.abc import Sequence

import pytest

from oomdoctor import families, streams
from oomdoctor.families.ray_kill import NodeOutOfMemory

KILL = (
    "Memory on the node (IP: 10.0.0.2, ID: a1) where the task (task ID: 5b, name=rollout, pid=7712, memory used=9.30GB)"
    " was running was 239.20GB / 251.48GB (0.951169), which exceeds the memory usage threshold of 0.95.\n"
)
STAMPED = "[2026-03-01 10:41:07,120 I 311 311] (raylet) node_manager.cc:2907: Killing worker with task rollout\n"


def time_of(log: str) -> str | None:
    page = streams.page("raylet.out", 1, log.encode())
    (kill,) = (found for _, found in families.found_in(page) if isinstance(found, NodeOutOfMemory))
    return kill.time


@pytest.mark.parametrize("between", ["", "\n", "\n\n"])
def test_a_kill_has_the_time_of_the_line_that_it_continues(between: str) -> None:
    assert time_of(STAMPED + between + KILL) == "2026-03-01 10:41:07,120"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "2026-03-01 10:41:07,120 INFO train.py:12 -- step 4\n",  # another writer's
        STAMPED + "a line of its own\n",
    ],
)
def test_a_kill_has_no_time_of_lines_that_it_does_not_continue(before: str) -> None:
    assert time_of(before + KILL) is None


def considered(name: str, pid: int, gib: float) -> str:
    return (
        f"(Actor({pid:032x}): job ID=02000000, lease ID={pid:056x}, task name={name}:{name}.__init__, "
        f"required resources={{CPU: 1}}, pid={pid}, actual memory used={gib:.2f}GB, worker ID={pid:056x})"
    )


def kills_of(*lines: str) -> list[NodeOutOfMemory]:
    page = streams.page("job.log", 1, "\n".join(lines).encode())
    return [found for _, found in families.found_in(page) if isinstance(found, NodeOutOfMemory)]


def test_a_list_of_workers_without_its_message_is_a_kill() -> None:
    (found,) = kills_of("step 4", considered("Critic", 11, 20.5), "(Actor(d726f6f21a25", considered("Actor", 12, 30.25))
    assert [(row.pid, row.bytes, row.command) for row in found.rows] == [
        (11, round(20.5 * 1024**3), "Critic:Critic.__init__"),
        (12, round(30.25 * 1024**3), "Actor:Actor.__init__"),
    ]
    assert found.cut


def test_two_lists_apart_are_two_kills_and_a_word_is_none() -> None:
    apart = ("a", "b", "c", "d", "e")
    assert len(kills_of(considered("A", 11, 2.0), *apart, considered("B", 12, 2.0))) == 2
    assert kills_of("actual memory used=4 of what was planned") == []
    assert kills_of("the docs print (Actor(x): ..., actual memory used=...GB)") == []


def test_a_table_says_more_than_the_list() -> None:
    head = KILL.replace(" where the task (task ID: 5b, name=rollout, pid=7712, memory used=9.30GB) was running", "")
    rows = ("Considered workers: [", considered("A", 11, 100.0), considered("B", 12, 60.0), "]")
    (listed,) = kills_of(head.strip(), *rows)
    assert [row.pid for row in listed.rows] == [11, 12]
    (tabled,) = kills_of(head.strip(), *rows, "Top 10 memory users:", "PID\tMEM(GB)\tCOMMAND", "7\t150.00\tpython x.py")
    assert [row.pid for row in tabled.rows] == [7]
    (small,) = kills_of(head.strip(), "Considered workers: [", considered("A", 11, 1.0), considered("B", 12, 2.0), "]")
    assert small.rows == ()  # somebody else holds it


def test_a_lease_is_a_task() -> None:
    (found,) = kills_of(KILL.replace("the task (task ID: 5b", "the lease (lease ID: 5b").strip())
    assert [(victim.pid, victim.name) for victim in found.victims] == [(7712, "rollout")]


def rows_of(*gib: float) -> list[str]:
    return [f"{pid}\t{size:.2f}\tpython part_{pid}.py" for pid, size in enumerate(gib, 71)]


REST = "Refer to the documentation on how to address the out of memory issue"
TEN = (41.5, 9.9, 8.0, 7.0, 6.5, 6.5, 3.0, 2.0, 1.5, 0.2)


@pytest.mark.parametrize(
    ("above", "sizes", "cut"),
    [
        ((), TEN, None),
        (("PID\tMEM(GB)\tCOMMAND",), TEN[:4], None),
        ((), TEN[1:], True),
        ((), (*TEN[1:], 0.1), None),
        ((), TEN[5:], True),
        ((), (*TEN[3:], *TEN[:3]), True),
        ((), (*TEN, 0.1), True),
    ],
)
def test_ten_rows_in_their_order_lack_only_the_header(
    above: Sequence[str], sizes: Sequence[float], cut: object
) -> None:
    found = kills_of(*above, *rows_of(*sizes), REST)[0]
    assert len(found.rows) == len(sizes)
    assert found.cut is cut
