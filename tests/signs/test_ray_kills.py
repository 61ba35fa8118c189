from __future__ import annotations

import pytest
from gpu_logs import crash
from host_logs import TRAINERS, kill

from oomdoctor.incident.model import Crash
from oomdoctor.signs import ray_kills
from oomdoctor.signs.commands import IN_THE_EXCEPTION, RAYLETS_OWN, ROWS_BELOW, raylet_log
from oomdoctor.signs.ray_kills import found_full


def of(own: float, name: str = "collect") -> Crash:
    """A kill without a table, of a worker that held so much of 100 GiB in use."""
    return crash(*kill(victim=name, own=own, used=100.0, total=110.0))


def test_the_victims_share_says_something_from_fifteen_percent() -> None:
    assert ray_kills.ray_killed_a_good_share(of(14.9)) is None
    assert ray_kills.ray_killed_a_good_share(of(15.1)) is not None


def test_the_victims_share_says_nothing_beside_a_table() -> None:
    lines = kill(*TRAINERS, own=60.0, used=100.0, total=110.0)
    assert ray_kills.ray_killed_a_good_share(crash(*lines)) is None
    assert ray_kills.rays_table_is_missing(crash(*lines)) is None


def test_the_victim_held_most_of_it_from_forty_percent() -> None:
    assert ray_kills.ray_killed_who_held_most(of(39.9)) is None
    assert ray_kills.ray_killed_who_held_most(of(40.1)) is not None


def test_a_rank_is_known_by_its_name_and_holds_a_tenth() -> None:
    assert ray_kills.a_rank_was_killed(of(9.9, "abC3dEWorkerDict_0:1")) is None
    assert ray_kills.a_rank_was_killed(of(60.0)) is None
    seen = ray_kills.a_rank_was_killed(of(10.1, "abC3dEWorkerDict_0:1"))
    assert seen is not None
    assert "as much as 9.9 such workers" in seen.words


def count(killed: int) -> str:
    return (
        f"(raylet) node_manager.cc:3065: {killed} Workers (tasks / actors) killed due to memory pressure (OOM), 0 "
        "Workers crashed due to other reasons at node (ID: 0a, IP: 10.24.0.17) over the last time period."
    )


def test_one_kill_is_not_several() -> None:
    assert ray_kills.ray_killed_several(crash(count(1))) is None
    assert ray_kills.ray_killed_several(crash(count(2))) is not None
    assert ray_kills.ray_killed_several(crash(count(2), *kill())) is None


def test_many_kills_are_of_workers_of_one_kind() -> None:
    assert ray_kills.ray_killed_many(crash(count(7))) is None
    assert ray_kills.ray_killed_many(crash(count(8))) is not None
    assert ray_kills.ray_killed_many(crash(count(8), *kill(*TRAINERS))) is None


def test_every_kill_counts_and_not_the_headline_alone() -> None:
    small = kill(victim="small", pid=41, own=2.0, used=100.0, total=110.0)
    large = kill(victim="large", pid=42, own=60.0, used=101.0, total=110.0)
    several = crash(
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", *small, *large
    )
    assert ray_kills.ray_killed_a_good_share(several) is not None
    seen = ray_kills.ray_killed_who_held_most(several)
    assert seen is not None
    assert "large" in seen.words
    assert "100.00 GiB of 110.00 GiB" in ray_kills.found_full(several)


KILLED = (
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
    "Memory on the node (IP: 10.8.0.{ip}, ID: c4) where the task (task ID: 9d, name=fit, pid=771, memory used=0.40GB) "
    "was running was 61.20GB / 64.00GB (0.95625), which exceeds the memory usage threshold of 0.95.{advice}\n"
)
ADVICE = " To see more, use `ray logs raylet.out -ip 10.8.0.44`."
HEAD = "PID\tMEM(GB)\tCOMMAND\n"
OLD = "ray.exceptions.RayTaskError(RayOutOfMemoryError): ray::Sampler.step() (pid=52, ip=10.8.0.9)\n"


def commands_of(log: str) -> tuple[str, ...]:
    return raylet_log(crash(log))


@pytest.mark.parametrize(
    ("log", "address"),
    [
        (KILLED.format(ip="x", advice=ADVICE), "10.8.0.44"),
        (KILLED.format(ip="7", advice=ADVICE), "10.8.0.7"),
        (KILLED.format(ip="x", advice=""), ""),
        (KILLED.format(ip="x", advice=ADVICE.replace("10.8.0.44", "10.8.0.x;rm")), ""),
        (KILLED.format(ip="x", advice=ADVICE.replace("10.8.0.44", "10.8.0.4.5")), ""),
    ],
)
def test_the_address_that_rays_own_hint_has(log: str, address: str) -> None:
    assert commands_of(log)[0] == RAYLETS_OWN
    assert [f" -ip {address} |" in command for command in commands_of(log)[1:]] == [True] * bool(address)


OF_A_DRIVER = "2033-04-05 06:07:08,123\tINFO worker.py:1788 -- Started a local Ray instance."


@pytest.mark.parametrize(
    ("where", "started", "through"),
    [
        ("10.8.0.7", "", True),
        ("10.8.0.7", OF_A_DRIVER, False),
        ("0.0.0.0", "", False),
        ("127.0.0.1", "", False),
        ("127.3.0.1", "", False),
        ("10.0.0.0", "", True),
    ],
)
def test_a_cluster_that_ended_with_its_program_and_a_node_nobody_reaches_are_not_asked_through_ray(
    where: str, started: str, through: bool
) -> None:
    killed = KILLED.format(ip="7", advice="").replace("10.8.0.7", where)
    assert len(commands_of(f"{started}\n{killed}")) == 1 + through
    assert commands_of(killed)[0] == RAYLETS_OWN


def test_a_table_without_its_rows_goes_on_in_the_whole_log() -> None:
    assert commands_of(KILLED.format(ip="7", advice="") + HEAD)[0] == ROWS_BELOW
    rows = "".join(f"{pid}\t30.10\tpython part.py\n" for pid in (81, 82))
    assert ROWS_BELOW not in commands_of(KILLED.format(ip="7", advice="") + HEAD + rows)
    assert ROWS_BELOW not in commands_of(KILLED.format(ip="7", advice=""))


def test_the_monitor_before_kills_raised_the_error_itself() -> None:
    found = crash(OLD)
    assert raylet_log(found) == (IN_THE_EXCEPTION,)
    assert found_full(found).startswith("Ray's memory monitor stopped a task")
    more = OLD + "More than 95% of the memory on node n2 is used (15.1 / 15.6 GB).\n"
    assert found_full(crash(more)) == "Ray's monitor found 15.10 GiB of 15.60 GiB in use."


def test_later_ones_kill() -> None:
    assert found_full(crash(KILLED.format(ip="7", advice=""))).startswith("Ray killed a process when 61.20 GiB")
    assert found_full(crash("Killed\n")).startswith("A process was killed")
