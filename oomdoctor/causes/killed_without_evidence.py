"""A kill that memory would explain, without proof."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.families.container import MemoryLimit
from oomdoctor.families.data_loader import WorkerDeath
from oomdoctor.families.kill import SIGBUS, Kill
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say
from oomdoctor.patterns import late
from oomdoctor.text import sanitize
from oomdoctor.units import show

DMESG = "dmesg -T | grep -i -E 'killed process|oom'"
JOURNAL = "journalctl -k --since '1 hour ago' | grep -i -E 'killed process|oom'"
SIGKILL_SEEN_OUTSIDE = 137
COMMAND_SHOWN = 80
# What stands behind "Killed" in a shell's line
_COMMAND = late(r"\b\d{1,9} [Kk]illed:?\s{1,40}(\S.{0,200})")
_JOB = late(r"(?:SLURM_JOB_?ID[=: ]{1,3}|[Ss]lurm job (?:id )?|JOB |STEP |JobId=|StepId=)(\d{1,12})\b")
_SLURM = r"srun: |slurmstepd|SLURM_|\bsbatch\b"
_POD = r"kubectl|kubelet|\"containerStatuses\"|\"lastState\"|Last State:|\bpod\b"
_CONTAINERS = r"\bdocker\b|\bpodman\b|exited with code 137|entrypoint|" + _POD
_IN_A_CONTAINER = ("collect-evidence", "raise-container-limit", "bigger-shm", "more-host-memory")


def judge(crash: Crash) -> Judgement | None:
    root = crash.root
    if crash.proven or root.strength < 1 or root.pool not in {"host_ram", "cgroup", "none", "shm"}:
        return None
    limit = next((event for event in crash.every(MemoryLimit) if event.limit_bytes), None)
    near = (
        say("Its memory limit is {limit}.", limit=show(limit.limit_bytes))
        if limit is not None and limit.limit_bytes
        else ""
    )
    evidence = (root,) if limit is None else (root, limit)
    return Finding(
        weight=0.32,
        why=joined(
            (_what(crash), say("Memory is the usual reason for such an end, but nothing printed here proves it."), near)
        ),
        evidence=evidence,
        against=(say("a scheduler, an operator, a time limit or another program can send the same signal"),),
        pool="cgroup" if limit is not None else None,
        knobs=_IN_A_CONTAINER if limit is not None or crash.mentions(_CONTAINERS) is not None else (),
        next_evidence=_next(crash),
    )


def _what(crash: Crash) -> str:
    root = crash.root
    if isinstance(root, Kill) and root.signal == SIGBUS:
        return say("A process died of a bus error.")
    if isinstance(root, Kill) and root.signal is None:
        return say("A process vanished from its pool.")
    if isinstance(root, Kill):
        return say("{who} was killed (SIGKILL).", who=_who(root))
    if isinstance(root, WorkerDeath):
        return say("A data loader's worker was killed.") if root.signal else say("A data loader's worker vanished.")
    return say("A process died without a word of its own.")


def _who(kill: Kill) -> str:
    """The process by all that its launcher or its shell says of it."""
    command = _COMMAND.search(kill.at.text) if kill.reporter == "shell" else None
    who = f"`{sanitize(command[1].strip(), COMMAND_SHOWN)}`" if command else say("A process")
    rank = f"rank {kill.process.rank}" if kill.process.rank is not None else ""
    pid = f"PID {kill.process.pid}" if kill.process.pid is not None else ""
    told = ", ".join(part for part in (rank, pid) if part)
    return f"{who} ({told})" if told else who


def _next(crash: Crash) -> tuple[str, ...]:
    """Commands that would settle it. An id from the log stands in one only as digits."""
    found = [DMESG]
    job = crash.mentions(_JOB.pattern)
    if job is not None or crash.mentions(_SLURM) is not None:
        match = _JOB.search(job) if job else None
        found.append(f"sacct -j {match[1] if match else '<job id>'} --format=JobID,State,ExitCode,MaxRSS,ReqMem")
    # How a container's end by SIGKILL is told from outside
    container = isinstance(crash.root, Kill) and crash.root.exit_code == SIGKILL_SEEN_OUTSIDE
    if container or crash.mentions(_POD) is not None or any(limit.limit_bytes for limit in crash.every(MemoryLimit)):
        found.append("kubectl describe pod <pod> | grep -A8 'Last State'")
    if container and crash.mentions(_POD) is None:
        found.append("docker inspect --format '{{.State.OOMKilled}} {{.State.ExitCode}}' <container>")
    if crash.root.pool == "shm":
        found.append("df -h /dev/shm")
    return (*found, JOURNAL)


CAUSE = Cause(
    id="killed-without-evidence",
    title=mark("Something was killed; nothing here says why"),
    pools=("host_ram", "cgroup", "shm", "none"),
    knobs=("collect-evidence", "fewer-workers", "more-host-memory"),
    rule=judge,
)
