from __future__ import annotations

from gpu_logs import crash
from host_logs import TRAINERS, kill

from oomdoctor.incident.model import Crash
from oomdoctor.signs import ray_kills


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
    assert "9 such workers fill the node" in seen.words


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


def test_a_limit_that_leaves_a_tenth_is_low() -> None:
    assert ray_kills.rays_limit_is_low(crash(*kill())) is None
    low = kill(used=160.0, total=251.6)
    low[-1] = low[-1].replace("threshold of 0.95", "threshold of 0.6")
    assert ray_kills.rays_limit_is_low(crash(*low)) is not None


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
