from __future__ import annotations

import pytest
from system_logs import crash_of, quiet

from oomdoctor.causes.killed_without_evidence import CAUSE
from oomdoctor.decision.judgement import Finding, judgement_of
from oomdoctor.signs import Grade
from oomdoctor.signs.commands import DMESG, WITH_A_WORKERS


@pytest.mark.parametrize(
    "log",
    [
        "+ timeout -s KILL 30 python serve.py\nrun.sh: line 3:  51 Killed   timeout -s KILL 30 python serve.py\n",
        "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 10 DUE TO PREEMPTION ***\nsrun: error: n1: task 0: Killed\n",
        "^C\nKeyboardInterrupt\nKilled\n",
        "run.sh: line 3:  51 Segmentation fault      (core dumped) python train.py\n",
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 15\n",
        "# exit code 137 means that the kernel killed it\n",
        "Terminated\n",
    ],
)
def test_an_end_that_is_explained_otherwise_is_quiet(log: str) -> None:
    assert quiet(log)


def test_a_proven_kill_needs_no_guess() -> None:
    crash = crash_of(
        "Killed\nOut of memory: Killed process 71 (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB, shmem-rss:0kB\n"
    )
    assert judgement_of(CAUSE, crash) is None


@pytest.mark.parametrize(
    "log",
    [
        "Killed\n",
        "已杀死\n",
        "trainer-1 exited with code 137\n",
        "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly\n",
        "RuntimeError: DataLoader worker (pid 310) is killed by signal: Killed. \n",
    ],
)
def test_a_kill_nobody_explains_is_a_question(log: str) -> None:
    judgement = judgement_of(CAUSE, crash_of(log))
    assert isinstance(judgement, Finding)
    assert judgement.grade is Grade.HINTS
    assert DMESG in judgement.next_evidence
    assert "nothing in the log proves it" in judgement.why


TORCHRUN = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
finetune.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-03-01_09:12:44
  host      : gpu-a
  rank      : 5 (local_rank: 1)
  exitcode  : -9 (pid: 40217)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 40217
============================================================
"""


def test_a_launcher_s_table_is_quoted_where_it_names_the_process() -> None:
    crash = crash_of(TORCHRUN)
    judgement = judgement_of(CAUSE, crash)
    assert isinstance(judgement, Finding)
    assert judgement.why.startswith("A process (rank 5, PID 40217) was killed (SIGKILL).")
    assert judgement.evidence[0].at.text.strip() == "traceback : Signal 9 (SIGKILL) received by PID 40217"
    assert judgement.evidence[0].at.line == 12
    without = TORCHRUN.replace("  traceback : Signal 9 (SIGKILL) received by PID 40217\n", "")
    assert crash_of(without).root.at.text.strip() == "exitcode  : -9 (pid: 40217)"


@pytest.mark.parametrize(
    ("log", "who"),
    [
        ("run.sh: line 14: 40217 Killed                  python train.py -c a.yaml\n",
         "python train.py (PID 40217) was killed"),
        ("[1]  + 40217 killed     python train.py\n", "python train.py (PID 40217) was killed"),
        ("Killed\n", "A process was killed"),
        ("make: *** [Makefile:3: train] Killed\n", "A process was killed"),
        ("run.sh: line 1: 9 Killed " + "x" * 500 + "\n", "A process (PID 9) was killed"),
        ("run.sh: line 1: 9 Killed    A=/x:$A /app/bin/serve $ARGS \"$@\"\n", "serve (PID 9) was killed"),
        ("run.sh: line 1: 9 Killed    nohup python3 -u -m pkg.train > out.log\n", "python3 -m pkg.train (PID 9)"),
        ("run.sh: line 1: 9 Killed    torchrun --nproc 2 src/train.py | tee a.sh\n", "torchrun train.py (PID 9)"),
        ("run.sh: line 1: 9 Killed    $CMD --lr 1\n", "A process (PID 9) was killed"),
    ],
)  # fmt: skip
def test_a_shell_says_what_it_ran(log: str, who: str) -> None:
    judgement = judgement_of(CAUSE, crash_of(log))
    assert isinstance(judgement, Finding)
    assert who in judgement.why
    assert len(judgement.why) < 250


@pytest.mark.parametrize(
    ("log", "tools"),
    [
        ("command terminated with exit code 137\n", {"kubectl"}),
        ("trainer-1 exited with code 137\n", {"docker"}),
        ("+ docker run --rm trainer\nexit code 137\n", {"docker", "kubectl"}),
        ("Killed\n", set()),
        # an editor's words of a process on the same machine
        ("Process finished with exit code 137 (interrupted by signal 9: SIGKILL)\n", set()),
    ],
)
def test_a_container_is_asked_how_it_ended_where_one_shows(log: str, tools: set[str]) -> None:
    judgement = judgement_of(CAUSE, crash_of(log))
    assert isinstance(judgement, Finding)
    asked = " ".join(judgement.next_evidence)
    assert {tool for tool in ("docker", "kubectl") if tool in asked} == tools


@pytest.mark.parametrize(
    ("log", "name"),
    [
        ("serve | run.sh: line 2:  7 Killed   /app/serve\nserve exited with code 137\n", "serve"),
        ("a;b exited with code 137\n", "CONTAINER"),
    ],
)
def test_docker_is_asked_first_by_the_container_s_own_name(log: str, name: str) -> None:
    judgement = judgement_of(CAUSE, crash_of(log))
    assert isinstance(judgement, Finding)
    assert judgement.next_evidence[0] == (
        "docker inspect -f 'OOMKilled={{.State.OOMKilled}} ExitCode={{.State.ExitCode}} Memory={{.HostConfig.Memory}} "
        "StartedAt={{.State.StartedAt}} FinishedAt={{.State.FinishedAt}} Id={{.Id}} Name={{.Name}}' " + name
    )


GUESSES = """\
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
\tclass_name: Worker
\tpid: 77
\tip: 10.0.0.9
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker \
unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) The process \
is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called. (3) The worker is crashed \
unexpectedly due to SIGSEGV or other unexpected errors.
"""


def test_ray_s_own_list_of_reasons_stands_against_memory() -> None:
    judgement = judgement_of(CAUSE, crash_of(GUESSES))
    assert isinstance(judgement, Finding)
    assert judgement.against == ("Ray's message also lists `ray stop --force` and a crash (SIGSEGV) as reasons",)
    assert judgement.next_evidence[0] == WITH_A_WORKERS.format(pid=77)
    assert judgement.next_evidence[-1].startswith("ray logs raylet.out --tail -1 -ip 10.0.0.9 ")
    judgement = judgement_of(CAUSE, crash_of(GUESSES.replace("(2) ray stop --force is called. ", "")))
    assert isinstance(judgement, Finding)
    assert judgement.against == ("Ray's message also lists a crash (SIGSEGV) as a reason",)


@pytest.mark.parametrize(
    "text",
    [
        GUESSES.replace("\tpid: 77\n", ""),
        "The worker died unexpectedly while executing this task. Check python-core-worker-*.log files for more.\n",
    ],
)
def test_without_a_number_no_worker_has_files(text: str) -> None:
    judgement = judgement_of(CAUSE, crash_of(text))
    assert isinstance(judgement, Finding)
    assert not any("*worker-" in command for command in judgement.next_evidence)


def test_slurms_job_is_asked_for_by_its_number() -> None:
    judgement = judgement_of(
        CAUSE,
        crash_of("srun: job 8812 has been allocated resources\nsrun: error: n1: task 2: Killed\nSLURM_JOB_ID=8812\n"),
    )
    assert isinstance(judgement, Finding)
    assert (
        "sacct -j 8812 --format=JobID%20,State%20,ExitCode,Start,End,MaxRSS,ReqMem,NodeList" in judgement.next_evidence
    )


def test_a_job_id_that_is_no_number_never_reaches_a_command() -> None:
    judgement = judgement_of(
        CAUSE, crash_of("SLURM_JOB_ID=8812;reboot\nSLURM_JOB_ID=$(reboot)\nsrun: error: n1: task 2: Killed\n")
    )
    assert isinstance(judgement, Finding)
    assert not any("reboot" in command for command in judgement.next_evidence)


def test_a_limit_beside_it_names_the_pool() -> None:
    judgement = judgement_of(
        CAUSE,
        crash_of(
            '"limits": {\n  "memory": "64Mi"\n}\n"lastState": {"terminated": {"exitCode": 137, "reason": "Error"}}\n'
        ),
    )
    assert isinstance(judgement, Finding)
    assert judgement.pool == "cgroup"
    assert "64 MiB" in judgement.why
