"""Slots about requests that Ray does not place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from oomdoctor.families.ray_schedule import Unschedulable
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.language import all_of, counted, filled, listed, mark, say, translated
from oomdoctor.report.headline.figures import brief
from oomdoctor.report.headline.slot import about
from oomdoctor.signs.scheduling import (
    ENGINE_CHECKS,
    RESERVED,
    asked_gpus,
    bound_to,
    cluster,
    end_of,
    engines_whole,
    group_of,
    lacking,
    not_free,
    request_of,
    waits_for_cpus_too,
    what_of,
)

MOST_DEVICES: Final = 512  # of one request in words that no family knows: more is another number of its line
_UNITS: Final = {
    "GPU": (mark("{amount} GPU"), mark("{amount} GPUs")),
    "CPU": (mark("{amount} CPU"), mark("{amount} CPUs")),
}
_WHERE: Final = {
    None: mark("{amount} in the cluster"),
    "cluster": mark("{amount} free in the cluster"),
    "node": mark("{amount} free on this node"),
}
_ENDS: Final = {
    "infeasible": mark("no node can provide it"),
    "scattered": mark("free in the cluster, but not on one node"),
    "supervisor": mark("the job's supervisor has no room either"),
}


_Short = tuple[str, float, float, str | None]  # a resource, what is requested of it, what there is, and where that is


def _lacking(crash: Crash) -> _Short | None:
    """A resource, what is requested of it and what the cluster has, where that is less; else what of it is free. GPUs
    first."""
    request = request_of(crash)
    if request is None:
        return _counted_in_words(crash)
    have, asked = cluster(crash, request), asked_gpus(crash)
    if asked is not None and have.get("GPU") is not None and asked.gpus > have["GPU"]:
        return "GPU", float(asked.gpus), have["GPU"], None
    short: list[_Short] = [(*each, None) for each in lacking(request, have)]
    taken: list[_Short] = [(*each, request.free) for each in not_free(request)]
    return min(short or taken, key=lambda each: each[0] != "GPU", default=None)


def _counted_in_words(crash: Crash) -> _Short | None:
    root = crash.root
    if not isinstance(root, Shortage) or root.unit != "devices" or root.needed is None or root.available is None:
        return None
    return ("GPU", root.needed, root.available, None) if root.available < root.needed <= MOST_DEVICES else None


@about(_lacking)
def too_many_requested(short: _Short) -> str | None:
    """What is requested of the resource that the cluster has less of: "6 GPUs"."""
    return _amount(short[0], short[1])


@about(_lacking)
def there_is(short: _Short) -> str | None:
    """What there is of it, and where: "4 in the cluster", "0 free on this node"."""
    amount = brief(round(short[2])) if "memory" in short[0] else f"{short[2]:g}"
    return filled(_WHERE[short[3]], {"amount": amount})


@about(request_of)
def reserved_in_vain(request: Unschedulable) -> str | None:
    """What placement groups hold for a trial that does not start: "2 CPUs"."""
    return listed(_amounts(request.requested or {})) if request.state == RESERVED else None


def all_taken(crash: Crash) -> str | None:
    """What the launch line asks for, where it is as much as the cluster has: "4 GPUs and 4 CPUs"."""
    request, asked = request_of(crash), asked_gpus(crash)
    have = cluster(crash, request) if request is not None else {}
    if asked is None or _lacking(crash) or asked.gpus > have.get("CPU", asked.gpus):
        return None
    taken = [_amount(name, have[name]) for name in ("GPU", "CPU") if asked.gpus == have.get(name)]
    return all_of(taken) if taken else None


@about(request_of)
def engine_lacks(request: Unschedulable) -> str | None:
    """Than what vLLM needs more GPUs, where its own check says so."""
    return engines_whole(request) if request.state in ENGINE_CHECKS else None


def unplaced(crash: Crash) -> str | None:
    """The request that waits: "1 GPU and 1 CPU", "a placement group of 4 x (1 GPU, 1 CPU)"."""
    request = request_of(crash)
    if request is None:
        return None
    amounts = list(_amounts(request.requested or {}))
    if request.within is not None:
        return what_of(request)
    if not amounts:
        return _bundles(request)
    group = group_of(crash, request)
    if group is not None:
        return _group(_times(list(_amounts(group.bundle)), group.count))
    what = _times(amounts, request.count or 1)
    return _group(what) if request.placement_group else what


def unplaced_beside(crash: Crash) -> str | None:
    """Another request that waits, for CPUs alone: "0.2 CPU"."""
    request = request_of(crash)
    other = waits_for_cpus_too(crash, request) if request is not None else None
    return listed(_amounts(other.requested or {})) if other is not None else None


def _times(amounts: Sequence[str], count: int) -> str:
    what = listed(amounts)
    return say("{count} x ({what})", count=count, what=what) if count > 1 else what


def _group(what: str) -> str:
    return say("a placement group of {what}", what=what)


def placing_ended(crash: Crash) -> str | None:
    """What became of the request."""
    request = request_of(crash)
    if request is None:
        return None
    if request.state == "infeasible" and (node := bound_to(request)) is not None:
        if group_of(crash, request) is not None:
            return say("one of them is bound to node {node}, which cannot provide it", node=node)
        return say("node {node}, to which it is bound, cannot provide it", node=node)
    if request.state in _ENDS:
        return translated(_ENDS[request.state])
    if request.state != "timeout" and request.repeats > 1:
        return say("the request is repeated {count} times", count=request.repeats)
    return end_of(request)


def _bundles(request: Unschedulable) -> str | None:
    if not request.bundles:
        return None
    bundles = counted(request.bundles, mark("{count} bundle"), mark("{count} bundles"))
    return _group(bundles)


def _amounts(requested: Mapping[str, float]) -> Iterator[str]:
    ordered = sorted(requested.items(), key=lambda each: each[0] != "GPU")
    for name, amount in ordered[:4]:
        if not name.startswith(("node:", "object_store")):
            yield _amount(name, amount)


def _amount(name: str, amount: float) -> str:
    if "memory" in name:
        return f"{brief(round(amount))} {name}"
    if name not in _UNITS:
        return f"{amount:g} {name}"
    one, many = _UNITS[name]
    return filled(one if amount <= 1 else many, {"amount": f"{amount:g}"})
