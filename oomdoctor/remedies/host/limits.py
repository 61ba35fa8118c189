"""The limit of a container or a job, raised as its manager writes it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from oomdoctor.families.container import EndRecord, LimitKill, MemoryLimit, NodePressure
from oomdoctor.families.kernel import KernelKill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import held_by, machine_after
from oomdoctor.job.model import Setting
from oomdoctor.language import say, semicolons
from oomdoctor.patterns import late
from oomdoctor.remedies.host.offload import OFF, OFFLOADS, adam_states
from oomdoctor.remedies.host.thresholds import limit_bytes
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Skip
from oomdoctor.remedies.settings import Spelling, of_knob, spelling
from oomdoctor.signs import commands, limits, pods
from oomdoctor.signs.estimates import estimate_beyond_the_limit
from oomdoctor.signs.files_in_memory import files_in_memory
from oomdoctor.units import GIB, MIB, gib_up, show, size

_AMOUNT: Final = late(r"(\d{1,9}(?:\.\d{1,3})?)([KMGTkmgt])i?[Bb]?")
# In the names of control groups, innermost first
_GROUPS: Final = (
    ("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("slurm", "slurm"), (".service", "systemd"),
    (".scope", "systemd"),
)  # fmt: skip
# A limit that a program of Python with its libraries may pass at its start
_SMALL: Final = 4 * GIB
_TINY: Final = 32 * MIB  # no interpreter with a few libraries starts in as much
_START: Final = 512 * MIB
_TOO_MUCH_TO_DOUBLE: Final = 64 * GIB
_GROUP: Final = "cgroup"  # a pool
_SLURM: Final = "slurm"
_KUBERAY: Final = "kuberay"
_SNAKEMAKE: Final = "snakemake"
_BY_ATTEMPTS: Final = (
    "resources: mem_mb=lambda wildcards, attempt: {now} * attempt   # or so in the rule, with retries: 3"
)
MEGA: Final = 10**6  # bytes: mem_mib stands beside mem_mb
# Names of KubeRay's objects, and of its guides: doc/source/cluster/kubernetes of Ray
_OF_KUBERAY: Final = r"(?i)\bkuberay\b|\bray-?cluster\b|\bRAY_HEAD\b|ray\.io/node-type|\bray-head\b"
_OF_A_POD: Final = r"\bkubepods\b"  # a path of a cgroup, on a line that the kernel broke off
_OVERHEAD: Final = "spark.executor.memoryOverhead"
_OVERHEADS: Final = 11  # of which the heap is ten
_LEAST_OVERHEAD: Final = 384 * MIB
_OFTEN: Final = 3  # restarts of a container that is killed again and again
_RESTARTS: Final = late(r"(?i)\brestart ?count\b\W{1,12}(\d{1,6})\b")
_BESIDE_THE_HEAP: Final = ".memoryOverhead"  # Spark's option
MORE: Final = 1.25  # a new limit against the one that was hit: what would have been needed was cut off by the kill
# docs/reference/generated/kubectl/kubectl-commands of kubernetes.io, `set resources`; of what made the pod, whose own
# limits are not changed while it runs
_SET_RESOURCES: Final = "kubectl{space} set resources {kind} {owner} -c {container} "
_OR_ANOTHER: Final = "   # or statefulset, daemonset"
_EDIT_CLUSTER: Final = "kubectl edit raycluster NAME   # resources.limits.memory: {amount}"
# Where the limit is not printed, the command above these shows it: twice that is a value to begin with
_TWICE: Final = "TWICE_THE_LIMIT"
_RESERVED: Final = r"\brusage\[[^\]\n]{0,80}\bmem="  # of LSF: what a host must have beside the limit
# doc/man/man1/sbatch.1
_TWICE_REQUESTED: Final = "#SBATCH --mem=TWICE_REQMEM   # twice the ReqMem above; 0 is all of the node"
# The parts of a RayCluster, by what shows them: names of pods, and the value of ray.io/node-type
_HEAD: Final = ("headGroupSpec.template", r"(?i)\bRAY_HEAD\b|\bray-head\b|node-type\W{1,4}head\b|-head(?:-\w{5})?\b")
_WORKERS: Final = ("workerGroupSpecs", r"(?i)\bRAY_WORKER\b|\bray-worker\b|node-type\W{1,4}worker\b|-worker-")


def raise_limit(case: Case) -> Answer:
    crash = case.crash
    if crash.pool == "host_ram" and commands.killer_of(crash) == commands.KUBELET:
        return _requested_by_the_pod(crash)
    if any(kill.virtual and kill.manager == "yarn" for kill in crash.every(LimitKill)):
        return _of_a_larger_container(case.row)
    if (of_its_rule := limits.asked_by_its_rule(crash)) is not None:
        return _more_for_its_rule(of_its_rule)
    limit = limit_bytes(crash) or _stated_limit(case)
    manager = _manager(crash)
    if limit is None and manager == "kubernetes" and limits.several_containers_share_the_group(crash) is not None:
        return _of_all_pods(crash)
    if limit is None and (each := crash.setting(*limits.ASKED_OF_SLURM)) is not None and manager in (None, _SLURM):
        return _more_for_each(crash, each)
    if limit is None:
        asked = _ask_for_more(crash, manager)
        created = any(limits.before_the_program(kill) for kill in crash.every(LimitKill))
        return _at_least_a_start(asked, crash, manager) if created and manager == "kubernetes" else asked
    if (known := _more_overhead(case, limit) or _room_for_what_is_known(crash, manager, limit)) is not None:
        return known
    if limit < _TINY:
        return replace(
            _raised_to(_amount(_START), crash, manager, limit),
            derivation=say("{value} is a usual start value", value=show(_START)),
            assumes=(
                say(
                    "{limit} is probably a slip of the unit: an interpreter with a few libraries needs more",
                    limit=show(limit),
                ),
            ),
        )
    if limit < _SMALL and _dies_early(crash):
        return replace(
            _raised_to(_amount(2 * limit), crash, manager, limit),
            derivation=f"2 x {show(limit)} = {show(2 * limit)}",
            assumes=(say("twice is a guess: it dies at its start, and the peak is unknown"),),
        )
    held = max(limit, *(_most(kill) for kill in crash.every(LimitKill) if kill.limit_bytes in (None, limit)), 0)
    then = gib_up(MORE * held) if held >= GIB else None
    amount = f"{then}G" if then is not None else _amount(MORE * held)
    ended = say("25 % more is a guess: the job was ended at {peak}", peak=show(held))
    rounded = say("{formula}, rounded up", formula=f"{show(held)} x {MORE} = {show(MORE * held)}")
    return replace(
        _raised_to(amount, crash, manager, limit),
        derivation=rounded if then == MORE * held / GIB or then is None else f"{rounded} = {then} GiB",
        assumes=(ended if held > limit else say("25 % more is a guess: the peak is unknown"),),
    )


def _most(kill: LimitKill) -> int:
    """What the job had when it was ended, by the record; schedulers that look from time to time come late."""
    return max(kill.peak_bytes or 0, kill.used_bytes or 0)


def _of_a_larger_container(row: Spelling | None) -> Answer:
    """YARN's limit on address space is a multiple of the container's memory, which Spark's option is a part of."""
    if row is None or not row.key.endswith(_BESIDE_THE_HEAP):
        return Skip()
    return Proposal(action=say("Raise {option}: YARN's limit grows with it", option=row.setting), setting=row.setting)


def _more_overhead(case: Case, limit: int) -> Proposal | None:
    """Spark asks for a container of the heap and an overhead, by default 10 % of the heap and at least 384 MiB, so that
    the option is but a part of the limit: docs/configuration.md, spark.executor.memoryOverhead."""
    if case.row is None or not case.row.setting.endswith(_BESIDE_THE_HEAP):
        return None
    heap = case.crash.setting("executor_memory", "spark.executor.memory")
    stated = _size_of(heap.value) if heap is not None else None
    now = limit - stated if stated is not None and stated < limit else max(limit / _OVERHEADS, _LEAST_OVERHEAD)
    then = gib_up(now + (MORE - 1) * limit)
    by_default = say("the overhead is 10 % of spark.executor.memory now, at least 384 MiB (default, not in the log)")
    return Proposal(
        action=say(
            "Raise the overhead from {now} to {then} GiB: with spark.executor.memory it makes the limit of {limit}",
            now=show(now),
            then=then,
            limit=show(limit),
        ),
        suggested=f"{then}g" if case.row.setting == _OVERHEAD else f"{then * 1024}",
        derivation=say(
            "{formula}, rounded up",
            formula=f"{show(now)} + {MORE - 1} x {show(limit)} = {show(now + (MORE - 1) * limit)}",
        ),
        assumes=(*(() if stated is not None else (by_default,)), say("25 % more is a guess: the peak is unknown")),
    )


def _size_of(value: object) -> int | None:
    """ "64G" """
    amount = _AMOUNT.fullmatch(str(value))
    return size(amount[1], f"{amount[2]}ib") if amount else None


def _at_least_a_start(asked: Proposal, crash: Crash, manager: str) -> Proposal:
    """What ran was runc alone, so that any program needs more, whatever the limit is."""
    amount = in_units_of(manager, _amount(_START))
    return replace(
        asked,
        suggested=amount,
        snippet="\n".join((commands.of_pod(crash), *_beside(crash, manager, amount))),
        derivation=say("{value} is a usual start value", value=show(_START)),
    )


def _requested_by_the_pod(crash: Crash) -> Proposal:
    """Who uses more than it requests is evicted first: kubernetes.io, concepts/scheduling-eviction/
    node-pressure-eviction."""
    used = max((each.used_bytes or 0 for each in crash.every(NodePressure)), default=0)
    amount = f"{gib_up(used)}Gi" if used else "PEAK"
    return Proposal(
        action=say(
            "Request the memory that the pod really uses, with a limit as high: Kubernetes evicts first who uses more "
            "than it requested"
        ),
        snippet=_set_resources(crash, f"--requests=memory={amount} --limits=memory={amount}"),
        setting="",
        cost=say("the pod waits for a node that has as much free"),
    )


def _of_all_pods(crash: Crash) -> Proposal:
    """Pods without a limit share what the node allots to all: kubernetes.io, tasks/administer-cluster/
    reserve-compute-resources, Node Allocatable."""
    held = max(held_by(kill) or 0 for kill in crash.every(KernelKill))
    amount = f"{gib_up(MORE * held)}Gi"
    return Proposal(
        action=say(
            "Give the largest container a request and a limit of its own, or move it: the node's share for pods is full"
        ),
        snippet=(
            "kubectl describe node NODE | grep -A 12 'Allocated resources'\n"
            + _set_resources(crash, f"--requests=memory={amount} --limits=memory={amount}")
        ),
        setting="",
        derivation=say("{formula}, rounded up", formula=f"{show(held)} x {MORE} = {show(MORE * held)}"),
        assumes=(say("25 % more is a guess: the peak is unknown"),),
        cost=say("the pod waits for a node that has as much free"),
    )


def _amount(size_bytes: float) -> str:
    """In whole GiB where it comes to that, else in MiB, rounded up."""
    whole = size_bytes >= GIB and not size_bytes % GIB
    return f"{round(size_bytes / GIB)}G" if whole else f"{math.ceil(size_bytes / MIB)}M"


def _dies_early(crash: Crash) -> bool:
    """Again and again, or within seconds: what it needs is not a little more than the limit."""
    counted = crash.mentions(_RESTARTS.pattern)
    restarts = _RESTARTS.search(counted) if counted is not None else None
    if restarts is not None and int(restarts[1]) >= _OFTEN:
        return True
    return limits.seconds_after_its_start(crash) is not None


def _raised_to(amount: str, crash: Crash, manager: str | None, limit: int) -> Proposal:
    """The limit raised to so much, in the manager's words."""
    row = spelling("raise-container-limit", crash.context, manager) if manager else None
    written = in_units_of(manager, amount)
    lines = (row.snippet(written) if row is not None else None, *_beside(crash, manager, written))
    return Proposal(
        action=_raised(_where_it_is_set(crash, manager), show(limit), written, _part_of_the_cluster(crash)),
        current=limit,
        suggested=written,
        snippet="\n".join(line for line in lines if line) or None,
        setting=row.setting if row is not None else None,
    )


def _raised(manager: str | None, now: str, then: str, part: str) -> str:
    """What to do, and where the limit is set."""
    if manager == "docker":
        return say(
            "Raise the memory limit from {now} to {then}, for the next run or of the running container",
            now=now,
            then=then,
        )
    if manager == _SLURM:
        return say("Raise the memory limit from {now} to {then} in the batch script", now=now, then=then)
    if manager == "kubernetes":
        return say(
            "Raise the container's memory limit from {now} to {then} in the pod spec",
            now=now,
            then=then,
        )
    if manager == _KUBERAY:
        return say(
            "Raise the container's memory limit from {now} to {then} in the RayCluster, under {part}",
            now=now,
            then=then,
            part=part,
        )
    return say("Raise the memory limit from {now} to {then}", now=now, then=then)


def _offloaded(crash: Crash) -> tuple[int, str, tuple[str, ...]] | None:
    """What an offloaded optimizer takes of one node, where it is switched on and can be said."""
    stated = (crash.setting(name) for name in OFFLOADS if "adam" in name or "optimizer" in name)
    found = adam_states(crash)
    if found is None or not any(one is not None and one.value not in OFF for one in stated):
        return None
    amount, formula, source = found
    return amount, say("{formula} offloaded states", formula=formula), (source,)


def _room_for_states(
    crash: Crash, manager: str | None, limit: int, needed: int, formula: str, assumes: tuple[str, ...]
) -> Proposal:
    """A limit below what the settings put into host memory is not worth raising by a little."""
    then = gib_up(MORE * needed)
    raised = _raised_to(f"{then}G", crash, manager, limit)
    return replace(
        raised,
        action=say("{action}, or turn off the offload: its states alone exceed the limit", action=raised.action),
        derivation=say(
            "{states}; {formula}, rounded up = {amount} GiB",
            states=formula,
            formula=f"{show(needed)} x {MORE} = {show(MORE * needed)}",
            amount=then,
        ),
        assumes=(*assumes, say("25 % more for the rest of the job (a guess)")),
    )


def _room_for_files(crash: Crash, manager: str | None, limit: int) -> Proposal | None:
    """What all files in memory will take, and what the processes held beside those that were there."""
    files = files_in_memory(crash)
    if files is None:
        return None
    then = max(limit, files.whole_bytes + files.held_bytes) * MORE
    amount = f"{gib_up(then)}G" if then >= GIB else _amount(then)
    return replace(
        _raised_to(amount, crash, manager, limit),
        derivation=say(
            "{used} of files at {done} of {count}; ({used} x {count} / {done} + {held} in processes) x {more} = "
            "{then}, rounded up",
            used=show(files.used_bytes),
            done=files.done,
            count=files.count,
            held=show(files.held_bytes),
            more=MORE,
            then=show(then),
        ),
        assumes=(say("25 % more for the rest of the job (a guess)"),),
    )


def _room_for_what_is_known(crash: Crash, manager: str | None, limit: int) -> Proposal | None:
    """What the settings put into host memory, or what the program says of itself, is more than the limit."""
    states, estimate = _offloaded(crash), estimate_beyond_the_limit(crash)
    if states is not None and states[0] > limit:
        return _room_for_states(crash, manager, limit, *states)
    if estimate is not None:
        return _room_for_an_estimate(crash, manager, limit, estimate.bytes)
    return _room_for_files(crash, manager, limit)


def _room_for_an_estimate(crash: Crash, manager: str | None, limit: int, needed: int) -> Proposal:
    """What the program said that it needs, and room for the rest of it."""
    then = gib_up(MORE * needed)
    return replace(
        _raised_to(f"{then}G", crash, manager, limit),
        derivation=say(
            "{formula} (the program's own estimate), rounded up = {amount} GiB",
            formula=f"{show(needed)} x {MORE} = {show(MORE * needed)}",
            amount=then,
        ),
        assumes=(say("25 % more for the rest of the job (a guess)"),),
    )


def in_units_of(manager: str | None, amount: str) -> str:
    """`625G` as the manager writes it."""
    if manager in ("docker", "podman", "pbs"):
        return amount.lower() + ("b" if manager == "pbs" else "")
    return amount + ("i" if manager == "kubernetes" else "")


def _stated_limit(case: Case) -> int | None:
    """`--mem=64G`, `--memory=16g`, `memory: 16Gi`; an amount per CPU or GPU is no limit of the job."""
    if case.now is None or "per" in case.now.name:
        return None
    return _size_of(case.now.value)


def _ask_for_more(crash: Crash, manager: str | None) -> Proposal:
    """Where the limit is not printed, the manager knows it."""
    row = spelling("raise-container-limit", crash.context, manager) if manager else None
    if manager is None or row is None:
        return Proposal(
            action=say("Raise the memory limit of the container or job; the command shows the current one"),
            snippet=commands.GROUP,
        )
    asked = Proposal(
        action=_asked_for(_where_it_is_set(crash, manager), row.setting, _part_of_the_cluster(crash)),
        setting=row.setting,
        snippet="\n".join(_beside(crash, manager, None)) or None,
        derivation=_room_of_the_node(crash),
    )
    held = max((_held_by_all(kill) for kill in crash.every(KernelKill)), default=0)
    return asked if held < _TOO_MUCH_TO_DOUBLE else _above_what_was_held(asked, crash, manager, held)


def _held_by_all(kill: KernelKill) -> int:
    """Of a group's kill the kernel lists the group's processes: the limit was at least what they held."""
    return sum(task.rss_bytes or 0 for task in kill.tasks or ()) if kill.pool == _GROUP else 0


def _above_what_was_held(asked: Proposal, crash: Crash, manager: str, held: int) -> Proposal:
    """Few machines have twice of what fills a large limit."""
    amount = in_units_of(manager, f"{gib_up(MORE * held)}G")
    formula = say("{formula}, rounded up", formula=f"{show(held)} x {MORE} = {show(MORE * held)}")
    return replace(
        asked,
        suggested=amount,
        snippet="\n".join(_beside(crash, manager, None, then=amount)) or None,
        derivation=semicolons(part for part in (formula, asked.derivation) if part),
        assumes=(say("the machine has as much RAM (`free -g`)"), say("25 % more is a guess: the peak is unknown")),
    )


def _more_for_each(crash: Crash, each: Setting) -> Proposal:
    """Slurm's amount for each CPU or GPU is no limit of the job, and makes it: the number of both stays."""
    amount = _AMOUNT.fullmatch(str(each.value))
    option = f"--{each.name.replace('_', '-')}"
    if amount is None:
        return Proposal(action=say("Raise {name}, if the machine has the memory", name=option), setting=option)
    then = f"{math.ceil(2 * float(amount[1]))}{amount[2]}"
    return Proposal(
        action=_raised(_SLURM, f"{option}={each.value}", then, ""),
        current=each.value,
        suggested=then,
        setting=option,
        snippet="\n".join((f"#SBATCH {option}={then}", commands.of_slurm(crash))),
        derivation=f"2 x {each.value} = {then}",
        assumes=(say("double is a guess: the need is unknown"),),
    )


def _more_for_its_rule(asked: MemoryLimit) -> Answer:
    """Snakemake writes the batch script itself: docs/snakefiles/rules.rst, "Resources" and "retries" (since 7.7)."""
    row = next(of_knob("raise-container-limit", _SNAKEMAKE), None)
    now = (asked.requested_bytes or 0) // MEGA
    if row is None:
        return None
    return Proposal(
        action=say("Let rule {rule} ask for more memory: {now} -> {then} MB", rule=asked.rule, now=now, then=2 * now),
        setting=row.setting,
        current=now,
        suggested=2 * now,
        snippet="\n".join((f"{row.snippet(2 * now)}".replace("RULE", asked.rule or ""), _BY_ATTEMPTS.format(now=now))),
        derivation=f"2 x {now} = {2 * now}",
        assumes=(say("double is a guess: the need is unknown"),),
    )


def _where_it_is_set(crash: Crash, manager: str | None) -> str | None:
    """KubeRay makes its pods from the RayCluster: doc/source/cluster/kubernetes/user-guides/config.md of Ray."""
    return _KUBERAY if manager == "kubernetes" and crash.shows(_OF_KUBERAY) else manager


def _part_of_the_cluster(crash: Crash) -> str:
    """Of a RayCluster, by the pod that the log names."""
    shown = [part for part, names in (_HEAD, _WORKERS) if crash.shows(names)]
    part, other = _HEAD[0], _WORKERS[0]
    return shown[0] if len(shown) == 1 else say("{part} or {other}", part=part, other=other)


def _room_of_the_node(crash: Crash) -> str | None:
    """How far a limit can go, where a tool printed the node's memory when the job was gone."""
    after = machine_after(crash)
    if after is None or not after.total_bytes or not after.available_bytes:
        return None
    return say(
        "{tool} after the failure: {available} of {total} available on the node",
        tool=after.tool, available=show(after.available_bytes), total=show(after.total_bytes),
    )  # fmt: skip


def _asked_for(manager: str | None, option: str, part: str) -> str:
    if manager == "docker":
        return say(
            "Raise the memory limit ({option}), for the next run or of the running container; the command "
            "shows the current one",
            option=option,
        )
    if manager == _SLURM:
        return say(
            "Raise the memory limit ({option}) in the batch script; the command shows the current one",
            option=option,
        )
    if manager == "kubernetes":
        return say(
            "Raise the container's memory limit ({option}) in the pod spec; the command shows the current one",
            option=option,
        )
    if manager == _KUBERAY:
        return say(
            "Raise the container's memory limit ({option}) in the RayCluster, under {part}: its pods are made from it; "
            "the command shows the current one",
            option=option,
            part=part,
        )
    return say("Raise the memory limit ({option}); the log does not show it", option=option)


def _beside(crash: Crash, manager: str | None, amount: str | None, then: str = "") -> Iterator[str]:
    """What changes a container that runs, or shows what a job had and used; `then` is what to try where the limit that
    was hit is not known."""
    if manager == _SLURM:
        yield commands.of_slurm(crash)
        if amount is None:
            yield f"#SBATCH --mem={then}" if then else _TWICE_REQUESTED
    elif manager == "kubernetes":
        if amount is None:
            yield commands.of_pod(crash)
        if _where_it_is_set(crash, manager) == _KUBERAY:
            yield _EDIT_CLUSTER.format(amount=amount or then or _TWICE)
        else:
            yield _set_resources(crash, f"--limits=memory={amount or then or _TWICE}")
    elif manager == "lsf" and amount is not None and crash.shows(_RESERVED):
        yield f'#BSUB -R "rusage[mem={amount}]"'
    elif manager == "docker":
        container = commands.container_of(crash) or "CONTAINER"
        if amount is None:
            yield f"docker inspect -f '{{{{.HostConfig.Memory}}}}' {container}"
        yield f"docker update --memory={amount or then or _TWICE} --memory-swap={amount or then or _TWICE} {container}"


def _set_resources(crash: Crash, what: str) -> str:
    """The command for what made the pod, with the names that the log has."""
    named = pods.pod(crash)
    line = _SET_RESOURCES.format(
        space=f" -n {named.namespace}" if named.namespace else "",
        kind=named.kind or "deployment",
        owner=named.owner or "NAME",
        container=named.container or "CONTAINER",
    )
    return f"{line}{what}{'' if named.owner else _OR_ANOTHER}"


def _manager(crash: Crash) -> str | None:
    """Who set the limit, and knows how it is raised."""
    managers = (*(each.manager for each in crash.every(LimitKill)), *(each.manager for each in crash.every(EndRecord)))
    for manager in managers:
        if any(of_knob("raise-container-limit", manager)):
            return manager
    groups = [kill.cgroup or kill.task_cgroup or "" for kill in crash.every(KernelKill)]
    named = (manager for group in groups for word, manager in _GROUPS if word in group)
    return next(named, None) or _manager_nearby(crash)


def _manager_nearby(crash: Crash) -> str | None:
    """Who started what died, by the lines near the failure."""
    if commands.in_slurm(crash):
        return _SLURM
    if commands.in_a_pod(crash) or crash.mentions(_OF_A_POD) is not None:
        return "kubernetes"
    return "docker" if commands.container_of(crash) is not None else None
