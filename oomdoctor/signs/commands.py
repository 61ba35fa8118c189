"""Commands that show what a log does not, best the records that outlive a process; one for every kind of manager.

An id or a name from the log stands in a command only where it matches a strict grammar.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from oomdoctor.families.container import EndRecord, LimitKill, NodePressure
from oomdoctor.families.df import ShmUsage
from oomdoctor.families.event import Event
from oomdoctor.families.gpu_table import GpuTable
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.kill import SIGBUS, Kill
from oomdoctor.families.process_limits import ProcessLimits
from oomdoctor.families.ray_death import FatalSignal, NodeDeath, WorkerDeath
from oomdoctor.families.ray_kill import BEFORE_KILLS, NodeOutOfMemory
from oomdoctor.families.ray_schedule import ClusterStatus
from oomdoctor.families.ray_store import StoreUsage
from oomdoctor.families.sysctl import KernelSettings
from oomdoctor.incident.devices import maker
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import address_of, is_after, stated_limit
from oomdoctor.patterns import late
from oomdoctor.signs.pods import pod
from oomdoctor.sources.recognised import is_raylets

DMESG: Final = "dmesg -T | grep -i -E 'killed process|oom'"
# Without -b journalctl's kernel lines are of the current boot, and many a node is restarted after such a death. The
# whole date tells a kill of another day. Guards that kill from user space leave no line of the kernel's.
JOURNAL: Final = (
    "for boot in -1 0; do journalctl -t kernel -t earlyoom -t systemd-oomd -b $boot -o short-iso; done"
    " | grep -i -E 'killed process|oom'"
)
# With the lines above the kill: the kernel's table of processes and what they do not hold
DUMP: Final = "dmesg -T | grep -B 400 -i 'killed process'"
# Ray's table of memory users, where the log at hand ends before its rows
ROWS_BELOW: Final = "grep -A 10 'MEM(GB)' <the whole log>"
# Before 2.1 the exception itself has them, and no `ray logs` is there: python/ray/_private/memory_monitor.py of 1.13
IN_THE_EXCEPTION: Final = "grep -A 12 'memory consumers are' <the whole log>"
FIRST_ERRORS: Final = "grep -n -m 5 -E 'Error|Exception|Killed' <the whole log>"
# XLA's account of the program, its largest buffers among it, stands below the error: xla/service/buffer_assignment.cc
ACCOUNT_OF_XLA: Final = "grep -n -A 40 RESOURCE_EXHAUSTED <the whole log>"
# SGLang says on the lines below the error how many tokens there were: mem_cache/common.py, before 0.5 schedule_batch.py
TOKENS_OF_SGLANG: Final = "grep -n -A 3 'Try to allocate' <the whole log>"
OF_OTHER_RANKS: Final = "grep -n -m 5 -E 'Error|Exception|Killed|exitcode' <the logs of the other ranks>"
# What MLC-LLM works its estimate out from: python/mlc_llm/interface/gen_config.py
FIGURES_OF_MLC: Final = (
    "grep -n -E 'context_window_size|prefill_chunk_size|num_(hidden_layers|key_value_heads)|head_dim|vocab_size'"
    " <the model's folder>/mlc-chat-config.json"
)
WHOLE_LOG: Final = "grep -n -A 60 'Traceback (most recent call last)' <the whole log>"
# Runs of the job that say what the log leaves open
OF_AN_ENGINES_START: Final = (
    "grep -n -iE 'model weights|memory profiling|gpu_memory_utilization|GPU blocks' <the whole log>; nvidia-smi"
)
NCCL_IN_FULL: Final = "NCCL_DEBUG=INFO <the command that starts the job>"
ONE_CALL_AT_A_TIME: Final = "CUDA_LAUNCH_BLOCKING=1 <the command that starts the job>"
# In PowerShell
WHOLE_LOG_ON_WINDOWS: Final = (
    "Select-String -Path <the whole log> -SimpleMatch 'Traceback (most recent call last)' -Context 0,60"
)
MEMORY_ON_WINDOWS: Final = (
    "Get-CimInstance Win32_OperatingSystem | Format-List "
    "TotalVisibleMemorySize, FreePhysicalMemory, TotalVirtualMemorySize, FreeVirtualMemory"
)
WORKERS: Final = "grep -n -i -B 40 'out of memory' /tmp/ray/session_latest/logs/*.{out,err}"
# Where a node keeps it: docs.ray.io, ray-observability/user-guides/configure-logging. `ray logs` reads no node of a
# cluster that has ended; on Windows the folder is the user's (get_user_temp_dir of ray/_private/utils.py).
RAYLETS_OWN: Final = "oomdoctor diagnose /tmp/ray/session_latest/logs/raylet.out"
RAYLETS_ON_WINDOWS: Final = (
    'oomdoctor diagnose (Get-ChildItem "$env:TEMP\\ray\\session_*\\logs\\raylet.out" | Sort-Object LastWriteTime)'
    "[-1].FullName"
)
# The same and the files of one worker, where a crash prints its stack: worker-ID-JOB-PID.err by faulthandler,
# python-core-worker-ID_PID.log by Ray's own handler (get_worker_log_file_name of ray/_private/log.py, core_worker.cc)
WITH_A_WORKERS: Final = RAYLETS_OWN + " /tmp/ray/session_latest/logs/*worker-*[-_]{pid}.{{err,log}}"
WHO_HOLDS_IT_NOW: Final = "ps aux --sort=-rss | head -20"
ON_A_MAC: Final = "ps aux -m | head -20"
KILLS_ON_A_MAC: Final = "log show --last 1d --predicate 'eventMessage CONTAINS \"memorystatus\"'"
ALL_PROCESSES: Final = "ps -eo pid,ppid,user,rss,args --sort=-rss"
PROCESSES: Final = f"{ALL_PROCESSES} | head -20"
OF_THE_MACHINE: Final = (DUMP, WHO_HOLDS_IT_NOW)
# Read in the kernel's log, where only the kernel's own kills stand
KERNELS: Final = (DMESG, DUMP, JOURNAL)
FREE: Final = "free -h"
# RAM that belongs to no process
OUTSIDE_PROCESSES: Final = "free -m; df -h -t tmpfs; grep -E 'Shmem|Huge|SUnreclaim|Percpu' /proc/meminfo"
SHM: Final = "df -h /dev/shm"
SYSTEM_V: Final = "ipcs -lm; ipcs -um"
# What else ends a process by SIGBUS leaves a line of its own: mm/memory-failure.c and block/blk-core.c of Linux
BUS_ERRORS: Final = "dmesg -T | grep -i -E 'memory failure|i/o error'"
OBJECTS: Final = "ray memory --stats-only"
SCHEDULED: Final = "ray status -v"
CARDS: Final = "nvidia-smi -L"
CARDS_NOW: Final = "nvidia-smi"
ON_THE_CARDS: Final = "nvidia-smi --query-compute-apps=pid,process_name,used_gpu_memory --format=csv"
# Each maker has a tool of its own; a Mac's GPU has the RAM, and a TPU's device file one holder at most.
ON_OTHER_DEVICES: Final[Mapping[str, str]] = {
    "AMD": "rocm-smi --showpids --showmeminfo vram",
    "Apple": ON_A_MAC,
    "HPU": "hl-smi",
    "Intel": "xpu-smi ps",
    "MLU": "cnmon",
    "NPU": "npu-smi info",
    "NeuronCore": "neuron-ls",  # awsdocs-neuron: tools/neuron-sys-tools/neuron-ls
    "TPU": "sudo lsof -w /dev/accel* /dev/vfio/*",
    "Tenstorrent": "sudo lsof -w /dev/tenstorrent/*",  # tenstorrent/tt-kmd: chardev.c
}
# What tells of a kill that the kernel did not do, by the killer: no line of its log does. The guards of Linux pick by
# size and say nothing of the others: what holds the memory, processes and the RAM of none, shows on the machine.
# earlyoom: main.c; systemd: man systemd-cgtop; Kubernetes: concepts/scheduling-eviction/
# node-pressure-eviction; macOS: man log
KUBELET: Final = "kubelet"
OF_A_GUARD: Final = (f"{ALL_PROCESSES} | head -30", OUTSIDE_PROCESSES)
OF_KUBERNETES: Final = (
    "kubectl get events -A --field-selector reason=Evicted",
    "kubectl describe node NODE",
)
BY_KILLER: Final[Mapping[str, tuple[str, ...]]] = {
    "earlyoom": OF_A_GUARD,
    "nohang": OF_A_GUARD,
    "oomd": OF_A_GUARD,
    "systemd-oomd": ("systemd-cgtop -m -b -n 1 | head -30", OUTSIDE_PROCESSES),
    "macOS": (KILLS_ON_A_MAC, ON_A_MAC),
    "FreeBSD": ("dmesg | grep 'was killed'", ON_A_MAC),
    KUBELET: OF_KUBERNETES,
}
# In the shell that starts the job; each figure beside its name
LOCKED_LIMIT: Final = "ulimit -a | grep -i locked"
ADDRESS_LIMIT: Final = "ulimit -a"
MAPS_LIMIT: Final = "sysctl vm.max_map_count"
# What refuses to register memory with a network adapter, on the node that says so
HUGE_PAGES_FREE: Final = "grep -i huge /proc/meminfo; sysctl vm.nr_hugepages"
OF_A_REGISTRATION: Final = "sysctl vm.max_map_count; ulimit -l; free -h; dmesg -T | grep -i mlx | tail"
# After a refused request: the process that asked is gone, its limits may still stand
OVERCOMMIT: Final = "sysctl vm.overcommit_memory; grep -i commit /proc/meminfo"
# In one line: a limit of the process, one of the machine, or neither
LIMIT_OR_FULL: Final = f"{ADDRESS_LIMIT}; {OVERCOMMIT}; {FREE}"
OF_A_REFUSAL: Final = (LIMIT_OR_FULL, WHO_HOLDS_IT_NOW)
# Both versions of cgroups; `grep .` prints each file's name before its value.
GROUP: Final = (
    "grep . /sys/fs/cgroup/memory.{max,peak,current,events} "
    "/sys/fs/cgroup/memory/memory.{limit_in_bytes,max_usage_in_bytes,failcnt,oom_control} 2>/dev/null"
)
# A state is cut after ten characters where no width is given.
SACCT: Final = "sacct -j {JOB} --format=JobID%20,State%20,ExitCode,Start,End,MaxRSS,ReqMem,NodeList"
# A failed liveness probe and an eviction stand here alone; a pod's user has no shell on its node
EVENTS_OF_THE_POD: Final = "kubectl get events --field-selector involvedObject.name=POD"
POD: Final = "kubectl describe pod POD"  # whole: each container's limit stands below its state, its name above
_OF_A_CONTAINER: Final = (
    "OOMKilled={{.State.OOMKilled}} ExitCode={{.State.ExitCode}} Memory={{.HostConfig.Memory}} "
    "StartedAt={{.State.StartedAt}} FinishedAt={{.State.FinishedAt}} Id={{.Id}} Name={{.Name}}"
)
SIGKILL_SEEN_OUTSIDE: Final = 137
_RESERVED_PIDS: Final = 300  # kernel/pid.c of Linux: those below are given once, at the boot
_BY_THE_KERNEL: Final = "SystemOOM"  # the kubelet's word for a kill that it only saw

# What the output of a command is read as
_PRINTS: Final[Mapping[str, tuple[type[Event], ...]]] = {
    "df -h /dev/shm": (ShmUsage,),
    "ulimit -a": (ProcessLimits,),
    "sysctl": (KernelSettings,),
    "ray memory": (StoreUsage,),
    "ray status": (ClusterStatus,),
    "nvidia-smi": (GpuTable,),
    "rocm-smi": (GpuTable,),
    "npu-smi": (GpuTable,),
    "xpu-smi": (GpuTable,),
    "hl-smi": (GpuTable,),
    "cnmon": (GpuTable,),
    "sudo lsof": (GpuTable,),
}
_ADVICE: Final = late(r"\bray logs raylet\.out -ip (\d{1,3}(?:\.\d{1,3}){3})(?![\w.]*\d)")
_HEAD_OF_THE_TABLE: Final = r"\bPID\s{1,12}MEM\(GB\)\s{1,12}COMMAND\b|\bTop \d{1,3} memory users"
# docs.ray.io, ray-observability/reference/cli: "only the logs from alive nodes are available" by `ray logs`
_OF_A_DEAD_NODE: Final = "ssh {node} cat /tmp/ray/session_latest/logs/raylet.out | oomdoctor diagnose -"
_OWN_CLUSTER: Final = r"\bStarted a local Ray instance\b"
_NODE: Final = late(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,100}[A-Za-z0-9])?")
_OF_A_NODE: Final = ("dmesg", "df ", "for boot", "free ", "grep . /sys", "nvidia-smi", "ps ")
_HERE: Final = late(r"(?i)(?:0\.0\.0\.0|127(?:\.\d{1,3}){3}|localhost)\Z")
_JOB: Final = late(r"\d{1,12}(?:_\d{1,6})?")  # of "123_4.batch"
_JOB_OF_A_LINE: Final = late(
    r"(?:SLURM_JOB_?ID[=: ]{1,3}|[Ss]lurm job (?:id )?|JOB |STEP |JobId=|StepId=|/slurmd?/job0{0,11})(\d{1,12})\b"
)
_SLURM: Final = r"srun: |slurmstepd|SLURM_|\bsbatch\b|/slurmd?/job\d"
# `kubectl exec` says how a command terminated.
IN_A_POD: Final = (
    r"kubectl|kubelet|\"containerStatuses\"|\"lastState\"|Last State:|\bpod\b|\bcommand terminated with exit code \d"
    r"|^NAME {2,}READY {2,}STATUS\b|\bCrashLoopBackOff\b|\blastFailureInfo:"  # KServe's, pkg/apis/serving/v1beta1
    r"|\bOOMKilling\b.{0,40}\bkernel-monitor\b"  # config/kernel-monitor.json of node-problem-detector
)
CONTAINERS: Final = r"\bdocker\b|\bpodman\b|exited with code 137|entrypoint|" + IN_A_POD
_OF_COMPOSE: Final = late(r"^\[?([A-Za-z0-9][\w.-]{0,60})\]? exited with code 137\b")
# A container's network goes down in the kernel's log when it ends: drivers/net/veth.c, net/bridge/br_stp_if.c
_BRIDGE: Final = late(
    r"\bveth[0-9a-f]{6,8}: renamed from eth\d|\bdocker\d: port \d{1,4}\(veth[0-9a-f]{6,8}\) entered disabled"
)
_UNIT: Final = late(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,120}\.(?:service|scope|slice)")
_SYSTEMD: Final = "systemd"  # a killer's name
_CONTAINER_ID: Final = late(r"([0-9a-f]{12})[0-9a-f]{52}")


def on_the_devices(crash: Crash) -> str:
    """Who holds the memory of the job's devices, by the tool of their maker."""
    return ON_OTHER_DEVICES.get(maker(crash), ON_THE_CARDS)


def devices_now(crash: Crash) -> str:
    """How full the job's devices are, and of whom, by the tool of their maker."""
    return ON_OTHER_DEVICES.get(maker(crash), CARDS_NOW)


def settling(crash: Crash) -> tuple[str, ...]:
    """What would tell whether a process died of memory: the record of its manager first, then the kernel's."""
    of_ray = crash.root.family.startswith("ray_") or "ray" in crash.context.frameworks
    records = (*(_logs_of_ray(crash) if of_ray else ()), *of_its_manager(crash))
    later = through_the_cluster(crash) if of_ray else ()
    if in_a_pod(crash):
        records = (*records, events_of_pod(crash))
    if isinstance(crash.root, FatalSignal) or (isinstance(crash.root, Kill) and crash.root.signal == SIGBUS):
        return (*records, SHM, BUS_ERRORS, *later)
    shared = (SHM,) if crash.root.pool == "shm" else ()
    return (*records, *shared, JOURNAL, DMESG, *later)


def _logs_of_ray(crash: Crash) -> tuple[str, ...]:
    """The raylet's, and the dead worker's own: killed or crashed, Ray says the same of both."""
    pid = crash.root.process.pid if isinstance(crash.root, WorkerDeath) else None
    commands = raylets_own_log(crash)
    if pid is None:
        return commands
    return tuple(WITH_A_WORKERS.format(pid=pid) if command == RAYLETS_OWN else command for command in commands)


def of_its_manager(crash: Crash) -> tuple[str, ...]:
    """The records of who set the limit of the job or container: its control group is gone when that has ended."""
    container, commands = _ended_as_container(crash), list[str]()
    if in_slurm(crash):
        commands.append(of_slurm(crash))
    if container and not in_a_pod(crash):
        commands.append(of_docker(crash))
    if (
        in_a_pod(crash)
        or (stated_limit(crash) is not None and not container)
        or (container and container_of(crash) is None)
    ):
        commands.append(of_pod(crash))
    elif not container and pid_of_a_container(crash) is not None:
        commands.append(GROUP)
    given = {record.tool for record in crash.every(EndRecord) if not _says_only_a_state(record)}
    return tuple(command for command in commands if not any(command.startswith(tool) for tool in given))


def _says_only_a_state(record: EndRecord) -> bool:
    """sacct prints the columns that it was asked for: without a code and a peak it is worth asking again."""
    return record.tool == "sacct" and record.exit_code is None and record.peak_bytes is None


def pid_of_a_container(crash: Crash) -> int | None:
    """The number of the killed process, where a whole machine gives none so low to what users start."""
    pid = crash.root.process.pid if isinstance(crash.root, Kill) else None
    return pid if pid is not None and pid < _RESERVED_PIDS else None


def killer_of(crash: Crash) -> str:
    """Who killed, where it is one of those that leave no line in the kernel's log; empty where it is not."""
    if crash.first(KernelKill) is not None:
        return ""
    if any(kill.killer in BY_KILLER for kill in crash.every(UserspaceKill)):
        return next(kill.killer for kill in crash.every(UserspaceKill) if kill.killer in BY_KILLER)
    pressure = crash.first(NodePressure)
    return KUBELET if pressure is not None and pressure.reason != _BY_THE_KERNEL else ""


def of_its_killer(asked: Iterable[str], crash: Crash) -> tuple[str, ...]:
    """The commands, those that read the kernel's log replaced by what tells of the killer that did it."""
    instead = BY_KILLER.get(killer_of(crash), ())
    if not instead:
        return tuple(asked)
    told = [command for command in asked if command not in (WHO_HOLDS_IT_NOW, PROCESSES)]
    return tuple(dict.fromkeys(one for command in told for one in (instead if command in KERNELS else (command,))))


def raylet_log(crash: Crash) -> tuple[str, ...]:
    """The commands that show the table of a kill of Ray's: the file on its node, then through the cluster."""
    return (*raylets_own_log(crash), *through_the_cluster(crash))


def raylets_own_log(crash: Crash) -> tuple[str, ...]:
    """The same without the cluster, which may have ended."""
    if raised_by_rays_old_monitor(crash):
        return (IN_THE_EXCEPTION,)
    if any(map(is_raylets, crash.context.files)):  # its own log is among those that were read
        return ()
    node = node_of(crash)
    if isinstance(crash.root, NodeDeath):
        return (_OF_A_DEAD_NODE.format(node=node or "NODE"),)
    rows = (ROWS_BELOW,) if rays_table_is_cut_off(crash) else ()
    return (*rows, RAYLETS_OWN)


def through_the_cluster(crash: Crash) -> tuple[str, ...]:
    """The same file while the cluster runs, where its node is known: the cluster of a program's own ends with it."""
    node = node_of(crash)
    if node is None or crash.mentions(_OWN_CLUSTER) is not None or RAYLETS_OWN not in raylets_own_log(crash):
        return ()
    return (f"ray logs raylet.out --tail -1 -ip {node} | oomdoctor diagnose -  # while the cluster runs",)


def node_of(crash: Crash) -> str | None:
    """The node to look at, where the log has an address or a name that others can reach it by."""
    named = address_of(crash) or _address_in_rays_advice(crash) or crash.root.process.node
    return named if named and _NODE.fullmatch(named) and not _HERE.match(named) else None


def raised_by_rays_old_monitor(crash: Crash) -> bool:
    """Whether a task of Ray before 2.1 raised it when it began: nobody was killed."""
    return any(kill.generation == BEFORE_KILLS for kill in crash.every(NodeOutOfMemory))


def rays_table_is_cut_off(crash: Crash) -> bool:
    """Whether the head of Ray's table of memory users stands in the log, and none of its rows."""
    kills = crash.every(NodeOutOfMemory)
    return bool(kills) and not any(kill.rows for kill in kills) and crash.mentions(_HEAD_OF_THE_TABLE) is not None


def _address_in_rays_advice(crash: Crash) -> str | None:
    """The node's address as Ray's own hint to its logs has it."""
    line = crash.mentions(_ADVICE.pattern)
    match = _ADVICE.search(line) if line else None
    return match[1] if match else None


def where_to_look(asked: Iterable[str], crash: Crash) -> str | None:
    """The node, where one of the commands shows what only a node itself can."""
    return node_of(crash) if any(command.startswith(_OF_A_NODE) for command in asked) else None


def unanswered(asked: Iterable[str], crash: Crash) -> tuple[str, ...]:
    """Without the commands whose output of after the failure stands beside the log already."""
    return tuple(command for command in asked if not _is_given(command, crash))


def _is_given(command: str, crash: Crash) -> bool:
    read = next((kinds for words, kinds in _PRINTS.items() if command.startswith(words)), ())
    return any(is_after(event, crash.root) for kind in read for event in crash.every(kind))


def release_of(package: str) -> str:
    """Which release of a package is installed."""
    return f"pip show {package}"


def of_slurm(crash: Crash) -> str:
    """What the job had and used."""
    return SACCT.format(JOB=job_of(crash) or "JOB_ID")


def of_unit(crash: Crash) -> str | None:
    """Which limits a unit has whose process the kernel's killer ended, as systemd alone tells: the kernel kills at the
    unit's limit as it does where the machine is full, and systemd's line is the same."""
    units = (kill.unit or "" for kill in crash.every(UserspaceKill) if kill.killer == _SYSTEMD)
    unit = next((unit for unit in units if _UNIT.fullmatch(unit)), None)
    if unit is None or killer_of(crash) or crash.first(KernelKill) is not None:  # whose own line says more
        return None
    return f"systemctl show {unit} -p MemoryMax,MemoryPeak,MemorySwapMax; {FREE}"


def of_docker(crash: Crash) -> str:
    """Whether the container was OOM-killed, its exit code, and its limit in bytes (0: none)."""
    return f"docker inspect -f '{_OF_A_CONTAINER}' {container_of(crash) or 'CONTAINER'}"


def of_pod(crash: Crash) -> str:
    """What Kubernetes knows of the pod, by the names that the log has."""
    return _of_the_named_pod(POD, crash)


def events_of_pod(crash: Crash) -> str:
    return _of_the_named_pod(EVENTS_OF_THE_POD, crash)


def _of_the_named_pod(command: str, crash: Crash) -> str:
    named = pod(crash)
    words = command.replace("POD", named.name or "POD")
    return " ".join((words, "-n", named.namespace)) if named.namespace else words


def in_slurm(crash: Crash) -> bool:
    """Whether lines near the failure are Slurm's, or name a job of it."""
    return crash.mentions(_SLURM) is not None or crash.mentions(_JOB_OF_A_LINE.pattern) is not None


def in_a_pod(crash: Crash) -> bool:
    """Whether lines near the failure speak of Kubernetes."""
    return crash.mentions(IN_A_POD) is not None


def job_of(crash: Crash) -> str | None:
    """The number of the batch job: Slurm's own record has it, else a line near the failure."""
    jobs = (_JOB.match(kill.job or "") for kill in crash.every(LimitKill))
    own = next((match[0] for match in jobs if match), None)
    line = crash.mentions(_JOB_OF_A_LINE.pattern) if own is None else None
    match = _JOB_OF_A_LINE.search(line) if line else None
    return own or (match[1] if match else None)


def container_of(crash: Crash) -> str | None:
    """The container: its id as the kernel's record has it, or its name as docker compose prints it."""
    groups = (_CONTAINER_ID.search(kill.cgroup or kill.task_cgroup or "") for kill in crash.every(KernelKill))
    by_id = next((match[1] for match in groups if match), None)
    line = crash.mentions(_OF_COMPOSE.pattern) if by_id is None else None
    name = _OF_COMPOSE.search(line) if line else None
    return by_id or (name[1] if name else None)


def _ended_as_container(crash: Crash) -> bool:
    """A container's end by SIGKILL is told from outside as 137; a shell and an editor tell a local process's like that,
    too."""
    outside = isinstance(crash.root, Kill) and crash.root.exit_code == SIGKILL_SEEN_OUTSIDE
    if container_of(crash) is not None or any(map(_BRIDGE.search, crash.root.around.below)):
        return True
    return outside and crash.mentions(CONTAINERS) is not None
