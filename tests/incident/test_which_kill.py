"""Which kill explains which death: by ids, by nodes, by times."""

from __future__ import annotations

import pytest

from oomdoctor.families.event import Place, Process
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.ray_death import WorkerDeath
from oomdoctor.families.ray_kill import NodeOutOfMemory, Victim
from oomdoctor.incident.joins import explains, long_apart
from oomdoctor.incident.records import ANOTHER_LIMIT, set_apart


def kill(*, node: str | None = None, address: str | None = None, time: str | None = None) -> NodeOutOfMemory:
    place = Place("driver.log", 7, 7, "")
    return NodeOutOfMemory(
        at=place, node_id=node, time=time, process=Process(node=address), victims=(Victim(pid=4471, worker_id="5e"),)
    )


def death(
    *, worker: str | None = None, pid: int | None = 4471, node: str | None = None, address: str | None = None,
    file: str = "driver.log", time: str | None = None,
) -> WorkerDeath:  # fmt: skip
    return WorkerDeath(
        at=Place(file, 9, 9, ""), cause="killed", worker_id=worker, node_id=node, time=time,
        process=Process(pid=pid, node=address),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (kill(), death(), True),
        (kill(), death(worker="5e", pid=1), True),  # an id tells before a number
        (kill(), death(worker="77"), False),
        (kill(), death(pid=12), False),
        (kill(), death(pid=None), None),
        (kill(node="a1"), death(node="a1"), True),
        (kill(node="a1"), death(node="b2"), False),  # every node has a process 4471
        (kill(address="10.0.0.4"), death(address="10.0.0.5"), False),
        (kill(node="a1", address="10.0.0.4"), death(address="a1"), True),  # an address and an id may be one node
    ],
)
def test_a_kill_explains_the_death_of_its_victim(
    one: NodeOutOfMemory, other: WorkerDeath, expected: bool | None
) -> None:
    assert explains(one, other) is expected


@pytest.mark.parametrize(
    ("file", "time", "expected"),
    [
        ("driver.log", "2026-03-01 10:09:59", False),  # Ray may report it minutes later
        ("driver.log", "2026-03-01 10:10:01", True),
        ("raylet.out", "2026-03-01 14:00:30", False),  # another file, perhaps of another zone
        ("raylet.out", "2026-03-01 14:15:00", True),
        ("driver.log", None, False),
    ],
)
def test_what_lies_far_apart_is_not_of_one_moment(file: str, time: str | None, expected: bool) -> None:
    assert long_apart(kill(time="2026-03-01 10:00:00"), death(file=file, time=time)) is expected


def limited(limit: int | None) -> KernelKill:
    return KernelKill(
        at=Place("kernel.txt", 3, 3, ""), time="Sun Mar  1 10:41:08 2026", process=Process(pid=99), limit_bytes=limit
    )


@pytest.mark.parametrize(
    ("limit", "total", "apart"),
    [
        (20_000_000_000, 64_000_000_000, True),  # a service's of its own, beside Ray
        (64_000_000_000, 64_000_000_000, False),  # the pod's that Ray runs in
        (63_500_000_000, 64_000_000_000, False),  # Ray prints "64.00GB"
        (80_000_000_000, 64_000_000_000, False),  # the pod's that several containers share
        (20_000_000_000, None, False),
        (None, 64_000_000_000, False),  # the whole machine's memory ran out
    ],
)
def test_the_kernel_killed_at_another_limit_than_the_node_s(limit: int | None, total: int | None, apart: bool) -> None:
    of_ray = NodeOutOfMemory(
        at=Place("raylet.out", 7, 7, ""), time="2026-03-01 10:41:07,120", total_bytes=total,
        victims=(Victim(pid=4471),),
    )  # fmt: skip
    found = set_apart([of_ray, limited(limit)])
    assert [lookalike.why for _, lookalike in found if lookalike] == ([ANOTHER_LIMIT] if apart else [])
