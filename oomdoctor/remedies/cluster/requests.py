"""What a job requests of the cluster, lowered to what there is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from oomdoctor.families.gpu_visibility import GpuVisibility
from oomdoctor.families.ray_schedule import Unschedulable
from oomdoctor.incident.model import Crash
from oomdoctor.language import listed, say
from oomdoctor.remedies import ray_workers
from oomdoctor.remedies.cluster import states
from oomdoctor.remedies.cluster.declared import custom_resource
from oomdoctor.remedies.cluster.engine import (
    cards_of_vllm,
    of_the_engine,
    of_vllms_own_node,
    smaller_group,
    split_of_the_engine,
)
from oomdoctor.remedies.cluster.nodes import of_cluster
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Skip
from oomdoctor.remedies.settings import Spelling, spelling
from oomdoctor.signs.scheduling import (
    FOR_NO_NODE,
    RESERVED,
    SHORT,
    an_autoscaler_has_no_such_node,
    asked_gpus,
    bound_to,
    enough_is_free,
    group_of,
    kept_together,
    lacking,
    not_free,
    of_all_pools,
    of_one_node,
    request_of,
    shared_roles,
    trial_share,
    what_of,
)

DRIVER_CPUS: Final = 1
# ray/remote_function.py, ray/serve/config.py; ray/serve/_private/deployment_state.py tells of the latter
_OF_AN_ACTOR: Final = "@ray.remote(num_cpus={})   # of those that hold the CPUs, too"
_OF_A_REPLICA: Final = '@serve.deployment(ray_actor_options={{"num_cpus": {}}})'
_REPLICAS: Final = "required for each replica"
_OF_RAY: Final = r"(?i)\bray\b|\braylet\b"
_CPU: Final = "CPU"
_MOST_BUNDLES: Final = 64
# ray/tune/trainable/util.py; RLlib reckons a trial's request from its workers
_OF_A_TRIAL: Final = 'tune.with_resources(trainable, {"cpu": 1, "gpu": 0})   # RLlib: num_workers, num_gpus'
# Who starts the work decides how it asks for a GPU: ray/tune/trainable/util.py, ray/air/config.py,
# ray/serve/config.py, ray/remote_function.py
_REQUESTS: Final = (
    (r"ray/tune/", 'trainable = tune.with_resources(trainable, {"gpu": 1})'),
    (r"ray/(?:train|air)/", "scaling_config = ScalingConfig(num_workers=N, use_gpu=True)"),
    (r"ray/serve/", '@serve.deployment(ray_actor_options={"num_gpus": 1})'),
    (r"ray::|ray/_private/|ray/worker\.py", "@ray.remote(num_gpus=1)"),
)


def fix_request(case: Case) -> Answer:
    crash = case.crash
    visible, asked = crash.first(GpuVisibility), asked_gpus(crash)
    if (start := _of_the_mask(visible)) is not None:
        return start
    if visible is not None and (told := _of_a_blind_process(case, asked=asked is not None)) is not None:
        return told
    have, request = of_cluster(crash), request_of(crash)
    if request is not None and request.state == RESERVED:
        return Skip()  # less would change nothing: it holds all that it asks for
    if request is not None and of_all_pools(request) and not_free(request):
        return _within_what_is_free(case, request)
    if asked is not None:
        return _launch(crash, asked.gpus, asked.sum, have)
    if request is None or not request.requested:
        return _of_idle_trials(request) or of_the_engine(crash) or _of_the_job(case.row)
    return _of_what_is_named(case, request, have)


def _of_what_is_named(case: Case, request: Unschedulable, have: Mapping[str, float]) -> Answer:
    crash = case.crash
    if request.within is not None:
        return _of_its_group(request, request.within)
    short = lacking(request, have)
    if not short and request.state in FOR_NO_NODE and (node := bound_to(request)) is not None:
        group = group_of(crash, request)
        if group is not None and group.of_vllm:
            return of_vllms_own_node(crash, group, node)
        what = what_of(request)
        return Proposal(
            action=say(
                "Start Ray with {what} on node {node}, or do not bind the request to it (node:{node})",
                node=node,
                what=what,
            )
            if what
            else say("Start Ray on node {node}, or do not bind the request to it (node:{node})", node=node),
            subject=node,
            snippet=states.scheduled(crash),
        )
    if not short and request.state in FOR_NO_NODE:
        return _of_one_node(crash, request, have)
    if not short and not have and request.placement_group:
        return _of_a_group(case, request)
    group = group_of(crash, request)
    if group is not None and group.of_vllm and (fewer := cards_of_vllm(crash, short)) is not None:
        return fewer
    return _of_less(crash, request, have, short)


def _of_one_node(crash: Crash, request: Unschedulable, have: Mapping[str, float]) -> Answer:
    scales = an_autoscaler_has_no_such_node(crash) is not None
    if scales and _is_least(request):
        return Skip()
    declared = None if scales else custom_resource(crash, request, have)
    return declared or _in_smaller_bundles(request) or _on_several_nodes(request) or Proposal(
        action=say("Request at most what one node has: no node can provide {what}", what=what_of(request)),
        snippet=states.scheduled(crash),
    )  # fmt: skip


def _on_several_nodes(request: Unschedulable) -> Proposal | None:
    """Of bundles that only their strategy keeps on one node, where the cluster has enough for all."""
    if not kept_together(request):
        return None
    return Proposal(
        action=say(
            "Let the bundles lie on several nodes, if the work allows it, or request at most what one node has: no "
            "node can provide {what}",
            what=of_one_node(request),
        ),
        snippet='placement_group(BUNDLES, strategy="PACK")',
    )


def _is_least(request: Unschedulable) -> bool:
    """Whether it asks for one CPU or GPU at most: who needs it cannot ask for less."""
    return all(amount <= 1 for amount in (request.requested or {}).values())


def _within_what_is_free(case: Case, request: Unschedulable) -> Proposal:
    """Of verl, whose nodes add up: as many whole nodes as the free GPUs make."""
    crash, nodes = case.crash, spelling("add-nodes", case.crash.context)
    _, wanted, free = not_free(request)[0]
    figures = {"free": f"{free:g}", "wanted": f"{wanted:g}"}
    action = say("Request at most {free} GPUs on all nodes together instead of {wanted}", **figures)
    if case.row is None or nodes is None:
        return Proposal(action=action, derivation=f"{wanted:g} GPU > {free:g}")
    each = crash.setting(case.row.setting)
    per_node = each.whole if each is not None else None
    if per_node is None or not 0 < per_node <= free:
        return Proposal(
            action=action,
            setting="",
            derivation=f"{wanted:g} GPU > {free:g}",
            snippet=f"{nodes.snippet('N')} {case.row.snippet('M')}   # N x M = {free:g}",
        )
    then = int(free // per_node)
    return Proposal(
        action=action,
        setting=nodes.setting,
        suggested=then,
        derivation=f"{free:g} / {per_node} = {then}",
        snippet=nodes.snippet(then),
    )


def _of_its_group(request: Unschedulable, group: str) -> Proposal:
    """Inside a placement group counts what its bundles have, whatever is free on the nodes beside them."""
    more = ", ".join(f'"{kind}": {amount:.10g}' for kind, amount in request.of_bundles.items())
    return Proposal(
        action=say(
            "Reserve more {kinds} in placement group {group}, or start this actor outside of it: only what its bundles "
            "have counts",
            kinds=listed(request.of_bundles),
            group=group[:SHORT],
        ),
        subject=group,
        setting="",
        snippet=f"placement_group([..., {{{more}}}])   # one bundle more",
    )


def _of_idle_trials(request: Unschedulable | None) -> Proposal | None:
    """Of Tune, in whose table nothing of the cluster is in use."""
    if request is None or not request.idle:
        return None
    action = say("Request less for each trial: nothing of the cluster is in use, and yet none is placed")
    return Proposal(action=action, snippet=_OF_A_TRIAL)


def _of_the_mask(visible: GpuVisibility | None) -> Proposal | None:
    if visible is None or visible.asked is None or visible.visible is None:
        return None
    return Proposal(
        action=say(
            "Start Ray with the {visible} GPUs of CUDA_VISIBLE_DEVICES, not {asked}",
            visible=visible.visible,
            asked=visible.asked,
        ),
        setting="--num-gpus",
        current=visible.asked,
        suggested=visible.visible,
        derivation=say(
            "{visible} GPUs in CUDA_VISIBLE_DEVICES={mask}", visible=visible.visible, mask=visible.mask or ""
        ).strip(),
        snippet=f"ray start --head --num-gpus={visible.visible}",
    )


def _of_a_blind_process(case: Case, *, asked: bool) -> Answer:
    """What a process that sees too few GPUs requests; nothing where nobody places it: no Ray, and no option."""
    if line := _gpu_of_a_worker(case.crash):
        return Proposal(
            action=say("Request a GPU for the work that needs one: Ray gives none to the others"), snippet=line
        )
    return None if asked or case.row is not None or case.crash.shows(_OF_RAY) else Skip()


def _in_smaller_bundles(request: Unschedulable) -> Proposal | None:
    """Of a bundle of CPUs alone, which several processes may share out; a bundle lies on one node:
    python/ray/util/placement_group.py."""
    requested = request.requested or {}
    count = requested.get(_CPU, 0)
    if not request.placement_group or set(requested) != {_CPU} or not 1 < count <= _MOST_BUNDLES or count % 1:
        return None
    return Proposal(
        action=say("Split the bundle, if its work may lie on several nodes: no node can provide {what}",
                   what=what_of(request)),
        snippet=f'placement_group([{{"{_CPU}": 1}}] * {count:.0f}, strategy="SPREAD")',
        derivation=f"{count:.0f} = {count:.0f} x 1",
    )  # fmt: skip


def _of_less(
    crash: Crash, request: Unschedulable, have: Mapping[str, float], short: Sequence[tuple[str, float, float]]
) -> Proposal:
    if short and (share := trial_share(request, have)):
        return _of_a_trial(share, short)
    if not short:
        return _of_what_is_taken(crash, request)
    wanted = next((asked for kind, asked, there in short if kind == "GPU" and not there), None)
    if wanted is not None:
        return _of_no_gpu(wanted, short)
    return Proposal(action=_less(short), derivation=_compared_with(short), snippet=states.scheduled(crash))


def _of_no_gpu(wanted: float, short: Sequence[tuple[str, float, float]]) -> Proposal:
    """Ray counts the GPUs that it sees when it starts, or what it is told: ray/_private/worker.py, `init`."""
    count = math.ceil(wanted)
    return Proposal(
        action=say(
            "Tell Ray of the node's GPUs when it starts: it counts none. On a node without a GPU, request none",
        ),
        setting="num_gpus",
        derivation=_compared_with(short),
        snippet=f"ray.init(num_gpus={count})   # of a cluster: ray start --num-gpus={count}",
    )


def _of_what_is_taken(crash: Crash, request: Unschedulable) -> Proposal:
    """Half of the CPUs, for each actor that holds some, too, is no need of memory; half a GPU would be."""
    spread, asked = enough_is_free(request), request.requested or {}
    half = asked[_CPU] / 2 if set(asked) == {_CPU} and request.free is not None else None
    action = say("Create fewer actors, or request less for each: the cluster is taken")
    if spread:
        action = say("Request no more for each than one node has free, and look whether its environment is installed")
    elif request.free == "node":
        action = say("Create fewer actors, or request less for each: this node has no more free")
    if half is None:
        return Proposal(action=action, snippet=states.scheduled(crash))
    line = _OF_A_REPLICA if _REPLICAS in request.at.text else _OF_AN_ACTOR
    return Proposal(
        action=action,
        setting="num_cpus",
        derivation=f"{asked[_CPU]:g} / 2 = {half:g}",
        snippet=line.format(f"{half:g}"),
    )


def _compared_with(short: Sequence[tuple[str, float, float]]) -> str:
    return listed(f"{asked:g} {kind} > {there:g}" for kind, asked, there in short)


def _of_a_trial(share: Mapping[str, float], short: Sequence[tuple[str, float, float]]) -> Proposal:
    """tune.run of ray/tune/tune.py (1.0 and 2.5); RLlib makes the request of a trial from its own options, which
    Tune's warning names."""
    per_trial = ", ".join(f'"{name.lower()}": {amount:g}' for name, amount in share.items())
    return Proposal(
        action=say(
            "Request no more {kinds} per trial than the cluster has (RLlib: fewer num_workers, lower num_gpus)",
            kinds=listed(kind for kind, _, _ in short),
        ),
        setting="resources_per_trial",
        derivation=_compared_with(short),
        snippet=f"resources_per_trial={{{per_trial}}}",
    )


def _of_a_group(case: Case, request: Unschedulable) -> Proposal:
    """Where nothing is known of what the cluster has."""
    row = split_of_the_engine(case.crash) if case.crash.job.task == "serving" else None
    if row is not None:
        return smaller_group(case.crash, row)
    return Proposal(
        action=_compared(request),
        subject=what_of(request),
        setting=_asking(case.row),
        snippet=states.scheduled(case.crash),
    )


def _compared(request: Unschedulable) -> str:
    """A bundle is never spread over nodes; a group of several may be."""
    if request.bundles is not None and request.bundles > 1:
        return say(
            "Compare {what} in {count} bundles with what the cluster has free: each bundle has to fit on one node, "
            "with its CPUs (--num-cpus of `ray start`)",
            what=what_of(request),
            count=request.bundles,
        )
    return say(
        "Compare a bundle of {what} with what one node has free: it has to fit on one, with its CPUs "
        "(--num-cpus of `ray start`)",
        what=what_of(request),
    )


def _of_the_job(row: Spelling | None) -> Proposal | None:
    """The knob as it is, without an option that asks for nothing."""
    return Proposal(setting="") if row is not None and not _asking(row) else None


def _asking(row: Spelling | None) -> str:
    """The option by which the job requests; `ray start` takes what a node offers, and less of it places nothing."""
    return row.setting if row is not None and row.framework != ray_workers.NAME else ""


def _gpu_of_a_worker(crash: Crash) -> str | None:
    """The line by which this kind of Ray's work requests a GPU."""
    return next((line for frames, line in _REQUESTS if crash.shows(frames)), None)


def _less(short: Sequence[tuple[str, float, float]]) -> str:
    """Of what the cluster can never serve."""
    kinds = listed(kind for kind, _, _ in short)
    if any(kind == "GPU" for kind, _, _ in short):
        return say(
            "Request no more {kinds} than the cluster has, or let Ray see the GPUs that it does not count: "
            "CUDA_VISIBLE_DEVICES and --num-gpus where `ray start` runs",
            kinds=kinds,
        )
    return say("Request no more {kinds} than the cluster has", kinds=kinds)


def _launch(crash: Crash, gpus: int, terms: str, have: Mapping[str, float]) -> Proposal:
    """Every bundle of a GPU takes a CPU too, and other tasks at least one more."""
    cpus = gpus + DRIVER_CPUS
    said = say(
        "{terms} GPUs, one CPU each + {driver} to spare = {cpus} CPUs",
        terms=terms,
        driver=DRIVER_CPUS,
        cpus=cpus,
    )
    cluster_gpus, cluster_cpus = have.get("GPU"), have.get("CPU")
    if cluster_gpus is not None and cluster_gpus < gpus:
        enough = cluster_gpus + DRIVER_CPUS
        short = cluster_cpus is not None and cluster_cpus < enough
        sharing = shared_roles(crash, cluster_gpus)
        figures = {"there": f"{cluster_gpus:g}", "asked": gpus}
        has = say("{asked}; the cluster has {there} GPUs", asked=said, there=f"{cluster_gpus:g}")
        return Proposal(
            action=say(
                "Request at most {there} GPUs instead of {asked} (fewer per role, fewer engines or colocated "
                "roles) and give Ray {cpus} CPUs instead of {told}",
                cpus=f"{enough:g}",
                told=f"{cluster_cpus:g}",
                **figures,
            )
            if short
            else say(
                "Request at most {there} GPUs instead of {asked} (fewer per role, fewer engines or colocated roles)",
                **figures,
            ),
            snippet="\n".join(
                [
                    *([" ".join(sharing)] if sharing else []),
                    *([f"ray start --head --num-cpus={enough:g} --num-gpus={cluster_gpus:g}"] if short else []),
                ]
            )
            or None,
            current=gpus,
            suggested=int(cluster_gpus),
            derivation=say(
                "{formula}; {gpus} + {driver} to spare = {cpus} CPUs",
                formula=has,
                gpus=f"{cluster_gpus:g}",
                driver=DRIVER_CPUS,
                cpus=f"{enough:g}",
            )
            if short
            else has,
            setting="the sum of the launch flags",
        )
    if cluster_cpus is not None and cluster_cpus < cpus:
        return Proposal(
            action=say(
                "If nothing else holds a GPU, give Ray at least {cpus} CPUs: the launch alone uses all {told}",
                cpus=cpus,
                told=f"{cluster_cpus:g}",
            )
            if cluster_gpus == gpus
            else say(
                "Give Ray at least {cpus} CPUs: the launch alone uses all {told}",
                cpus=cpus,
                told=f"{cluster_cpus:g}",
            ),
            setting="--num-cpus",
            current=cluster_cpus,
            suggested=cpus,
            derivation=say("{formula}; the cluster has {cpus}", formula=said, cpus=f"{cluster_cpus:g}"),
            snippet=f"ray start --head --num-cpus={cpus}" + (f" --num-gpus={cluster_gpus:g}" if cluster_gpus else ""),
        )
    return Proposal(
        action=say(
            "Stop jobs or actors of earlier runs that still hold the cluster: the launch requests {gpus} "
            "GPUs and {cpus} CPUs",
            gpus=gpus,
            cpus=cpus,
        ),
        derivation=said,
        setting="--num-gpus",
        snippet=states.scheduled(crash),
    )
