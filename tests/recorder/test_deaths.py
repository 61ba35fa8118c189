"""Real deaths: the same output and end as without the recorder, and the right word for each."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from deaths import EAT, PYTHON, Done, both, recorded, run, same_words
from msgspec import Struct


class Death(Struct, frozen=True):
    name: str
    words: list[str]
    verdict: str  # of the record and the output together: "oom", "inconclusive", "no-oom"
    causes: tuple[str, ...] = ()  # one of which must stand first
    says: bytes = b""
    mib: int | None = None
    feed: bytes = b""


def shell(script: str) -> list[str]:
    return ["bash", "-c", script]


def python(program: str, *arguments: str) -> list[str]:
    return [PYTHON, "-c", program, *arguments]


TOLD = b"oomdoctor: "
ENOUGH = "10"  # MiB a step
DEATHS = [
    Death("success", shell("echo done"), "no-oom"),
    Death("standard input is passed", ["cat"], "no-oom", feed=b"one\ntwo\n" * 5000),
    Death("exit code", shell("echo working; exit 42"), "no-oom", says=TOLD + b"the job ended with exit code 42"),
    Death("exception", python("raise ValueError('no such column')"), "no-oom", says=TOLD + b"the job ended with"),
    Death("by hand", shell("sleep 0.5; kill -9 $$"), "no-oom", says=TOLD + b"a process sent SIGKILL"),
    Death("child by hand", shell("sleep 9 & kill -9 $!; wait $!; exit $?"), "no-oom", says=b"a process sent SIGKILL"),
    Death("told to stop", shell("echo working; kill -TERM $$; sleep 9"), "no-oom", says=TOLD + b"the job was told"),
    Death("segmentation fault", shell("ulimit -c 0; kill -SEGV $$"), "no-oom", says=b"the job crashed (SIGSEGV)"),
    Death("abort", python("import os; os.abort()"), "no-oom", says=TOLD + b"the job crashed (SIGABRT)"),
    Death("background child", shell("sleep 2 & echo started; exit 5"), "no-oom", says=TOLD + b"the job ended with"),
    Death("missing module", ["python3", "-m", "no_such_module_here"], "no-oom", says=TOLD + b"the job ended with"),
    Death(
        "address space",
        shell(f"ulimit -v 400000; exec {PYTHON} -c 'x = bytearray(10**9)'"),
        "oom", ("address-space-limit",), says=b"`ulimit -v`",
    ),
    Death(
        "address space of a child",
        shell(f"(ulimit -v 400000; {PYTHON} -c 'import time; time.sleep(1.2); x = bytearray(10**9)'); exit 1"),
        "oom", ("address-space-limit",), says=b"`ulimit -v`",
    ),
    Death("limit", python(EAT, ENOUGH, "0.05"), "oom", ("container-limit",), says=b"OUT OF MEMORY", mib=120),
    Death("limit hit by a leak", python(EAT, "2", "0.1"), "oom", ("container-limit",), says=b" grew from ", mib=90),
    Death(
        "limit, of a child",
        shell(f"{PYTHON} -c '{EAT}' 10 0.05; echo the child ended with $?; exit 7"),
        "oom", ("container-limit",), says=b"OUT OF MEMORY", mib=120,
    ),
    Death(
        "limit, of one in a pipeline",
        shell(f"{PYTHON} -c '{EAT}' 10 0.05 | tail -1 | cut -c 1-4"),
        "oom", ("container-limit",), says=b"OUT OF MEMORY", mib=120,
    ),
    Death(
        "several workers at the limit",
        python("import multiprocessing, time\n"
               "def work(n):\n kept = []\n while True:\n  kept.append(bytearray(4 << 20)); time.sleep(0.1)\n"
               "if __name__ == '__main__':\n"
               " ws = [multiprocessing.get_context('fork').Process(target=work, args=(n,)) for n in range(3)]\n"
               " [w.start() for w in ws]\n"
               " while all(w.is_alive() for w in ws): time.sleep(0.05)\n"
               " [w.kill() for w in ws]; raise SystemExit(1)"),
        "oom", ("container-limit", "too-many-workers"), says=b"OUT OF MEMORY", mib=200,
    ),
]  # fmt: skip
FAST = {"success", "standard input is passed"}


@pytest.mark.parametrize(
    "death", [pytest.param(d, marks=[] if d.name in FAST else [pytest.mark.slow], id=d.name) for d in DEATHS]
)
def test_a_job_ends_and_prints_as_without_the_recorder_and_gets_its_verdict(death: Death, tmp_path: Path) -> None:
    alone, beside = both(death.words, tmp_path, feed=death.feed, mib=death.mib)
    assert beside.status == alone.status
    # How far a job comes before the kernel ends it differs from run to run
    assert beside.out == alone.out or (death.mib and beside.out.startswith(alone.out[:40]))
    assert same_words(beside.err[: len(alone.err)], alone.err) or death.mib
    assert death.says in beside.err
    if alone.status == 0 and death.verdict == "no-oom":
        assert beside.err == alone.err
    report = beside.report()
    assert report["verdict"] == death.verdict
    if death.causes:
        assert report["incidents"][0]["diagnoses"][0]["cause"] in death.causes


@pytest.mark.slow
def test_files_in_memory_fill_a_limit_and_the_kernel_may_take_the_recorder_as_well(tmp_path: Path) -> None:
    """No process holds them, so the kernel kills one after the other in vain."""
    record, held = tmp_path / "flight.jsonl", Path("/dev/shm") / tmp_path.parent.parent.name / tmp_path.name
    held.mkdir(parents=True)
    try:
        fill = f"for n in $(seq 60); do head -c 4M /dev/zero > {held}/$n || exit; sleep 0.05; done"
        killed = run(recorded(shell(fill), record, "0.2s"), mib=100, name="files")
    finally:
        shutil.rmtree(held)
    assert killed.status != 0
    report = Done(killed.status, killed.out, killed.err, record).report()
    assert report["verdict"] in ("oom", "inconclusive")
    assert report["incidents"][0]["diagnoses"][0]["cause"] in ("container-limit", "killed-without-evidence")


@pytest.mark.slow
def test_the_recorder_that_is_killed_with_its_job_leaves_a_record_that_says_so(tmp_path: Path) -> None:
    """What `memory.oom.group`, Slurm and systemd do: all of the group at once."""
    record = tmp_path / "flight.jsonl"
    eat = f"{PYTHON} -c '{EAT}' 30 2 3"  # 90 MiB from the fourth second to the sixth
    killed = run(recorded(shell(f"{eat} & sleep 5.5; kill -9 $PPID $!; exit 1"), record), mib=115, name="group")
    assert killed.status == -signal.SIGKILL
    assert b'"flight":"end"' not in record.read_bytes()
    report = Done(killed.status, killed.out, killed.err, record).report()
    assert report["verdict"] == "oom"
    assert report["incidents"][0]["diagnoses"][0]["cause"] == "container-limit"


BUS = """
import mmap
with open("/dev/shm/batch", "w+b") as file:
    file.truncate(64 << 20)
    shared = mmap.mmap(file.fileno(), 64 << 20)
    for page in range(0, 64 << 20, 4096):
        shared[page] = 1
"""


@pytest.mark.slow
def test_a_bus_error_in_a_full_shm_is_named(tmp_path: Path) -> None:
    """With a /dev/shm of its own, as in a container."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounts need root on Linux")
    record, scratch = tmp_path / "flight.jsonl", 'mount -t tmpfs -o size=16m tmpfs /dev/shm && exec "$@"'
    program = python(BUS + "import time; time.sleep(9)")
    done = run(["unshare", "-m", "bash", "-c", scratch, "job", *recorded(program, record, "0.1s")])
    assert done.status == -signal.SIGBUS
    report = Done(done.status, done.out, done.err, record).report()
    assert (report["verdict"], report["incidents"][0]["diagnoses"][0]["cause"]) == ("oom", "shm-too-small")
