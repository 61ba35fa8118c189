"""What the kernel's own figures say beside the victim's: shared memory of a group, NUMA nodes, what earlyoom knew."""

from __future__ import annotations

from pathlib import Path

from system_logs import crash_of, quiet

from oomdoctor.causes import container_limit, host_memory_exhausted, process_ram_hog
from oomdoctor.decision.judgement import Finding, RuledOut, judgement_of
from oomdoctor.signs import Grade

KERNEL = Path(__file__).parents[2] / "fixtures" / "kernel"


def log(name: str) -> str:
    return (KERNEL / f"{name}.log").read_text(encoding="utf-8")


def test_shared_memory_that_fills_the_limit_belongs_to_no_process() -> None:
    crash = crash_of(log("shared-memory-fills-the-limit"))
    limit, hog = judgement_of(container_limit.CAUSE, crash), judgement_of(process_ram_hog.CAUSE, crash)
    assert isinstance(limit, Finding)
    assert "19.00 GiB of it is shared memory" in limit.why
    assert isinstance(hog, Finding)
    assert hog.grade is Grade.POINTS
    assert "shared memory" in hog.against[0]


def test_little_shared_memory_is_not_worth_a_word() -> None:
    found = judgement_of(container_limit.CAUSE, crash_of(log("container-4.15")))
    assert isinstance(found, Finding)
    assert "shared memory" not in found.why


def test_full_numa_nodes_are_no_limit_and_not_the_whole_machine() -> None:
    crash = crash_of(log("numa-nodes-full"))
    limit, hog = judgement_of(container_limit.CAUSE, crash), judgement_of(process_ram_hog.CAUSE, crash)
    assert isinstance(limit, RuledOut)
    assert "NUMA" in limit.why
    assert isinstance(hog, Finding)
    assert "NUMA" in hog.why


def test_what_was_free_when_earlyoom_acted_tells_what_was_in_use() -> None:
    found = judgement_of(process_ram_hog.CAUSE, crash_of(log("earlyoom-1.2")))
    assert isinstance(found, Finding)
    assert "78% of 15.03 GiB" in found.why


def test_a_small_victim_of_earlyoom_is_no_hog() -> None:
    found = judgement_of(process_ram_hog.CAUSE, crash_of(log("earlyoom-1.2").replace("12011 MiB", "2011 MiB")))
    assert isinstance(found, RuledOut)


def test_a_dump_without_its_kill_is_weaker_than_a_kill() -> None:
    whole = log("container-4.15")
    cut = whole[: whole.index("Memory cgroup out of memory")]
    assert crash_of(whole).root.strength == 3
    assert crash_of(cut).root.strength == 2


def test_a_kill_by_hand_is_no_crash() -> None:
    assert quiet(log("near-kill-by-hand"))


HEAD = """\
[ 812.100001] java invoked oom-killer: gfp_mask=0xd0, order=0, oom_score_adj=-998
[ 812.100002] java cpuset=9b1e mems_allowed=0
[ 812.100003] CPU: 3 PID: 4410 Comm: java Not tainted 4.18.0 #1
"""


def test_the_head_of_a_report_does_not_say_whose_memory_ran_out() -> None:
    found = judgement_of(host_memory_exhausted.CAUSE, crash_of(HEAD))
    assert isinstance(found, Finding)
    assert "nor whether the machine's memory or a control group's ran out" in found.why


def test_a_report_that_names_a_place_is_told_as_before() -> None:
    whole = "[ 812.100009] Out of memory: Killed process 4410 (java) total-vm:9404484kB, anon-rss:8404484kB\n"
    found = judgement_of(host_memory_exhausted.CAUSE, crash_of(f"{HEAD}{whole}"))
    assert isinstance(found, Finding)
    assert "Its report is cut" not in found.why
