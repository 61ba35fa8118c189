"""One task per node, pinned to it, and what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from oomdoctor import __version__
from oomdoctor.cluster.nodes import Node
from oomdoctor.language import mark, say, translated

# By the names of Ray's exceptions, which came one by one with its versions; the first that fits counts.
_WHY: Final = {
    "NodeDiedError": mark("the node died or does not answer"),
    "TaskUnschedulableError": mark("the node died or does not answer"),
    "LocalRayletDiedError": mark("the node died or does not answer"),
    "ObjectLostError": mark("the node died before it sent its results"),
    "OutOfMemoryError": mark("Ray killed the reader: the node is still short of memory"),
    "WorkerCrashedError": mark("the reader died there, perhaps with its node"),
}
_NOT_SENT: Final = "RuntimeEnvSetupError"


class Failed(Struct, frozen=True):
    """A node that did not answer, and why."""

    why: str


def asked(
    ray: Any, function: Callable[..., Any], arguments: Mapping[Node, tuple[Any, ...]], seconds: float
) -> Iterator[tuple[Node, Any]]:
    """What the function gives on each of these nodes, as they finish: its result, or `Failed`."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

    # No processor is asked for: a busy cluster, or a dead job that still holds them all, would keep us waiting.
    remote = ray.remote(num_cpus=0, max_retries=0)(function)
    waiting = {
        remote.options(
            name=f"oomdoctor {function.__name__}",
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        ).remote(*given): node
        for node, given in arguments.items()
    }
    end = time.monotonic() + seconds
    while waiting:
        done, _ = ray.wait(list(waiting), num_returns=1, timeout=max(0.0, end - time.monotonic()))
        if not done:
            break
        yield waiting.pop(done[0]), _result(ray, done[0])
    for late, node in waiting.items():
        ray.cancel(late, force=True)
        yield node, Failed(say("no answer within {seconds:g} s (--timeout)", seconds=seconds))


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return Failed(why(error))


def why(error: Exception) -> str:
    """Ray's reason in a few words; its own message may quote a log."""
    names = [kind.__name__ for kind in type(error).__mro__]
    if _NOT_SENT in names:
        return say(
            "oomdoctor could not be sent to the node; install it there: {command}",
            command=f"pip install oomdoctor=={__version__}",
        )
    for name in names:
        if name in _WHY:
            return translated(_WHY[name])
    cause = getattr(error, "cause", None)
    return say("reading failed on the node: {error}", error=type(cause if cause is not None else error).__name__)
