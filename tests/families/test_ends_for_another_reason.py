"""Deaths by SIGKILL or SIGBUS that the lines around explain, and those that they do not."""

from __future__ import annotations

import pytest

from oomdoctor import families
from oomdoctor.families import Event, Lookalike
from oomdoctor.streams import page

SHELL = "fit.sh: line 9: 3310 Killed                  python fit.py"
BUS = "fit.sh: line 9: 3310 Bus error               python fit.py"
UNIT = "systemd[1]: fit.service: Main process exited, code=killed, status=9/KILL"
POD = "  exitCode: 137"
PLAIN = "member 2 exited with signal 9"
TORN = "pool: terminating the remaining workers"
BELOW = "Traceback (most recent call last):\nValueError: label 40 is none of 12"


def read(text: str) -> tuple[list[str], list[str]]:
    """The kinds of failures, and the reasons of lookalikes."""
    found = list(families.read(page("job.log", 1, text.encode() + b"\n")))
    failures = [item.kind for item in found if isinstance(item, Event) and item.role == "root"]
    return failures, [item.why for item in found if isinstance(item, Lookalike)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"guard: member 2 made no progress for 900 s\nguard: sending SIGKILL to member 2\n{PLAIN}", "supervisor"),
        (f"guard: member 2 did not stop within 20 s, killing it\n{PLAIN}", "supervisor"),
        ("Hard time limit (600s) exceeded for jobs.rank[8d]\nProcess 'P-4' exited with 'signal 9 (SIGKILL)'", "time"),
        ("*** HARAKIRI ON WORKER 4 (pid: 71, try: 1) ***\nworker 4 (pid: 71) died, killed by signal 9", "superv"),
        ("WARN killing 'fit' (71) with SIGKILL\nINFO stopped: fit (terminated by SIGKILL)", "told to stop first"),
        (f"agent: this instance will be reclaimed in 110 s\n{SHELL}", "preemption"),
        (f"agent: node n7 is marked for termination\n{SHELL}", "preemption"),
        (f"Pod was active on the node longer than the specified deadline\n{SHELL}", "time limit"),
        (f'pod "fit-3" deleted\n{SHELL}', "stopped"),
        (f"The node was low on resource: inodes. Container fit was using 21, request is 0\n{POD}", "evicted"),
        (f"message: 'The node was low on resource: ephemeral-storage. '\n{POD}", "evicted"),
        (f"{POD}\nThe node was low on resource: pids. Threshold quantity: 400, available: 12.", "evicted"),
        (f"The node was low on resource: imagefs.\n{POD}", "evicted"),
        (f"Pod ephemeral local storage usage exceeds the total limit of containers 8Gi. \n{POD}", "evicted"),
        (f'Container fit exceeded its local ephemeral storage limit "8Gi". \n{POD}', "evicted"),
        (f"The node had condition: [DiskPressure]. \n{POD}", "evicted"),
        (f"systemd-logind[580]: System is rebooting.\n{UNIT}", "restarted"),
        (f"systemd[1]: Reached target System Shutdown.\n{UNIT}", "restarted"),
        (f"kernel: CODE SIGNING: process 3310[fit]: rejecting invalid page at address 0x2000\n{SHELL}", "signature"),
        (f"{BELOW}\n{TORN}\n{PLAIN}", "error of its own"),
        (f"fit: read of /net/set.bin: Stale file handle\n{BUS}", "could not be read"),
        (f"{BUS}\nkernel: blk_update_request: I/O error, dev sdb, sector 810", "could not be read"),
    ],
)  # fmt: skip
def test_it_did_not_end_for_memory(text: str, words: str) -> None:
    failures, reasons = read(text)
    assert not failures
    assert any(words in why for why in reasons)


@pytest.mark.parametrize(
    "text",
    [
        # another's, or nobody's, or told behind the kill
        f"guard: member 2 made progress after 900 s\n{PLAIN}",
        f"guard: all members stopped\n{PLAIN}",
        f"Soft time limit (600s) exceeded for jobs.rank[8d]\n{PLAIN}",
        f'pod "fit-3" created\n{SHELL}',
        f"agent: 12 GiB of node memory were reclaimed\n{SHELL}",
        f"{SHELL}\nsystemd-logind[580]: System is rebooting.",
        f"{SHELL}\nsystemd-logind[580]: System is rebooting.\n{UNIT}",
        f"The node was low on space: ephemeral-storage is 71 % full.\n{POD}",
        f"  Limits: ephemeral-storage: 8Gi, memory: 2Gi\n{POD}",
        f"The node has condition: DiskPressure False\n{POD}",
        f"attempting to reclaim ephemeral-storage\n{POD}",  # images and dead containers go first
        f"The Pod's local ephemeral storage limit is 8Gi\n{POD}",
        f"low on resource: gpus\n{POD}",
        f"must evict nothing to reclaim inodes\n{POD}",
        f"{TORN}\n{PLAIN}",  # for what, no line says
        f"{PLAIN}\n{TORN}\n{BELOW.replace('ValueError', 'torch.OutOfMemoryError')}",
        f"fit: reading /net/set.bin\n{BUS}",
        f"fit: read of /net/set.bin: Input/output error\n{SHELL}",
    ],
)
def test_what_is_said_nearby_does_not_explain_it(text: str) -> None:
    assert "kill" in read(text)[0]


@pytest.mark.parametrize(("number", "pid"), [(0, None), (5120, 5120)])
def test_the_number_that_mpirun_does_not_know_is_none(number: int, pid: int | None) -> None:
    line = f"mpirun noticed that process rank 2 with PID {number} on node n7 exited on signal 9 (Killed)."
    [found] = [item for item in families.read(page("job.log", 1, line.encode() + b"\n")) if isinstance(item, Event)]
    assert found.process.pid == pid


COMMAND = "[2026-01-09 11:20:02,118] [ERROR] [launch.py:324:sigkill_handler] ['/usr/bin/python3', '-u', 'fit.py', '--"
ENDS = "[2026-01-09 11:20:02,101] [INFO] [launch.py:318:sigkill_handler] Killing subprocess 5120"


def test_the_command_of_a_dead_child_before_its_code_is_a_death() -> None:
    assert read(f"Before initializing optimizer states\n{ENDS}\n{COMMAND}")[0] == ["kill"]


@pytest.mark.parametrize(
    "text",
    [
        f"step 9\n{ENDS}",
        f"step 9\n{ENDS}\n[launch.py:330:sigkill_handler] Main process received SIGINT, exiting",
        f"{BELOW}\n{ENDS}\n{COMMAND}",
        f"step 9\n{ENDS}\n{COMMAND}\nresubmitting",
        f"Segmentation fault (core dumped)\n{ENDS}\n{COMMAND}",
    ],
)
def test_the_end_of_deepspeeds_launcher_is_no_death_by_itself(text: str) -> None:
    assert "kill" not in read(text)[0]
