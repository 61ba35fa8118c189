"""How many GPUs were asked for, counted and visible."""

from __future__ import annotations

from collections.abc import Sequence

from oomdoctor.families.gpu_visibility import GpuVisibility
from oomdoctor.families.ray_schedule import ClusterStarted, ClusterStatus, Unschedulable
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, say
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import CARDS
from oomdoctor.signs.releases import likely


@sign
def more_asked_than_visible(crash: Crash) -> Seen | None:
    """Ray prints both the requested and the visible number of GPUs."""
    event = crash.first(GpuVisibility)
    return _not_visible(crash, event) if event is not None and event.asked is not None else None


@sign
def not_visible(crash: Crash) -> Seen | None:
    """A process finds no GPU, or not the one that it requests."""
    event = crash.first(GpuVisibility)
    return _not_visible(crash, event) if event is not None else None


@sign
def a_worker_of_ray_sees_none(crash: Crash) -> Seen | None:
    """No GPU is visible to a task, an actor or a trial of Ray, which hides those that were not requested."""
    event = crash.first(GpuVisibility)
    if event is None or event.problem != "no-gpu" or not _in_a_worker(crash):
        return None
    return _not_visible(crash, event)


@sign
def a_known_release_counts_wrong(crash: Crash) -> Seen | None:
    """The words are those of a release that is known to count wrong: there may be enough."""
    return Seen(words="") if likely(crash) is not None else None


@sign
def ray_counts_fewer_than_it_was_told_of(crash: Crash) -> Seen | None:
    """`ray start` was given more GPUs than `ray status` counts, and a request waits for one."""
    requests, given, counted = _of_ray(crash)
    if not requests or given is None or counted is None or counted >= given:
        return None
    words = say("Ray was started with num_gpus={told:g} but counts {seen:g}.", told=given, seen=counted)
    return Seen(words=words, evidence=(requests[0],))


@sign
def ray_counts_all_it_was_told_of(crash: Crash) -> Seen | None:
    """`ray status` counts all GPUs that `ray start` was given."""
    requests, given, counted = _of_ray(crash)
    if not requests or given is None or counted is None or counted < given or crash.first(GpuVisibility) is not None:
        return None
    return Seen(words=say("Ray counts all GPUs that it was started with ({told:g})", told=given))


@sign
def ray_counts_fewer_than_asked_for(crash: Crash) -> Seen | None:
    """A request waits for more GPUs than `ray status` counts."""
    requests, _, counted = _of_ray(crash)
    wanted = max(((r.requested or {}).get("GPU", 0.0) * (r.count or 1) for r in requests), default=0.0)
    if counted is None or counted >= wanted:
        return None
    return Seen(
        words=say(
            "GPUs requested: {wanted:g}, counted by Ray: {seen:g}. If the machine has more, Ray was not told "
            "about them or cannot see them.",
            wanted=wanted,
            seen=counted,
        ),
        evidence=(requests[0],),
        against=(say("the log does not show how many GPUs the machine has"),),
    )


def _of_ray(crash: Crash) -> tuple[Sequence[Unschedulable], float | None, float | None]:
    """The requests for GPUs that wait, how many Ray was started with, and how many it counts."""
    requests = [request for request in crash.every(Unschedulable) if (request.requested or {}).get("GPU")]
    started, status = crash.first(ClusterStarted), crash.first(ClusterStatus)
    counted = (status.total or {}).get("GPU", 0.0) if status is not None else None
    return requests, started.num_gpus if started is not None else None, counted


def _not_visible(crash: Crash, event: GpuVisibility) -> Seen:
    if event.problem != "no-gpu" or event.mask is not None:
        return Seen(words=_words(crash, event), evidence=(event,))
    doubt = say("a driver that does not answer gives the same message")
    look = (CARDS,)
    return Seen(words=_words(crash, event), evidence=(event,), against=(doubt,), unsure=True, next_evidence=look)


def _in_a_worker(crash: Crash) -> bool:
    return "ray::" in " ".join(crash.root.around.before) or "ray" in crash.context.frameworks


def _words(crash: Crash, event: GpuVisibility) -> str:
    if event.problem == "more-than-visible":
        return say(
            "Ray was started with num_gpus={asked}, but CUDA_VISIBLE_DEVICES shows only {visible} ({mask}).",
            asked=event.asked,
            visible=event.visible,
            mask=event.mask,
        )
    if event.problem == "invalid-ordinal":
        asks = (
            say("The process uses device {number}, which is not visible to it.", number=event.ordinal)
            if event.ordinal is not None
            else say("The process uses a device that is not visible to it.")
        )
        return joined((asks, _mask(event)))
    worker = ""
    if _in_a_worker(crash):
        worker = say(
            "A Ray worker sees only the GPUs that it requests; without num_gpus (or resources per trial) it sees none."
        )
    return joined((say("The process finds no GPU."), _mask(event), worker))


def _mask(event: GpuVisibility) -> str:
    if event.mask is None:
        return ""
    if not event.mask:
        return say("CUDA_VISIBLE_DEVICES is empty.")
    return say("CUDA_VISIBLE_DEVICES is {mask}.", mask=event.mask)
