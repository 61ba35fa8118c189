from __future__ import annotations

from gpu_logs import FORWARD, LOADING, finding, ranking, says, trace
from host_logs import REWARD_SERVER, kill

from oomdoctor.causes.host_memory_exhausted import CAUSE
from oomdoctor.signs import Grade
from oomdoctor.signs.commands import RAYLETS_OWN


def test_not_where_the_table_says_who() -> None:
    assert says(CAUSE, *kill(REWARD_SERVER)) is None


def test_not_where_many_alike_hold_it() -> None:
    assert says(CAUSE, *kill(*((n, 27.0, "ray::tokenize_shard") for n in range(1, 9)))) is None


def test_not_for_the_gpu() -> None:
    assert says(CAUSE, "RuntimeError: CUDA error: out of memory") is None


def test_no_table() -> None:
    found = finding(CAUSE, *kill())
    assert found.grade is Grade.HINTS
    assert "239.40 GiB of 251.60 GiB was in use" in found.why
    assert ranking(*kill())[0] == "host-memory-exhausted"


def test_a_large_victim_speaks_against_it() -> None:
    found = finding(CAUSE, *kill(own=60.0))
    assert found.grade is Grade.LEFT
    assert found.against == ("the killed worker itself held 25% of the memory in use",)


def test_most_of_it_is_in_no_row() -> None:
    found = finding(CAUSE, *kill((1, 7.52, "ray::Rollout.evaluate"), (2, 5.42, "/opt/node server")))
    assert "hold 12.94 GiB of it (5.4%)" in found.why


def test_nobody_stands_out() -> None:
    rows = tuple((n, 30.0 - n, f"python stage_{n}.py") for n in range(6))
    assert "spread over many" in finding(CAUSE, *kill(*rows, used=180.0)).why


def test_only_the_count_of_kills() -> None:
    line = (
        "(raylet) node_manager.cc:3065: 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 "
        "Workers crashed due to other reasons at node (ID: 0a, IP: 10.24.0.17) over the last time period."
    )
    assert "1 worker " in finding(CAUSE, line).why


def deepspeed(percent: float) -> tuple[str, ...]:
    return (
        "After initializing ZeRO optimizer",
        "MA 26.8 GB         Max_MA 40.2 GB         CA 41.0 GB         Max_CA 41 GB ",
        f"CPU Virtual Memory:  used = 611.05 GB, percent = {percent}%",
    )


KILLED = "['/usr/bin/python3', '-u', 'tr.py', '--local_rank=1'] exits with return code = -9"


def test_the_jobs_last_report_found_the_node_full() -> None:
    found = finding(CAUSE, *deepspeed(54.5), *deepspeed(96.4), KILLED)
    assert "611.05 GiB was in use on the node (96% of its memory)" in found.why
    assert found.shows_memory


def test_not_where_the_last_report_found_room() -> None:
    assert says(CAUSE, *deepspeed(96.4), *deepspeed(54.5), KILLED) is None


def test_not_where_the_rank_left_by_itself() -> None:
    assert says(CAUSE, *deepspeed(96.4), "RuntimeError: CUDA error: out of memory", KILLED.replace("-9", "1")) is None


def test_rays_own_word_of_a_kill_asks_for_its_table() -> None:
    left = (
        "[2026-03-11 09:58:33,110 W 880 880] (gcs_server) gcs_actor_manager.cc:1196: Worker {} on node {} exits, "
        "type={}, has creation_task_exception = 0"
    )
    ray = left.format("a81f06d3" * 7, "3f9c51d0" * 7, "NODE_OUT_OF_MEMORY")
    assert finding(CAUSE, ray, "Killed").next_evidence[0] == RAYLETS_OWN
    assert says(CAUSE, ray.replace("NODE_OUT_OF_MEMORY", "INTENDED_USER_EXIT"), "Killed") is None


def test_a_pass_on_the_cpu_whose_allocation_prints_no_size() -> None:
    unsized = (
        "RuntimeError: [enforce fail at CPUAllocator.cpp:56] posix_memalign(&data, gAlignment, nbytes) == 0. 12 vs 0"
    )
    found = finding(CAUSE, *trace(FORWARD), unsized)
    assert "host memory ran out in the forward pass" in found.why
    assert found.knobs[0] == "smaller-microbatch"
    assert "forward" not in finding(CAUSE, *trace(LOADING), unsized).why


def test_nobody_stands_out_of_what_the_table_lists_where_the_use_is_cut() -> None:
    rows = tuple((100 + n, 14.0 + n, f"python job_{n}.py") for n in range(8))
    cut = [line.replace(" / 251.60GB", "") for line in kill(*rows)]
    assert "239.40 GiB in use (of 251.60 GiB) is spread over many" in finding(CAUSE, *kill(*rows)).why
    assert "140.00 GiB in the table is spread over many processes: the largest, job_7.py" in finding(CAUSE, *cut).why
