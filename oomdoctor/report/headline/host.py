"""Slots about a node's memory, who held it and who was killed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.signs.node import table
from oomdoctor.units import show


def node(crash: Crash) -> str:
    """Which node, as far as the log says."""
    name = crash.root.process.node
    return say("node {name}", name=name) if name else say("the node")


def holder(crash: Crash) -> str | None:
    """The process that held most, with its PID."""
    memory = table(crash)
    return memory.heaviest.who if memory is not None and memory.heaviest is not None else None


def held(crash: Crash) -> str | None:
    """What that process held."""
    memory = table(crash)
    return show(memory.heaviest.largest) if memory is not None and memory.heaviest is not None else None


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {"node": node, "holder": holder, "held": held}
