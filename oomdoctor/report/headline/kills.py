"""Slots about who was killed, by whom, and at which limit; the figures of a slot are of one kill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.families.container import LimitKill, MemoryLimit, NodePressure
from oomdoctor.families.data_loader import WorkerDeath as LoaderDeath
from oomdoctor.families.event import Event
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.kill import SIGKILL, Kill
from oomdoctor.families.ray_death import NodeDeath, WorkerDeath
from oomdoctor.families.ray_kill import KillCount, NodeOutOfMemory
from oomdoctor.families.sglang import SchedulerFailed
from oomdoctor.families.vllm_cascade import EngineFailed
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import machine_before, ray_kill
from oomdoctor.job.roles import short_name
from oomdoctor.language import counted, mark, say
from oomdoctor.patterns import late
from oomdoctor.report.headline.figures import beside, brief
from oomdoctor.signs.kills import as_reported
from oomdoctor.signs.limits import MANAGERS, MUCH_SHARED
from oomdoctor.signs.ray_kills import OF_A_RANK, a_rank_was_killed

_CONTAINER: Final = late(r"docker|kubepods|containerd|libpod|crio|/pod[0-9a-f]")
_LONG_ID: Final = late(r"([0-9a-f]{12})[0-9a-f]{20,}")
_MINUS_NINE: Final = late(r"(?i)(?:exit ?code|return ?code|exit status)\W{1,6}-9\b")


def killer(crash: Crash) -> str | None:
    """Who killed for memory: the kernel, or a guard of the machine by its name."""
    kill = _kill(crash)
    if kill is None:
        return None
    return say("The kernel") if isinstance(kill, KernelKill) or kill.killer in ("systemd", "Linux") else kill.killer


def killed(crash: Crash) -> str | None:
    """Whom they killed: a process with its PID, or a unit."""
    kill = _kill(crash)
    if kill is None or (isinstance(kill, KernelKill) and kill.process.name is None):
        return None
    name, pid = kill.process.name, kill.process.pid
    if name is None:
        unit = kill.unit.rsplit("/", 1)[-1] if isinstance(kill, UserspaceKill) and kill.unit else None
        return unit or (say("PID {pid}", pid=pid) if pid is not None else None)
    return say("{name} (PID {pid})", name=name, pid=pid) if pid is not None else name


def killed_size(crash: Crash) -> str | None:
    """What the killed process held."""
    kill = _kill(crash)
    size = _held(kill) if kill is not None else None
    return brief(size) if size else None


def killed_part(crash: Crash) -> str | None:
    """What it held of what was in use, of the limit that was hit, or of the machine: "11.3 of 14 GiB"."""
    kill = _kill(crash)
    size = _held(kill) if kill is not None else None
    whole = _whole(kill) if kill is not None else None
    return beside(size, whole) if size and whole and size <= whole else None


def oom_invoker(crash: Crash) -> str | None:
    """Who asked for memory when the kernel's OOM killer ran, where nobody is named as killed."""
    kill = _kill(crash)
    return kill.invoker if isinstance(kill, KernelKill) and kill.process.name in (None, kill.invoker) else None


def kernel_limit(crash: Crash) -> str | None:
    """The limit of a control group that the kernel names: "The container's memory limit of 60 GiB"."""
    kill = _kill(crash)
    if not isinstance(kill, KernelKill) or kill.pool != "cgroup":
        return None
    of_container = kill.cgroup is not None and _CONTAINER.search(kill.cgroup) is not None
    if kill.limit_bytes:
        limit = brief(kill.limit_bytes)
        return (
            say("The container's memory limit of {limit}", limit=limit)
            if of_container
            else say("A memory limit of {limit}", limit=limit)
        )
    group = _LONG_ID.sub(r"\1", kill.cgroup.rsplit("/", 1)[-1]) if kill.cgroup else ""
    return say("The memory limit of {group}", group=group) if group else say("The memory limit of a control group")


def kernel_shared(crash: Crash) -> str | None:
    """How much of that limit is shared memory, where it is much."""
    kill = _kill(crash)
    if not isinstance(kill, KernelKill) or not kill.group_shmem_bytes or not kill.used_bytes:
        return None
    return brief(kill.group_shmem_bytes) if kill.group_shmem_bytes >= MUCH_SHARED * kill.used_bytes else None


def limited_job(crash: Crash) -> str | None:
    """The job or the container that a scheduler or a container engine ended at its limit, as it is called there."""
    kill = _limit_kill(crash)
    if kill is None:
        return None
    manager = MANAGERS[kill.manager]
    if kill.job:
        return say("{manager} job {job}", manager=manager, job=kill.job)
    if kill.container:
        return say("Container {name}", name=kill.container)
    if kill.manager in ("slurm", "lsf", "pbs", "sge", "htcondor"):
        return say("A {manager} job", manager=manager)
    return None if kill.manager == "kernel" else say("A {manager} container", manager=manager)


def job_limit(crash: Crash) -> str | None:
    """The limit of that job or container, as its own record or another line has it."""
    kill = _limit_kill(crash)
    own = (kill.limit_bytes or kill.requested_bytes) if kill is not None else None
    limit = own or next((event.limit_bytes for event in crash.every(MemoryLimit) if event.limit_bytes), None)
    return brief(limit) if limit else None


def oom_kills(crash: Crash) -> str | None:
    """How many processes were killed there."""
    kill = _limit_kill(crash)
    if kill is None or not kill.kills:
        return None
    return counted(kill.kills, mark("{count} process OOM-killed"), mark("{count} processes OOM-killed"))


def docker_used(crash: Crash) -> str | None:
    """What docker's last print before the kill shows of the container's memory in use."""
    prints = [event for event in machine_before(crash) if event.tool == "docker"]
    if not prints or not prints[-1].used_bytes or not prints[-1].total_bytes:
        return None
    return beside(prints[-1].used_bytes, prints[-1].total_bytes)


def evicted(crash: Crash) -> str | None:
    """The pod or container that Kubernetes evicted for the node's memory."""
    pressure = crash.first(NodePressure)
    if pressure is None or pressure.reason != "Evicted":
        return None
    return say("container {name}", name=pressure.container) if pressure.container else say("a pod")


def evicted_free(crash: Crash) -> str | None:
    """What was available on the node then."""
    pressure = crash.first(NodePressure)
    return brief(pressure.available_bytes) if pressure is not None and pressure.available_bytes else None


def evicted_held(crash: Crash) -> str | None:
    """What the evicted container used."""
    pressure = crash.first(NodePressure)
    return brief(pressure.used_bytes) if pressure is not None and pressure.used_bytes else None


def pressed(crash: Crash) -> str | None:
    """Who says that the node was short of memory, where nobody says who was killed."""
    if crash.first(NodePressure) is not None:
        return "Kubernetes"
    return "Ray" if crash.first(NodeOutOfMemory) is not None or crash.first(KillCount) is not None else None


def ray_killed(crash: Crash) -> str | None:
    """Whom Ray killed, at the kill that says most, with its PID and size."""
    kill = ray_kill(crash)
    one = next((one for one in kill.victims if one.name or one.pid), None) if kill is not None else None
    if one is None:
        return None
    who = short_name(one.name) if one.name else say("a worker")
    pid = say("PID {pid}", pid=one.pid) if one.pid is not None else ""
    told = ", ".join(part for part in (pid, brief(one.bytes) if one.bytes else "") if part)
    return f"{who} ({told})" if told else who


def ray_kill_count(crash: Crash) -> str | None:
    """How many workers Ray counts as killed for memory within a minute."""
    most = max((each.killed or 0 for each in crash.every(KillCount)), default=0)
    return counted(most, mark("{count} worker"), mark("{count} workers")) if most else None


def killed_rank(crash: Crash) -> str | None:
    """The rank that Ray killed, one of several of its size."""
    kill = ray_kill(crash)
    if kill is None or a_rank_was_killed(crash) is None or not kill.used_bytes:
        return None
    ranks = [one for one in kill.victims if (one.bytes or 0) >= OF_A_RANK * kill.used_bytes]
    return ray_killed(crash) if ranks and ranks[0] is kill.victims[0] else None


def loaded(crash: Crash) -> str | None:
    """How many pieces of the weights were in, where the last bar before the kill was not at its end."""
    bar = next((each.loaded for each in crash.every(Kill) if each.loaded), None)
    done, _, whole = (bar or "").partition("/")
    return say("{done} of {whole} pieces loaded", done=done, whole=whole) if bar and int(done) < int(whole) else None


def killed_process(crash: Crash) -> str | None:
    """Who was killed with SIGKILL as far as the log says; None where it may have ended in another way."""
    root = crash.root
    if isinstance(root, Kill):
        return _by_its_launcher(root) if root.signal == SIGKILL else None
    if isinstance(root, LoaderDeath):
        return _loader_worker(root) if root.signal else None
    if isinstance(root, EngineFailed) and root.killed:
        name = root.worker or next((each.name for each in root.failed if each.exit_code in (-9, 137)), None)
        return say("Engine process {name}", name=name) if name else say("An engine process")
    if isinstance(root, SchedulerFailed) and root.exit_code in (-9, 137):
        return say("A scheduler process of SGLang")
    return None


def kill_code(crash: Crash) -> str | None:
    """The exit code or the signal, as the log has it."""
    root = crash.root
    code = root.figures("fields").get("exit_code")
    if code is None and isinstance(root, EngineFailed):
        code = next((each.exit_code for each in root.failed if each.exit_code is not None), None)
    if _MINUS_NINE.search(root.at.text) or code == -9:
        return say("exit code {code}", code=-9)
    if isinstance(code, int) and not isinstance(root, WorkerDeath):
        return say("exit code {code}", code=code)
    signal = root.signal if isinstance(root, Kill | LoaderDeath) else None
    return SIGKILL if signal == "Killed" else signal


def dead_process(crash: Crash) -> str | None:
    """Who died where the log does not say how: a worker or a node of Ray, one of a pool, of a data loader."""
    root = crash.root
    if isinstance(root, WorkerDeath):
        return _rays_worker(root)
    if isinstance(root, NodeDeath):
        return say("Ray node {node}", node=root.process.node) if root.process.node else say("A Ray node")
    if isinstance(root, LoaderDeath):
        return _loader_worker(root)
    if isinstance(root, Kill):
        return _OF_POOLS[root.reporter]() if root.reporter in _OF_POOLS else as_reported(root)
    return None


def bus_victim(crash: Crash) -> str | None:
    """Who died of a bus error."""
    root: Event | None = next((each for each in crash.every(Kill) if each.signal == "SIGBUS"), None)
    if isinstance(root, Kill):
        return _by_its_launcher(root)
    named = crash.root.process
    if not named.name:
        return None
    return say("{name} (PID {pid})", name=named.name, pid=named.pid) if named.pid is not None else named.name


_OF_POOLS: Final[Mapping[str, Callable[[], str]]] = {
    "pool": lambda: say("A worker of a process pool"),
    "joblib": lambda: say("A joblib worker"),
    "datasets": lambda: say("A worker of datasets' map"),
}
_LAUNCHERS: Final = {"deepspeed": "DeepSpeed", "torchrun": "torchrun", "mpirun": "mpirun", "slurm": "Slurm"}


def _by_its_launcher(kill: Kill) -> str:
    if kill.process.pid is None and kill.process.rank is None and kill.local_rank is not None:
        return say("Local rank {rank}", rank=kill.local_rank)
    if kill.process.pid is None and kill.process.rank is None and kill.reporter in _LAUNCHERS:
        return say("A process that {launcher} started", launcher=_LAUNCHERS[kill.reporter])
    if kill.process.rank is not None and kill.process.pid is not None:
        return say("Rank {rank} (PID {pid})", rank=kill.process.rank, pid=kill.process.pid)
    return as_reported(kill)


def _loader_worker(death: LoaderDeath) -> str:
    if death.process.pid is not None:
        return say("DataLoader worker {pid}", pid=death.process.pid)
    pids = ", ".join(str(pid) for pid in death.pids[:3])
    return say("DataLoader workers {pids}", pids=pids) if pids else say("A DataLoader worker")


def _rays_worker(death: WorkerDeath) -> str:
    name = death.actor_name or death.class_name
    pid = death.process.pid
    who = short_name(name.rsplit(".", 1)[-1]) if name else ""
    if pid is not None and who:
        return say("Ray actor {name} (PID {pid})", name=who, pid=pid)
    if pid is not None:
        return say("Ray worker {pid}", pid=pid)
    return say("Ray actor {name}", name=who) if who else say("A Ray worker")


def _kill(crash: Crash) -> KernelKill | UserspaceKill | None:
    """Of the kernel's kills the one whose process held most, else the guard's."""
    kernel = max(
        crash.every(KernelKill), key=lambda kill: (kill.process.name is not None, _held(kill) or 0), default=None
    )
    return kernel or max(crash.every(UserspaceKill), key=lambda kill: kill.rss_bytes or 0, default=None)


def _held(kill: KernelKill | UserspaceKill) -> int | None:
    if isinstance(kill, UserspaceKill):
        return kill.rss_bytes
    return (kill.anon_rss_bytes or 0) + (kill.shmem_rss_bytes or 0) or None


def _whole(kill: KernelKill | UserspaceKill) -> int | None:
    if isinstance(kill, KernelKill):
        return kill.limit_bytes or kill.total_bytes
    total, free = kill.total_bytes, kill.available_bytes
    return total - free if total and free and free < total else total


def _limit_kill(crash: Crash) -> LimitKill | None:
    kills = [kill for kill in crash.every(LimitKill) if not kill.virtual and kill.manager in MANAGERS]
    return max(kills, key=lambda kill: kill.strength, default=None)


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    slot.__name__: slot
    for slot in (
        killer, killed, killed_size, killed_part, oom_invoker, kernel_limit, kernel_shared, limited_job, job_limit,
        oom_kills, docker_used, evicted, evicted_free, evicted_held, pressed, ray_killed, ray_kill_count, killed_rank,
        loaded, killed_process, kill_code, dead_process, bus_victim,
    )
}  # fmt: skip
