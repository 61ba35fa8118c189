"""Slots about what a PyTorch memory snapshot shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.report.headline.figures import brief
from oomdoctor.signs import snapshot


def optimizer_held(crash: Crash) -> str | None:
    """What the optimizer's states hold, where they hold most."""
    return _held(crash, snapshot.OPTIMIZER)


def weights_held(crash: Crash) -> str | None:
    """What parameters and gradients hold, where they hold most."""
    return _held(crash, snapshot.WEIGHTS)


def tensors_held(crash: Crash) -> str | None:
    """What is allocated in all."""
    event = snapshot.snapshot(crash)
    return None if event is None else brief(event.account.allocated)


def never_freed(crash: Crash) -> str | None:
    """What the blocks of one stack hold that only grow."""
    grown = snapshot.growth(crash)
    return None if grown is None else brief(grown.bytes)


def keeper(crash: Crash) -> str | None:
    """Where these blocks are allocated: the frame of the program."""
    grown = snapshot.growth(crash)
    return grown.frames[0] if grown is not None and grown.frames else None


def _held(crash: Crash, group: tuple[str, ...]) -> str | None:
    event = snapshot.decides_for(crash, group)
    return None if event is None else brief(snapshot.held(event.account, group))


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    slot.__name__: slot for slot in (keeper, never_freed, optimizer_held, tensors_held, weights_held)
}
