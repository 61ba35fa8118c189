"""Requests that Ray does not place, beside what the cluster has and what the launch line adds up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from oomdoctor.families.ray_schedule import TOGETHER, ClusterStarted, ClusterStatus, Unschedulable
from oomdoctor.incident.model import Crash
from oomdoctor.language import all_of, counted, joined, mark, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import SCHEDULED
from oomdoctor.signs.pods import down
from oomdoctor.units import show

# Requests that Ray calls impossible, or gave up on, are no matter of waiting.
ENGINE_CHECKS: Final = ("engine-group", "engine-cluster")
_FINAL = ("infeasible", "timeout", "supervisor", "scattered", *ENGINE_CHECKS)
RESERVED: Final = "reserved"
SHORT: Final = 8  # of a placement group's number
_OF_A_NODE: Final = "node:"
_WAIT_OF_VLLM: Final = "creating a placement group of specs"  # vllm/executor/ray_utils.py, _wait_until_pg_ready
_OF_A_TRIAL: Final = " per trial, but the cluster"  # ray/tune/execution/insufficient_resources_manager.py
# nemo_rl/distributed/virtual_cluster.py compares the sum over its nodes with ray.cluster_resources()
_OF_ALL_NODES: Final = "Not enough GPUs available. Requested"
# verl/trainer/ppo/ray_trainer.py compares the sum over its pools ([n_gpus_per_node] * nnodes) with what is free
_OF_ALL_POOLS: Final = "is less than total desired GPUs"
FOR_NO_NODE: Final = ("infeasible", "scattered")  # states in which a single node has too little
# An autoscaler's configuration: doc/source/cluster/vms/references/ray-cluster-configuration.rst of Ray, and
# ray-operator/config/samples of KubeRay. What it does and lacks: autoscaler.py and resource_demand_scheduler.py of
# ray/autoscaler/_private; who speaks to it: ray/autoscaler/sdk/sdk.py
KUBERAY: Final = r"\b(?:rayStartParams|workerGroupSpecs|enableInTreeAutoscaling):|\bkind: Ray(?:Cluster|Service|Job)\b"
CLUSTER_YAML: Final = r"^\s{0,20}(?:available_node_types|head_node_type|min_workers):"
_AN_AUTOSCALER: Final = (
    KUBERAY,
    CLUSTER_YAML,
    r"\bAdding \d{1,6} node\(s\) of type ",
    r"autoscaler could not find a node type",
    r"\bautoscaler\.sdk\b.{0,40}\brequest_resources\(",
)
_ITS_WORD: Final = "node type"  # in what it says of a request that it never can serve
# What Ray counts by itself: ray/_private/accelerators
_FOUND_BY_RAY: Final = frozenset({"CPU", "GPU", "memory", "object_store_memory", "TPU", "NPU", "HPU", "neuron_cores"})
_OWN_NAME: Final = late(r"(?!bundle|TPU-)[A-Za-z]\w{0,60}")
_ROLES = ("actor", "ref", "critic", "reward")
# Roles that share GPUs by these flags of OpenRLHF (openrlhf/cli/train_ppo_ray.py)
_SHARED: Final = {"colocate_actor_ref": ("actor", "ref"), "colocate_critic_reward": ("critic", "reward")}


class Asked(Struct, frozen=True):
    """The GPUs that a launch line asks for, as a sum that can be shown."""

    gpus: int
    terms: tuple[str, ...]

    @property
    def sum(self) -> str:
        return " + ".join(self.terms) + (f" = {self.gpus}" if len(self.terms) > 1 else "")


@sign
def more_asked_than_there_is(crash: Crash) -> Seen | None:
    """The request or the launch line adds up to more than the cluster has."""
    request = request_of(crash)
    if request is None:
        return None
    asked, have = asked_gpus(crash), cluster(crash, request)
    return _waiting(crash, request) if lacking(request, have) or (asked and _beyond(asked, have)) else None


@sign
def ray_gave_a_request_up(crash: Crash) -> Seen | None:
    """Ray calls the request impossible, or repeats that it waits."""
    request = request_of(crash)
    if request is None or not (request.state in _FINAL or request.repeats > 1):
        return None
    return _waiting(crash, request)


@sign
def a_request_waits(crash: Crash) -> Seen | None:
    """Ray says once that a request waits."""
    request = request_of(crash)
    return _waiting(crash, request) if request is not None else None


def request_of(crash: Crash) -> Unschedulable | None:
    requests = [request for request in crash.every(Unschedulable) if request.strength]
    return max(requests, key=lambda r: (r.state in _FINAL, r.available is not None, _gpus(r), r.repeats), default=None)


def _gpus(request: Unschedulable) -> float:
    """What is scarce: of several requests the one for GPUs counts, not the actor beside them."""
    return (request.requested or {}).get("GPU", 0.0) * (request.count or 1)


def waits_for_cpus_too(crash: Crash, request: Unschedulable) -> Unschedulable | None:
    """The smallest other request that waits and asks for CPUs alone: beside one for GPUs it shows what is missing."""
    if request.state in _FINAL:
        return None
    others = (one for one in crash.every(Unschedulable) if one.strength and one.state == request.state)
    alone = [one for one in others if one.requested != request.requested and set(one.requested or {}) == {"CPU"}]
    return min(alone, key=lambda one: (one.requested or {})["CPU"], default=None)


def _waiting(crash: Crash, request: Unschedulable) -> Seen:
    have, asked = cluster(crash, request), asked_gpus(crash)
    short, beyond = lacking(request, have), _beyond(asked, have) if asked is not None else []
    taken = not_free(request) if not short else []
    reasons = [*beyond, *(_missing(*each) for each in short), *(_not_free(crash, request, *each) for each in taken)]
    whole = asked if not reasons and asked is not None and taken_by_the_launch(asked, have) else None
    parts = [*([_taken(whole, have)] if whole else reasons), _sentence(crash, request, have)]
    shown = [one for one in crash.every(Unschedulable) if one.strength]
    if (other := waits_for_cpus_too(crash, request)) is not None:
        shown = [request, other]
        amounts = amounts_in_words(other.requested or {})
        parts.append(say("A request for {amounts} waits, too: so much is not free on any node.", amounts=amounts))
    if kept_together(request):
        parts.append(
            say("STRICT_PACK keeps them on one node: {amounts}.", amounts=amounts_in_words(request.on_one_node))
        )
    if have and not whole and request.free is None:
        parts.append(say("The cluster has {amounts}.", amounts=amounts_in_words(have)))
    if enough_is_free(request):
        parts.append(_enough(request))
    if asked is not None and not whole:
        parts.append(say("The launch line requests {sum} GPUs and as many CPUs.", sum=asked.sum))
    open_end = request.state not in _FINAL and not short and not beyond
    return Seen(
        words=joined(parts),
        evidence=tuple(shown[:3]),
        against=(_later(request),) if open_end else (),
        unsure=open_end,
        next_evidence=(SCHEDULED,) if open_end and not have else (),
    )


def _later(request: Unschedulable) -> str:
    if request.state == RESERVED:
        return say("the worker may have started after the end of the log")
    return say("Ray may have placed the request after the end of the log")


def cluster(crash: Crash, request: Unschedulable | None = None) -> Mapping[str, float]:
    """What the cluster has: the request's own words, a table of `ray status` or Tune's, or what `ray start` was
    told."""
    if request is not None and request.available and request.free is None:
        return request.available
    status = crash.first(ClusterStatus)
    if status is not None and status.total:
        return status.total
    found: dict[str, float] = {}
    for started in crash.every(ClusterStarted):
        for name, amount in (("CPU", started.num_cpus), ("GPU", started.num_gpus)):
            if amount is not None:
                found[name] = found.get(name, 0.0) + amount
    return found


def asked_gpus(crash: Crash) -> Asked | None:
    """The sum of GPUs that the launch flags of OpenRLHF or verl ask for; what is not stated is not counted."""
    if crash.setting("colocate_all_models", "train.colocate_all") is not None and _number(
        crash, "actor_num_gpus_per_node"
    ):
        per_role = _of_role(crash, "actor")
        return (
            Asked(per_role, (say("{gpus} (all models share the actor's GPUs)", gpus=per_role),)) if per_role else None
        )
    counts = {role: _of_role(crash, role) for role in _ROLES}
    if crash.setting("colocate_actor_ref", "train.colocate_actor_ref") is not None:
        counts["actor"], counts["ref"] = max(counts["actor"], counts["ref"]), 0
    if crash.setting("colocate_critic_reward", "train.colocate_critic_reward") is not None:
        counts["critic"], counts["reward"] = max(counts["critic"], counts["reward"]), 0
    if crash.setting("remote_rm_url", "reward.remote_url") is not None:
        counts["reward"] = 0
    engines = _number(crash, "vllm_num_engines", "vllm.num_engines")
    parallel = _number(crash, "vllm_tensor_parallel_size", "vllm.tensor_parallel_size")
    terms = [f"{gpus} ({role})" for role, gpus in counts.items() if gpus]
    total = sum(counts.values())
    if engines:
        total += engines * (parallel or 1)
        terms.append(say("{engines} x {parallel} (engines)", engines=engines, parallel=parallel or 1))
    if terms and counts["actor"]:
        return Asked(total, tuple(terms))
    nodes, per_node = _number(crash, "trainer.nnodes"), _number(crash, "trainer.n_gpus_per_node")
    if per_node:
        return Asked((nodes or 1) * per_node, (f"{nodes or 1} x {per_node}",))
    return None


def shared_roles(crash: Crash, gpus: float) -> tuple[str, ...]:
    """The flags of OpenRLHF by which roles share GPUs, as many as it takes to ask for no more than these; none where
    that is not enough."""
    asked = asked_gpus(crash)
    flags: list[str] = []
    left = asked.gpus if asked is not None and _of_role(crash, "actor") else 0
    prefix = "train." if _is_dotted(crash) else ""
    for name, roles in _SHARED.items():
        saves = min(_of_role(crash, role) for role in roles)
        if left > gpus and saves and crash.setting(name) is None:
            left -= saves
            flags.append(f"--{prefix}{name}")
    return tuple(flags) if left <= gpus else ()


def _is_dotted(crash: Crash) -> bool:
    """OpenRLHF from 0.10.2 on has its options in groups."""
    return any(name.startswith("actor.") for name in crash.context.settings)


def _of_role(crash: Crash, role: str) -> int:
    per_node = _number(crash, f"{role}_num_gpus_per_node", f"{role}.num_gpus_per_node")
    nodes = _number(crash, f"{role}_num_nodes", f"{role}.num_nodes")
    return (nodes or 1) * per_node if per_node else 0


def _number(crash: Crash, *names: str) -> int | None:
    setting = crash.setting(*names)
    if setting is None or isinstance(setting.value, bool):
        return None
    return int(setting.value) if isinstance(setting.value, (int, float)) else None


def _beyond(asked: Asked, have: Mapping[str, float]) -> list[str]:
    found = []
    gpus, cpus = have.get("GPU"), have.get("CPU")
    if gpus is not None and asked.gpus > gpus:
        found.append(say("GPUs missing: {gpus:g}.", gpus=asked.gpus - gpus))
    if cpus is not None and asked.gpus > cpus:
        found.append(say("Each bundle of a GPU also takes a CPU, so CPUs missing: {cpus:g}.", cpus=asked.gpus - cpus))
    return found


def taken_by_the_launch(asked: Asked, have: Mapping[str, float]) -> bool:
    """Whether the launch needs every CPU or GPU of the cluster and not one more."""
    return asked.gpus in (have.get("GPU"), have.get("CPU"))


@sign
def every_gpu_is_taken_by_the_launch(crash: Crash) -> Seen | None:
    """A request for a GPU waits, and the launch needs each GPU of the cluster: whoever else holds one is in its way,
    however many CPUs there are."""
    request, asked = request_of(crash), asked_gpus(crash)
    if request is None or asked is None or not (request.requested or {}).get("GPU"):
        return None
    return _waiting(crash, request) if asked.gpus == cluster(crash, request).get("GPU") else None


@sign
def an_autoscaler_has_no_such_node(crash: Crash) -> Seen | None:
    """None of its node types has what is requested, whatever their machines have."""
    request = request_of(crash)
    if request is None or request.state != "infeasible" or _ITS_WORD not in request.at.text:
        return None
    if bound_to(request) is not None or request.within is not None or not request.requested:
        return None
    return _waiting(crash, request) if any(crash.mentions(each) for each in _AN_AUTOSCALER) else None


@sign
def a_pod_of_the_cluster_is_down(crash: Crash) -> Seen | None:
    """A row of `kubectl get pods` beside a request that is not placed: its node is not there."""
    request = request_of(crash)
    return _waiting(crash, request) if request is not None and down(crash) is not None else None


def custom(request: Unschedulable) -> dict[str, float]:
    """What it requests of resources that somebody has to declare on a node; no label of Ray's own, which has a colon,
    and nothing of a placement group."""
    amounts = request.on_one_node.items()
    return {name: each for name, each in amounts if name not in _FOUND_BY_RAY and _is_ones_own(name)}


def _is_ones_own(name: str) -> bool:
    return "_group_" not in name and _OWN_NAME.fullmatch(name) is not None


def _taken(asked: Asked, have: Mapping[str, float]) -> str:
    """Which of them; one more holder and the last bundle waits."""
    whole = say("{count:g} CPUs", count=have["CPU"]) if asked.gpus == have.get("CPU") else ""
    gpus = say("{count:g} GPUs", count=have["GPU"]) if asked.gpus == have.get("GPU") else ""
    return say(
        "The launch needs all {amounts} of the cluster, so any other task, actor or earlier job that holds one makes "
        "its last bundle wait.",
        amounts=all_of(part for part in (gpus, whole) if part),
    )


def lacking(request: Unschedulable, have: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """What the cluster can never serve: each resource, what is requested of it and what there is."""
    wants = ((name, amount * (request.count or 1)) for name, amount in (request.requested or {}).items())
    known = {"GPU", "CPU", *have} if have else ()
    return [
        (name, wanted, have.get(name, 0.0)) for name, wanted in wants if name in known and wanted > have.get(name, 0)
    ]


def not_free(request: Unschedulable) -> list[tuple[str, float, float]]:
    """What is less than one of these asks for, where the message says what is free: it lists no resource of which there
    is nothing."""
    if request.free is None or request.available is None:
        return []
    free, times = request.available, (request.count or 1) if request.placement_group else 1
    wants = ((name, amount * times) for name, amount in (request.requested or {}).items())
    known = {"GPU", "CPU", *free}
    return [
        (name, wanted, free.get(name, 0.0)) for name, wanted in wants if name in known and wanted > free.get(name, 0)
    ]


def enough_is_free(request: Unschedulable) -> bool:
    """Whether all nodes together have as much free as it asks for."""
    return request.free == "cluster" and bool(request.requested) and not not_free(request)


def of_all_pools(request: Unschedulable | None) -> bool:
    """Whether verl counts: its nodes add up."""
    return request is not None and _OF_ALL_POOLS in request.at.text


def trial_share(request: Unschedulable, have: Mapping[str, float]) -> dict[str, float]:
    """What a trial of Ray Tune may have at most; none where no CPU is there yet."""
    asked = request.requested or {}
    if _OF_A_TRIAL not in request.at.text or not have.get("CPU"):
        return {}
    return {name: min(asked[name], have.get(name, 0.0)) for name in ("CPU", "GPU") if name in asked}


def adds_up(crash: Crash, request: Unschedulable, have: Mapping[str, float]) -> bool:
    """Whether further nodes of any size do: bundles may lie on several nodes, what is lacking is only their sum, and
    the cluster could hold one of them; or a program compares the sums itself."""
    one = request.requested or {}
    if _OF_ALL_NODES in request.at.text or of_all_pools(request):
        return bool(lacking(request, have) or not_free(request))
    several = request.placement_group and (request.count or 1) > 1
    packed = any(TOGETHER in each.at.text for each in crash.every(Unschedulable))
    if not several or packed or not lacking(request, have):
        return False
    return all(have.get(name, 0) >= amount for name, amount in one.items())


def kept_together(request: Unschedulable) -> bool:
    """Whether one node has to have all of its bundles."""
    return request.on_one_node != (request.requested or {})


def _missing(name: str, wanted: float, there: float) -> str:
    return say(
        "{name}: {wanted} requested, {there} in the cluster.",
        name=name,
        wanted=_amount(name, wanted),
        there=_amount(name, there),
    )


def _not_free(crash: Crash, request: Unschedulable, name: str, wanted: float, there: float) -> str:
    """What of it is free where the request looked, and how much of the cluster's is in use where a table says so."""
    figures = {"name": name, "wanted": _amount(name, wanted), "there": _amount(name, there)}
    if request.free == "cluster":
        return say("{name}: {wanted} requested, {there} free in the cluster.", **figures)
    told = say("{name}: {wanted} requested, {there} free on this node.", **figures)
    status = crash.first(ClusterStatus)
    total = (status.total or {}).get(name) if status is not None else None
    if status is None or total is None:
        return told
    used = _amount(name, (status.used or {}).get(name, 0.0))
    in_use = say(
        "Of the cluster's {total} {name}, {used} are in use.", total=_amount(name, total), name=name, used=used
    )
    return joined((told, in_use))


def _enough(request: Unschedulable) -> str:
    return say(
        "{amounts} are free in the cluster: either no node has as much by itself, or it waits for something else, like "
        "a runtime environment that is installed.",
        amounts=amounts_in_words(request.available),
    )


def _sentence(crash: Crash, request: Unschedulable, have: Mapping[str, float]) -> str:
    if request.state == RESERVED:
        return say(
            "Ray has reserved {what} in placement groups, and nothing of it is in use: the resources are there, and "
            "the worker of the trial does not start.",
            what=amounts_in_words(request.requested),
        )
    if request.state in ENGINE_CHECKS:
        whose = engines_whole(request)
        return say("vLLM needs more GPUs (tensor_parallel_size x pipeline_parallel_size) than {whose}.", whose=whose)
    what, end, count = what_of(request), end_of(request), request.count or 1
    if request.state == "infeasible" and adds_up(crash, request, have):
        few = say("all nodes together have too little")
        end = few if request.free is None else say("all nodes together have too little free")
    if (group := group_of(crash, request)) is not None:
        return _of_a_group(group, bound_to(request), end)
    if request.placement_group and (request.requested or request.bundles):
        if count > 1:
            return say(
                "Ray has not placed a placement group with {count} x {what}: {end}.", what=what, count=count, end=end
            )
        if request.requested and (request.bundles or 0) > 1:
            return say(
                "Ray has not placed a placement group with {what} in {count} bundles: {end}.",
                what=what,
                count=request.bundles,
                end=end,
            )
        return say("Ray has not placed a placement group with {what}: {end}.", what=what, end=end)
    if count > 1:
        return say("Ray has not placed {count} requests for {what}: {end}.", what=what, count=count, end=end)
    return say("Ray has not placed a request for {what}: {end}.", what=what, end=end)


def _of_a_group(group: Group, node: str | None, end: str) -> str:
    figures = {"count": group.count, "what": amounts_in_words(group.bundle), "end": end}
    what = say("Ray has not placed a placement group with {count} x {what}: {end}.", **figures)
    if node is not None:
        what = say(
            "Ray has not placed a placement group with {count} x {what}, one of them bound to node {node}: {end}.",
            node=node,
            **figures,
        )
    waited = say("It has waited for {seconds:g} s.", seconds=group.seconds) if group.seconds else ""
    return joined((what, waited))


def engines_whole(request: Unschedulable) -> str:
    """What vLLM's check compares with: a clause behind "than"."""
    if request.state == "engine-group":
        return say("its placement group has")
    return say("Ray counts in the cluster")


def end_of(request: Unschedulable) -> str:
    """What became of it: a clause."""
    match request.state:
        case "infeasible":
            return say("no node can serve the request")
        case "timeout":
            return say("given up after {seconds:g} s", seconds=request.seconds) if request.seconds else say("given up")
        case "scattered":
            return say("enough is free in total, but not on one node")
        case "supervisor":
            return say("not even the job's supervisor could be placed")
    if request.repeats > 1:
        return say("requested {count} times", count=request.repeats)
    return say("still waiting at the end of the log")


def bound_to(request: Unschedulable) -> str | None:
    """The node that the request names: each node has a resource of its own name (ray._private.resource_spec)."""
    names = (name.removeprefix(_OF_A_NODE) for name in request.requested or {} if name.startswith(_OF_A_NODE))
    return next((name for name in names if not name.startswith("__")), None)


class Group(Struct, frozen=True):
    """A placement group, whose bundles are all placed or none."""

    bundle: Mapping[str, float]  # what each of them asks for, but for a node's own resource
    count: int
    seconds: float | None  # how long was waited for it
    of_vllm: bool  # which binds one of them to the address of the machine that it starts on: initialize_ray_cluster


def group_of(crash: Crash, request: Unschedulable) -> Group | None:
    """The group of several bundles that the request is one of: Ray names the first that it cannot place."""
    groups = [one for one in crash.every(Unschedulable) if one.placement_group]
    own = next((one for one in groups if request.requested and one.requested == request.requested), None)
    return _group([one for one in groups if one.at == own.at]) if own is not None else None


def _group(bundles: Sequence[Unschedulable]) -> Group | None:
    """None where they ask for different things."""
    kinds = [_without_node(each.requested or {}) for each in bundles]
    if not kinds or not kinds[0] or any(kind != kinds[0] for kind in kinds):
        return None
    count = sum(each.count or 1 for each in bundles)
    waited = max((each.seconds or 0 for each in bundles), default=0)
    of_vllm = any(_WAIT_OF_VLLM in each.at.text for each in bundles)
    return Group(bundle=kinds[0], count=count, seconds=waited or None, of_vllm=of_vllm) if count > 1 else None


def _without_node(amounts: Mapping[str, float]) -> dict[str, float]:
    return {name: amount for name, amount in amounts.items() if not name.startswith(_OF_A_NODE)}


def what_of(request: Unschedulable) -> str:
    """What it asks for, in words."""
    if request.requested and request.within is not None:
        amounts = amounts_in_words(request.of_bundles)
        return say("{amounts} of placement group {group}", amounts=amounts, group=request.within[:SHORT])
    if request.requested:
        return amounts_in_words(request.requested)
    return (
        counted(request.bundles, mark("{count} bundle"), mark("{count} bundles"))
        if request.bundles
        else say("unnamed resources")
    )


def of_one_node(request: Unschedulable) -> str:
    """What one node has to have of it, in words."""
    return amounts_in_words(request.on_one_node) if kept_together(request) else what_of(request)


def amounts_in_words(amounts: Mapping[str, float] | None) -> str:
    shown = [
        f"{_amount(name, amount)} {name}"
        for name, amount in (amounts or {}).items()
        if name in ("GPU", "CPU", "memory") or not (name.startswith(("node:", "object_store")) or "_group_" in name)
    ]
    return ", ".join(shown[:5])


def _amount(name: str, amount: float) -> str:
    return show(amount) if "memory" in name else f"{amount:g}"
