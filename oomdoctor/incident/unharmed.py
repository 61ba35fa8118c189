"""What a log without a memory failure says of memory all the same: a warning that nothing came of."""

from __future__ import annotations

from collections.abc import Iterable

from oomdoctor.families.event import Event, Lookalike
from oomdoctor.families.ray_store import StoreTooLarge
from oomdoctor.language import say
from oomdoctor.units import show


def only_slower(events: Iterable[Event]) -> Lookalike | None:
    """Ray's warning that its object store is on disk: python/ray/_private/services.py."""
    stores = (event for event in events if isinstance(event, StoreTooLarge) and event.refused is False)
    store = next(stores, None)
    if store is None or store.shm_bytes is None:
        return None
    why = say(
        "Ray keeps its object store on disk, because /dev/shm has only {size}: slower, but nothing failed; a larger "
        "/dev/shm (docker run --shm-size) avoids it",
        size=show(store.shm_bytes),
    )
    return Lookalike(store.at, why)


__all__ = ["only_slower"]
