from __future__ import annotations

from gpu_logs import finding, ranking, ruled_out, says
from host_logs import LEFTOVERS, REWARD_SERVER, kill, table

from oomdoctor.causes.too_many_workers import CAUSE
from oomdoctor.signs import Grade

SHARDS = tuple((7200 + n, 7.2 - n / 100, "ray::tokenize_shard") for n in range(8))
RANKS = tuple((7300 + n, 27.1, "ray::WorkerDict.actor_rollout_generate_sequences") for n in range(8))


def test_not_two_small_ones_beside_a_hog() -> None:
    rows = (REWARD_SERVER, (1, 8.8, "ray::LLMRayActor"), (2, 8.7, "ray::LLMRayActor"))
    assert "7.3%" in ruled_out(CAUSE, *kill(*rows))


def test_not_one_large_and_one_small_of_a_name() -> None:
    rows = ((1, 150.0, "ray::collect"), (2, 3.0, "ray::collect"))
    assert "one of them holds 150.00 GiB" in ruled_out(CAUSE, *kill(*rows))


def test_not_where_every_name_is_there_once() -> None:
    assert "no two" in ruled_out(CAUSE, *kill((1, 60.0, "ray::a"), (2, 50.0, "ray::b")))


def test_not_one_killed_task_without_a_table() -> None:
    assert says(CAUSE, *kill(victim="collect", own=40.0)) is None


def test_eight_tasks_fill_the_node() -> None:
    found = finding(CAUSE, *kill(*SHARDS, used=60.1, total=62.8))
    assert found.grade is Grade.PROVES
    assert "8 tokenize_shard processes hold 57.32 GiB" in found.why
    assert "7.13 GiB to 7.20 GiB each" in found.why
    assert ranking(*kill(*SHARDS, used=60.1, total=62.8))[0] == "too-many-workers"


def test_ranks_are_not_workers_to_turn_down() -> None:
    found = finding(CAUSE, *kill(*RANKS, used=239.0))
    assert "fewer-workers" not in found.knobs
    assert "fewer GPUs" in found.against[0]


def test_a_table_alone_is_enough() -> None:
    assert "listed in the table" in finding(CAUSE, *table([*SHARDS, *LEFTOVERS])).why


def test_workers_of_several_names_together() -> None:
    rows = tuple((100 + n, 12.0 - n, f"ray::stage_{n}") for n in range(6))
    twice = (90, 0.2, "ray::stage_0")
    assert "7 Ray workers hold 57.20 GiB" in finding(CAUSE, *table([*rows, twice])).why


def test_a_rank_without_a_table_has_sisters() -> None:
    lines = kill(victim="abC3dEWorkerDict_0:1:WorkerDict.__init__", own=68.7, used=304.0, total=314.0)
    found = finding(CAUSE, *lines)
    assert found.grade is Grade.HINTS
    assert "as much as 4.4 such workers" in found.why


def test_a_rank_told_by_the_end_of_its_name() -> None:
    lines = kill(victim="abC3dEFusedWorker_0:1", own=68.7, used=304.0, total=314.0)
    assert finding(CAUSE, *lines).grade is Grade.HINTS


def test_many_kills_in_a_minute() -> None:
    line = (
        "(raylet) node_manager.cc:3065: {} Workers (tasks / actors) killed due to memory pressure (OOM), 0 "
        "Workers crashed due to other reasons at node (ID: 0a, IP: 10.24.0.17) over the last time period."
    )
    assert finding(CAUSE, line.format(7)).grade is Grade.LEFT
    assert finding(CAUSE, line.format(12)).grade is Grade.POINTS
