from __future__ import annotations

from pathlib import Path

import pytest
from gpu_logs import crash, finding, missing, ranking, ruled_out, says
from host_logs import LEFTOVERS, REWARD_SERVER, TRAINERS, kill

from oomdoctor import diagnose
from oomdoctor.causes.process_ram_hog import CAUSE
from oomdoctor.decision.diagnosis import decide
from oomdoctor.signs import Grade


def test_not_the_largest_of_many() -> None:
    assert "8.6%" in ruled_out(CAUSE, *kill(*TRAINERS))


def test_not_a_reward_model() -> None:
    assert says(CAUSE, *kill(REWARD_SERVER, *TRAINERS)) is None


def test_not_the_victim_when_the_table_names_another() -> None:
    rows = ((501, 150.0, "python build_index.py"), *TRAINERS)
    assert "build_index.py (PID 501)" in finding(CAUSE, *kill(*rows)).why


def test_without_a_table_it_asks_for_it_on_that_node() -> None:
    assert "table of memory users" in missing(CAUSE, *kill())


def test_a_row_that_may_be_the_object_store_weighs_less() -> None:
    status = ["======== Autoscaler status: 2026-03-01 10:00:00.000000 ========", "Resources", "Usage:"]
    status += [" 2.0/4.0 CPU", " 100.00GiB/120.00GiB object_store_memory", "Demands:", " (no resource demands)"]
    found = finding(CAUSE, *status, *kill((501, 101.0, "python produce.py"), *LEFTOVERS))
    assert found.grade is Grade.POINTS
    assert "object store holds 100.00 GiB" in found.against[0]


def test_one_process_has_it() -> None:
    found = finding(CAUSE, *kill((501, 150.0, "python build_index.py --all"), *TRAINERS[:2]))
    assert found.grade is Grade.PROVES
    assert "150.00 GiB of the 239.40 GiB in use" in found.why


@pytest.mark.parametrize(("used", "threshold", "told"), [(91.0, 0.36, True), (239.4, 0.95, False), (228.0, 0.9, False)])
def test_a_limit_of_ray_s_that_is_low_is_told(tmp_path: Path, used: float, threshold: float, told: bool) -> None:
    log = "\n".join(kill((501, 80.0, "python build_index.py"), used=used)).replace(
        "threshold of 0.95", f"threshold of {threshold}"
    )
    (tmp_path / "driver.log").write_text(log + "\n")
    first = diagnose(tmp_path / "driver.log").incidents[0].diagnoses[0]
    assert first.cause == CAUSE.id
    assert ("Ray's limit is 36.0% of the memory (90.58 GiB)" in first.explanation) == told
    assert ("not the usual 95%: somebody has set it" in first.explanation) == told


def test_a_trainer_cannot_be_moved_away() -> None:
    rows = ((501, 228.4, "ray::ActorModelRayActor"), (502, 1.7, "ray::RewardModelRayActor"))
    assert "move-process" not in finding(CAUSE, *kill(*rows)).knobs


def test_the_killed_task_holds_most_of_it_itself() -> None:
    assert "itself held 120.00 GiB" in finding(CAUSE, *kill(victim="collect", own=120.0)).why


def test_the_kernel_says_how_large_its_victim_was() -> None:
    line = (
        "[  722.42] Out of memory: Killed process 4410 (python) total-vm:90177536kB, anon-rss:62914560kB, "
        "file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:130000kB oom_score_adj:0"
    )
    assert "60.00 GiB" in finding(CAUSE, line).why


def test_a_small_victim_of_the_kernel_is_none() -> None:
    line = (
        "[  722.42] Out of memory: Killed process 4410 (sh) total-vm:9204kB, anon-rss:5120kB, file-rss:0kB, "
        "shmem-rss:0kB, UID:0 pgtables:52kB oom_score_adj:0"
    )
    assert says(CAUSE, line) is None


def test_the_hog_leads_the_ranking() -> None:
    assert ranking(*kill((501, 150.0, "python build_index.py"), *TRAINERS[:2]))[0] == "process-ram-hog"


def test_an_array_of_tensorflows_on_the_host_takes_what_its_shape_and_type_take() -> None:
    line = (
        "ResourceExhaustedError: OOM when allocating tensor with shape[640000,5120] and type float by allocator cpu\n"
    )
    assert "640000 x 5120 numbers of 4 bytes = 12.21 GiB" in finding(CAUSE, line).why


EARLY = 'earlyoom[812]: sending SIGTERM to process 4242 uid 1000 "python3": badness 912, VmRSS {} MiB'


def test_earlyoom_says_what_its_victim_held_and_not_of_how_much() -> None:
    found = finding(CAUSE, EARLY.format(21500))
    assert (
        "python3 (PID 4242) held 21.00 GiB when earlyoom stopped it. The log does not print the machine's memory size"
        in found.why
    )
    assert found.grade is Grade.POINTS
    assert found.knobs[0] == "smaller-buffers"
    assert says(CAUSE, EARLY.format(215)) is None


def test_a_sharded_trainer_gets_a_trainers_knobs() -> None:
    deepspeed = "[INFO] DeepSpeed info: version=0.16.4, git-hash=unknown, git-branch=unknown"
    assert finding(CAUSE, deepspeed, EARLY.format(21500)).knobs[0] == "less-offload"


def test_where_it_grew_the_growth_comes_first() -> None:
    steps = tuple(
        f"(main_task pid=7) [step {n}] memory used = {gib}.00 GiB" for n, gib in enumerate((40, 90, 140, 190))
    )
    lines = (*steps, *kill((900, 150.0, "python sim.py"), *TRAINERS))
    assert [answer.cause.id for answer in decide(crash(*lines)).answers][:2] == ["host-memory-leak", CAUSE.id]
    assert decide(crash(*lines[4:])).answers[0].cause is CAUSE


def test_a_group_with_no_limit_of_its_own_is_what_shares_are_of() -> None:
    rows = (
        "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "memory: usage 50331648kB, limit 9007199254740988kB, failcnt 10",
        "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
        "[     71]     0    71 22500000  10000000   1000000        0             0 python",
        "[     72]     0    72 22500000    100000   1000000        0             0 worker",
        "Memory cgroup out of memory: Killed process 71 (python) total-vm:90000000kB, anon-rss:40000000kB",
    )
    assert "python (PID 71) holds 38.15 GiB of the 48.00 GiB in use: 79%." in finding(CAUSE, *rows).why
