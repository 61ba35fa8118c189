"""What the nodes of a cluster have, and nodes to add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oomdoctor.families.gpu_visibility import GpuVisibility
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.language import listed, say
from oomdoctor.remedies.cluster.declared import node_type
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Skip
from oomdoctor.signs import commands
from oomdoctor.signs.pods import down
from oomdoctor.signs.scheduling import (
    FOR_NO_NODE,
    RESERVED,
    adds_up,
    amounts_in_words,
    an_autoscaler_has_no_such_node,
    asked_gpus,
    bound_to,
    cluster,
    lacking,
    not_free,
    of_one_node,
    request_of,
    what_of,
)


def of_cluster(crash: Crash) -> Mapping[str, float]:
    """What there is of each kind: as Ray counts it, else as the settings say."""
    have = dict(cluster(crash, request_of(crash)))
    for kind, name in (("GPU", "num_gpus"), ("CPU", "num_cpus")):
        stated = crash.setting(name)
        if kind not in have and stated is not None and isinstance(stated.value, int):
            have[kind] = stated.value
    return have


def add_nodes(case: Case) -> Answer:
    crash = case.crash
    if case.cause == "gpu-visibility" and isinstance(crash.root, Shortage | GpuVisibility):
        return Skip()  # one process counts what it sees itself
    request = request_of(crash)
    if request is not None and request.within is not None:
        return Skip()  # bundles do not grow with the cluster
    if request is not None and request.state == RESERVED:
        return Skip()
    if (pod := down(crash)) is not None and crash.pool == "scheduling":
        return _started_pod(*pod)
    if request is not None and an_autoscaler_has_no_such_node(crash) is not None and crash.pool == "scheduling":
        return node_type(crash, request)
    if request is not None and request.state in FOR_NO_NODE and request.requested and crash.pool == "scheduling":
        if bound_to(request) is not None:
            return Skip()  # a further node is not that one
        short = lacking(request, of_cluster(crash))
        if adds_up(crash, request, of_cluster(crash)):
            return _what_is_missing(short or not_free(request))
        what = of_one_node(request)
        single = all(amount <= 1 for name, amount in request.on_one_node.items() if "memory" not in name)
        return Proposal(
            action=say("Add a node that has {what}", what=what)
            if single
            else say("Add a node that has {what} by itself: smaller nodes do not add up", what=what),
            subject=what,
        )
    if request is not None and request.placement_group and (request.bundles or 1) == 1 and crash.pool == "scheduling":
        return _of_one_bundle(what_of(request))
    return _what_the_launch_lacks(crash)


def _what_the_launch_lacks(crash: Crash) -> Proposal | None:
    have, asked = of_cluster(crash).get("GPU"), asked_gpus(crash)
    if asked is None or not have or asked.gpus <= have:
        return None
    return Proposal(
        action=say("Add GPUs to the cluster: {asked} requested, {have} available", asked=asked.gpus, have=f"{have:g}"),
        derivation=say(
            "{terms} GPUs - {have} = {missing} missing",
            terms=asked.sum,
            have=f"{have:g}",
            missing=f"{asked.gpus - have:g}",
        ),
    )


def _of_one_bundle(what: str | None) -> Proposal | None:
    """It lies on one node, however many there are: python/ray/util/placement_group.py."""
    if not what:
        return None
    action = say("Add a node that has {what} by itself: smaller nodes do not add up", what=what)
    return Proposal(action=action, subject=what)


def _started_pod(name: str, state: str) -> Proposal:
    """Its events say what it waits for: an image, a volume, a node with room, or the cluster's head."""
    return Proposal(
        action=say(
            "Get pod {pod} to run ({state}): without it, a node of the cluster may be missing", pod=name, state=state
        ),
        subject=name,
        setting="",
        snippet=commands.POD.replace("POD", name),
    )


def _what_is_missing(short: Sequence[tuple[str, float, float]]) -> Proposal:
    """What all nodes together lack, whichever of them has it."""
    missing = amounts_in_words({kind: wanted - there for kind, wanted, there in short})
    return Proposal(
        action=say("Add nodes with {missing} more in all, or start Ray on them with what they have", missing=missing),
        subject=missing,
        derivation=listed(f"{wanted:g} - {there:g} = {wanted - there:g} {kind}" for kind, wanted, there in short),
    )
