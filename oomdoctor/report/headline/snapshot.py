"""Slots about what a PyTorch memory snapshot shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oomdoctor.incident.model import Crash
from oomdoctor.report.headline.figures import brief
from oomdoctor.report.headline.slot import about
from oomdoctor.signs import snapshot

if TYPE_CHECKING:
    from oomdoctor.snapshots.model import Growth


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


@about(snapshot.growth)
def never_freed(grown: Growth) -> str | None:
    """What the blocks of one stack hold that only grow."""
    return brief(grown.bytes)


@about(snapshot.growth)
def keeper(grown: Growth) -> str | None:
    """Where these blocks are allocated: the frame of the program."""
    return next(iter(grown.frames), None)


def _held(crash: Crash, group: tuple[str, ...]) -> str | None:
    event = snapshot.decides_for(crash, group)
    return None if event is None else brief(snapshot.held(event.account, group))
