from __future__ import annotations

from pathlib import Path

import pytest
from system_logs import crash_of, quiet

from oomdoctor import diagnose
from oomdoctor.causes.container_limit import CAUSE
from oomdoctor.decision.judgement import Finding, NotEnough, RuledOut, judgement_of
from oomdoctor.signs import Grade

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"

GLOBAL = """\
oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=python,pid=71,uid=0
Out of memory: Killed process 71 (python) total-vm:90000000kB, anon-rss:60000000kB, file-rss:0kB, shmem-rss:0kB
"""
DESCRIBED = """\
    Last State:     Terminated
      Reason:       {reason}
      Exit Code:    137
    Limits:
      memory:  48Gi
"""


def test_a_full_machine_is_no_limit() -> None:
    judgement = judgement_of(CAUSE, crash_of(GLOBAL))
    assert isinstance(judgement, RuledOut)
    assert "whole machine" in judgement.why


def test_an_eviction_is_the_nodes_shortage() -> None:
    crash = crash_of("  Warning  Evicted  2m  kubelet  The node was low on resource: memory. Container c was using 9Gi")
    assert isinstance(judgement_of(CAUSE, crash), RuledOut)


def test_exit_code_137_beside_a_limit_proves_nothing_yet() -> None:
    judgement = judgement_of(CAUSE, crash_of(DESCRIBED.format(reason="Error")))
    assert isinstance(judgement, NotEnough)
    assert "48.00 GiB" in judgement.missing
    assert judgement.next_evidence


def test_a_bare_kill_says_nothing_of_a_limit() -> None:
    assert judgement_of(CAUSE, crash_of("Killed\n")) is None


def test_a_limit_on_address_space_is_another_cause() -> None:
    crash = crash_of("=>> PBS: job killed: vmem 67209216kb exceeded limit 67108864kb\n")
    assert judgement_of(CAUSE, crash) is None


def test_page_cache_at_the_limit_is_quiet() -> None:
    assert quiet("slurmstepd: error: Exceeded job memory limit at some point.\n")


def test_the_kernels_record_names_the_group_and_its_figures() -> None:
    log = (FIXTURES / "kernel" / "six-loader-workers-one-limit-6.18.log").read_text()
    crash = crash_of(log)
    judgement = judgement_of(CAUSE, crash)
    assert isinstance(judgement, Finding)
    assert judgement.grade is Grade.NAMES  # its workers fill it together, and stand before it
    assert judgement.pool == crash.pool == "cgroup"
    assert judgement.why == (
        "/oomdoctor-test reached its memory limit: 1.17 GiB in use, 1.17 GiB allowed. The machine itself may have free "
        "memory. The kernel killed pt_data_worker (host PID 19669), which held 321 MiB."
    )


def test_slurm_explains_the_loaders_death() -> None:
    crash = crash_of(
        "RuntimeError: DataLoader worker (pid 310) is killed by signal: Killed. \n"
        "slurmstepd: error: Detected 3 oom_kill events in StepId=812.0. Some of the step tasks have been OOM Killed.\n"
    )
    judgement = judgement_of(CAUSE, crash)
    assert isinstance(judgement, Finding)
    assert crash.root.kind == "limit-kill"
    assert "Slurm" in judgement.why
    assert "job 812 (step 0)" in judgement.why
    assert "3 processes were killed" in judgement.why
    assert "the job may have continued" in judgement.against[0]


def test_a_pods_limit_is_named() -> None:
    judgement = judgement_of(CAUSE, crash_of(DESCRIBED.format(reason="OOMKilled")))
    assert isinstance(judgement, Finding)
    assert judgement.why == "Kubernetes reports that the memory limit was hit, limit 48.00 GiB."


def test_a_usage_below_the_limit_was_measured_at_another_moment() -> None:
    judgement = judgement_of(
        CAUSE,
        crash_of("Restart Reason: OOMKill (memory exceeded)\nMemory Limit: 96Gi\nCurrent Memory Usage: ~12 GiB\n"),
    )
    assert isinstance(judgement, Finding)
    assert "the printed 12.00 GiB in use was measured at another moment" in judgement.why


GROUP = """\
python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
memory: usage 50331648kB, limit {limit}kB, failcnt 10
Memory cgroup stats for /docker/abc:
anon 1000
shmem {shmem}
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=abc,mems_allowed=0,oom_memcg=/docker/abc,task=python,pid=71,uid=0
Memory cgroup out of memory: Killed process 71 (python) total-vm:90000000kB, anon-rss:10331648kB, file-rss:0kB
"""
UNLIMITED = 9007199254740988  # of this kind; the limit that was hit is another one


def test_shared_memory_in_a_group_whose_own_limit_is_not_the_one_that_was_hit() -> None:
    found = judgement_of(CAUSE, crash_of(GROUP.format(limit=UNLIMITED, shmem=41943040000)))
    assert isinstance(found, Finding)
    assert "/docker/abc reached its memory limit; 39.06 GiB of it is shared memory" in found.why
    assert "allowed" not in found.why
    little = judgement_of(CAUSE, crash_of(GROUP.format(limit=UNLIMITED, shmem=4194304)))
    assert isinstance(little, Finding)
    assert "shared memory" not in little.why
    limited = judgement_of(CAUSE, crash_of(GROUP.format(limit=50331648, shmem=41943040000)))
    assert isinstance(limited, Finding)
    assert "48.00 GiB in use, 48.00 GiB allowed; 39.06 GiB of it is shared memory" in limited.why


def test_what_the_kernel_killed_beside_the_managers_word() -> None:
    slurm = "slurmstepd: error: Detected 1 oom_kill event in StepId=71.0. Some of the step tasks have been killed.\n"
    killed = "Out of memory: Killed process 71 (python) total-vm:90000000kB, anon-rss:60000000kB, file-rss:0kB\n"
    found = judgement_of(CAUSE, crash_of(slurm + killed))
    assert isinstance(found, Finding)
    assert "the killed process held 57.22 GiB" in found.why


def test_a_row_of_slurms_table_tells_its_figures_only_below_their_names() -> None:
    head = "JobID           JobName     MaxRSS      State\n------------ ---------- ---------- ----------\n"
    row = "71.batch          batch  60129542K OUT_OF_ME+\n"
    named, bare = judgement_of(CAUSE, crash_of(head + row)), judgement_of(CAUSE, crash_of(row))
    assert isinstance(named, Finding)
    assert "peak 57.34 GiB" in named.why
    assert isinstance(bare, Finding)
    assert "GiB" not in bare.why


PODS = (
    "  Warning  OOMKilling  9m  kernel-monitor, node-3  Memory cgroup out of memory: Kill process 71 (indexer) score "
    "{first} or sacrifice child\n"
    "Killed process 71 (indexer) total-vm:90000000kB, anon-rss:{large}kB, file-rss:0kB, shmem-rss:0kB\n"
    "  Warning  OOMKilling  9m  kernel-monitor, node-3  Memory cgroup out of memory: Kill process 82 (agent) score "
    "{second} or sacrifice child\n"
    "Killed process 82 (agent) total-vm:90000kB, anon-rss:{small}kB, file-rss:0kB, shmem-rss:0kB\n"
)


def of_pods(first: int = 1400, second: int = 1000, large: int = 4194304, small: int = 8192) -> str:
    found = judgement_of(CAUSE, crash_of(PODS.format(first=first, second=second, large=large, small=small)))
    assert isinstance(found, Finding)
    return found.why


def test_a_pod_without_a_limit_dies_of_a_limit_that_others_share() -> None:
    assert "indexer (host PID 71), which held 4.00 GiB, and agent, which held 8 MiB and has no limit" in of_pods()
    assert "4.00 GiB / 0.400 = 10.00 GiB" in of_pods()
    assert " / " not in of_pods(first=970)


def test_who_may_have_a_limit_dies_of_his_own() -> None:
    assert "several containers" not in of_pods(second=999)  # requests something
    assert "several containers" not in of_pods(small=90000)  # may have filled a limit
    assert "several containers" not in of_pods(large=9000)  # and nobody did
    group = "Memory cgroup out of memory: Killed process 71 (a) total-vm:9kB, anon-rss:{}kB, oom_score_adj:1000\n"
    found = judgement_of(CAUSE, crash_of(group.format(4194304) + group.replace("71 (a)", "82 (b)").format(8192)))
    assert isinstance(found, Finding)
    assert "several containers" not in found.why  # one group may be killed as a whole


LIMIT = """\
python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
memory: usage 1048576kB, limit 1048576kB, failcnt 0
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/job,task_memcg=/job,task=python,pid=26396,uid=0
Memory cgroup out of memory: Killed process 26396 (python) total-vm:6329060kB, anon-rss:1038192kB
"""


@pytest.mark.parametrize(
    ("option", "setting"),
    [
        ("--memory-limit 900MB", None),
        ("--memory-limit 1GiB", None),
        ("--memory-limit auto", None),
        ("--memory-limit 4", None),
        ("--cache-limit 8GB", None),
        ("--memory-limit 8GB", "--memory-limit"),
        ("--max_memory 1.5GiB", "--max_memory"),
    ],
)
def test_a_budget_beyond_the_limit_is_lowered(option: str, setting: str | None, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(f"+ python sessions.py {option}\nsessionize all days ...\n{LIMIT}", encoding="utf-8")
    found = diagnose(path).as_json()["diagnoses"][0]
    assert found["cause"] == "container-limit"
    first = found["remedies"][0]
    assert (first["knob"] == "smaller-buffers") is (setting is not None)
    if setting is not None:
        assert (first["setting"], first["suggested"]) == (setting, "512MiB")
        assert first["snippet"] == f"{setting} 512MiB"
        assert first["derivation"] == "1.00 GiB / 2 = 512MiB"
        assert f"{setting} allows" in found["explanation"]


@pytest.mark.parametrize(
    ("command", "snippet"),
    [
        ("+ java -Xmx2g -jar feed.jar", "-Xmx682m"),
        ("Starting feed with JAVA_OPTS=-Xms256m -Xmx2g -XX:+UseParallelGC", "-Xmx682m"),
        ("+ java -Xmx1g -jar feed.jar", None),  # as much as the limit
        ("+ java -Xmx800m -jar feed.jar", None),
        ("+ node --max-old-space-size=4096 build.js", "--max-old-space-size 682"),
        ("+ node --max-old-space-size=1024 build.js", None),
    ],
)
def test_a_heap_beyond_the_limit_is_lowered(command: str, snippet: str | None, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(f"{command}\nread 40 files\n{LIMIT}", encoding="utf-8")
    found = diagnose(path).as_json()["diagnoses"][0]
    assert found["cause"] == "container-limit"
    first = found["remedies"][0]
    assert (first["knob"] == "smaller-buffers" and first["snippet"] == snippet) is (snippet is not None)
    assert ("the heap grows on where garbage should be collected" in found["explanation"]) is (snippet is not None)
    if snippet is not None:
        assert first["derivation"] == "1.00 GiB x 2/3 = 682 MiB"


def test_the_new_limit_is_what_its_formula_says(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(f"+ python sessions.py\n{LIMIT.replace('1048576', '1228800')}", encoding="utf-8")
    raised = next(
        one for one in diagnose(path).as_json()["diagnoses"][0]["remedies"] if one["knob"] == "raise-container-limit"
    )
    assert (raised["suggested"], raised["derivation"]) == ("2G", "1.17 GiB x 1.25 = 1.46 GiB, rounded up = 2 GiB")


SBATCH = "#SBATCH --mem-per-cpu=3G\n"
SHELL_KILL = "/srv/jobs/align.sh: line 41: 20117 Killed                  reorient -i scan_07.nii.gz\n"
REFUSED = "OSError: [Errno 12] Cannot allocate memory\n"


def test_a_kill_and_a_refusal_in_a_job_of_slurm_are_its_limit() -> None:
    judgement = judgement_of(CAUSE, crash_of(SBATCH + SHELL_KILL + REFUSED))
    assert isinstance(judgement, Finding)
    assert "mem_per_cpu=3G" in judgement.why
    assert judgement.against


def test_a_kill_or_a_refusal_alone_and_both_without_a_limit_are_none() -> None:
    for log in (
        SHELL_KILL + REFUSED,
        SBATCH + REFUSED,
        SBATCH + SHELL_KILL,
        SBATCH + SHELL_KILL + REFUSED.replace("12] Cannot allocate memory", "28] No space left on device"),
    ):
        assert not isinstance(judgement_of(CAUSE, crash_of(log)), Finding)


@pytest.mark.parametrize(("name", "has"), [("qemu-system-x86", False), ("virt-launcher", False), ("python", True)])
def test_a_virtual_machine_holds_what_it_was_given(tmp_path: Path, name: str, has: bool) -> None:
    path = tmp_path / "dmesg.log"
    path.write_text(LIMIT.replace("python", name), encoding="utf-8")
    knobs = [one["knob"] for one in diagnose(path).as_json()["diagnoses"][0]["remedies"]]
    assert ("clear-references" in knobs) is has
