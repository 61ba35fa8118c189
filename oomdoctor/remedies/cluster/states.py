"""Commands that show what a Ray cluster has, as the releases know them that the log may be of."""

from __future__ import annotations

from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.remedies.settings import known_versions
from oomdoctor.signs import commands
from oomdoctor.versions import Versions, versions

_LISTS: Final = versions(">=2.0")  # `ray list`: doc/source/ray-observability/key-concepts.rst
_VERBOSE: Final = versions(">=2.1")  # ray-project/ray#28392
_PLAIN: Final = "ray status"
_NODES: Final = "ray list nodes"
_ACTORS: Final = "ray list actors --filter state=ALIVE"


def scheduled(crash: Crash) -> str:
    """What is in use and what waits, node by node where the release can say so."""
    return commands.SCHEDULED if _may_be(_VERBOSE, crash) else _PLAIN


def of_each_node(crash: Crash) -> str:
    return f"{_NODES}\n{scheduled(crash)}" if _may_be(_LISTS, crash) else scheduled(crash)


def of_each_actor(crash: Crash) -> str:
    return f"{scheduled(crash)}; {_ACTORS}" if _may_be(_LISTS, crash) else scheduled(crash)


def _may_be(known: Versions, crash: Crash) -> bool:
    return known.overlaps(known_versions("ray", crash.context))


__all__ = ["of_each_actor", "of_each_node", "scheduled"]
