"""What tells of a kill is asked of who killed: most killers leave no line in the kernel's log."""

from __future__ import annotations

import pytest
from gpu_logs import crash

from oomdoctor.signs import commands
from oomdoctor.signs.machine import useful

EARLYOOM = 'earlyoom[812]: sending SIGTERM to process 4242 uid 1000 "python3": badness 912, VmRSS 52611 MiB'
SYSTEMD = "systemd-oomd[700]: Killed /x.scope due to memory pressure for /user.slice being 71.2% > 50% for > 20s"
KERNEL = (
    "[  722.42] Out of memory: Killed process 4410 (python) total-vm:90177536kB, anon-rss:62914560kB, file-rss:0kB, "
    "shmem-rss:0kB, UID:1000 pgtables:130000kB oom_score_adj:0"
)
EVICTED = "The node was low on resource: memory. Container main was using 9Gi, which exceeds its request of 0."
ASKED = (commands.DUMP, commands.WHO_HOLDS_IT_NOW)


@pytest.mark.parametrize(
    ("line", "first"),
    [
        (EARLYOOM, "ps -eo"),
        (SYSTEMD, "systemd-cgtop"),
        (EVICTED, "kubectl get events"),
        (KERNEL, "dmesg"),
        ("memorystatus: killing_highwater_process pid 512 [python3] (highwater 100)", "log show"),
    ],
)
def test_the_killers_own_record(line: str, first: str) -> None:
    assert useful(ASKED, crash(line))[0].startswith(first)


def test_a_kernel_that_killed_too_is_asked() -> None:
    assert commands.killer_of(crash(EARLYOOM, KERNEL)) == ""


@pytest.mark.parametrize(
    ("below", "first"),
    [
        ("[Sun Feb 20 07:02:31 2022] veth3a41190: renamed from eth0", "docker inspect"),
        ("[Sun Feb 20 07:02:31 2022] eth0: link up", "for boot"),
    ],
)
def test_a_containers_network_that_goes_down_tells_of_docker(below: str, first: str) -> None:
    died = crash("RuntimeError: DataLoader worker (pid 2206) is killed by signal: Killed. ", "", below)
    assert commands.settling(died)[0].startswith(first)


@pytest.mark.parametrize(
    ("pid", "inside"),
    [(7, True), (299, True), (300, False), (4242, False)],
)
def test_a_number_that_no_machine_gives_to_users_is_a_containers(pid: int, *, inside: bool) -> None:
    died = crash(f"torch.distributed.elastic: failed (exitcode: -9) local_rank: 1 (pid: {pid}) of binary: /usr/bin/py")
    assert (commands.pid_of_a_container(died) == pid) is inside
    assert (commands.GROUP in commands.settling(died)) is inside


def test_where_a_pod_is_named_it_is_described() -> None:
    died = crash("kubectl logs kiln-0", "failed (exitcode: -9) local_rank: 1 (pid: 7) of binary: /usr/bin/py")
    assert commands.settling(died)[0] == "kubectl describe pod kiln-0"
    assert commands.GROUP not in commands.settling(died)


TABLE = "NAME        READY   STATUS             RESTARTS   AGE"
FAILED = ("  lastFailureInfo:", "    exitCode: 137")


@pytest.mark.parametrize(
    ("rows", "asked"),
    [
        ((TABLE, "kiln-0      0/2     CrashLoopBackOff   4          9m"), "kiln-0"),
        ((TABLE, "kiln-0      2/2     Running            0          9m"), "POD"),
        ((TABLE, "kiln-0      2/2     Running   0   9m", "kiln-1      0/1     OOMKilled   3   9m"), "kiln-1"),
        (("kubectl get pods -n shop", "kiln-0      0/1     Error   3   9m"), "kiln-0 -n shop"),
        ((), "POD"),
    ],
)
def test_the_pod_that_is_down_is_the_one_to_describe(rows: tuple[str, ...], asked: str) -> None:
    told = commands.settling(crash(*rows, *FAILED))
    pod, _, space = asked.partition(" ")
    assert told[0] == f"kubectl describe pod {asked}"
    assert told[1] == f"kubectl get events --field-selector involvedObject.name={pod}{f' {space}' if space else ''}"


DESCRIBED = ("    Last State:     Terminated", "      Reason:       Error", "      Exit Code:    137")


def test_of_a_pod_that_is_described_the_events_are_asked_for() -> None:
    asked = commands.settling(crash(*DESCRIBED))
    assert asked[0] == commands.EVENTS_OF_THE_POD
    assert commands.POD not in asked


@pytest.mark.parametrize("line", ["kubectl logs kiln-0", "srun: job 8812 has been allocated resources", "step 40"])
def test_elsewhere_they_are_not(line: str) -> None:
    died = crash(line, "failed (exitcode: -9) local_rank: 1 (pid: 4242) of binary: /usr/bin/py")
    assert commands.EVENTS_OF_THE_POD not in commands.settling(died)


@pytest.mark.parametrize(
    ("line", "job"),
    [
        ("/var/spool/slurm/job51237/slurm_script: line 9: 40211 Killed python fit.py", "51237"),
        ("/var/spool/slurmd/job0051237/slurm_script: line 9: 40211 Killed python fit.py", "51237"),
        # near misses: paths of other spoolers
        ("/var/spool/slurmx/job51237/script: line 9: 40211 Killed python fit.py", None),
        ("/var/spool/lsf/job51237/script: line 9: 40211 Killed python fit.py", None),
    ],
)
def test_the_path_of_a_batch_script_names_slurms_job(line: str, job: str | None) -> None:
    died = crash(line)
    assert commands.job_of(died) == job
    assert any(one.startswith(f"sacct -j {job} ") for one in commands.settling(died)) is (job is not None)


@pytest.mark.parametrize(
    ("table", "again"),
    [
        (("       JobID      State", "------------ ----------", "51237            FAILED"), True),
        (
            (
                "       JobID      State ExitCode     MaxRSS",
                "------------ ---------- -------- ----------",
                "51237            FAILED      1:0   8123456K",
            ),
            False,
        ),
    ],
)
def test_slurm_is_asked_again_where_its_table_says_only_a_state(table: tuple[str, ...], again: bool) -> None:
    died = crash("/var/spool/slurmd/job51237/slurm_script: line 9: 40211 Killed python fit.py", *table)
    assert any(one.startswith("sacct ") for one in commands.settling(died)) is again
